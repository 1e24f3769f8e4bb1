"""Graph neural architecture search from message passing.

The names below are loaded when first used, so that importing ``gnas`` costs next to nothing.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

__version__ = "0.1.0"

_PLACES = {
    "gnas.authors": ("load_genotype",),
    "gnas.baselines": (),
    "gnas.datasets": ("Benchmark", "load"),
    "gnas.depth": ("search_depth",),
    "gnas.errors": ("InputError",),
    "gnas.estimator": ("GNAS",),
    "gnas.evaluation": ("evaluate",),
    "gnas.export": ("export_run",),
    "gnas.gap": (),
    "gnas.genotype": ("CellGenotype", "Genotype", "Link"),
    "gnas.graph": ("GraphBatch", "GraphSet"),
    "gnas.models": ("load_model",),
    "gnas.network": ("GAPConv", "Network", "width_for"),
    "gnas.protocol": ("TrainConfig",),
    "gnas.report": (),
    "gnas.settings": ("Settings",),
    "gnas.shipped": ("genotypes",),
    "gnas.space": ("SearchSpace",),
    "gnas.store": ("GraphStore",),
    "gnas.strategies": ("Darts", "Evolution", "GraphNAS", "RandomSearch", "SearchResult", "SingleLevel", "search"),
    "gnas.supernet": ("Supernet",),
    "gnas.tasks": ("Task",),
    "gnas.training": ("TrainResult", "train", "train_seeds"),
    "gnas.workflow": ("discover",),
}
_HOME = {name: module for module, names in _PLACES.items() for name in names}
_HOME |= {module.split(".")[1]: "" for module, names in _PLACES.items() if not names}

__all__ = [*sorted(_HOME), "__version__"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'gnas' has no attribute {name!r}")
    if not _HOME[name]:
        return importlib.import_module(f"gnas.{name}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    if "IPython" in sys.modules:
        importlib.import_module("gnas.report.notebook").install()  # results show themselves in notebooks
    return value


def __dir__() -> list[str]:
    return __all__
