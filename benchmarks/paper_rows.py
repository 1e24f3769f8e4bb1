"""The paper's ten networks beside ours, from the kept runs: the rows of the second table of docs/results.md.

A search that was made again with newer code replaces the older one of the same seed and settings. Of the networks that fit a row,
validation selects.
"""

from __future__ import annotations

import json
import shlex
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

from gnas.model.metrics import decimals, higher_is_better
from gnas.paper import Request, Results
from gnas.paper.catalogue import TITLES, Entry, read_published, train_run
from gnas.paper.lines import choose_network, count_printed_digits, list_eligible_networks
from gnas.paper.results import TrainedNetwork
from gnas.paper.runs import SEEDS
from gnas.run.settings import find_setting

RESULTS = Path(__file__).parent / "results"
PLACES = (RESULTS / "repeated", RESULTS)  # newer searches first
OPTIONS = (
    "--only",
    "--datasets",
    "--methods",
    "--depths",
    "--searches",
    "--seeds",
    "--set",
)  # the others say where, not what
HEAD = (
    "| dataset | cells | paper | gnas, the paper's input | weights | over searches | with size and degree | weights |\n"
    "|---|---:|---:|---:|---:|---:|---:|---:|"
)


@dataclass(frozen=True)
class OurNetwork:
    """The network that stands in a row: its test metric over the training seeds, and the command that found and trained it."""

    mean: float
    std: float
    seeds: int
    weights: int
    command: str
    date: str
    searches: tuple[float, ...]  # test means of all searches that differ in the seed alone


@dataclass(frozen=True)
class PaperRow:
    """One network of the paper, ours with the paper's space and input, and ours that also reads size and degree."""

    entry: Entry
    plain: OurNetwork | None
    wider: OurNetwork | None

    @property
    def title(self) -> str:
        return TITLES[self.entry.dataset]


@cache
def read_paper_rows() -> tuple[PaperRow, ...]:
    """All ten rows."""
    results = Results(PLACES)
    entries = [one for one in read_published() if one.model == "gnas"]
    order = ["zinc", "pattern", "cluster", "mnist", "cifar10"]
    entries.sort(key=lambda one: (order.index(one.dataset), one.depth))
    return tuple(_read_row(entry, results) for entry in entries)


def _read_row(entry: Entry, results: Results) -> PaperRow:
    found: dict[str, TrainedNetwork] = {}
    for one in list_eligible_networks(train_run(entry, Request()), results):
        found.setdefault(one.run, one)
    own_space = [one for one in found.values() if "-aggregators" not in one.run]
    return PaperRow(
        entry,
        _select([one for one in own_space if "-structure" not in one.run], entry, results),
        _select([one for one in found.values() if "-structure" in one.run], entry, results),
    )


def _select(networks: Sequence[TrainedNetwork], entry: Entry, results: Results) -> OurNetwork | None:
    """The best network by validation, among those with the most seeds."""
    most = max((len(one.results) for one in networks), default=0)
    complete = [one for one in networks if len(one.results) == most]
    if not complete:
        return None
    best = choose_network(complete, entry.metric_name)
    alike = [one for one in complete if _without_seed(one.run) == _without_seed(best.run)]
    folders = results.run_folders(f"{entry.dataset}/{best.run}")
    recorded = next(json.loads(file.read_text()) for one in folders if (file := one / "command.json").exists())
    tests = _tests(best)
    return OurNetwork(
        statistics.fmean(tests),
        statistics.pstdev(tests),
        len(tests),
        best.num_weights,
        _clean(recorded["command"]),
        recorded["date"],
        tuple(statistics.fmean(_tests(one)) for one in alike),
    )


def _tests(network: TrainedNetwork) -> list[float]:
    return [one.test for one in network.results.values()]


def _without_seed(run: str) -> str:
    return "-".join(word for word in run.split("-") if not (word.startswith("seed") and word[4:].isdigit()))


