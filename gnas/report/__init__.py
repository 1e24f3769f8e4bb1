"""Drawings, plots and the report of a run. Each part is loaded when first used: a drawing needs neither torch nor
matplotlib, a plot needs matplotlib."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gnas.report.draw import draw_cell, draw_genotype, save_drawing, to_png
    from gnas.report.graphs import draw_explanation, save_explanations
    from gnas.report.html import compare_report, write_report

_PLACES = {
    "draw": ("draw_cell", "draw_genotype", "save_drawing", "to_png"),
    "graphs": ("draw_explanation", "save_explanations"),
    "html": ("compare_report", "write_report"),
}
_HOME = {name: module for module, names in _PLACES.items() for name in names}

__all__ = [
    "compare_report",
    "draw_cell",
    "draw_explanation",
    "draw_genotype",
    "save_drawing",
    "save_explanations",
    "to_png",
    "write_report",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'gnas.report' has no attribute {name!r}")
    return getattr(importlib.import_module(f"gnas.report.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return __all__
