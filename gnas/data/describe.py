"""A benchmark on one screen: what was read, what is used and how, what was inferred, left out, and what looks wrong."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gnas.data.encoding import Column, format_list
from gnas.model.task import UNITS, Task
from gnas.printed import format_count

if TYPE_CHECKING:
    from gnas.data.benchmark import Benchmark

MOST_LINES = 5  # of one section; further ones are counted
MOST_INFERRED = 8  # the last of these lines is the split
MOST_FILES = 4


@dataclass(frozen=True)
class Description:
    """A title and named sections of lines."""

    title: str
    sections: tuple[tuple[str, tuple[str, ...]], ...]

    @property
    def lines(self) -> tuple[tuple[str, str], ...]:
        """Lines as (name, text); the name stands before the first line of its section. Long sections are shortened."""
        return ((self.title, ""), *_shorten(self.sections))

    def __str__(self) -> str:
        width = max((len(name) for name, text in self.lines if text), default=0)
        return "\n".join(f"{name:<{width}}  {text}" if text else name for name, text in self.lines)

    def to_html(self) -> str:
        """The same as a small table for notebooks."""
        rows = (
            f"<tr><th style='text-align:left'>{html.escape(name)}</th>"
            f"<td style='text-align:left'>{html.escape(text)}</td></tr>"
            for name, text in self.lines[1:]
        )
        return f"<b>{html.escape(self.title)}</b><table>{''.join(rows)}</table>"

    def to_dict(self) -> dict[str, Any]:
        """Title and all lines of every section, as JSON types."""
        return {"title": self.title} | {name.replace(" ", "_"): list(lines) for name, lines in self.sections}


def _shorten(sections: Iterable[tuple[str, Sequence[str]]]) -> Iterator[tuple[str, str]]:
    for name, lines in sections:
        most = MOST_INFERRED if name == "inferred" else MOST_LINES
        shown = lines if len(lines) <= most else [*lines[: most - 1], f"{len(lines) - most + 1} more"]
        yield from ((name if number == 0 else "", line) for number, line in enumerate(shown))


def describe_benchmark(benchmark: Benchmark) -> Description:
    """The description that ``print(benchmark)``, ``gnas data show`` and ``gnas search`` show."""
    b = benchmark
    found = {
        "read": [format_list(b.files, MOST_FILES)] if b.files else [],
        "data": _describe_counts(b),
        "nodes": [_describe_nodes(b)],
        "edges": _describe_edges(b),
        "encodings": _describe_encodings(b.task),
        "graphs": [format_count(b.task.graph_channels, "column")] if b.task.graph_channels else [],
        "task": _describe_task(b.task),
        "inferred": list(b.encoding.reasons) if b.encoding else [],
        "left out": [*b.left_out, *_describe_unused(b)],
        "note": list(b.notes),
        "check": list(b.problems),
    }
    sections = tuple((name, tuple(lines)) for name, lines in found.items() if lines)
    return Description(f"{b.name} ({b.source})", sections)


def _describe_counts(benchmark: Benchmark) -> list[str]:
    sets = benchmark.splits()
    shared = benchmark.train.x is benchmark.val.x
    graphs = [benchmark.train] if shared else list(sets.values())
    count = sum(len(g) for g in graphs)
    nodes, edges = sum(g.num_nodes for g in graphs), sum(g.num_edges for g in graphs)
    links = benchmark.task.level == "link"
    where = format_count(count, "shared graph" if shared else "graph")
    unit = f"{'pair' if links else benchmark.task.level}s in {where}" if shared or links else "graphs"
    rows = ", ".join(f"{g.num_targets if shared or links else len(g):,} {name}" for name, g in sets.items())
    largest = max(int(g.node_counts.max()) for g in graphs if len(g))
    smallest = min(int(g.node_counts.min()) for g in graphs if len(g))
    sizes = f"{largest:,}" if smallest == largest else f"{smallest:,} to {largest:,}"
    span = "" if shared else f" ({sizes} per graph)"
    return [f"{unit}: {rows}", f"nodes: {nodes:,}{span}; edges: {edges:,}"]


def _describe_columns(columns: Sequence[Column]) -> str:
    """``3 categories: atom (9), ...; 2 numbers: charge, mass``."""
    hot = [f"{c.name} ({_count_values(c)})" for c in columns if c.categorical]
    numbers = [c.name for c in columns if not c.categorical]
    parts = []
    if hot:
        parts.append(f"{len(hot)} categorical: {format_list(hot, 6)}")
    if numbers:
        parts.append(f"{len(numbers):,} continuous: {format_list(numbers, 6)}")
    return "; ".join(parts)


def _count_values(column: Column) -> int:
    """How many values train has; all numbers up to the largest have an embedding."""
    return len(column.values) or column.size - column.other - len(column.absent)


def _describe_nodes(benchmark: Benchmark) -> str:
    task, encoding = benchmark.task, benchmark.encoding
    if encoding is None:
        sizes = format_list(task.categories)
        return f"{len(task.categories)} categorical ({sizes})" if sizes else f"{task.in_channels:,} continuous"
    if encoding.nodes[0].kind == "degree":
        return f"no columns; the in-degree is the category (up to {encoding.nodes[0].size - 1})"
    return _describe_columns(encoding.nodes) + ("; categories as one-hot columns" if encoding.mixed else "")


def _describe_edges(benchmark: Benchmark) -> list[str]:
    task, encoding = benchmark.task, benchmark.encoding
    if not (task.edge_categories or task.edge_channels):
        return []
    if encoding is not None and encoding.edges:
        return [_describe_columns(encoding.edges)]
    sizes = format_list(task.edge_categories)
    return [f"{len(task.edge_categories)} categorical ({sizes})" if sizes else f"{task.edge_channels:,} continuous"]


def _describe_encodings(task: Task) -> list[str]:
    parts = [f"{name} of the graph" if name == "size" else f"{name} of the node" for name in task.structure]
    counts = (("node walks", task.walks), ("Laplacian vectors", task.laplacian), ("edge walks", task.edge_walks))
    parts += [f"{count} {name}" for name, count in counts if count]
    return [", ".join(parts)] if parts else []


def _describe_task(task: Task) -> list[str]:
    nouns = {"regression": "target", "multilabel": "label"}
    outputs = format_count(task.num_outputs, nouns[task.kind]) if task.kind in nouns else f"{task.num_outputs} classes"
    if task.labels:
        outputs += f" ({format_list(task.labels)})"
    readout = f"; readout {task.readout}" if task.level == "graph" else ""
    what = "link prediction" if task.level == "link" else f"{task.level} {task.kind}, {outputs}"
    lines = [f"{what}; loss {task.loss}; metric {UNITS[task.metric]}{readout}"]
    if any(s != 1 for s in task.scale):
        moments_of_train = list(zip(task.center, task.scale, strict=False))[:4]
        shown = ", ".join(f"{center:.4g} ± {scale:.4g}" for center, scale in moments_of_train)
        lines.append(f"targets standardised by train ({shown}) for training, reported in their own unit")
    return lines


def _describe_unused(benchmark: Benchmark) -> list[str]:
    """Tensors that the data has and that the task does not read."""
    task, train, lines = benchmark.task, benchmark.train, []
    if train.edge_attr is not None and not (task.edge_categories or task.edge_channels):
        names = [c.name for c in benchmark.encoding.edges] if benchmark.encoding else []
        width = train.edge_attr[:1].numel()
        lines.append(f"edge columns ({format_list(names, 6) or width}): stored but not used")
    columns = benchmark.encoding.nodes if benchmark.encoding else ()
    if train.pos is not None and not any(c.name.rstrip("0123456789") == "pos" for c in columns):
        advice = "; the data option pos=yes makes them node features" if columns else ""
        lines.append(f"pos ({format_count(train.pos[:1].numel(), 'column')}): stored but not used{advice}")
    return lines
