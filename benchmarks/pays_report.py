"""The table and the critical-difference plot of pays.py, made from its rows.

Ranks and verdicts count the datasets on which every method has the same splits. A verdict compares the paired differences of the
splits with their standard error: within one of them two methods are level.
"""

from __future__ import annotations

import math
import re
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from pays_data import ASIDE, MOLECULES, SOURCES

from gnas.files import write_atomic
from gnas.model.metrics import decimals, higher_is_better

METHODS = ("race", "random", "hand-made", "single-level")
APART = ("race+ensemble", "forest", "chemprop")  # not on equal terms
QUANTILES = {2: 1.960, 3: 2.343, 4: 2.569, 5: 2.728}  # of the studentised range at 5 %, over the root of 2 (Nemenyi)
MARK = re.compile(r"(<!-- pays: (table|rates) -->\n)(.*?)(<!-- end -->)", re.DOTALL)

Row = Mapping[str, str]


class Results:
    """Test metrics by dataset, method and split. Later rows replace earlier ones."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.values: dict[str, dict[str, dict[str, float]]] = {}
        self.metrics: dict[str, str] = {}
        for row in rows:
            self.metrics[row["dataset"]] = row["metric"]
            by_method = self.values.setdefault(row["dataset"], {})
            by_method.setdefault(row["method"], {})[row["split"]] = float(row["test"])

    def datasets(self, aside: bool = False) -> list[str]:
        """Those with a result, in the order of the list."""
        return [name for name in SOURCES if name in self.values and (name in ASIDE) == aside]

    def splits(self, dataset: str, methods: Sequence[str]) -> list[str]:
        """The splits on which all these methods have a result."""
        known = [self.values[dataset].get(method, {}).keys() for method in methods]
        return sorted(set.intersection(*map(set, known))) if known else []

    def complete(self, methods: Sequence[str] = METHODS, aside: bool = False) -> list[str]:
        """The datasets on which all these methods can be compared."""
        return [name for name in self.datasets(aside) if self.splits(name, methods)]

    def mean(self, dataset: str, method: str, splits: Sequence[str] | None = None) -> float:
        found = self.values[dataset].get(method, {})
        chosen = [found[split] for split in (found if splits is None else splits)]
        return statistics.fmean(chosen) if chosen else math.nan

    def sign(self, dataset: str) -> int:
        return 1 if higher_is_better(self.metrics[dataset]) else -1


def rank_methods(results: Results, methods: Sequence[str] = METHODS) -> dict[str, list[float]]:
    """The rank of each method on every dataset, 1 is best; equal means share their mean rank."""
    ranks: dict[str, list[float]] = {method: [] for method in methods}
    for name in results.complete(methods):
        splits = results.splits(name, methods)
        means = {method: results.sign(name) * results.mean(name, method, splits) for method in methods}
        for method, value in means.items():
            better = sum(other > value for other in means.values())
            equal = sum(other == value for other in means.values())
            ranks[method].append(1 + better + (equal - 1) / 2)
    return ranks


def judge(results: Results, dataset: str, method: str, other: str) -> str:
    """``better``, ``level`` or ``worse``: the mean difference over the splits against its standard error."""
    splits, sign = results.splits(dataset, (method, other)), results.sign(dataset)
    one, two = (results.values[dataset][name] for name in (method, other))
    values = [sign * (one[split] - two[split]) for split in splits]
    error = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else 0.0
    mean = statistics.fmean(values)
    if abs(mean) <= error:
        return "level"
    return "better" if mean > 0 else "worse"


def count_verdicts(results: Results, other: str, method: str = "race") -> Counter[str]:
    """How often a method is better, level and worse than another."""
    return Counter(judge(results, name, method, other) for name in results.complete((method, other)))


def critical_difference(methods: int, datasets: int) -> float:
    """Mean ranks that differ by more are different at a level of 5 % (Nemenyi; Demšar, JMLR 2006)."""
    return QUANTILES[methods] * math.sqrt(methods * (methods + 1) / (6 * datasets))


def friedman(ranks: Mapping[str, Sequence[float]]) -> float:
    """Friedman's statistic, chi-squared with one degree of freedom less than there are methods."""
    k, n = len(ranks), len(next(iter(ranks.values())))
    squares = sum(statistics.fmean(values) ** 2 for values in ranks.values())
    return 12 * n / (k * (k + 1)) * (squares - k * (k + 1) ** 2 / 4)


