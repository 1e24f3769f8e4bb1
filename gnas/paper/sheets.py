"""Tables as text: Markdown to read, CSV with every figure to compute with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from gnas.data.benchmarks.catalogue import BENCHMARKS
from gnas.model.task import decimals, higher_is_better
from gnas.paper.catalogue import ENTRIES, SEARCHED_DEPTH, Wanted, depth_jobs, entries, strategies_job
from gnas.paper.findings import check, live_operations
from gnas.paper.jobs import DataJob
from gnas.paper.paper import DATASETS, TITLES
from gnas.paper.pick import picked
from gnas.paper.rows import Line, line
from gnas.paper.shelf import Shelf
from gnas.run.table import Table
from gnas.run.words import duration, format_metric, format_spread, unit

NONE = "–"


@dataclass(frozen=True)
class Sheet:
    """One table: cells as text, and ``records`` with all figures for the CSV file. ``missing`` names rows not run."""

    heading: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    records: tuple[dict[str, Any], ...]
    notes: tuple[str, ...] = ()
    missing: Mapping[int, str] = field(default_factory=dict)

    def to_markdown(self, whole: bool = True) -> str:
        """Rows that were not run are there too, or else named below the table."""
        rows = [row for place, row in enumerate(self.rows) if whole or place not in self.missing]
        left = [] if whole or not self.missing else [f"Not run: {', '.join(dict.fromkeys(self.missing.values()))}."]
        lines = [f"**{self.heading}**", ""] if self.heading else []
        if rows or whole:
            lines.append(Table.from_tuples(self.columns, rows).to_markdown())
            lines += [""] if self.notes or left else []
        return "\n".join([*lines, *self.notes, *left]) + "\n"


def to_csv(sheets: Sequence[Sheet]) -> str:
    """All records of some sheets as one file."""
    records = [record for sheet in sheets for record in sheet.records]
    names = list(dict.fromkeys(name for record in records for name in record))
    return Table.from_records(names, records).to_csv()


def sheets(item: str, wanted: Wanted, shelf: Shelf, failed: Mapping[str, str]) -> list[Sheet]:
    """The tables of one item, as the finished runs have them."""
    if item in ENTRIES:
        lines = [line(entry, wanted, shelf, failed) for entry in entries(item, wanted)]
        named = dict.fromkeys(one.entry.dataset for one in lines)
        return [compared(name, [one for one in lines if one.entry.dataset == name], wanted) for name in named]
    return MAKERS[item](wanted, shelf, failed)


# -- paper and ours side by side ---------------------------------------------------------------------------------------


def compared(dataset: str, lines: Sequence[Line], wanted: Wanted) -> Sheet:
    """Lines of one dataset: paper, ours and the difference."""
    metric, with_train = lines[0].metric, any(one.entry.train_metric is not None for one in lines)
    columns = ["model", "depth", "weights, paper", "weights, ours", f"test {unit(metric)}, paper", "ours", "difference"]
    columns += [f"train {unit(metric)}, paper", "ours"] if with_train else []
    columns += ["search, paper", "ours", "training, paper", "ours", "remark"]
    source = wanted.scale.sources[dataset]
    other = "" if source.name == dataset else f" (run on {source.folder}: not comparable with the paper)"
    devices = sorted({one.ours.device for one in lines if one.ours is not None and one.ours.device})
    notes = (f"Ours on {', '.join(devices)}.",) if devices else ()
    return Sheet(
        f"{TITLES[dataset]}{other}",
        tuple(columns),
        tuple(tuple(_cells(one, wanted, with_train)) for one in lines),
        tuple(_record(one) for one in lines),
        notes,
        {place: f"{TITLES[one.entry.model]} ({one.entry.depth})" for place, one in enumerate(lines) if _not_run(one)},
    )


def _not_run(one: Line) -> bool:
    return one.ours is None and one.state == "not run"


def _cells(one: Line, wanted: Wanted, with_train: bool) -> list[str]:
    entry, got, metric = one.entry, one.ours, one.metric
    name = TITLES[entry.model]
    cells = [f"**{name}**" if entry.model in ("gnas", "algorithm-1") else name, _depth(one, wanted)]
    cells += [f"{entry.budget / 1e6:.2f}M", NONE if got is None else f"{got.weights:,}"]
    cells += [_printed(metric, entry.metric, entry.std)]
    cells += [NONE if got is None else format_spread(metric, got.mean, got.std, got.seeds), _difference(one)]
    if with_train:
        cells += [_printed(metric, entry.train_metric, None), format_metric(metric, got.train if got else None)]
    cells += [_hours(entry.search_hours), duration(got.search_seconds if got else None)]
    cells += [_hours(entry.train_hours), duration(got.seconds if got else None)]
    return [*cells, _remark(one)]


def _depth(one: Line, wanted: Wanted) -> str:
    here = wanted.scale.depth(one.entry.depth)
    if one.entry.model == "algorithm-1":
        found = "" if one.ours is None else f", found {one.ours.cells}"
        return f"from {here}{found}"
    return str(here) if here == one.entry.depth else f"{here} (paper {one.entry.depth})"


def _printed(metric: str, value: float | None, std: float | None) -> str:
    if value is None:
        return NONE
    digits = 2 if higher_is_better(metric) else 3
    return f"{value:.{digits}f}" + ("" if std is None else f" ± {std:.{digits}f}")


def _difference(one: Line) -> str:
    if one.difference is None:
        return NONE
    return f"{one.difference:+.{decimals(one.metric)}f} {'better' if one.better else 'worse'}"


def _hours(value: float | None) -> str:
    return NONE if value is None else f"{value:g} h"


def _remark(one: Line) -> str:
    words, got = [one.state] if one.state else [], one.ours
    if one.entry.model == "algorithm-1":
        words.append("paper: its best network, 12 cells")
    if got is not None and got.chosen_from > 1:
        words.append(f"best of {got.chosen_from} networks by validation: {got.about}")
    elif got is not None and "-seed" in got.about:
        elsewhere = one.entry.model == "algorithm-1" and not got.about.startswith("depth-")
        if elsewhere or not got.about.split("-seed")[-1].isdigit():
            words.append(got.about)
    if got is not None and got.cells is not None and got.depth != got.cells:
        words.append(f"{got.depth} of {got.cells} cells aggregate")
    if got is not None and got.lag:
        words.append(got.lag)
    return "; ".join(words)


def _record(one: Line) -> dict[str, Any]:
    entry = {f"paper_{name}" if name not in _KEYS else name: value for name, value in asdict(one.entry).items()}
    got = {} if one.ours is None else asdict(one.ours)
    names = {"mean": "ours_metric", "std": "ours_std", "train": "ours_train_metric", "depth": "ours_depth"}
    told = {names.get(name, name): value for name, value in got.items()}
    return {**entry, **told, "difference": one.difference, "as_good_or_better": one.better, "state": one.state}


_KEYS = ("table", "dataset", "model", "depth")


# -- the other tables ----------------------------------------------------------------------------------------------------


def statistics_sheet(wanted: Wanted, shelf: Shelf, failed: Mapping[str, str]) -> list[Sheet]:
    """Graphs and nodes of the datasets."""
    rows, records, notes = [], [], []
    for name in DATASETS:
        if wanted.datasets and name not in wanted.datasets:
            continue
        facts, job = BENCHMARKS[name], DataJob(wanted.scale.sources[name])
        data = shelf.data(job)
        paper = {"graphs": sum(facts.graphs), "nodes": f"{facts.smallest}-{facts.largest}", "total": facts.nodes}
        got = {} if data is None else _counted(data)
        missing = f"failed: {failed[job.key]}" if job.key in failed else "not run"
        cells = [text for key in paper for text in (_count(paper[key]), _count(got.get(key)))]
        rows.append((TITLES[name], f"{facts.task.level} {facts.task.kind}", *cells))
        notes.append(f"- {TITLES[name]}: {missing if data is None else data['source']}")
        told = {f"ours_{key}": value for key, value in got.items()}
        records.append({"dataset": name, **{f"paper_{k}": v for k, v in paper.items()}, **told})
    columns = (
        "dataset",
        "task",
        "graphs, paper",
        "ours",
        "nodes, paper",
        "ours",
        "total nodes, paper",
        "ours",
    )
    return [Sheet("", columns, tuple(rows), tuple(records), tuple(notes))]


def _count(value: object) -> str:
    return NONE if value is None else f"{value:,}" if isinstance(value, int) else str(value)


def _counted(data: Mapping[str, Any]) -> dict[str, Any]:
    splits = list(data["splits"].values())
    low, high = min(one["nodes_min"] for one in splits), max(one["nodes_max"] for one in splits)
    total, graphs = sum(one["nodes"] for one in splits), sum(one["graphs"] for one in splits)
    return {"graphs": graphs, "nodes": f"{low}-{high}", "total": total}


def operations_sheets(wanted: Wanted, shelf: Shelf, failed: Mapping[str, str]) -> list[Sheet]:
    """Operations that reach an output, by dataset; and the paper's findings checked on them."""
    genotypes = {name: one for name in DATASETS if (one := picked(name, wanted, shelf)) is not None}
    names = ("sum", "mean", "max", "no aggregation", "sparse", "dense", "identity")
    counts = {name: live_operations(genotype) for name, genotype in genotypes.items()}
    rows = tuple((TITLES[name], *(str(found[op]) for op in names)) for name, found in counts.items())
    records = tuple({"dataset": name, **{op: found[op] for op in names}} for name, found in counts.items())
    missing = [TITLES[n] for n in DATASETS if n not in genotypes and (not wanted.datasets or n in wanted.datasets)]
    notes = (
        "Links that reach the output of their cell, in the network of "
        f"{SEARCHED_DEPTH} cells that the tables show; 'no aggregation' is identity on level 2.",
        *((f"Not searched: {', '.join(missing)}.",) if missing else ()),
    )
    words = {True: "holds", False: "does not hold", None: "not searched"}
    verdicts = check(genotypes)
    second = Sheet(
        "What the paper says",
        ("the paper", "here", "counts"),
        tuple((one.text, words[one.holds], one.counts) for one in verdicts),
        tuple({"finding": one.text, "holds": one.holds, "counts": one.counts} for one in verdicts),
        (),
        {place: TITLES[one.missing[0]] for place, one in enumerate(verdicts) if one.missing},
    )
    return [Sheet("", ("dataset", *names), rows, records, notes), second]


