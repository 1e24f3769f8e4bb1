"""The model card of an exported network: what it is, how good it is, how to use it."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from gnas.arch.architecture import describe_stack
from gnas.arch.genotype import Genotype
from gnas.data.encoding import CLIP, Column, Encoding, Feature, format_list
from gnas.model.export_code import Exportable, escape_text
from gnas.model.export_input import InputCode
from gnas.model.network import Network
from gnas.model.task import UNITS, Task
from gnas.printed import format_count
from gnas.run.models import TrainedInfo, choose_seed
from gnas.run.table import Table
from gnas.run.words import describe_direction, format_metric

TORCH = "2.11"  # the lowest version that runs exported code, as in pyproject.toml


def fill_template(name: str, **values: Any) -> str:
    """A file of an exported folder from its template."""
    environment = Environment(
        loader=PackageLoader("gnas.use", "templates"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template(f"{name}.jinja").render(values)


def describe_network(network: Exportable, info: TrainedInfo, versions: Mapping[str, str]) -> dict[str, Any]:
    """What the card of one network says: the values of its template."""
    made, task, given = network.architecture, network.task, InputCode.of(network)
    origin = "Found by architecture search from message passing"
    if made is not None and made.kind == "baseline":
        origin = f"The hand-made network {made.name}"
    genotype = network.genotype if isinstance(network, Network) else None
    words = " ".join((type(network).__doc__ or "").partition("\n\n")[0].split())
    row = f"one row for each {'pair' if task.level == 'link' else task.level}"
    return {
        "dataset": escape_text(info.dataset),
        "origin": origin,
        "versions": versions,
        "facts": Table.from_tuples(("what", "value"), _list_facts(network, info)).to_markdown(),
        "formulas": () if genotype is None else genotype.formulas(),
        "around": "" if genotype is None else describe_stack(genotype),
        "words": escape_text(words),
        "names": given.names(),
        "result": f"{row}, in the target's own unit" if task.kind == "regression" else f"logits, {row}",
        "torch": TORCH,
        "inputs": _list_inputs(task, given, info.encoding),
        "seeds": _seeds_table(task, info) if info.results else "",
        "packages": Table.from_tuples(("package", "version"), versions.items()).to_markdown(),
    }


def describe_ensemble(about: str, info: TrainedInfo, versions: Mapping[str, str]) -> dict[str, Any]:
    """What the card of an ensemble says."""
    rows = [(f"member_{k}", escape_text(str(m["name"])), f"{m['weight']:.0%}") for k, m in enumerate(info.members, 1)]
    members = Table.from_tuples(("folder", "network", "weight in the vote"), rows).to_markdown()
    return {"about": about, "versions": versions, "members": members}


def describe_origin(network: Exportable) -> str:
    """Where a network comes from, for the first line of its module."""
    made = network.architecture
    return f"{made.name} trained by gnas" if made is not None and made.kind == "baseline" else "found by gnas"


def describe_task(task: Task, outputs: bool = False) -> str:
    """The task in words, such as ``graph regression``; with the number of its outputs if there are several."""
    if task.level == "link":
        return "link prediction"
    nouns = {"classification": "classes", "regression": "targets", "multilabel": "labels"}
    several = f", {task.num_outputs} {nouns[task.kind]}" if outputs and task.num_outputs > 1 else ""
    return f"{task.level} {task.kind}{several}"


def _list_facts(network: Exportable, info: TrainedInfo) -> list[tuple[str, str]]:
    task, made = network.task, network.genotype if isinstance(network, Network) else network.architecture
    facts = [("dataset", escape_text(info.dataset)), ("task", describe_task(task, outputs=True))]
    tests = [result.test for result in info.results.values()]
    if tests:
        spread = f" ± {format_metric(task.metric, statistics.pstdev(tests))} over {len(tests)} seeds"
        mean = format_metric(task.metric, statistics.fmean(tests)) + (spread if len(tests) > 1 else ", one seed")
        facts.append((f"test {UNITS[task.metric]}", f"{mean} ({describe_direction(task.metric)})"))
    if info.seed in info.results:
        mine = info.results[info.seed]
        val, test = format_metric(task.metric, mine.val), format_metric(task.metric, mine.test)
        best = " (best on validation)" if info.seed == choose_seed(info.results) else ""
        facts.append(("these weights", f"seed {info.seed}{best}: validation {val}, test {test}"))
    facts.append(("width", f"{network.channels} channels, {network.num_weights():,} weights"))
    if isinstance(made, Genotype):
        facts.append(("message-passing depth", f"{made.depth()} of {len(made)} cells aggregate"))
        facts.append(("genotype", f"{made.id}, variant {made.variant}"))
    elif made is not None:
        facts.append(("layers", f"{made.depth()}"))
    return facts


def _list_inputs(task: Task, given: InputCode, encoding: Encoding | None) -> list[str]:
    """What each argument of the network holds."""
    nodes, edges, graphs = (encoding.nodes, encoding.edges, encoding.graphs) if encoding is not None else ((), (), ())
    found = [_columns_table("x", nodes, task.categories, task.in_channels)]
    if given.edge_columns:
        found.append(_columns_table("edge_attr", edges, given.edge_categories, given.edge_channels))
    if given.graph_channels:
        found.append(_features_table(graphs, given.graph_channels))
    words = {
        "steps of walks": given.walks,
        "steps of edge walks": given.edge_walks,
        "eigenvectors of the Laplacian": given.laplacian,
    }
    computed = ", ".join(f"{number} {name}" for name, number in words.items() if number)
    return found + ([f"The network computes the encodings itself: {computed}."] if computed else [])


def _columns_table(name: str, columns: Sequence[Column], categories: Sequence[int], channels: int) -> str:
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
        rows.append((where, escape_text(column.name), _describe_column(column)))
        place += width
    return Table.from_tuples((f"column of {name}", "name", "holds"), rows).to_markdown()


def _describe_column(column: Column) -> str:
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


def _features_table(features: Sequence[Feature], channels: int) -> str:
    """The columns of ``graph_attr``."""
    if not features:
        return f"`graph_attr` holds {format_count(channels, 'column')} of floats, one row for each graph."
    rows = [
        (str(k), escape_text(one.name), f"(value - {one.center!r}) / {one.scale!r}") for k, one in enumerate(features)
    ]
    table = Table.from_tuples(("column of graph_attr", "name", "holds"), rows).to_markdown()
    return f"{table}\n\n`graph_attr` has one row for each graph; its values are clipped at ±{CLIP:g}."


def _seeds_table(task: Task, info: TrainedInfo) -> str:
    metric = task.metric
    rows = [
        (str(seed), format_metric(metric, one.val), format_metric(metric, one.test), str(one.best_epoch or ""))
        for seed, one in sorted(info.results.items())
    ]
    return Table.from_tuples(("seed", f"validation {UNITS[metric]}", "test", "best epoch"), rows).to_markdown()
