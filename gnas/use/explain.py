"""Which nodes and edges a prediction comes from: integrated gradients of a trained network."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from gnas.data.benchmark import WHOLE_NODES, is_large
from gnas.data.encoding import Array
from gnas.data.rows import index_rows, to_csv
from gnas.errors import InputError, choose, explain_memory
from gnas.graph import GraphBatch, GraphSet
from gnas.model.encoder import EdgeEncoder, Encoder
from gnas.model.encodings import fill_encodings
from gnas.model.network import GraphModule
from gnas.run.models import load_model
from gnas.training.prediction import find_device, list_output_names
from gnas.use.predict import NewGraphs, read_graphs

TOLERANCE = 0.005  # of the sum of scores, relative to the change of the output or the size of the scores
MOST_INTERVALS = 256  # then no more intervals are halved
BATCH_NODES = 20_000  # nodes of the copies of a graph that are computed at once
INTERVALS = 16  # into which the path is divided at first
GAUSS = (0.5 - 0.5 / 3**0.5, 0.5 + 0.5 / 3**0.5)  # points of a two-point Gauss rule on [0, 1], with equal weights


@dataclass(frozen=True)
class Explanation:
    """How much each node and edge of a graph contributes to one output of a prediction.

    The scores add up to ``value - baseline``: the output for the graph, less the output if nothing is known of its nodes and
    edges (their embeddings are zero, the edges between the nodes stay). Outputs of a regression are in the unit of the
    target, those of classes and labels are log-odds.

    ``row`` numbers the row of the predictions, ``place`` says which graph, node or edge it is. ``edges`` is None if the
    network reads no columns of edges, ``features`` if it reads none of whole graphs. ``names`` are the texts of the nodes.
    """

    row: int
    place: dict[str, int]
    output: str
    unit: str
    value: float
    baseline: float
    nodes: Array = field(repr=False)
    edge_index: Array = field(repr=False)
    edges: Array | None = field(default=None, repr=False)
    features: Array | None = field(default=None, repr=False)
    names: tuple[str, ...] = field(default=(), repr=False)
    smiles: str = ""
    pos: Array | None = field(default=None, repr=False)
    network: str = ""

    @property
    def gap(self) -> float:
        """By how much the sum of the scores misses ``value - baseline``."""
        parts = (self.nodes, self.edges, self.features)
        return float(sum(part.sum() for part in parts if part is not None) - (self.value - self.baseline))

    @property
    def title(self) -> str:
        """The row and the output in words."""
        where = ", ".join(f"{name} {number}" for name, number in self.place.items())
        return f"row {self.row} ({where}): {self.unit} {self.value:.4g}, {self.value - self.baseline:+.4g} by its parts"

    def to_columns(self) -> dict[str, list[Any]]:
        """A line per node, edge and feature: what it is, and its score."""
        names = self.names or ("",) * len(self.nodes)
        nodes = enumerate(zip(names, self.nodes.tolist(), strict=True))
        lines: list[tuple[Any, ...]] = [("node", number, "", "", name, score) for number, (name, score) in nodes]
        if self.edges is not None:
            edges = zip(self.edge_index.T.tolist(), self.edges.tolist(), strict=True)
            lines += [("edge", "", *ends, "", score) for ends, score in edges]
        if self.features is not None:
            lines += [("feature", number, "", "", "", score) for number, score in enumerate(self.features.tolist())]
        header = ("row", "output", "part", "number", "source", "target", "name", "score")
        rows = ((self.row, self.output, *line) for line in lines)
        return {name: list(column) for name, column in zip(header, zip(*rows, strict=True), strict=True)}


def write_csv(explanations: Sequence[Explanation]) -> str:
    """The scores of several explanations as one CSV."""
    columns: dict[str, list[Any]] = {}
    for one in explanations:
        for name, column in one.to_columns().items():
            columns.setdefault(name, []).extend(column)
    return to_csv(columns)


def explain(
    folder: str | Path,
    data: Any,
    rows: int | Sequence[int] = 0,
    *,
    output: str | None = None,
    network: str | None = None,
    seed: int | None = None,
    device: torch.device | str = "cpu",
    data_root: str | Path | None = None,
    skip_bad: bool = False,
) -> list[Explanation]:
    """Which atoms, nodes and edges matter for predictions: integrated gradients on the embedded input.

    Args:
        folder: a run folder or an exported model.
        data: as in :func:`gnas.use.predict.predict`.
        rows: numbers of rows of the predictions, from 0.
        output: the target, class or label to explain. By default the class that is predicted, or the first target.
        network: one of the networks of the run; by default the best by validation.
        seed: the seed of its training.
        device: where to compute.
        data_root: the folder of benchmark files.
        skip_bad: leave out SMILES that the network cannot read.

    >>> (found,) = gnas.explain("runs/mine", "new_molecules.csv", rows=3)
    >>> len(found.nodes) == int(found.edge_index.max()) + 1  # a score for each atom
    True
    >>> found  # a drawing, in a notebook  # doctest: +SKIP
    """
    model, info = load_model(folder, network, seed)
    if info.members:
        raise InputError("an ensemble is not explained; choose one network of the run, such as gnas, with network")
    new = read_graphs(data, model.task, info.encoding, data_root, skip_bad=skip_bad)
    names = list_output_names(model.task, info.encoding)
    model = model.to(find_device(device)).double()
    found = [rows] if isinstance(rows, int) else list(rows)
    with explain_memory(device, "the size of the graph, or use the CPU (device cpu)"):
        made = [explain_row(model, new, row, names, output) for row in found]
    nodes = info.encoding.nodes if info.encoding is not None else ()
    texts = next((k for k, column in enumerate(nodes) if column.kind == "vocabulary"), None)
    if texts is not None and model.task.categories:
        values = [str(value) for value in nodes[texts].values]
        for k, one in enumerate(made):
            codes = _graph_of(new.graphs, one.row)[0].x[:, texts].tolist()
            labels = tuple(values[code] if code < len(values) else "other" for code in codes)
            made[k] = dataclasses.replace(one, names=labels)
    return [dataclasses.replace(one, network=info.title) for one in made]


def explain_row(
    model: GraphModule, new: NewGraphs, row: int, names: Sequence[str], output: str | None = None
) -> Explanation:
    """The explanation of one row of the predictions of ``model``, whose outputs have these names."""
    graph, number, inside = _graph_of(new.graphs, row, new.order)
    if is_large(graph):
        raise InputError(
            f"row {row} lies in a graph of {graph.num_nodes:,} nodes; graphs of more than {WHOLE_NODES:,} are not explained"
        )
    path = _Path(model, fill_encodings(graph, model.task), inside)
    chosen = path.choose_output(names, output)
    value, baseline, scores = path.integrate()
    index = index_rows(new.graphs)
    place = {key: int(column[number]) for key, column in index.items() if key != "edge"}
    regression = model.task.kind == "regression"
    return Explanation(
        row=row,
        place=place,
        output=names[chosen],
        unit=names[chosen] if regression else f"log-odds of {names[chosen]}",
        value=value,
        baseline=baseline,
        nodes=scores["nodes"],
        edge_index=graph.edge_index.long().numpy(),
        edges=scores.get("edges"),
        features=scores.get("features"),
        smiles=new.smiles[_graph_number(new.graphs, number)] if new.smiles else "",
        pos=None if graph.pos is None else graph.pos.numpy(),
    )


def _graph_number(graphs: GraphSet, row: int) -> int:
    """The number of the graph that a row of targets belongs to."""
    starts = _row_starts(graphs)
    return row if starts is None else int(torch.searchsorted(starts, row, right=True)) - 1


def _row_starts(graphs: GraphSet) -> Tensor | None:
    """Where the rows of each graph begin; None: each graph is a row."""
    return {"graph": None, "node": graphs.node_ptr, "edge": graphs.edge_ptr, "link": graphs.pair_ptr}[graphs.level]


def _graph_of(graphs: GraphSet, row: int, order: Tensor | None = None) -> tuple[GraphSet, int, int]:
    """The graph of a row of the predictions, the row among all targets, and the row among those of the graph."""
    count = graphs.num_targets
    if not 0 <= row < count:
        raise InputError(f"there is no row {row}; the predictions of this data have {count:,} rows, counted from 0")
    number = row if graphs.mask is None else int(graphs.mask.nonzero()[row])
    number = number if order is None else int((order == number).nonzero())
    graph, starts = _graph_number(graphs, number), _row_starts(graphs)
    return graphs.select([graph]), number, 0 if starts is None else number - int(starts[graph])


def _reads_edges(module: nn.Module) -> bool:
    """Whether a module embeds edges one by one; without columns and encodings all have the same embedding."""
    return isinstance(module, EdgeEncoder) and bool(module.categories or module.features or module.walks)


def _size(scores: dict[str, Tensor]) -> float:
    """The sum of the absolute scores at a point of the path, the mean over the points."""
    return float(sum(one.abs().sum(1).mean() for one in scores.values()))


class _Path:
    """The straight path from zero embeddings to those of a graph, and the gradients of one output along it."""

    def __init__(self, model: GraphModule, graph: GraphSet, row: int) -> None:
        self.model, self.graph, self.row, self.output = model.eval(), graph, row, 0
        self.device = next(model.parameters()).device
        self.copies = max(1, BATCH_NODES // max(graph.num_nodes, 1))
        self.readers = [one for one in model.modules() if isinstance(one, Encoder) or _reads_edges(one)]
        if not any(isinstance(one, Encoder) for one in self.readers):
            raise InputError(f"{type(model).__name__} has no Encoder of gnas; its embedded input is not known")

    def choose_output(self, names: Sequence[str], requested: str | None) -> int:
        """The number of the requested output; by default that of the likeliest class, or 0."""
        if requested is not None:
            self.output = list(names).index(choose(requested, names, "output"))
        elif self.model.task.kind == "classification":
            with torch.no_grad():
                self.output = int(self._rows(self.model(self._batch(1)), 1)[0].argmax())
        return self.output

    def integrate(self) -> tuple[float, float, dict[str, Array]]:
        """The output at both ends of the path, and the scores of nodes, edges and features of the graph.

        Each part of the path has a two-point Gauss rule. Where its sum misses the change of the output, the part is halved.
        """
        bounds = [k / INTERVALS for k in range(INTERVALS + 1)]
        todo, done = list(itertools.pairwise(bounds)), 0
        ends: dict[float, float] = {}
        totals: dict[str, Tensor] = {}
        while todo:
            fresh = sorted({point for part in todo for point in part} - set(ends))
            ends |= dict(zip(fresh, self._values(fresh).tolist(), strict=True))
            scores = self._scores([a + (b - a) * place for a, b in todo for place in GAUSS])
            done += len(todo)
            allowed = TOLERANCE * max(abs(ends[1.0] - ends[0.0]), _size(scores))
            again = []
            for k, (a, b) in enumerate(todo):
                part = {name: (b - a) * one[2 * k : 2 * k + 2].mean(0) for name, one in scores.items()}
                miss = abs(float(sum(one.sum() for one in part.values())) - (ends[b] - ends[a]))
                if miss > allowed * (b - a) and done < MOST_INTERVALS:
                    again += [(a, (a + b) / 2), ((a + b) / 2, b)]
                else:
                    totals = {name: totals.get(name, 0) + one for name, one in part.items()}
            todo = again
        return ends[1.0], ends[0.0], {name: one.cpu().numpy() for name, one in totals.items()}

    def _values(self, points: Sequence[float]) -> Tensor:
        with torch.no_grad():
            return torch.cat([self._run(part)[0] for part in self._chunks(points)] or [torch.zeros(0)])

    def _scores(self, points: Sequence[float]) -> dict[str, Tensor]:
        """Gradient times input at each of the points, by node, edge and feature."""
        found: dict[str, list[Tensor]] = {}
        for part in self._chunks(points):
            values, inputs = self._run(part)
            gradients = torch.autograd.grad(values.sum(), [one for _, one, _ in inputs], allow_unused=True)
            sums: dict[str, Tensor] = {}
            for (name, _, whole), gradient in zip(inputs, gradients, strict=True):
                score = whole * (torch.zeros_like(whole) if gradient is None else gradient)
                score = (score if name == "features" else score.sum(1)).view(len(part), -1)
                sums[name] = sums[name] + score if name in sums else score
            for name, score in sums.items():
                found.setdefault(name, []).append(score)
        return {name: torch.cat(parts) for name, parts in found.items()}

    def _chunks(self, points: Sequence[float]) -> Iterator[Sequence[float]]:
        for start in range(0, len(points), self.copies):
            yield points[start : start + self.copies]

    def _run(self, points: Sequence[float]) -> tuple[Tensor, list[tuple[str, Tensor, Tensor]]]:
        """The output at these points; and what was interpolated: its part, the tensor, and the tensor at the end."""
        batch, inputs = self._batch(len(points)), list[tuple[str, Tensor, Tensor]]()
        place = torch.tensor(points, device=self.device, dtype=torch.float64)[:, None]

        def shrink(whole: Tensor, part: str) -> Tensor:
            rows = whole.size(0) // len(points)
            inner = (whole.detach() * place.repeat_interleave(rows, 0)).requires_grad_(torch.is_grad_enabled())
            inputs.append((part, inner, whole.detach()))
            return inner

        if batch.graph_attr is not None:
            batch = dataclasses.replace(batch, graph_attr=shrink(batch.graph_attr.double(), "features"))

        def hook(module: nn.Module, given: Any, out: Tensor) -> Tensor:
            part = "nodes" if isinstance(module, Encoder) else "edges"
            return shrink(out, part)

        with contextlib.ExitStack() as stack:
            for one in self.readers:
                stack.callback(one.register_forward_hook(hook).remove)
            return self._quantity(self._rows(self.model(batch), len(points))), inputs

    def _batch(self, copies: int) -> GraphBatch:
        batch = self.graph.select([0] * copies).batch()
        there = {f.name: value for f in dataclasses.fields(batch) if (value := getattr(batch, f.name)) is not None}
        return dataclasses.replace(batch, **{name: value.to(self.device) for name, value in there.items()})

    def _rows(self, out: Tensor, copies: int) -> Tensor:
        """The outputs of the row that is explained, in each copy of the graph."""
        return out.view(copies, -1, out.size(1))[:, self.row]

    def _quantity(self, out: Tensor) -> Tensor:
        """What is explained: the target in its unit, or the log-odds of the class or label."""
        if self.model.task.kind == "classification":
            others = [k for k in range(out.size(1)) if k != self.output]
            return out[:, self.output] - out[:, others].logsumexp(1)
        return self.model.task.prediction(out)[:, self.output]
