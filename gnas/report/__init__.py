"""Drawings, plots and the report of a run. Each part is loaded when first used: a drawing needs neither torch nor
matplotlib, a plot needs matplotlib."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gnas.report.draw import draw_cell, draw_genotype, save_drawing, to_png
    from gnas.report.html import compare_report, watch, write_report

__all__ = ["compare_report", "draw_cell", "draw_genotype", "save_drawing", "to_png", "watch", "write_report"]

_DRAWING = ("draw_cell", "draw_genotype", "save_drawing", "to_png")


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'gnas.report' has no attribute {name!r}")
    return getattr(importlib.import_module(f"gnas.report.{'draw' if name in _DRAWING else 'html'}"), name)


def __dir__() -> list[str]:
    return __all__
