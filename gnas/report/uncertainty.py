"""How sure a difference between two networks is: a paired interval over seeds, or a bootstrap over the test graphs."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from scipy.special import stdtrit
from torch import Tensor

from gnas.errors import InputError
from gnas.model.metrics import METRIC_TABLE, compute_metric
from gnas.run.leaderboard import Row
from gnas.run.record import RunRecord, TrainingRecord, read_test_rows

DRAWS = 400  # of the bootstrap
MOST_VALUES = 4_000_000  # rows times draws, about a second
FEWEST_SEEDS = 3
CLOSE = 0.001  # relative: figures of the predictions and of the training are the same


@dataclass(frozen=True)
class Difference:
    """The first network's metric minus the second's, with a 95 % interval: how it was found, and over what."""

    value: float
    low: float
    high: float
    method: str
    over: str

    @property
    def is_sure(self) -> bool:
        """Whether the interval does not contain 0."""
        return self.low > 0 or self.high < 0


def find_difference(run: RunRecord, row: Row, rival: Row) -> Difference | None:
    """The difference of two rows of the leaderboard; None if there are neither enough seeds nor predictions."""
    mine, other = ({one.seed: one for one in run.trainings if one.name == name} for name in (row.name, rival.name))
    both = sorted(mine.keys() & other.keys())
    if row.folds or not both:
        return None
    if len(both) >= FEWEST_SEEDS:
        return _over_seeds([mine[seed] for seed in both], [other[seed] for seed in both])
    pair = mine[both[0]], other[both[0]]
    try:
        found = _over_graphs(run.metric, *(one.folder for one in pair))
    except (InputError, OSError, KeyError, ValueError):
        return None  # a run of an earlier version, or too many rows: there are no predictions
    return found if found is not None and _is_recorded(found.value, *pair) else None


def _is_recorded(value: float, mine: TrainingRecord, other: TrainingRecord) -> bool:
    """Whether the predictions give the difference of the test figures; not if many probabilities were rounded to 1."""
    if mine.result is None or other.result is None:
        return False
    one, two = mine.result.test, other.result.test
    return abs(value - (one - two)) <= CLOSE * max(abs(one), abs(two))


def _over_seeds(mine: Sequence[TrainingRecord], other: Sequence[TrainingRecord]) -> Difference | None:
    """Paired: networks that are trained from one seed are compared with each other."""
    pairs = [(a.result.test, b.result.test) for a, b in zip(mine, other, strict=True) if a.result and b.result]
    if len(pairs) < FEWEST_SEEDS:
        return None
    values = [a - b for a, b in pairs]
    mean, error = statistics.fmean(values), statistics.stdev(values) / math.sqrt(len(values))
    around = float(stdtrit(len(values) - 1, 0.975)) * error
    return Difference(mean, mean - around, mean + around, "a paired t interval", f"{len(values)} seeds")


def _over_graphs(metric: str, mine: Path, other: Path) -> Difference | None:
    """A bootstrap: test graphs are drawn with replacement, and both networks are judged on the same draw."""
    one, two = _parse_test_rows(mine), _parse_test_rows(other)
    if one.rows != two.rows or metric not in METRIC_TABLE:
        return None
    graphs = sorted(set(one.graphs))
    draws = min(DRAWS, MOST_VALUES // max(len(one.graphs), 1))
    if len(graphs) < 2 or draws < 50:
        return None
    values = [_subtract(metric, one, two, torch.arange(len(one.graphs)))]
    places = {graph: place for place, graph in enumerate(graphs)}
    order = np.argsort([places[graph] for graph in one.graphs], kind="stable")
    rows = np.split(order, np.bincount([places[graph] for graph in one.graphs]).cumsum()[:-1])
    random = np.random.default_rng(0)
    for _ in range(draws):
        drawn = random.integers(len(graphs), size=len(graphs))
        values.append(_subtract(metric, one, two, torch.from_numpy(np.concatenate([rows[place] for place in drawn]))))
    known = [value for value in values[1:] if value is not None]
    if values[0] is None or len(known) < draws / 2:
        return None
    low, high = np.quantile(known, (0.025, 0.975))
    return Difference(values[0], float(low), float(high), "a bootstrap", f"{len(graphs)} test graphs")


@dataclass(frozen=True)
class _TestRows:
    values: Tensor
    y: Tensor
    graphs: list[str]
    rows: list[tuple[str, ...]]  # what they are: both networks must have the same


def _subtract(metric: str, one: _TestRows, two: _TestRows, chosen: Tensor) -> float | None:
    found = [compute_metric(metric, part.values[chosen], part.y[chosen]).value for part in (one, two)]
    return None if found[0] is None or found[1] is None else found[0] - found[1]


def _parse_test_rows(training: Path) -> _TestRows:
    """The rows of the test split as the metrics take them."""
    lines = [line for line in read_test_rows(training) if line.get("y") != ""]
    columns = list(lines[0]) if lines else []
    chances = [name for name in columns if name.startswith("p_")]
    targets = [name for name in columns if name == "y" or name.startswith("y_")]
    classes = {name.removeprefix("p_"): place for place, name in enumerate(chances)}
    index = columns[: columns.index("split")] if lines else []
    if chances and targets == ["y"] and all(line["y"] in classes for line in lines):
        y = torch.tensor([classes[line["y"]] for line in lines])
    else:
        y = torch.tensor([[_number(line[name]) for name in targets] for line in lines], dtype=torch.double)
    predicted = chances or [name for name in columns if name == "prediction" or name.startswith("prediction_")]
    values = torch.tensor([[float(line[name]) for name in predicted] for line in lines], dtype=torch.double)
    graphs = [line[index[0]] if index else str(number) for number, line in enumerate(lines)]
    return _TestRows(values, y, graphs, [tuple(line[name] for name in (*index, *targets)) for line in lines])


def _number(text: str) -> float:
    return float(text) if text else math.nan
