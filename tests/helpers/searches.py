"""A small search by each strategy, for the tests that hold all of them to one contract."""

from __future__ import annotations

import pytest
from tiny import SPACE, tiny

from gnas.strategies import SearchResult, make_strategy, search

SMALL = {"epochs": 2, "batch_size": 4}
SMALL_GRAPHNAS = {"trials": 3, "heads": (1, 2), "widths": (4, 8), "hidden": 8}
SETTINGS = {
    "single-level": [SMALL, {**SMALL, "searches": 2, "trial_epochs": 1}],
    "darts": [SMALL],
    "darts1": [SMALL],
    "darts2": [SMALL],
    "random": [{**SMALL, "trials": 3}],
    "evolution": [
        {**SMALL, "trials": 4, "population": 2, "sample": 2},
        {**SMALL, "trials": 3, "population": 2, "sample": 1, "inherit": True, "supernet_epochs": 2, "epochs": 1},
    ],
    "graphnas": [{**SMALL, **SMALL_GRAPHNAS}],
    "race": [{**SMALL, "epochs": 3, "trials": 4, "finals": 1, "round_size": 2}],
}
CASES = [
    pytest.param(name, settings, id=f"{name}-{k}") for name in SETTINGS for k, settings in enumerate(SETTINGS[name])
]


def run(name: str, settings: dict, kind: str = "regression", seed: int = 0, **how: object) -> SearchResult:
    chosen = make_strategy(name, **settings)
    return search(tiny(kind), SPACE, chosen, channels=8, num_cells=2, seed=seed, **how)  # type: ignore[arg-type]