# -- text ------------------------------------------------------------------------------------------------------------


def make_text(rows: Sequence[Row], plot: str) -> str:
    """The generated part of the page."""
    results = Results(rows)
    lines = [*_make_table(results, results.datasets()), ""]
    ranks = rank_methods(results)
    count = len(results.complete())
    if count:
        means = ", ".join(f"{name} {statistics.fmean(values):.2f}" for name, values in _by_rank(ranks))
        lines += [f"Mean rank over {count} datasets: {means}.", ""]
        if count > 1:
            lines += [
                f"Friedman's statistic is {friedman(ranks):.1f} (the 5 % bound for four methods is 7.8); the critical difference "
                f"is {critical_difference(len(METHODS), count):.2f}.",
                "",
                f"![Mean ranks of the methods]({plot})",
                "",
            ]
    lines += [*_make_verdicts(results), ""]
    if results.datasets(aside=True):
        lines += ["Kept aside and run once, at the end:", "", *_make_table(results, results.datasets(aside=True)), ""]
    budgets = sorted({float(row["seconds"]) for row in rows if row["method"] in METHODS})
    machines = sorted({f"{row['hardware']}, torch {row['torch']}" for row in rows})
    lines += [
        f"Seconds for each method: {', '.join(f'{one:g}' for one in budgets)}. Made on: {'; '.join(machines)}.",
        "",
    ]
    return "\n".join(lines)


def _by_rank(ranks: Mapping[str, Sequence[float]]) -> list[tuple[str, Sequence[float]]]:
    return sorted(ranks.items(), key=lambda one: statistics.fmean(one[1]))


def _make_table(results: Results, datasets: Sequence[str]) -> list[str]:
    names = [*METHODS, *(name for name in APART if any(name in results.values[one] for one in datasets))]
    lines = [f"| dataset | metric | splits | {' | '.join(names)} |", "|---|---|---|" + "---|" * len(names)]
    for name in datasets:
        present = [method for method in METHODS if method in results.values[name]]
        splits = results.splits(name, present)
        cells = [_show(results, name, method, splits) for method in names]
        lines.append(f"| {name} | {results.metrics[name]} | {len(splits)} | {' | '.join(cells)} |")
    return lines


def _show(results: Results, dataset: str, method: str, splits: Sequence[str]) -> str:
    """Mean and spread over the splits that all methods here share; the best of those on equal terms is bold."""
    known = results.values[dataset].get(method, {})
    found = [known[split] for split in splits if split in known]
    if not found:
        return "–"
    digits = min(decimals(results.metrics[dataset]), 3)
    text = f"{statistics.fmean(found):.{digits}f}"
    text += f" ± {statistics.stdev(found):.{digits}f}" if len(found) > 1 else ""
    rivals = [one for one in METHODS if one in results.values[dataset]]
    best = max(results.sign(dataset) * results.mean(dataset, one, splits) for one in rivals)
    is_best = method in METHODS and results.sign(dataset) * statistics.fmean(found) == best
    return f"**{text}**" if is_best and len(rivals) > 1 else text


def _make_verdicts(results: Results) -> list[str]:
    lines = ["| race against | datasets | better | level | worse |", "|---|---|---|---|---|"]
    for other in (*METHODS[1:], "forest", "chemprop"):
        found = count_verdicts(results, other)
        if found:
            total = sum(found.values())
            kind = f"{other} ({'molecules' if other in APART else 'all'})"
            lines.append(f"| {kind} | {total} | {found['better']} | {found['level']} | {found['worse']} |")
    return lines


