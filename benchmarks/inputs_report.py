"""Rows of inputs.csv as text: a table of inputs beside a random forest, what it says, and a table of encodings."""

from __future__ import annotations

import shlex
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from paper_rows import trim

from gnas.model.metrics import higher_is_better
from gnas.run.words import label_metric

Row = Mapping[str, str]

MOLECULES = {  # and the metric that selects: rows of another one are not shown
    "esol": ("ESOL", "mae"),
    "freesolv": ("FreeSolv", "mae"),
    "bace": ("BACE", "roc_auc"),
    "clintox": ("ClinTox", "roc_auc"),
    "tox21": ("Tox21", "roc_auc"),
}
NETWORKS = {"gin": "GIN", "gine": "GINE", "gatedgcn": "GatedGCN"}
INPUTS = ("tokens", "element", "rich", "descriptors")
FOREST = ("descriptors", "forest")
SPLITS = 3  # fewer have no mean
EPOCHS = 100  # where a command does not say --epochs
COLUMNS = "all columns, "  # begins the input of a row of encodings
ENCODINGS = {
    "none": "none",
    "size,degree": "size, degree",
    "size,degree,walks,edge_walks": "and walks",
    "size,degree,walks,edge_walks,laplacian": "and eigenvectors",
    "auto": "`auto`",
}
SETTINGS = {"--graphs": "graphs", "--epochs": "epochs", "--batch": "batch"}  # options that rows of encodings differ in


# -- inputs beside a forest ------------------------------------------------------------------------------------------


def make_table(rows: Sequence[Row]) -> str:
    """A row for each dataset and network: the test figures of every input, and the forest; then what the table says."""
    lines = [
        "| dataset | metric | network | tokens | element | rich | descriptors | forest |",
        "|---|---|---|---:|---:|---:|---:|---:|",
    ]
    said = []
    for dataset, (title, metric) in MOLECULES.items():
        found = select(rows, dataset, metric)
        forest = found.get(FOREST, {})
        for network in ("gin", "gatedgcn"):
            figures = [show(found.get((name, network), {}), metric) for name in INPUTS]
            cells = [title, label_metric(metric), NETWORKS[network], *figures, show(forest, metric)]
            lines.append(f"| {' | '.join(cells)} |")
        said += list(compare(title, metric, found))
    said += list(describe_epochs(rows))
    return "\n".join([*lines, "", *(f"- {one}" for one in said), ""])


def select(rows: Iterable[Row], dataset: str, metric: str) -> dict[tuple[str, str], dict[str, Row]]:
    """The latest row of each input, network and split."""
    found: dict[tuple[str, str], dict[str, Row]] = {}
    for row in rows:
        if (row["dataset"], row["metric"]) == (dataset, metric) and not row["input"].startswith(COLUMNS):
            found.setdefault((row["input"], row["network"]), {})[row["split"]] = row
    return {key: splits for key, splits in found.items() if len(splits) >= SPLITS}


def describe_epochs(rows: Sequence[Row]) -> Iterator[str]:
    """How long the networks of the table were trained: usually, and where it differs."""
    epochs: dict[tuple[str, str], int] = {}  # of a dataset and an input
    for dataset, (title, metric) in MOLECULES.items():
        for (name, network), splits in select(rows, dataset, metric).items():
            if (name, network) != FOREST:
                words = shlex.split(next(iter(splits.values()))["command"])
                epochs[title, name] = int(words[words.index("--epochs") + 1]) if "--epochs" in words else EPOCHS
    if not epochs:
        return
    usual = statistics.mode(epochs.values())
    others = defaultdict(list)
    for title in dict.fromkeys(title for title, _ in epochs):
        own = {name: count for (of, name), count in epochs.items() if of == title}
        if len(set(own.values())) == 1 and usual not in own.values():
            others[next(iter(own.values()))].append(title)
        else:
            for name, count in own.items():
                if count != usual:
                    others[count].append(f"{title} with {name}")
    exceptions = "".join(f"; {', '.join(names)}: {count}" for count, names in sorted(others.items()))
    yield f"Epochs of a training: {usual}{exceptions}. The best epoch by validation counts."


