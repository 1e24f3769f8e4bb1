"""Do the proposers of the race find better networks than evolution and random search, on tables that others made?

    pip install nas_bench_graph                                 # the tables, 6 MB
    python benchmarks/nas_bench_graph.py                        # nine tables, 50 seeds; about 40 minutes on one core
    python benchmarks/nas_bench_graph.py --tables cora --seeds 5
    python benchmarks/nas_bench_graph.py --summary              # the table of docs/results.md, from the kept rows

NAS-Bench-Graph (Qin et al., NeurIPS 2022) has the validation accuracy of 26,206 trained architectures on eight datasets and
of 2,021 on a ninth. An evaluation is a look-up. The figure is the rank (0: the best of the table) of the best architecture
that a method has seen after so many evaluations, by validation. The pickles are read by an unpickler that makes numbers only.
"""

from __future__ import annotations

import argparse
import csv
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import metadata
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from rows import RESULTS, Rows, parser

from gnas.strategies.evolution import Evolution
from gnas.strategies.proposers import Tried, propose_candidate, propose_predicted, propose_random

COLUMNS = ("table", "method", "seeds", "budget", "rank", "spread", "regret")
TABLES = ("arxiv", "citeseer", "computers", "cora", "cs", "photo", "physics", "proteins", "pubmed")
LINKS = ("0000", "0001", "0011", "0012", "0013", "0111", "0112", "0122", "0123")  # the parent of each of four nodes
OPERATIONS = ("gat", "gcn", "gin", "cheb", "sage", "arma", "graph", "fc", "skip")
BUDGETS = (50, 100, 300)
FIRST = 30  # random draws before the predictor alone


@dataclass(frozen=True)
class TableCandidate:
    """One architecture of a table: which node reads which, and the operation of each."""

    links: int  # a position in LINKS
    operations: tuple[int, ...]  # positions in OPERATIONS
    origin: str = "random"

    @property
    def id(self) -> str:
        return str(self.key)

    @cached_property
    def key(self) -> int:
        """The number of this architecture in the table."""
        return int("".join(map(str, (self.links, *self.operations))))

    @staticmethod
    def from_key(key: int) -> TableCandidate:
        links, *operations = map(int, f"{key:05d}")
        return TableCandidate(links, tuple(operations))

    def features(self) -> dict[str, float]:
        """The choices, and the pairs of an operation and the one that it reads."""
        found = {f"links={self.links}": 1.0}
        for node, (parent, operation) in enumerate(zip(LINKS[self.links], self.operations, strict=True)):
            before = self.operations[int(parent) - 1] if int(parent) else "input"
            found[f"node {node}: {operation}"] = 1.0
            pair = f"{before} > {operation}"
            found[pair] = found.get(pair, 0.0) + 1.0
        return found


class Table:
    """Validation accuracies of all architectures, and the draws and mutations that a proposer needs."""

    def __init__(self, accuracies: Mapping[int, float]) -> None:
        self.accuracies = dict(accuracies)
        self.keys = sorted(self.accuracies)

    @cached_property
    def ordered(self) -> np.ndarray:
        return np.sort(np.array(list(self.accuracies.values())))

    def rank(self, accuracy: float) -> int:
        """How many architectures are better."""
        return len(self.keys) - int(np.searchsorted(self.ordered, accuracy, side="right"))

    def sample(self, rng: np.random.Generator) -> TableCandidate:
        return TableCandidate.from_key(self.keys[int(rng.integers(len(self.keys)))])

    def mutate(self, parent: TableCandidate, rng: np.random.Generator) -> TableCandidate:
        """One choice drawn again; draws that the table does not have are drawn once more."""
        for _ in range(100):
            place = int(rng.integers(5))
            if place == 4:
                child = replace(parent, links=int(rng.integers(len(LINKS))), origin="mutation")
            else:
                operations = list(parent.operations)
                operations[place] = int(rng.integers(len(OPERATIONS)))
                child = replace(parent, operations=tuple(operations), origin="mutation")
            if child.key != parent.key and child.key in self.accuracies:
                return child
        return self.sample(rng)

    def vary(self, parent: TableCandidate, rng: np.random.Generator) -> TableCandidate:
        return self.mutate(parent, rng)

    def hand_made(self) -> list[TableCandidate]:
        """Four layers of one kind in a row: the networks that people pick."""
        made = [TableCandidate(LINKS.index("0123"), (kind,) * 4, "hand-made") for kind in range(len(OPERATIONS) - 2)]
        return [one for one in made if one.key in self.accuracies]

    def derive(self) -> list[TableCandidate]:
        """No supernet was trained for the tables."""
        return []

    def fit_width(self, candidate: TableCandidate) -> TableCandidate:
        return candidate


