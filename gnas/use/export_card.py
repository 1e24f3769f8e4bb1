"""The model card of an exported network: what it is, how good it is, how to use it."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from gnas.arch.architecture import describe_stack
from gnas.arch.genotype import Genotype
from gnas.data.encoding import CLIP, Column, Encoding, Feature, format_list
from gnas.model.export_code import Exportable, escape_text
from gnas.model.export_input import InputCode
from gnas.model.network import Network
from gnas.model.task import UNITS, Task, decimals
from gnas.printed import format_count
from gnas.run.models import TrainedInfo, choose_seed
from gnas.run.table import Table

TORCH = "2.11"  # the lowest version that runs exported code, as in pyproject.toml


def write_model_card(network: Exportable, info: TrainedInfo, versions: Mapping[str, str]) -> str:
    """The text of README.md."""
    sections = [
        f"# A graph neural network for {escape_text(info.dataset)}",
        f"{_origin(network)}, trained and exported by gnas {versions['gnas']}.",
        Table.from_tuples(("what", "value"), _facts(network, info)).to_markdown(),
        "## The network",
        _network(network),
        "## How to use it",
        _usage(network),
        "## What it reads",
        *_inputs(network, info.encoding),
        *(["## Seeds", _seeds(network.task, info)] if info.results else []),
        "## Versions",
        Table.from_tuples(("package", "version"), versions.items()).to_markdown(),
    ]
    return "\n\n".join(sections) + "\n"


def _origin(network: Exportable) -> str:
    made = network.architecture
    if made is not None and made.kind == "baseline":
        return f"The hand-made network {made.name}"
    return "Found by architecture search from message passing"


def describe_origin(network: Exportable) -> str:
    """Where a network comes from, for the first line of its module."""
    made = network.architecture
    return f"{made.name} trained by gnas" if made is not None and made.kind == "baseline" else "found by gnas"


def _facts(network: Exportable, info: TrainedInfo) -> list[tuple[str, str]]:
    task, made = network.task, network.genotype if isinstance(network, Network) else network.architecture
    better = "higher" if task.higher_is_better else "lower"
    facts = [("dataset", escape_text(info.dataset)), ("task", describe_task(task, outputs=True))]
    tests = [result.test for result in info.results.values()]
    if tests:
        spread = (
            f" ± {_shown(task, statistics.pstdev(tests))} over {len(tests)} seeds" if len(tests) > 1 else ", one seed"
        )
        mean = _shown(task, statistics.fmean(tests))
        facts.append((f"test {UNITS[task.metric]}", f"{mean}{spread} ({better} is better)"))
    if info.seed in info.results:
        mine = info.results[info.seed]
        val, test = _shown(task, mine.val), _shown(task, mine.test)
        best = " (best on validation)" if info.seed == choose_seed(info.results) else ""
        facts.append(("these weights", f"seed {info.seed}{best}: validation {val}, test {test}"))
    facts.append(("width", f"{network.channels} channels, {network.num_weights():,} weights"))
    if isinstance(made, Genotype):
        facts.append(("message-passing depth", f"{made.depth()} of {len(made)} cells aggregate"))
        facts.append(("genotype", f"{made.id}, variant {made.variant}"))
    elif made is not None:
        facts.append(("layers", f"{made.depth()}"))
    return facts


def describe_task(task: Task, outputs: bool = False) -> str:
    """The task in words, such as ``graph regression``; with the number of its outputs if there are several."""
    if task.level == "link":
        return "link prediction"
    nouns = {"classification": "classes", "regression": "targets", "multilabel": "labels"}
    several = f", {task.num_outputs} {nouns[task.kind]}" if outputs and task.num_outputs > 1 else ""
    return f"{task.level} {task.kind}{several}"


def _shown(task: Task, value: float) -> str:
    return f"{value:.{decimals(task.metric)}f}"


def _network(network: Exportable) -> str:
    if not isinstance(network, Network):
        text = " ".join((type(network).__doc__ or "").partition("\n\n")[0].split())
        return f"{escape_text(text)} `model.py` has its layers."
    lines = [f"cell {k}: {text}" for k, text in enumerate(network.genotype.formulas(), start=1)]
    around = describe_stack(network.genotype)
    lines += [f"around: {around}"] if around else []
    note = "The operation inside is applied first, branches stand between bars, equal numbers mark one shared node."
    return "```text\n" + "\n".join(lines) + f"\n```\n\n{note}"


def _usage(network: Exportable) -> str:
    task = network.task
    more = "".join(f", batch.{name}" for name in InputCode.of(network).names())
    row = f"one row for each {'pair' if task.level == 'link' else task.level}"
    result = f"# {row}, in the target's own unit" if task.kind == "regression" else f"# logits, {row}"
    lines = [
        "```python",
        "from model import load  # model.py of this folder",
        "from torch_geometric.loader import DataLoader",
        "",
        "model = load()",
        "for batch in DataLoader(graphs, batch_size=128):",
        f"    {result}",
        f"    out = model(batch.x, batch.edge_index{more})",
        "```",
    ]
    wants = f"It needs safetensors and torch {TORCH} or later; `gnas predict` reads this folder, too."
    return "\n".join(lines) + f"\n\n{wants}"


def _inputs(network: Exportable, encoding: Encoding | None) -> list[str]:
    """What each argument of the network holds."""
    task, given = network.task, InputCode.of(network)
    nodes, edges = (encoding.nodes, encoding.edges) if encoding is not None else ((), ())
    found = [_columns("x", nodes, task.categories, task.in_channels)]
    if given.edge_columns:
        found.append(_columns("edge_attr", edges, given.edge_categories, given.edge_channels))
    if given.graph_channels:
        found.append(_features(() if encoding is None else encoding.graphs, given.graph_channels))
    words = {
        "steps of walks": given.walks,
        "steps of edge walks": given.edge_walks,
        "eigenvectors of the Laplacian": given.laplacian,
    }
    computed = [f"{number} {name}" for name, number in words.items() if number]
    return found + ([f"The network computes the encodings itself: {', '.join(computed)}."] if computed else [])


def _columns(name: str, columns: Sequence[Column], categories: Sequence[int], channels: int) -> str:
    """The columns of ``x`` or ``edge_attr``."""
    if not columns:
        if categories:
            sizes = format_list(categories)
            return f"`{name}` holds {format_count(len(categories), 'column')} of categories, counted from 0: {sizes} values."
        return f"`{name}` holds {format_count(channels, 'column')} of floats."
    rows, place = [], 0
    for column in columns:
        width = column.size if column.categorical and not categories else 1
        where = str(place) if width == 1 else f"{place} to {place + width - 1}, one-hot"
        rows.append((where, escape_text(column.name), _describe(column)))
        place += width
    return Table.from_tuples((f"column of {name}", "name", "holds"), rows).to_markdown()


def _describe(column: Column) -> str:
    """What a column holds."""
    if column.kind == "degree":
        return f"the in-degree, at most {column.size - 1}"
    what = f"{column.size} categories" if column.categorical else "a number"
    if (column.center, column.scale) != (0, 1):
        what += f", as (value - {column.center!r}) / {column.scale!r}"
    named = column.values[:40] if column.kind == "vocabulary" else ()  # integers are their own numbers
    values = [f"{escape_text(str(v))} = {k}" for k, v in enumerate(named)]
    if column.kind == "integer" and column.values and column.size <= 40:
        values.append(f"{', '.join(map(str, column.values))} as they are")
    values += [f"other = {column.size - 1}"] if column.other and column.size <= 40 else []
    return what + (f": {', '.join(values)}{' ...' if column.size > 40 else ''}" if values else "")


def _features(features: Sequence[Feature], channels: int) -> str:
    """The columns of ``graph_attr``."""
    if not features:
        return f"`graph_attr` holds {format_count(channels, 'column')} of floats, one row for each graph."
    rows = [
        (str(k), escape_text(one.name), f"(value - {one.center!r}) / {one.scale!r}") for k, one in enumerate(features)
    ]
    table = Table.from_tuples(("column of graph_attr", "name", "holds"), rows).to_markdown()
    return f"{table}\n\n`graph_attr` has one row for each graph; its values are clipped at ±{CLIP:g}."


def _seeds(task: Task, info: TrainedInfo) -> str:
    rows = [
        (
            str(seed),
            _shown(task, one.val),
            _shown(task, one.test),
            "" if one.best_epoch is None else str(one.best_epoch),
        )
        for seed, one in sorted(info.results.items())
    ]
    return Table.from_tuples(("seed", f"validation {UNITS[task.metric]}", "test", "best epoch"), rows).to_markdown()