def _clean(command: str) -> str:
    """A recorded command without what says where it ran, and with the names that settings have today."""
    words = shlex.split(command)
    pairs = [(option, value) for option, value in pairwise(words) if option in OPTIONS]
    pairs = [(option, _name_today(value) if option == "--set" else value) for option, value in pairs]
    pairs = [pair for pair in pairs if pair != ("--seeds", ",".join(map(str, SEEDS)))]
    pairs.sort(key=lambda pair: OPTIONS.index(pair[0]))
    return shlex.join(["gnas", "reproduce", *(word for pair in pairs for word in pair)])


def _name_today(setting: str) -> str:
    name, _, value = setting.partition("=")
    return f"{find_setting(name)}={value}"


# -- text ------------------------------------------------------------------------------------------------------------


def make_table(rows: Iterable[PaperRow]) -> str:
    """The table, and the command of each row below it."""
    rows = list(rows)
    lines = [HEAD, *(_make_line(row) for row in rows), "", *_notes(rows), "", "The commands:", "", "```sh"]
    for row in rows:
        for network, kind in ((row.plain, "the paper's input"), (row.wider, "with size and degree")):
            if network is not None:
                lines += [f"# {row.title}, {row.entry.depth} cells, {kind}, {network.date}", network.command]
    return "\n".join([*lines, "```", ""])


def _make_line(row: PaperRow) -> str:
    cells = [row.title, str(row.entry.depth), show_paper(row.entry)]
    cells += [show_ours(row.plain, row.entry), _show_weights(row.plain), _show_searches(row.plain, row.entry)]
    cells += [show_ours(row.wider, row.entry), _show_weights(row.wider)]
    return f"| {' | '.join(cells)} |"


def _notes(rows: Sequence[PaperRow]) -> list[str]:
    reached = sum(is_reached(row.plain, row.entry) for row in rows)
    run = sum(row.plain is not None for row in rows)
    wider = sum(is_reached(row.wider, row.entry) for row in rows)
    ran = sum(row.wider is not None for row in rows)
    missing = [f"{row.title} {row.entry.depth}" for row in rows if row.plain is None]
    notes = [
        f"At or past the paper (bold): {reached} of {run} rows with the paper's input, {wider} of {ran} with size and degree."
    ]
    return [*notes, f"Not run with the paper's input: {', '.join(missing)}."] if missing else notes


def show_paper(entry: Entry) -> str:
    digits = count_printed_digits(entry.metric_name)
    spread = "" if entry.std is None else f" ± {trim(entry.std, digits)}"
    return "" if entry.metric is None else f"{trim(entry.metric, digits)}{spread}"


def show_ours(network: OurNetwork | None, entry: Entry) -> str:
    """Mean and spread over the seeds; bold if it is at least as good as the paper's."""
    if network is None:
        return ""
    digits = count_printed_digits(entry.metric_name)
    text = f"{trim(network.mean, digits)} ± {trim(network.std, digits)}"
    text += f" ({network.seeds} seeds)" if network.seeds < len(SEEDS) else ""
    return f"**{text}**" if is_reached(network, entry) else text


def is_reached(network: OurNetwork | None, entry: Entry) -> bool:
    """Whether ours is at least as good as the paper's at the digits that the paper prints."""
    if network is None or entry.metric is None:
        return False
    gain = round(network.mean - entry.metric, count_printed_digits(entry.metric_name))
    return gain >= 0 if higher_is_better(entry.metric_name) else gain <= 0


def _show_weights(network: OurNetwork | None) -> str:
    return "" if network is None else f"{network.weights:,}"


def _show_searches(network: OurNetwork | None, entry: Entry) -> str:
    if network is None or len(network.searches) < 2:
        return ""
    digits = min(decimals(entry.metric_name), count_printed_digits(entry.metric_name))
    mean, std = statistics.fmean(network.searches), statistics.stdev(network.searches)
    return f"{trim(mean, digits)} ± {trim(std, digits)} ({len(network.searches)})"


def trim(value: float, digits: int) -> str:
    """A figure without the zero in front of its point."""
    return f"{value:.{digits}f}".removeprefix("0")
