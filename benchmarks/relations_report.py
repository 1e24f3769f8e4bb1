"""The tables of relations.py in docs/results.md, made from its rows."""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from gnas.files import write_atomic
from gnas.model.metrics import decimals

METRICS = {"zinc": "mae", "cifar10": "accuracy"}
SEEDS = 4  # rows of fewer are not shown
MARK = re.compile(r"(<!-- relations: (\w+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
HEAD = "| network | cell | cells | epochs | rate, dropout | weights | validation | test |\n|---|---|---:|---:|---|---:|---:|---:|"

Row = Mapping[str, str]


def fill_page(page: Path, rows: Sequence[Row]) -> None:
    """Write the tables between ``<!-- relations: DATASET -->`` and ``<!-- end -->``; the rest of the page stays."""
    text = page.read_text(encoding="utf-8")
    if not MARK.search(text):
        raise SystemExit(f"{page}: no part between <!-- relations: zinc --> and <!-- end -->")
    write_atomic(page, fill(text, rows))


def fill(text: str, rows: Sequence[Row]) -> str:
    """The page with its tables."""
    return MARK.sub(lambda match: f"{match[1]}\n{make_section(match[2], rows)}\n{match[4]}", text)


def make_section(dataset: str, rows: Sequence[Row]) -> str:
    """The table of a dataset, best on validation first, and what it says of the found network."""
    shown = select(dataset, rows)
    if not shown:
        return f"No row of {SEEDS} seeds yet: `python benchmarks/relations.py --dataset {dataset}`.\n"
    lines = [HEAD, *(make_line(row) for row in shown)]
    return "\n".join([*lines, "", *(f"- {one}" for one in verdicts(shown)), ""])


def select(dataset: str, rows: Sequence[Row]) -> list[Row]:
    """The rows to show: the latest of each network and number of epochs, by epochs and then by validation."""
    latest = {
        (row["network"], row["epochs"]): row
        for row in rows
        if row["dataset"] == dataset and len(row["tests"].split()) >= SEEDS
    }
    sign = -1 if METRICS[dataset] == "accuracy" else 1
    return sorted(latest.values(), key=lambda row: (int(row["epochs"]), sign * float(row["val"])))


def make_line(row: Row) -> str:
    """One row of the table."""
    mean, deviation, digits = *spread(row), digits_of(row)
    cell = row["cell"].replace("|", "\\|")
    formula, _, around = cell.rpartition("]")
    return (
        f"| {name_of(row)} | `{formula}]`{around} | {row['cells']} | {row['epochs']} | {float(row['lr']):g}, "
        f"{float(row['dropout']):g} | {int(row['weights']):,} | {show(float(row['val']), digits)} | "
        f"{show(mean, digits)} ± {show(deviation, digits)} |"
    )


def name_of(row: Row) -> str:
    return f"**{row['network']}**" if row["kind"] == "found" else f"`{row['network']}`"


def verdicts(shown: Sequence[Row]) -> list[str]:
    """For each number of epochs, the found network that is best on validation beside every other network, on test."""
    found = []
    for epochs in dict.fromkeys(row["epochs"] for row in shown):
        same = [row for row in shown if row["epochs"] == epochs]
        ours = next((row for row in same if row["kind"] == "found"), None)  # they are in order
        others = [row for row in same if row["kind"] != "found"]
        if ours is not None and others:
            parts = ", ".join(compare(ours, one) for one in others)
            found.append(f"{epochs} epochs, test: {ours['network']} is {parts}.")
    return found


def compare(ours: Row, other: Row) -> str:
    """Better than, level with or worse than the other network, with the difference and its standard error over the seeds.

    Two networks are level if their means differ by no more than one standard error.
    """
    (mean, deviation), (theirs, other_deviation), digits = spread(ours), spread(other), digits_of(ours)
    seeds = [len(row["tests"].split()) for row in (ours, other)]
    error = (deviation**2 / (seeds[0] - 1) + other_deviation**2 / (seeds[1] - 1)) ** 0.5
    gain = (mean - theirs) * (1 if METRICS[ours["dataset"]] == "accuracy" else -1)
    word = "level with" if abs(gain) <= error else "better than" if gain > 0 else "worse than"
    return f"{word} `{other['network']}` ({show(abs(gain), digits)} ± {show(error, digits)})"


def spread(row: Row) -> tuple[float, float]:
    """Mean and standard deviation of the test figures."""
    tests = [float(one) for one in row["tests"].split()]
    return float(row["test"]), statistics.pstdev(tests)  # the mean of all digits


def digits_of(row: Row) -> int:
    return decimals(METRICS[row["dataset"]])


def show(value: float, digits: int) -> str:
    """A figure without the zero in front of its point."""
    return f"{value:.{digits}f}".removeprefix("0")
