"""The tables, made from finished runs: the columns of each, and the sentences below it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from gnas.arch.genotype import Genotype
from gnas.arch.operation import AGGREGATORS, PAPER_AGGREGATORS
from gnas.data.benchmarks import find_facts
from gnas.model.task import decimals
from gnas.paper.catalogue import (
    ENTRIES,
    SEARCHED_DEPTH,
    TITLES,
    Request,
    list_depth_runs,
    list_entries,
    standard_run,
    strategies_run,
)
from gnas.paper.lines import NOT_RUN, Line, LineResult, count_printed_digits, make_line, select_genotypes
from gnas.paper.results import Results
from gnas.paper.runs import DATASETS, DataRun
from gnas.run.table import NONE, Column, Table, show_count
from gnas.run.words import duration, format_metric, format_spread, label_metric

Failures = Mapping[str, str]  # reason by the key of a run
SETTLES = (12, 14)  # the paper: Algorithm 1 ends between these depths on ZINC
OPERATIONS = ("sum", "mean", "max", "no aggregation", "sparse", "dense", "identity")


@dataclass(frozen=True)
class PaperTable:
    """A table with its heading and notes. ``missing`` names rows that were not run, by their place."""

    table: Table[Any]
    heading: str = ""
    notes: tuple[str, ...] = ()
    missing: Mapping[int, str] = field(default_factory=dict)

    def to_markdown(self, complete: bool = True) -> str:
        """Markdown. Unless ``complete``, rows that were not run are only named below the table."""
        skipped = {} if complete else self.missing
        table = replace(self.table, rows=[row for place, row in enumerate(self.table.rows) if place not in skipped])
        notes = [*self.notes]
        notes += [f"Not run: {', '.join(dict.fromkeys(skipped.values()))}."] if skipped else []
        lines = [f"**{self.heading}**", ""] if self.heading else []
        if table.rows or complete:
            lines += [table.to_markdown(), *([""] if notes else [])]
        return "\n".join([*lines, *notes]) + "\n"

    def records(self) -> list[dict[str, Any]]:
        """All values of each row, by the headings of the CSV file."""
        return [{column.csv_heading: column.value_of(row) for column in self.table.columns} for row in self.table.rows]


def to_csv(tables: Sequence[PaperTable]) -> str:
    """The rows of some tables as one CSV file."""
    records = [record for table in tables for record in table.records()]
    names = dict.fromkeys(name for record in records for name in record)
    return Table.from_records(names, records).to_csv()


def make_tables(item: str, request: Request, results: Results, failed: Failures) -> list[PaperTable]:
    """The tables of one item of the catalogue."""
    if item not in ENTRIES:
        return MAKERS[item](request, results, failed)
    lines = [make_line(entry, request, results, failed) for entry in list_entries(item, request)]
    datasets = dict.fromkeys(line.entry.dataset for line in lines)
    return [compare_lines(name, [line for line in lines if line.entry.dataset == name], request) for name in datasets]


# -- paper and ours side by side -----------------------------------------------------------------------------------------


def compare_lines(dataset: str, lines: Sequence[Line], request: Request) -> PaperTable:
    """The lines of one dataset: paper, ours and the difference."""
    source = request.scale.sources[dataset]
    other = "" if source.name == dataset else f" (run on {source.folder}: not comparable with the paper)"
    devices = sorted({line.result.device for line in lines if line.result is not None and line.result.device})
    places = enumerate(lines)
    return PaperTable(
        Table(line_columns(lines, request), lines),
        f"{TITLES[dataset]}{other}",
        (f"Ours on {', '.join(devices)}.",) if devices else (),
        {place: f"{TITLES[line.entry.model]} ({line.entry.depth})" for place, line in places if not line.is_run},
    )


def line_columns(lines: Sequence[Line], request: Request) -> list[Column[Line]]:
    """The columns of a table that compares with the paper. Some are in the CSV file only."""
    metric = lines[0].entry.metric_name
    no_train = all(line.entry.train_metric is None for line in lines)

    def our_column(name: str, key: str, show: Callable[[Any], str] = str, **more: Any) -> Column[Line]:
        return Column("ours", lambda line: getattr(line.result, name, None), show, key=key, **more)

    def paper(heading: str, name: str, text: Callable[[Line], str], **more: Any) -> Column[Line]:
        return Column(heading, lambda line: getattr(line.entry, name), text=text, key=f"paper_{name}", **more)

    def hidden(key: str, value: Callable[[Line], Any]) -> Column[Line]:
        return Column(key, value, csv_only=True)

    return [
        hidden("table", lambda line: line.entry.table),
        hidden("dataset", lambda line: line.entry.dataset),
        Column("model", lambda line: line.entry.model, lambda name: TITLES[name], strong=_is_searched),
        Column("depth", lambda line: line.entry.depth, text=lambda line: _show_depth(line, request)),
        paper("weights, paper", "budget", lambda line: f"{line.entry.budget / 1e6:.2f}M"),
        replace(our_column("weights", "weights", show_count), name="weights, ours"),
        paper(
            f"test {label_metric(metric)}, paper",
            "metric",
            lambda line: _printed(line, line.entry.metric, line.entry.std),
        ),
        our_column("mean", "ours_metric", text=_show_metric),
        Column("difference", "difference", text=_show_difference),
        paper(
            f"train {label_metric(metric)}, paper",
            "train_metric",
            lambda line: _printed(line, line.entry.train_metric),
            csv_only=no_train,
        ),
        our_column("train", "ours_train_metric", lambda value: format_metric(metric, value), csv_only=no_train),
        paper("search, paper", "search_hours", lambda line: _show_hours(line.entry.search_hours)),
        our_column("search_seconds", "search_seconds", duration),
        paper("training, paper", "train_hours", lambda line: _show_hours(line.entry.train_hours)),
        our_column("seconds", "seconds", duration),
        Column("remark", "state", text=lambda line: _remark(line, request)),
        hidden("as_good_or_better", lambda line: line.is_better),
        hidden("paper_std", lambda line: line.entry.std),
        our_column("std", "ours_std", csv_only=True),
        our_column("depth", "ours_depth", csv_only=True),
        *(our_column(name, name, csv_only=True) for name in ("seeds", "val", "cells", "epochs", "device", "run")),
        *(our_column(name, name, csv_only=True) for name in ("chosen_from", "lag")),
    ]


def _is_searched(line: Line) -> bool:
    return line.entry.model in ("gnas", "algorithm-1")


def _show_depth(line: Line, request: Request) -> str:
    here = request.scale.depth(line.entry.depth)
    if line.entry.model == "algorithm-1":
        return f"from {here}" + ("" if line.result is None else f", found {line.result.cells}")
    return str(here) if here == line.entry.depth else f"{here} (paper {line.entry.depth})"


def _printed(line: Line, value: float | None, std: float | None = None) -> str:
    """A metric with the digits of the paper."""
    digits = count_printed_digits(line.entry.metric_name)
    return NONE if value is None else f"{value:.{digits}f}" + ("" if std is None else f" ± {std:.{digits}f}")


def _show_metric(line: Line) -> str:
    result = line.result
    return NONE if result is None else format_spread(line.entry.metric_name, result.mean, result.std, result.seeds)


def _show_difference(line: Line) -> str:
    if line.difference is None:
        return NONE
    return f"{line.difference:+.{decimals(line.entry.metric_name)}f} {'better' if line.is_better else 'worse'}"


def _show_hours(value: float | None) -> str:
    return NONE if value is None else f"{value:g} h"


def _remark(line: Line, request: Request) -> str:
    words = [line.state] if line.state else []
    if line.entry.model == "algorithm-1":
        words.append("paper: its best network, 12 cells")
    return "; ".join(words + ([] if line.result is None else _remarks_on(line.result, line, request)))


def _remarks_on(result: LineResult, line: Line, request: Request) -> list[str]:
    words = []
    if result.chosen_from > 1:
        words.append(f"best of {result.chosen_from} networks by validation: {result.run}")
    elif result.run != Path(standard_run(line.entry, request).folder).name:
        words.append(result.run)
    if result.cells is not None and result.depth != result.cells:
        words.append(f"{result.depth} of {result.cells} cells aggregate")
    return [*words, result.lag] if result.lag else words


# -- the other tables ----------------------------------------------------------------------------------------------------


def datasets_table(request: Request, results: Results, failed: Failures) -> list[PaperTable]:
    """Graphs and nodes of the datasets."""
    rows, notes = [], []
    for name in (name for name in DATASETS if not request.datasets or name in request.datasets):
        facts, run = find_facts(name), DataRun(request.scale.sources[name])
        data = results.find_data(run)
        row: dict[str, Any] = {"dataset": name, "task": f"{facts.task.level} {facts.task.kind}"}
        row |= {"paper_graphs": sum(facts.graphs), "paper_nodes": f"{facts.smallest}-{facts.largest}"}
        rows.append(row | {"paper_total": facts.nodes} | ({} if data is None else _count_nodes(data)))
        notes.append(f"- {TITLES[name]}: {_why_missing(run.key, failed) if data is None else data['source']}")
    columns = [Column[Any]("dataset", "dataset", lambda name: TITLES[name]), Column[Any]("task", "task")]
    for heading, key in (("graphs", "graphs"), ("nodes", "nodes"), ("total nodes", "total")):
        show = show_count if key != "nodes" else lambda value: value or NONE
        columns += [Column(f"{heading}, paper", f"paper_{key}", show), Column("ours", f"ours_{key}", show)]
    return [PaperTable(Table(columns, rows), notes=tuple(notes))]


def _count_nodes(data: Mapping[str, Any]) -> dict[str, Any]:
    splits = list(data["splits"].values())
    low, high = min(one["nodes_min"] for one in splits), max(one["nodes_max"] for one in splits)
    graphs, total = (sum(one[name] for one in splits) for name in ("graphs", "nodes"))
    return {"ours_graphs": graphs, "ours_nodes": f"{low}-{high}", "ours_total": total}


def _why_missing(key: str, failed: Failures) -> str:
    return f"failed: {failed[key]}" if key in failed else NOT_RUN


def operations_tables(request: Request, results: Results, failed: Failures) -> list[PaperTable]:
    """Operations that reach an output, by dataset; and the paper's findings checked on them."""
    genotypes = select_genotypes(request, results)
    counts = {name: count_operations(genotype) for name, genotype in genotypes.items()}
    rows = [{"dataset": name, **{op: count[op] for op in OPERATIONS}} for name, count in counts.items()]
    columns = [Column[Any]("dataset", "dataset", lambda name: TITLES[name])]
    columns += [Column(name, name) for name in OPERATIONS]
    missing = [n for n in DATASETS if n not in genotypes and (not request.datasets or n in request.datasets)]
    notes = (
        "Links that reach the output of their cell, in the network of "
        f"{SEARCHED_DEPTH} cells that the tables show; 'no aggregation' is identity on level 2.",
        *((f"Not searched: {', '.join(TITLES[name] for name in missing)}.",) if missing else ()),
    )
    words = {True: "holds", False: "does not hold", None: "not searched"}
    verdicts = check_findings(genotypes)
    findings = [
        Column[Any]("the paper", "text", key="finding"),
        Column[Any]("here", "holds", lambda holds: words[holds], align="left"),
        Column[Any]("counts", "counts"),
    ]
    unknown = {place: TITLES[one.missing[0]] for place, one in enumerate(verdicts) if one.missing}
    return [
        PaperTable(Table(columns, rows), notes=notes),
        PaperTable(Table(findings, verdicts), "What the paper says", missing=unknown),
    ]


