"""How good a trained network is on labelled graphs: every metric that fits its task, overall and for each target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, overload

import torch
from torch import Tensor

from gnas.data.encoding import format_list
from gnas.errors import InputError
from gnas.graph import GraphSet
from gnas.model.metrics import compute_metrics, name_per_target
from gnas.model.network import GraphModule
from gnas.run.models import load_average, load_model
from gnas.training.evaluation import evaluate as evaluate_split
from gnas.training.prediction import Progress, find_known, infer, list_output_names
from gnas.use.predict import read_graphs


@dataclass(frozen=True)
class Evaluation:
    """Metrics of a network over the rows (graphs, nodes, edges or pairs) that have a target.

    Args:
        network: The network in words.
        metric: The metric that selected the network.
        rows: The number of rows with a target.
        left_out: The number of rows without one.
        metrics: All metrics of the task by name, None where the targets do not define one: a label of which only one class is
            known has no ROC-AUC.
        per_target: The same for each target, label or class; empty for a single target.
        counts: The known entries of each target or label, or the rows of each class.
        notes: What was noticed while the data was read.

    >>> found = gnas.evaluate("runs/mine", "molecules.csv")
    >>> found.rows, sorted(found.metrics)
    (280, ['mae', 'r2', 'rmse', 'spearman'])
    """

    network: str
    metric: str
    rows: int
    left_out: int
    metrics: Mapping[str, float | None]
    per_target: Mapping[str, Mapping[str, float | None]] = field(repr=False)
    counts: Mapping[str, int] = field(repr=False)
    notes: tuple[str, ...] = ()

    @property
    def value(self) -> float | None:
        """The value of the metric that selected the network."""
        return self.metrics[self.metric]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@overload
def evaluate(
    model: GraphModule, graphs: GraphSet, batch_size: int = 128, device: torch.device | str = "cpu"
) -> dict[str, float]: ...


@overload
def evaluate(
    model: str | Path,
    graphs: Any,
    batch_size: int = 128,
    device: torch.device | str = "cpu",
    *,
    network: str | None = None,
    seed: int | None = None,
    average_seeds: bool = False,
    data_root: str | Path | None = None,
    skip_bad: bool = False,
    on_progress: Progress | None = None,
) -> Evaluation: ...


def evaluate(
    model: GraphModule | str | Path,
    graphs: Any,
    batch_size: int = 128,
    device: torch.device | str = "cpu",
    **options: Any,
) -> dict[str, float] | Evaluation:
    """Evaluate a network on labelled graphs.

    Args:
        model: a run folder or an exported model, or a network.
        graphs: for a folder, data in any form that the network's data may come in (``"test.csv"``, a folder of tables, PyG
            objects), or a benchmark, whose test split is used. For a network, a split of a benchmark.
        batch_size: graphs in a batch.
        device: where to compute.
        options: for a folder, ``network``, ``seed``, ``average_seeds``, ``data_root``, ``skip_bad`` and ``on_progress`` as in
            :func:`gnas.use.predict.predict`.

    Returns:
        For a folder an :class:`Evaluation` with all metrics. For a network ``loss``, ``metric`` and ``metric_per_batch``,
        as a training computes them.

    >>> gnas.evaluate("runs/mine", "molecules.csv").metric
    'mae'
    """
    if isinstance(model, str | Path):
        return _evaluate_folder(model, graphs, batch_size, device, **options)
    return evaluate_split(model, graphs, batch_size, device, **options)


def _evaluate_folder(
    folder: str | Path,
    data: Any,
    batch_size: int,
    device: torch.device | str,
    *,
    network: str | None = None,
    seed: int | None = None,
    average_seeds: bool = False,
    data_root: str | Path | None = None,
    skip_bad: bool = False,
    on_progress: Progress | None = None,
) -> Evaluation:
    model, info = load_average(folder, network, seed) if average_seeds else load_model(folder, network, seed)
    task = model.task
    new = read_graphs(data, task, info.encoding, data_root, targets=True, skip_bad=skip_bad)
    y = new.graphs.targets()
    known = find_known(y)
    if not known.any():
        raise InputError(f"none of {len(y):,} rows has a target; an evaluation needs labelled rows")
    values = infer(model, new.graphs, device, batch_size, on_progress, in_split=True)[known]
    y = y[known]
    names = list_output_names(task, info.encoding)
    found = compute_metrics(task.metric_kind, values, y)
    counts = _count_targets(y, names)
    return Evaluation(
        network=info.title,
        metric=task.metric,
        rows=len(y),
        left_out=len(known) - len(y),
        metrics={one: value.value for one, value in found.items()},
        per_target=name_per_target(found, names),
        counts=counts,
        notes=(*new.notes, *(_note_absent_classes(counts) if task.kind == "classification" else ())),
    )


def _count_targets(y: Tensor, names: tuple[str, ...]) -> dict[str, int]:
    if y.is_floating_point():
        counts = torch.isfinite(y.reshape(len(y), -1)).sum(0)
    else:
        counts = torch.bincount(y.reshape(-1), minlength=len(names))
    return dict(zip(names, counts.tolist(), strict=True))


def _note_absent_classes(counts: Mapping[str, int]) -> tuple[str, ...]:
    absent = [name for name, count in counts.items() if not count]
    return (f"no row of {format_list(absent)}: the class-averaged accuracy counts such classes as 0",) if absent else ()
