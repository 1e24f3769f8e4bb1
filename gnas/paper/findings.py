"""Which operations the found networks use, and whether the findings of the paper hold for ours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gnas.arch.genotype import Genotype
from gnas.arch.operation import AGGREGATORS, PAPER_AGGREGATORS

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
    return [_check(finding, counts) for finding in FINDINGS]


def _check(finding: Finding, counts: Counts) -> Verdict:
    known = [name for name in finding.datasets if name in counts]
    words = "; ".join(f"{name}: {_show_counts(counts[name])}" for name in known)
    missing = tuple(name for name in finding.datasets if name not in counts)
    return Verdict(finding.text, None if missing else finding.holds(counts), words, missing)


def _show_counts(counts: Counter[str]) -> str:
    return " ".join(f"{name} {counts[name]}" for name in (*PAPER_AGGREGATORS, "sparse", "dense", "identity"))


def _is_most_frequent(dataset: str, name: str) -> Callable[[Counts], bool]:
    """Whether one aggregator is used more often than each of the others."""
    others = [other for other in PAPER_AGGREGATORS if other != name]
    return lambda counts: all(counts[dataset][name] > counts[dataset][other] for other in others)


def _finding(text: str, datasets: str, holds: Callable[[Counts], bool]) -> Finding:
    return Finding(text, tuple(datasets.split()), holds)


FINDINGS = (
    _finding("max is the aggregator chosen most often on MNIST", "mnist", _is_most_frequent("mnist", "max")),
    _finding("max is the aggregator chosen most often on CIFAR10", "cifar10", _is_most_frequent("cifar10", "max")),
    _finding("sum is the aggregator chosen most often on PATTERN", "pattern", _is_most_frequent("pattern", "sum")),
    _finding("sum is the aggregator chosen most often on CLUSTER", "cluster", _is_most_frequent("cluster", "sum")),
    _finding("both sum and max are chosen on ZINC", "zinc", lambda c: min(c["zinc"]["sum"], c["zinc"]["max"]) > 0),
    *(
        _finding(f"mean is not chosen on {name.upper()}", name, lambda c, name=name: c[name]["mean"] == 0)  # type: ignore[misc]
        for name in ("zinc", "pattern", "cluster", "mnist", "cifar10")
    ),
    *(
        _finding(
            f"dense filters are chosen less often than sparse ones on {name.upper()}",
            name,
            lambda c, name=name: c[name]["dense"] < c[name]["sparse"],  # type: ignore[misc]
        )
        for name in ("pattern", "cluster")
    ),
    _finding(
        "dense filters are chosen more often on CIFAR10 than on MNIST",
        "cifar10 mnist",
        lambda c: c["cifar10"]["dense"] > c["mnist"]["dense"],
    ),
)