def strategies_table(request: Request, results: Results, failed: Failures) -> list[PaperTable]:
    """Strategies on ZINC under one budget, by validation."""
    run = strategies_run(request)
    comparison = results.find_strategies(run)
    if comparison is None:
        return [PaperTable(Table.from_records(("strategy",), ()), notes=(f"{_why_missing(run.key, failed)}.",))]
    return [PaperTable(comparison.table(), notes=(comparison.rule,))]


def depth_table(request: Request, results: Results, failed: Failures) -> list[PaperTable]:
    """Where Algorithm 1 ends, by the depth it starts with."""
    rows: list[dict[str, Any]] = []
    for run in list_depth_runs(request):
        end, first = results.find_search(run), results.find_first_depth(run)
        result = {} if end is None else end.result
        why = _why_missing(run.key, failed)
        state = "" if end else "not ended" if why == NOT_RUN and first is not None else why
        way = " → ".join(map(str, result.get("trajectory", ())))
        known = {"depth": result.get("depth"), "seconds": result.get("seconds")}
        rows.append({"start": run.start, "first": first, "way": way or None, **known, "state": state})
    columns: list[Column[Any]] = [
        Column("initial depth", "start"),
        Column("depth of the first search", "first"),
        Column("round by round", "way"),
        Column("depth found", "depth"),
        Column("searches", "seconds", duration),
        Column("remark", "state"),
    ]
    missing = {place: str(row["start"]) for place, row in enumerate(rows) if row["state"] == NOT_RUN}
    notes = (_describe_end(rows),) if request.scale.weights == 1 else ()
    return [PaperTable(Table(columns, rows), notes=notes, missing=missing)]


