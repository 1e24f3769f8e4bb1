"""A benchmark in words."""

from __future__ import annotations

from gnas.data.benchmark import Benchmark
from gnas.data.checks import count_rows
from gnas.data.encoding import counted
from gnas.model.task import UNITS, Task


def describe(benchmark: Benchmark) -> str:
    """A few lines to print: what the data is, what is predicted, how that was inferred, and what was odd."""
    b, task = benchmark, benchmark.task
    sets = list(b.splits().values())
    shared = sets[0].x is sets[1].x
    graphs = sets[:1] if shared else sets
    count = sum(len(g) for g in graphs)
    nodes, edges = sum(g.num_nodes for g in graphs), sum(g.num_edges for g in graphs)
    unit = f"{task.level}s in {counted(count, 'shared graph')}" if shared else "graphs"
    rows = ", ".join(f"{count_rows(g) if shared else len(g):,} {name}" for name, g in b.splits().items())
    lines = [f"{b.name} ({b.source})", f"{unit}: {rows}", f"nodes: {nodes:,}; edges: {edges:,}", *_task_lines(task)]
    for name in ("edge_attr", "pos"):
        value = getattr(b.train, name)
        if value is not None:
            lines.append(f"{name}: {counted(value[:1].numel(), 'column')}, kept but not used")
    reasons = b.encoding.reasons if b.encoding else ()
    return "\n".join([*lines, *(f"inferred: {r}" for r in reasons), *(f"note: {n}" for n in b.notes)])


def _task_lines(task: Task) -> list[str]:
    outputs = f"{task.num_outputs} classes" if task.kind == "classification" else counted(task.num_outputs, "target")
    if task.labels:
        outputs += f" ({', '.join(task.labels[:8])}{', ...' if len(task.labels) > 8 else ''})"
    inputs = f"categories {task.categories}" if task.categories else f"{task.in_channels} continuous features"
    if task.structure:
        inputs += f"; of the graph: {', '.join(task.structure)}"
    judged = f"loss {task.loss}; metric {UNITS[task.metric]}"
    readout = f"; readout {task.readout}" if task.level == "graph" else ""
    lines = [
        f"task: {task.level} {task.kind}, {outputs}; {judged}{readout}",
        f"input: {inputs}",
    ]
    if any(s != 1 for s in task.scale):
        shown = ", ".join(f"{c:.4g} ± {s:.4g}" for c, s in list(zip(task.center, task.scale, strict=False))[:4])
        lines.append(f"targets: trained standardised by train ({shown}), reported in their own unit")
    return lines