class _NumbersOnly(pickle.Unpickler):
    """Reads dictionaries of numbers. Anything else that a pickle can name is refused."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("numpy", "dtype"):
            return np.dtype
        if name == "scalar" and module in ("numpy.core.multiarray", "numpy._core.multiarray"):
            return np.float64(0).__reduce__()[0]
        raise pickle.UnpicklingError(f"{module}.{name} is not a number")


def read_table(name: str, folder: Path | None = None) -> Table:
    """A table of ``folder``, or of the installed package, which is not imported."""
    with open((folder or find_tables()) / f"{name}.bench", "rb") as file:
        found = _NumbersOnly(file).load()
    return Table({int(key): float(values["valid_perf"]) for key, values in found.items()})


def find_tables() -> Path:
    """The folder of the tables in the installed package."""
    try:
        return Path(str(metadata.distribution("nas_bench_graph").locate_file("nas_bench_graph/light")))
    except metadata.PackageNotFoundError:
        raise SystemExit("the tables are not installed: pip install nas_bench_graph") from None


Method = Callable[[Table, list[Tried], set[str], int, int], TableCandidate]


def take_random(table: Table, tried: list[Tried], known: set[str], number: int, seed: int) -> TableCandidate:
    return propose_random(table, tried, np.random.default_rng([seed, number]))


def take_predicted(table: Table, tried: list[Tried], known: set[str], number: int, seed: int) -> TableCandidate:
    """The predictor alone, after random draws."""
    propose = propose_random if number < FIRST else propose_predicted
    return propose(table, tried, np.random.default_rng([seed, number]))


def take_evolved(table: Table, tried: list[Tried], known: set[str], number: int, seed: int) -> TableCandidate:
    """Regularised evolution with the settings of the strategy ``evolution``."""
    rng, settings = np.random.default_rng([seed, number]), Evolution()
    living = tried[-settings.population :]
    if len(living) < settings.population:
        return table.sample(rng)
    chosen = rng.choice(len(living), settings.sample, replace=False)
    return table.mutate(max((living[int(k)] for k in chosen), key=lambda one: one.score).candidate, rng)


def take_raced(table: Table, tried: list[Tried], known: set[str], number: int, seed: int) -> TableCandidate:
    """The proposers of the race in their turns."""
    found = propose_candidate(table, tried, known, number, seed)
    return found or take_random(table, tried, known, number, seed)


METHODS: Mapping[str, Method] = {
    "random": take_random,
    "evolution": take_evolved,
    "predictor": take_predicted,
    "race": take_raced,
}


def run_method(table: Table, method: Method, budget: int, seed: int) -> Iterator[float]:
    """The best validation accuracy after each evaluation. One that was seen before costs an evaluation too."""
    tried: list[Tried] = []
    known: set[str] = set()
    best = -np.inf
    for number in range(budget):
        candidate = method(table, tried, known, number, seed)
        score = table.accuracies[candidate.key]
        tried.append(Tried(candidate, score))
        known.add(candidate.id)
        best = max(best, score)
        yield best


def main() -> None:
    chosen = arguments()
    if chosen.summary:
        print(summarise(chosen.out))
        return
    torch.set_num_threads(1)
    rows = Rows(chosen.out, torch.device("cpu"), COLUMNS)
    for name in chosen.tables:
        table = read_table(name, chosen.folder)
        for label in chosen.methods:
            curves = [list(run_method(table, METHODS[label], max(BUDGETS), seed)) for seed in range(chosen.seeds)]
            for budget in BUDGETS:
                ranks = [table.rank(curve[budget - 1]) for curve in curves]
                regret = table.ordered[-1] - fmean(curve[budget - 1] for curve in curves)
                rows.add(
                    table=name,
                    method=label,
                    seeds=chosen.seeds,
                    budget=budget,
                    rank=fmean(ranks),
                    spread=float(np.std(ranks)),
                    regret=100 * float(regret),
                )


def summarise(path: Path) -> str:
    """Mean ranks of the kept rows as Markdown, and on how many tables the race is ahead."""
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    ranks = {(row["table"], row["method"], int(row["budget"])): float(row["rank"]) for row in rows}
    tables, methods = sorted({key[0] for key in ranks}), [name for name in METHODS if any(name == k[1] for k in ranks)]
    lines = ["| evaluations | table | " + " | ".join(methods) + " |", "|---:|---|" + "---:|" * len(methods)]
    for budget in BUDGETS:
        for table in tables:
            shown = " | ".join(f"{ranks[table, name, budget]:.1f}" for name in methods)
            lines.append(f"| {budget} | {table} | {shown} |")
    for other in [name for name in methods if name != "race"]:
        ahead = [_count_ahead(ranks, tables, other, budget) for budget in BUDGETS]
        lines.append(f"\nRace at or below {other}: " + ", ".join(f"{n} of {len(tables)}" for n in ahead))
    return "\n".join(lines)


def _count_ahead(ranks: Mapping[tuple[str, str, int], float], tables: Sequence[str], other: str, budget: int) -> int:
    return sum(ranks[table, "race", budget] <= ranks[table, other, budget] for table in tables)


def arguments() -> argparse.Namespace:
    words = parser(__doc__, "nas_bench_graph.csv")
    words.add_argument("--tables", nargs="+", default=list(TABLES), choices=TABLES)
    words.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    words.add_argument("--seeds", type=int, default=50)
    words.add_argument("--folder", type=Path, help="folder of the tables, if the package is not installed")
    words.add_argument("--summary", action="store_true", help=f"print the table of {RESULTS.name}")
    return words.parse_args()


if __name__ == "__main__":
    main()
