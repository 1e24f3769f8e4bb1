"""Predictions of a trained network for new graphs, from a run folder or an exported model."""

from __future__ import annotations

import csv
import dataclasses
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gnas.data.benchmark import DEFAULT_HOPS, is_large
from gnas.data.encoding import Encoding
from gnas.errors import InputError
from gnas.files import write_atomic
from gnas.graph import GraphSet
from gnas.model.network import GraphModule
from gnas.model.task import Task
from gnas.run.models import load_model
from gnas.training.sampling import open_store
from gnas.use.reading import NewGraphs, read_graphs

Progress = Callable[[str, int, int], None]  # stage, number done, total


@dataclass(frozen=True)
class Predictions:
    """One row for each graph, node or edge.

    ``index`` identifies the rows: the graph (for molecules its SMILES too) and, within it, the node, or the edge with its two
    ends. All numbers count from 0.
    ``values`` holds class probabilities, or predicted targets in their own unit; ``names`` are the classes or targets.
    ``notes`` name the inputs that were left out.
    """

    kind: str
    names: tuple[str, ...]
    index: dict[str, np.ndarray] = field(repr=False)
    values: np.ndarray = field(repr=False)
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.values)

    @property
    def classes(self) -> np.ndarray:
        """Numbers of the likeliest classes."""
        if self.kind != "classification":
            raise InputError("a regression has no classes; its predictions are in values")
        return np.asarray(self.values.argmax(axis=1))

    @property
    def labels(self) -> list[str]:
        """Names of the likeliest classes."""
        return [self.names[k] for k in self.classes]

    @property
    def columns(self) -> tuple[str, ...]:
        """The header of the table."""
        if self.kind == "classification":
            return (*self.index, "prediction", *(f"p_{name}" for name in self.names))
        several = len(self.names) > 1
        return (*self.index, *(f"prediction_{name}" if several else "prediction" for name in self.names))

    def rows(self) -> Iterator[tuple[int | str | float, ...]]:
        """The rows of the table, in the order of ``columns``."""
        labels = [[label] for label in self.labels] if self.kind == "classification" else [[]] * len(self)
        places = zip(*(column.tolist() for column in self.index.values()), strict=True)
        for place, label, values in zip(places, labels, self.values.tolist(), strict=True):
            yield (*place, *label, *values)

    def to_csv(self) -> str:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        for row in self.rows():
            writer.writerow([f"{cell:.7g}" if isinstance(cell, float) else cell for cell in row])
        return text.getvalue()


def predict(
    folder: str | Path,
    data: Any,
    out: str | Path | None = None,
    *,
    name: str = "gnas",
    seed: int | None = None,
    device: torch.device | str = "cpu",
    batch_size: int = 128,
    data_root: str | Path | None = None,
    skip_bad: bool = False,
    force: bool = False,
    on_progress: Progress | None = None,
) -> Predictions:
    """Predict with a trained network; ``folder`` is a run folder or an exported model, whose code is not run.

    Args:
        data: graphs in any form the network's data may come in (a CSV of SMILES, a folder of tables, PyG objects, SMILES
            texts), with or without targets; or a benchmark, by name or as a bundle, whose test split is used.
        out: a CSV file to write; an existing file is replaced only with ``force``.
        name: one of the networks of the run; the result of the search is called ``gnas``.
        seed: the seed of its training; by default the one with the best validation metric.
        skip_bad: leave out SMILES that do not parse, or have atoms or bonds the network does not know; the ``graph`` of
            the other rows still counts all of them.
        on_progress: called after each batch with the stage, the number of batches done and their total.
    """
    if out is not None:
        _check_free(Path(out), force)
    model, info = load_model(folder, name, seed)
    new = read_graphs(data, model.task, info.encoding, data_root, skip_bad=skip_bad)
    result = predictions(model, new, info.encoding, device, batch_size, on_progress)
    if out is not None:
        write_atomic(out, result.to_csv())
    return result