def make_rates(rows: Sequence[Row]) -> str:
    """The table of rates.py; the last row of a task and preset counts."""
    latest = {(row["task"], row["preset"], row["begun_with"]): row for row in rows}
    lines = [
        "| task | preset | rate | constant | loss | first epoch that is better | rate at the end |",
        "|---|---|---|---|---|---|---|",
    ]
    for (task, preset, rate), row in latest.items():
        end = f"{row['learned_at'] or '–'} | {row['rate']}"
        lines.append(f"| {task} | `{preset}` | {rate} | {row['constant']} | {row['val_loss']} | {end} |")
    return "\n".join([*lines, ""])


def fill(text: str, rows: Sequence[Row], rates: Sequence[Row], plot: str) -> str:
    """A page with its marked parts made anew."""
    parts = {"table": make_text(rows, plot), "rates": make_rates(rates)}
    return MARK.sub(lambda match: f"{match[1]}{parts[match[2]]}{match[4]}", text)


def write(rows: Sequence[Row], rates: Sequence[Row], page: Path, plot: Path) -> None:
    """Fill the marked parts of the page and write the plot."""
    text = page.read_text(encoding="utf-8")
    if not MARK.search(text):
        raise SystemExit(f"{page}: no part between <!-- pays: table --> and <!-- end -->")
    write_atomic(page, fill(text, rows, rates, plot.relative_to(page.parent).as_posix()))
    results = Results(rows)
    if len(results.complete()) > 1:
        draw(rank_methods(results), plot)
    print(f"{page}: {len(results.complete())} datasets; molecules: {sum(name in results.values for name in MOLECULES)}")


# -- plot ------------------------------------------------------------------------------------------------------------


def draw(ranks: Mapping[str, Sequence[float]], path: Path) -> None:
    """Mean ranks on a line; a bar joins methods whose ranks do not differ by the critical difference."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.hashsalt": "gnas", "svg.fonttype": "none"})
    from matplotlib.figure import Figure

    means = {name: statistics.fmean(values) for name, values in _by_rank(ranks)}
    bound = critical_difference(len(ranks), len(next(iter(ranks.values()))))
    figure = Figure(figsize=(6.4, 1.9))
    axes = figure.add_axes((0.02, 0.02, 0.96, 0.96))
    axes.axis("off")
    axes.set_xlim(-0.3, len(means) + 1.3)
    axes.set_ylim(-1.2, 1.1)
    axes.plot([1, len(means)], [0, 0], color="black", linewidth=1)
    for tick in range(1, len(means) + 1):
        axes.plot([tick, tick], [0, 0.08], color="black", linewidth=1)
        axes.text(tick, 0.14, str(tick), ha="center", fontsize=9)
    for place, (name, mean) in enumerate(means.items()):  # the better half is named at the left
        left = place < len(means) / 2
        level = -0.3 - 0.2 * (place if left else len(means) - 1 - place)
        edge = 1 if left else len(means)
        axes.plot([mean, mean, edge], [0, level, level], color="tab:blue", linewidth=1)
        label = {"ha": "right"} if left else {"ha": "left"}
        axes.text(edge + (-0.05 if left else 0.05), level, f"{name} {mean:.2f}", fontsize=9, va="center", **label)
    for place, (low, high) in enumerate(find_groups(list(means.values()), bound)):
        axes.plot([low - 0.03, high + 0.03], [-0.08 - 0.07 * place] * 2, color="tab:red", linewidth=3)
    axes.plot([1, 1 + bound], [0.7, 0.7], color="tab:red", linewidth=2)
    axes.text(1 + bound / 2, 0.8, f"critical difference {bound:.2f}", ha="center", fontsize=9)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, format="svg", metadata={"Date": None})


def find_groups(means: Sequence[float], bound: float) -> list[tuple[float, float]]:
    """The longest runs of ranks, at least two, that lie within the critical difference; ``means`` are in order.

    >>> find_groups([1.0, 1.5, 2.8, 3.1], 1.0)
    [(1.0, 1.5), (2.8, 3.1)]
    """
    found: list[tuple[float, float]] = []
    for place, low in enumerate(means):
        high = max(one for one in means[place:] if one - low <= bound)
        if high > low and not any(high <= other for _, other in found):
            found.append((low, high))
    return found