def show(splits: Mapping[str, Row], metric: str) -> str:
    """Mean and standard deviation over the splits."""
    tests = [float(row["test"]) for row in splits.values()]
    digits = digits_of(metric)
    return f"{trim(statistics.fmean(tests), digits)} ± {trim(statistics.pstdev(tests), digits)}" if tests else "–"


def compare(title: str, metric: str, found: Mapping[tuple[str, str], Mapping[str, Row]]) -> Iterable[str]:
    """The network and input that validation selects, beside the forest and beside the input of version 0.1."""
    ours = {key: splits for key, splits in found.items() if key != FOREST}
    if not ours:
        return
    sign = 1 if higher_is_better(metric) else -1
    best = max(ours, key=lambda key: sign * statistics.fmean(float(row["val"]) for row in ours[key].values()))
    parts = []
    if FOREST in found:
        parts.append(f"{judge(ours[best], found[FOREST], metric)} the forest{gap(ours[best], found[FOREST], metric)}")
    before = ours.get(("tokens", best[1]))
    if before is not None and best[0] != "tokens":
        parts.append(
            f"{judge(ours[best], before, metric)} its own input of version 0.1{gap(ours[best], before, metric)}"
        )
    if parts:
        yield f"{title}: validation selects {NETWORKS[best[1]]}, {best[0]}. On test it is {' and '.join(parts)}."


def judge(ours: Mapping[str, Row], other: Mapping[str, Row], metric: str) -> str:
    """Level are means whose difference is at most its standard error over the splits."""
    gain, error = paired(ours, other, metric)
    return "level with" if abs(gain) <= error else "better than" if gain > 0 else "worse than"


def gap(ours: Mapping[str, Row], other: Mapping[str, Row], metric: str) -> str:
    gain, error = paired(ours, other, metric)
    return f" ({trim(abs(gain), digits_of(metric))} ± {trim(error, digits_of(metric))})"


def paired(ours: Mapping[str, Row], other: Mapping[str, Row], metric: str) -> tuple[float, float]:
    """The gain over another one, split by split, and its standard error."""
    sign = 1 if higher_is_better(metric) else -1
    gains = [sign * (float(ours[split]["test"]) - float(other[split]["test"])) for split in ours.keys() & other.keys()]
    return statistics.fmean(gains), statistics.stdev(gains) / len(gains) ** 0.5


def digits_of(metric: str) -> int:
    return 2 if "accuracy" in metric else 3


# -- encodings -------------------------------------------------------------------------------------------------------


def make_encodings_table(rows: Sequence[Row]) -> str:
    """A row for each dataset, training and network: validation and test of every encoding; the best by validation is bold."""
    lines = [
        f"| dataset | training | metric | network | splits | {' | '.join(ENCODINGS.values())} |",
        f"|---|---|---|---|---:|{'---:|' * len(ENCODINGS)}",
    ]
    groups: dict[tuple[str, str, str, str], dict[str, dict[str, Row]]] = {}
    for row in rows:
        if row["input"].startswith(COLUMNS):
            key = row["dataset"], describe_training(row["command"]), row["metric"], row["network"]
            groups.setdefault(key, {}).setdefault(row["input"].removeprefix(COLUMNS), {})[row["split"]] = row
    for (dataset, training, metric, network), found in groups.items():
        common = sorted(set.intersection(*(set(splits) for splits in found.values())))
        if len(found) < 2 or not common:
            continue
        means = {
            name: [statistics.fmean(float(splits[one][part]) for one in common) for part in ("val", "test")]
            for name, splits in found.items()
        }
        sign = 1 if higher_is_better(metric) else -1
        best = max(means, key=lambda name: sign * means[name][0])
        title = {"freesolv": "FreeSolv", "zinc": "ZINC"}.get(dataset, dataset)
        cells = [title, training, label_metric(metric), NETWORKS[network], str(len(common))]
        for name in ENCODINGS:
            val, test = (trim(value, digits_of(metric)) for value in means.get(name, ())) if name in means else ("", "")
            cells.append((f"**{val}**, {test}" if name == best else f"{val}, {test}") if name in means else "")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def describe_training(command: str) -> str:
    """How many graphs, how long and in which batches, as the recorded command says."""
    words = shlex.split(command)
    return ", ".join(f"{name} {words[words.index(option) + 1]}" for option, name in SETTINGS.items() if option in words)