def _describe_end(rows: Sequence[Mapping[str, Any]]) -> str:
    low, high = SETTLES
    late = [row["depth"] for row in rows if row["depth"] is not None and row["start"] > low]
    here = f"here these runs end between {min(late)} and {max(late)}" if late else "none of these was run here"
    return f"In the paper, starts with more than {low} cells end between {low} and {high} cells; {here}."


MAKERS: dict[str, Callable[[Request, Results, Failures], list[PaperTable]]] = {
    "table-datasets": datasets_table,
    "table-operations": operations_tables,
    "table-depth": depth_table,
    "table-strategies": strategies_table,
}


# -- which operations are used, and whether the findings of the paper hold for ours -----------------------------------

Counts = Mapping[str, Counter[str]]


def count_operations(genotype: Genotype) -> Counter[str]:
    """Uses of each operation by links that reach the output of a cell; identity on level 2 is ``no aggregation``."""
    counts: Counter[str] = Counter()
    for cell in genotype:
        live = cell.live()
        for link in cell.links:
            if link.target in live and link.operation != "skip":
                is_identity = cell.level(link.target) == 2 and link.operation not in AGGREGATORS
                counts["no aggregation" if is_identity else link.operation] += 1
    return counts


@dataclass(frozen=True)
class Finding:
    """A sentence of the paper, the datasets it is about, and the check of it on counts by dataset."""

    text: str
    datasets: tuple[str, ...]
    holds: Callable[[Counts], bool]


