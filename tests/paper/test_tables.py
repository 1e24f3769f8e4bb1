"""Operations are counted where they reach the output, and the findings of the paper are checked on the counts."""

from __future__ import annotations

from papers import ONE

from gnas.arch import gap
from gnas.arch.genotype import CellGenotype, Genotype, Link
from gnas.paper.tables import check_findings, count_operations


def test_operations_are_counted_where_they_reach_the_output() -> None:
    assert count_operations(ONE) == {"sparse": 2, "sum": 1, "max": 1}
    links = ((0, 1, "dense"), (1, 2, "sparse"), (1, 3, "sum"), (2, 4, "identity"), (4, 5, "dense"))
    dead_sum = Genotype((CellGenotype(2, 1, tuple(Link(*link) for link in links)),))
    assert count_operations(dead_sum) == {"dense": 2, "sparse": 1, "no aggregation": 1}


def test_findings_hold_or_not_by_counts() -> None:
    sums, both = gap.genotype("[sum(sparse) | sum(dense) | max]"), gap.genotype("[sum(sparse) | max]")
    verdicts = {
        one.text: one.holds for one in check_findings({"pattern": sums, "zinc": both, "mnist": gap.genotype("[mean]")})
    }
    assert verdicts["sum is the aggregator chosen most often on PATTERN"] is True
    assert verdicts["dense filters are chosen less often than sparse ones on PATTERN"] is False
    assert verdicts["both sum and max are chosen on ZINC"] is True
    assert verdicts["max is the aggregator chosen most often on MNIST"] is False
    assert verdicts["mean is not chosen on MNIST"] is False
    assert verdicts["sum is the aggregator chosen most often on CLUSTER"] is None