def _check_free(out: Path, force: bool) -> None:
    if out.is_dir() or (out.exists() and not force):
        what = "is a folder; name a file" if out.is_dir() else "exists; use force to replace it"
        raise InputError(f"{out}: {what}")


def predictions(
    model: GraphModule,
    new: NewGraphs,
    encoding: Encoding | None = None,
    device: torch.device | str = "cpu",
    batch_size: int = 128,
    on_progress: Progress | None = None,
) -> Predictions:
    """Predictions of ``model`` for these graphs."""
    graphs, order = new.graphs, new.order
    task, values, index = model.task, infer(model, graphs, device, batch_size, on_progress), _index(graphs)
    if graphs.mask is not None:
        values, index = values[graphs.mask], {key: column[graphs.mask] for key, column in index.items()}
    if order is not None:
        back = torch.argsort(order)
        values, index = values[back], {**{key: column[back] for key, column in index.items()}, "edge": index["edge"]}
    table = {key: column.numpy() for key, column in index.items()}
    if new.kept is not None:
        table["graph"] = new.kept[table["graph"]]
    if new.smiles:
        table["smiles"] = np.array(new.smiles, dtype=object)
    return Predictions(task.kind, output_names(task, encoding), table, values.double().numpy(), new.notes)


@torch.no_grad()
def infer(
    model: GraphModule,
    graphs: GraphSet,
    device: torch.device | str = "cpu",
    batch_size: int = 128,
    on_progress: Progress | None = None,
) -> Tensor:
    """Class probabilities, or targets in their own unit: one row for each graph, node or edge of the set, in its order."""
    if batch_size < 1:
        raise InputError(f"batch_size is {batch_size}; it must be at least 1")
    hops = graphs.sample_neighbors or (DEFAULT_HOPS if is_large(graphs) else ())
    store = open_store(dataclasses.replace(graphs, mask=None, sample_neighbors=hops), as_device(device))
    model, task = model.to(as_device(device)).eval(), model.task
    found = []
    plan = store.plan(batch_size)
    for number, planned in enumerate(plan, start=1):
        batch = store.batch(planned.ids, planned.capacity)
        out = model(batch)[batch.target_mask]  # the rest is padding, or sampled neighbours
        found.append(out.softmax(1).cpu() if task.kind == "classification" else task.prediction(out).cpu())
        if on_progress is not None:
            on_progress("predicting, batches", number, len(plan))
    return torch.cat(found)


def as_device(device: torch.device | str) -> torch.device:
    """The device of this name, if this machine has it."""
    try:
        found = torch.device(device)
    except RuntimeError as error:
        raise InputError(f"device {str(device)!r} is not one torch knows ({str(error).splitlines()[0][:80]})") from None
    if found.type == "cuda" and not torch.cuda.is_available():
        raise InputError(f"device {str(device)!r}: this machine has no CUDA device that torch can use; choose cpu")
    return found


def output_names(task: Task, encoding: Encoding | None) -> tuple[str, ...]:
    """Names of the classes, or of the targets."""
    names = task.labels if task.kind == "classification" or encoding is None else encoding.targets
    return names if len(names) == task.num_outputs else tuple(str(k) for k in range(task.num_outputs))


def _index(graphs: GraphSet) -> dict[str, Tensor]:
    if graphs.level == "graph":
        return {"graph": torch.arange(len(graphs))}
    nodes = graphs.level == "node"
    counts, ptr = (graphs.node_counts, graphs.node_ptr) if nodes else (graphs.edge_counts, graphs.edge_ptr)
    graph = torch.repeat_interleave(torch.arange(len(graphs)), counts)
    within = torch.arange(len(graph)) - ptr[graph]
    if nodes:
        return {"graph": graph, "node": within}
    source, target = graphs.edge_index.long()
    return {"graph": graph, "edge": within, "source": source, "target": target}