@dataclass(frozen=True)
class Verdict:
    """A checked finding. ``holds`` is None if one of its datasets was not searched (``missing``)."""

    text: str
    holds: bool | None
    counts: str
    missing: tuple[str, ...] = ()


def check_findings(genotypes: Mapping[str, Genotype]) -> list[Verdict]:
    """Check every finding of the paper on these genotypes."""
    counts = {dataset: count_operations(genotype) for dataset, genotype in genotypes.items()}
    names = (*PAPER_AGGREGATORS, "sparse", "dense", "identity")
    verdicts = []
    for one in list_findings():
        missing = tuple(name for name in one.datasets if name not in counts)
        shown = {d: " ".join(f"{name} {counts[d][name]}" for name in names) for d in one.datasets if d in counts}
        words = "; ".join(f"{dataset}: {text}" for dataset, text in shown.items())
        verdicts.append(Verdict(one.text, None if missing else one.holds(counts), words, missing))
    return verdicts


def list_findings() -> Iterator[Finding]:
    """What the paper says of the operations that are chosen."""
    for dataset, name in (("mnist", "max"), ("cifar10", "max"), ("pattern", "sum"), ("cluster", "sum")):
        text = f"{name} is the aggregator chosen most often on {TITLES[dataset]}"
        yield Finding(text, (dataset,), partial(_is_most_frequent, dataset, name))
    yield Finding(
        "both sum and max are chosen on ZINC", ("zinc",), lambda c: min(c["zinc"]["sum"], c["zinc"]["max"]) > 0
    )
    for dataset in DATASETS:
        text = f"mean is not chosen on {TITLES[dataset]}"
        yield Finding(text, (dataset,), lambda counts, dataset=dataset: counts[dataset]["mean"] == 0)  # type: ignore[misc]
    for dataset in ("pattern", "cluster"):
        text = f"dense filters are chosen less often than sparse ones on {TITLES[dataset]}"
        yield Finding(text, (dataset,), partial(_is_rarer, (dataset, "dense"), (dataset, "sparse")))
    text = "dense filters are chosen more often on CIFAR10 than on MNIST"
    yield Finding(text, ("cifar10", "mnist"), partial(_is_rarer, ("mnist", "dense"), ("cifar10", "dense")))


def _is_most_frequent(dataset: str, name: str, counts: Counts) -> bool:
    """Whether one aggregator is used more often than each of the others."""
    return all(counts[dataset][name] > counts[dataset][other] for other in PAPER_AGGREGATORS if other != name)


def _is_rarer(one: tuple[str, str], other: tuple[str, str], counts: Counts) -> bool:
    """Whether an operation of a dataset is used less often than another one, each as (dataset, operation)."""
    return counts[one[0]][one[1]] < counts[other[0]][other[1]]