def strategies_sheet(wanted: Wanted, shelf: Shelf, failed: Mapping[str, str]) -> list[Sheet]:
    """Ways to search ZINC under one budget, by validation."""
    job = strategies_job(wanted)
    found = shelf.strategies(job)
    if found is None:
        state = f"failed: {failed[job.key]}" if job.key in failed else "not run"
        return [Sheet("", ("strategy",), (), (), (f"{state}.",))]
    records, table = tuple(asdict(row) for row in found.rows()), found.table()
    return [Sheet("", table.headings(), tuple(table.texts()), records, (found.rule,))]


def depth_sheet(wanted: Wanted, shelf: Shelf, failed: Mapping[str, str]) -> list[Sheet]:
    """Where Algorithm 1 ends, by the depth it begins with."""
    rows: list[tuple[str, ...]] = []
    records: list[dict[str, Any]] = []
    missing: dict[int, str] = {}
    for job in depth_jobs(wanted):
        one = shelf.depth(job)
        told = {} if one is None else one.result
        way = " → ".join(map(str, told.get("trajectory", ()))) or NONE
        first = shelf.first_depth(job)
        left = "not run" if first is None else "not ended"
        state = "" if one else f"failed: {failed[job.key]}" if job.key in failed else left
        if state == "not run":
            missing[len(rows)] = str(job.start)
        depth, seconds = told.get("depth"), told.get("seconds")
        rows.append((str(job.start), _count(first), way, _count(depth), duration(seconds), state))
        records.append(
            {"start": job.start, "first": first, "way": way, "depth": depth, "seconds": seconds, "state": state}
        )
    columns = ("initial depth", "depth of the first search", "round by round", "depth found", "searches", "remark")
    late = [record["depth"] for record in records if record["depth"] is not None and record["start"] > SETTLES[0]]
    here = f"here they end between {min(late)} and {max(late)}" if late else "none of those was run here"
    note = (
        f"The paper: from more than {SETTLES[0]} cells the depth settles between {SETTLES[0]} and {SETTLES[1]}; {here}."
    )
    notes = (note,) if wanted.scale.weights == 1 else ()
    return [Sheet("", columns, tuple(rows), tuple(records), notes, missing)]


SETTLES = (12, 14)  # depths of ZINC, in the paper's words
MAKERS = {
    "table-datasets": statistics_sheet,
    "table-operations": operations_sheets,
    "table-depth": depth_sheet,
    "table-strategies": strategies_sheet,
}
