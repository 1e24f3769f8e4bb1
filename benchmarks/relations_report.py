"""Networks of relations.py as text: a table for docs/results.md, what it says, and what each network is."""

from __future__ import annotations

import csv
import shlex
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from paper_rows import trim

from gnas.model.metrics import decimals
from gnas.run.words import label_metric

METRICS = {"zinc": "mae", "cifar10": "accuracy"}
TITLES = {"zinc": "ZINC", "cifar10": "CIFAR10"}
SEEDS = 4  # rows of fewer are not shown
PUBLISHED = Path(__file__).parent / "references.csv"
IGNORED = {"--device": 1, "--runs": 1, "--out": 1}  # options that say where it ran, and their number of values
HEAD = (
    "| dataset | network | cells | weights | epochs | validation | test | arguments of `relations.py` |\n"
    "|---|---|---:|---:|---:|---:|---:|---|"
)

Row = Mapping[str, str]


def make_table(rows: Sequence[Row]) -> str:
    """Our networks on every dataset, best on validation first, the published ones below them, and what the table says."""
    lines, said = [HEAD], []
    for dataset in METRICS:
        shown = select(dataset, rows)
        lines += [*map(make_line, shown), *(make_published_line(one) for one in read_published(dataset))]
        said += verdicts(shown) or [f"{TITLES[dataset]}: none of our networks has {SEEDS} seeds."]
    return "\n".join([*lines, "", *(f"- {one}" for one in said), ""])


def make_list(rows: Sequence[Row]) -> str:
    """What each network of the table is."""
    found: dict[str, str] = {}
    for dataset in METRICS:
        for row in select(dataset, rows):
            formula, _, around = row["cell"].rpartition("]")
            line = f"- {TITLES[dataset]}, {name_of(row)}: {row['cells']} cells `{formula}]`{around}"
            found.setdefault(f"{line}; rate {float(row['lr']):g}, dropout {float(row['dropout']):g}.", "")
    return "\n".join([*found, ""])


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
    """One network of ours."""
    mean, deviation, digits = *spread(row), digits_of(row)
    return (
        f"| {name_dataset(row['dataset'])} | {name_of(row)} | {row['cells']} | {int(row['weights']):,} | {row['epochs']} | "
        f"{trim(float(row['val']), digits)} | {trim(mean, digits)} ± {trim(deviation, digits)} | "
        f"`{clean(row['command'])}` |"
    )


def read_published(dataset: str) -> list[Row]:
    """What others print for a dataset."""
    with open(PUBLISHED, newline="") as file:
        return [row for row in csv.DictReader(file) if row["dataset"] == dataset]


def make_published_line(row: Row) -> str:
    """One published figure."""
    weights = f"about {int(row['weights']):,} " if row["weights"] else ""
    name = f"[{row['network']}, {row['year']}]({row['source']})"
    return f"| {name_dataset(row['dataset'])} | {name} | | {weights}| | | {row['test'].removeprefix('0')} | published |"


def name_dataset(dataset: str) -> str:
    return f"{TITLES[dataset]}, {label_metric(METRICS[dataset])}"


def name_of(row: Row) -> str:
    return f"**{row['network']}**" if row["kind"] == "found" else f"`{row['network']}`"


def clean(command: str) -> str:
    """The arguments of a recorded command, without what says where it ran."""
    words, kept = shlex.split(command)[2:], []  # python benchmarks/relations.py
    while words:
        word = words.pop(0)
        if word in IGNORED:
            del words[: IGNORED[word]]
        else:
            kept.append(word)
    return shlex.join(kept)


def verdicts(shown: Sequence[Row]) -> list[str]:
    """For each number of epochs, the found network that is best on validation beside every other network, on test."""
    found = []
    for epochs in dict.fromkeys(row["epochs"] for row in shown):
        same = [row for row in shown if row["epochs"] == epochs]
        ours = next((row for row in same if row["kind"] == "found"), None)  # they are in order
        others = [row for row in same if row["kind"] != "found"]
        if ours is not None and others:
            parts = ", ".join(compare(ours, one) for one in others)
            found.append(f"{TITLES[ours['dataset']]}, {epochs} epochs, test: {ours['network']} is {parts}.")
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
    return f"{word} `{other['network']}` ({trim(abs(gain), digits)} ± {trim(error, digits)})"


def spread(row: Row) -> tuple[float, float]:
    """Mean and standard deviation of the test figures."""
    tests = [float(one) for one in row["tests"].split()]
    return float(row["test"]), statistics.pstdev(tests)  # the mean of all digits


def digits_of(row: Row) -> int:
    return decimals(METRICS[row["dataset"]])
