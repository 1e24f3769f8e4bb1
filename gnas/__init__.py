"""Graph neural architecture search from message passing.

The names below are loaded when first used, so that importing ``gnas`` costs next to nothing.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

__version__ = "0.2.0"

_PLACES = {
    "gnas.arch.architecture": ("load_genotype",),
    "gnas.model.baselines": (),
    "gnas.data": ("Benchmark", "load"),
    "gnas.strategies.depth": ("search_depth",),
    "gnas.errors": ("InputError",),
    "gnas.use.estimator": ("GNAS", "GNASClassifier", "GNASRegressor"),
    "gnas.use.evaluate": ("evaluate",),
    "gnas.use.explain": ("explain",),
    "gnas.use.export": ("export_run",),
    "gnas.use.predict": ("predict",),
    "gnas.arch.gap": (),
    "gnas.arch.genotype": ("CellGenotype", "Genotype", "Link"),
    "gnas.graph": ("GraphBatch", "GraphSet"),
    "gnas.run.models": ("load_model",),
    "gnas.model.network": ("GAPConv", "Network", "width_for"),
    "gnas.run.protocol": ("TrainConfig",),
    "gnas.report": (),
    "gnas.run.settings": ("Settings",),
    "gnas.arch.shipped": ("load_genotypes",),
    "gnas.arch.space": ("SearchSpace",),
    "gnas.training.store": ("GraphStore",),
    "gnas.strategies": ("Darts", "Evolution", "GraphNAS", "RandomSearch", "SearchResult", "SingleLevel", "search"),
    "gnas.model.supernet": ("Supernet",),
    "gnas.model.task": ("Task",),
    "gnas.training.train": ("TrainResult", "train", "train_seeds"),
    "gnas.workflow": ("discover",),
}
_HOME = {name: module for module, names in _PLACES.items() for name in names}
_MODULES = {module.rpartition(".")[2]: module for module, names in _PLACES.items() if not names}

__all__ = [*sorted({**_HOME, **_MODULES}), "__version__"]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(_MODULES[name])
    if name not in _HOME:
        raise AttributeError(f"module 'gnas' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    if "IPython" in sys.modules:
        importlib.import_module("gnas.report.notebook").install_displays()  # results show themselves in notebooks
    return value


def __dir__() -> list[str]:
    return __all__
