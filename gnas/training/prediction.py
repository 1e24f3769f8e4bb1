"""Predictions of a network: values for every row of some graphs, with the names that identify the rows."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gnas.data.benchmark import DEFAULT_HOPS, Benchmark, is_large
from gnas.data.encoding import Encoding
from gnas.data.rows import MOST_PREDICTED_ROWS, index_rows, to_csv
from gnas.errors import InputError, explain_memory, is_out_of_memory, name_memory
from gnas.graph import GraphSet
from gnas.model.encodings import fill_encodings
from gnas.model.ensemble import Ensemble
from gnas.model.network import GraphModule
from gnas.model.task import Task
from gnas.training.sampling import open_store
from gnas.training.store import Store

Progress = Callable[[str, int, int], None]  # stage, number done, total


@dataclass(frozen=True)
class Predictions:
    """One row for each graph, node or edge.

    ``index`` identifies the rows: the graph (for molecules its SMILES too) and, within it, the node, or the edge with its two
    ends. All numbers count from 0.
    ``values`` holds probabilities of classes or labels, or predicted targets in their own unit; ``names`` names them.
    ``notes`` name the inputs that were left out. ``network`` is the network that predicts, with its seed. Of several networks
    that predict together, ``spread`` holds the standard deviation of each value over them; None for a single one.
    """

    kind: str
    names: tuple[str, ...]
    index: dict[str, np.ndarray] = field(repr=False)
    values: np.ndarray = field(repr=False)
    notes: tuple[str, ...] = ()
    network: str = ""
    spread: np.ndarray | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.values)

    @property
    def classes(self) -> np.ndarray:
        """Numbers of the likeliest classes."""
        if self.kind != "classification":
            raise InputError(f"a {self.kind} task has no classes; its predictions are in values")
        return np.asarray(self.values.argmax(axis=1))

    @property
    def labels(self) -> list[str]:
        """Names of the likeliest classes."""
        return [self.names[k] for k in self.classes]

    @property
    def columns(self) -> tuple[str, ...]:
        """The header of the table."""
        return tuple(self.to_columns())

    def to_columns(self) -> dict[str, list[Any]]:
        """The table by column: what identifies the rows, the prediction, and probabilities if there are any."""
        return {**{name: column.tolist() for name, column in self.index.items()}, **self.predicted_columns()}

    def predicted_columns(self) -> dict[str, list[Any]]:
        """``prediction`` and a ``p_NAME`` for each class or label; of several regression targets ``prediction_NAME``."""
        values = self.values.T.tolist()
        if self.kind == "regression":
            return dict(zip(_name_columns("prediction", self.names), values, strict=True)) | self._spread_columns()
        chances = {f"p_{name}": column for name, column in zip(self.names, values, strict=True)}
        chances |= self._spread_columns()
        return {"prediction": self.labels, **chances} if self.kind == "classification" else chances

    def _spread_columns(self) -> dict[str, list[float]]:
        """``spread``: of the predicted value, or of the probability of the predicted class; of several ``spread_NAME``."""
        if self.spread is None:
            return {}
        if self.kind == "classification":
            return {"spread": np.take_along_axis(self.spread, self.classes[:, None], 1)[:, 0].tolist()}
        return dict(zip(_name_columns("spread", self.names), self.spread.T.tolist(), strict=True))

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """The rows of the table, in the order of ``columns``."""
        return zip(*self.to_columns().values(), strict=True)

    def to_csv(self) -> str:
        return to_csv(self.to_columns())


def _name_columns(prefix: str, names: tuple[str, ...]) -> list[str]:
    return [prefix] if len(names) == 1 else [f"{prefix}_{name}" for name in names]


@torch.no_grad()
def infer(
    model: GraphModule,
    graphs: GraphSet,
    device: torch.device | str = "cpu",
    batch_size: int = 128,
    on_progress: Progress | None = None,
    *,
    in_split: bool = False,
) -> Tensor:
    """Probabilities, or targets in their own unit: one row for each graph, node or edge of the set, in its order.

    Args:
        model: The network. The values of an ensemble are means over its members.
        graphs: The graphs; encodings that the network reads and that they lack are computed.
        device: Where to compute.
        batch_size: Graphs in a batch. Smaller batches are tried if the memory does not suffice.
        on_progress: Called after each batch with the stage, the number of batches done and their total.
        in_split: Only the rows of the split, if several splits share graphs.
    >>> infer(network, data.test, in_split=True).shape[0] == data.test.num_targets  # doctest: +SKIP
    True
    """
    if isinstance(model, Ensemble):
        return infer_spread(model, graphs, device, batch_size, on_progress, in_split=in_split)[0]
    if batch_size < 1:
        raise InputError(f"batch_size is {batch_size}; it must be at least 1")
    graphs = fill_encodings(graphs, model.task)
    hops = graphs.sample_neighbors or (DEFAULT_HOPS if is_large(graphs) else ())
    graphs = dataclasses.replace(graphs, mask=graphs.mask if in_split else None, sample_neighbors=hops)
    with explain_memory(device, "the size of the graph, or use the CPU (device cpu)"):
        store, model = open_store(graphs, find_device(device)), model.to(find_device(device)).eval()
        while True:
            found = _infer_batches(model, store, batch_size, on_progress)
            if found is not None:
                return found
            batch_size = min(batch_size, len(store)) // 2
            warnings.warn(f"out of {name_memory(device)}; batches of {batch_size} are tried", stacklevel=2)


def _infer_batches(model: GraphModule, store: Store, batch_size: int, on_progress: Progress | None) -> Tensor | None:
    """What :func:`infer` returns; None if a batch of several items does not fit into the memory."""
    found, plan = [], store.plan(batch_size)
    try:
        for number, planned in enumerate(plan, start=1):
            batch = store.batch(planned.ids, planned.capacity)
            out = model(batch)[batch.target_mask]  # the rest is padding, other splits, or sampled neighbours
            found.append(model.task.predicted_values(out.cpu().double()))  # in float32, probabilities near 1 are equal
            if on_progress is not None:
                on_progress("predicting, batches", number, len(plan))
    except (MemoryError, RuntimeError) as error:
        if min(batch_size, len(store)) == 1 or not is_out_of_memory(error):
            raise
        return None  # the error, which refers to the batch, is freed before a smaller batch is tried
    return torch.cat(found)


def infer_spread(
    model: GraphModule,
    graphs: GraphSet,
    device: torch.device | str = "cpu",
    batch_size: int = 128,
    on_progress: Progress | None = None,
    *,
    in_split: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """What :func:`infer` returns, and its standard deviation over the members of an ensemble; None for a single network."""
    if not isinstance(model, Ensemble):
        return infer(model, graphs, device, batch_size, on_progress, in_split=in_split), None
    graphs = fill_encodings(graphs, model.task)  # once for all members
    every = [infer(one, graphs, device, batch_size, on_progress, in_split=in_split) for one in model.networks()]
    return model.average(every), model.spread(every)


def find_known(y: Tensor) -> Tensor:
    """Rows with a target: of several, one at least."""
    return torch.isfinite(y.reshape(len(y), -1)).any(1) if y.is_floating_point() else y.reshape(-1) >= 0


def find_device(name: torch.device | str, needed: bool = True) -> torch.device:
    """The device of this name. An error if this machine does not have it, unless it is not ``needed``."""
    try:
        device = torch.device(name)
    except RuntimeError:
        raise InputError(f"unknown device {str(name)!r}; choose cpu, cuda, or one GPU such as cuda:1") from None
    if not needed or device.type != "cuda":
        return device
    if not torch.cuda.is_available():
        raise InputError(f"device {str(name)!r} cannot be used: torch sees no GPU ('gnas doctor' says why); choose cpu")
    if (device.index or 0) >= torch.cuda.device_count():
        raise InputError(f"there is no {name}: the machine has {torch.cuda.device_count()} GPUs, counted from 0")
    return device


def list_output_names(task: Task, encoding: Encoding | None) -> tuple[str, ...]:
    """Names of the classes, or of the targets."""
    names = task.labels if task.kind == "classification" or encoding is None else encoding.targets
    return names if len(names) == task.num_outputs else tuple(str(k) for k in range(task.num_outputs))


def predict_splits(model: GraphModule, benchmark: Benchmark, device: torch.device | str, batch_size: int) -> str | None:
    """The content of a training's ``predictions.csv``: every row of val and test with its target and its prediction.

    None if there are more than ``MOST_PREDICTED_ROWS`` of them.
    """
    splits = {name: graphs for name, graphs in benchmark.splits().items() if name != "train"}
    if sum(graphs.num_targets for graphs in splits.values()) > MOST_PREDICTED_ROWS:
        return None
    names = list_output_names(model.task, benchmark.encoding)
    columns: dict[str, list[Any]] = {}
    for split, graphs in splits.items():
        values, spread = infer_spread(model, graphs, device, batch_size, in_split=True)
        index = {name: column.numpy() for name, column in index_rows(graphs, in_split=True).items() if name != "edge"}
        around = None if spread is None else spread.double().numpy()
        found = Predictions(model.task.kind, names, index, values.double().numpy(), spread=around)
        part = {name: column.tolist() for name, column in index.items()}
        part |= {"split": [split] * len(found), **name_target_columns(graphs.targets(), names, model.task.kind)}
        for name, column in {**part, **found.predicted_columns()}.items():
            columns.setdefault(name, []).extend(column)
    return to_csv(columns)


def name_target_columns(y: Tensor, names: tuple[str, ...], kind: str) -> dict[str, list[Any]]:
    """``y``, by class name if targets are classes; of several targets ``y_NAME``."""
    if kind == "classification":
        return {"y": [names[k] if k >= 0 else "" for k in y.long().reshape(-1).tolist()]}
    return dict(zip(_name_columns("y", names), y.double().reshape(len(y), -1).T.tolist(), strict=True))
