"""The search space: its links, its exact size, uniform draws, mutations that stay inside."""

from __future__ import annotations

from collections import Counter
from itertools import chain, combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnas.arch.genotype import CellGenotype, Genotype
from gnas.arch.space import SearchSpace, SpaceLink
from gnas.errors import InputError

TINY = [
    SearchSpace(1, 1),
    SearchSpace(1, 2, ("zero", "sparse"), ("sum", "own_median")),
    SearchSpace(2, 1, ("dense", "own_filter"), ("identity",)),
    SearchSpace(2, 2, ("identity",), ("max", "mean"), variant="reference"),
]


def enumerate_space(space: SearchSpace) -> set[Genotype]:
    """Every choice of one (source, operation) or nothing for each node, as long as it is a member."""
    options: dict[int, list[tuple]] = {}
    for link in space.links():
        options.setdefault(link.target, [()])
        options[link.target] += [((link.source, link.target, name),) for name in link.candidates if name != "zero"]
    found = set()
    for links in product(*options.values()):
        try:
            cell = CellGenotype(space.nodes, space.outputs, tuple(chain(*links)), space.output)
        except InputError:
            continue
        found.add(Genotype((cell,), space.variant))
    return {genotype for genotype in found if genotype in space}


def test_links_of_the_paper() -> None:
    ends = [(link.source, link.target) for link in SearchSpace().links()]
    level_one = [(0, 1), (0, 2), (1, 2), (0, 3), (1, 3), (2, 3)]
    level_three = [(source, target) for target in (7, 8, 9) for source in range(4, target)]
    assert ends == [*level_one, (1, 4), (2, 5), (3, 6), *level_three]
    assert SearchSpace().links()[6] == SpaceLink(1, 4, ("identity", "mean", "sum", "max"))
    assert SearchSpace().links()[-1] == SpaceLink(8, 9, ("zero", "identity", "sparse", "dense"))
    assert SearchSpace(variant="bare").links() == SearchSpace().links()


def test_links_of_the_reference_read_level_two_only() -> None:
    space = SearchSpace(2, 2, variant="reference")
    assert [(link.source, link.target) for link in space.links()[-4:]] == [(3, 5), (4, 5), (3, 6), (4, 6)]
    assert (space.output, SearchSpace().output, SearchSpace(variant="bare").output) == ("all", "third", "third")


def test_size_of_the_paper() -> None:
    one = (3 * 6 * 9) * 4**3 * (9 * 12 * 15)
    assert SearchSpace().size() == one
    assert SearchSpace().size(4) == one**4


@pytest.mark.parametrize("space", TINY)
def test_size_is_the_number_of_members(space: SearchSpace) -> None:
    members = enumerate_space(space)
    assert len(members) == space.size()
    assert space.size(3) == space.size() ** 3
    neighbours = sum(differing(a, b) == 1 for a, b in combinations(members, 2))
    degree = sum(len(options) - 1 for options in space.choices())
    assert neighbours == space.size() * degree // 2


def differing(one: Genotype, other: Genotype) -> int:
    return sum(a != b for c, d in zip(one, other, strict=True) for a, b in zip(c.links, d.links, strict=True))


def test_samples_are_uniform() -> None:
    space, draws = TINY[1], 4000
    rng = np.random.default_rng(0)
    counts = Counter(space.sample(rng, 1) for _ in range(draws))
    assert set(counts) == enumerate_space(space)
    expected = draws / space.size()
    chi_square = sum((count - expected) ** 2 / expected for count in counts.values())
    freedom = space.size() - 1
    assert chi_square < freedom + 5 * (2 * freedom) ** 0.5


def test_mutations_are_uniform_over_the_neighbours() -> None:
    space, draws = SearchSpace(1, 1, ("sparse", "dense"), ("sum", "mean", "max")), 3000
    rng = np.random.default_rng(0)
    start = space.sample(rng, 2)
    counts = Counter(space.mutate(start, rng) for _ in range(draws))
    assert len(counts) == 2 * (1 + 2 + 1)
    assert all(differing(start, mutant) == 1 for mutant in counts)
    for mutant, count in counts.items():
        alone = start[0].links[1] == mutant[0].links[1] and start[1].links[1] == mutant[1].links[1]
        assert count == pytest.approx(draws / 6 / (1 if alone else 2), rel=0.2)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from([SearchSpace(), SearchSpace(4, 2, variant="reference"), *TINY]), st.integers(0, 2**32))
def test_samples_and_mutants_are_members(space: SearchSpace, seed: int) -> None:
    rng = np.random.default_rng(seed)
    genotype = space.sample(rng, 3)
    mutant = space.mutate(genotype, rng)
    assert genotype in space
    assert mutant in space
    assert differing(genotype, mutant) == 1
    assert space.sample(np.random.default_rng(seed), 3) == genotype


def test_membership_is_exact() -> None:
    space = SearchSpace()
    genotype = space.sample(np.random.default_rng(0), 2)
    cell = genotype[0]
    assert Genotype(genotype.cells, "bare") not in space
    assert genotype not in SearchSpace(nodes=4)
    assert genotype not in SearchSpace(variant="reference")
    assert Genotype((CellGenotype(3, 3, cell.links, "all"),)) not in space
    assert Genotype((CellGenotype(3, 3, cell.links[:-1]),)) not in space
    skipped = (*cell.links[:-1], (4, 9, "skip"))
    assert Genotype((CellGenotype(3, 3, skipped),)) not in space
    assert "genotype" not in space


def test_only_members_are_mutated() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(InputError, match="not in the search space"):
        SearchSpace(4, 4).mutate(SearchSpace().sample(rng), rng)
    single = SearchSpace(1, 1, ("dense",), ("sum",))
    assert single.size() == 1
    with pytest.raises(InputError, match="a single genotype"):
        single.mutate(single.sample(rng), rng)


@pytest.mark.parametrize(
    ("settings_", "message"),
    [
        ({"nodes": 0}, "nodes is 0; allowed: 1 to 99"),
        ({"outputs": 2.5}, "outputs is 2.5"),
        ({"filters": ()}, "filters .* leave no operation"),
        ({"filters": ("zero",)}, "filters .* leave no operation"),
        ({"aggregators": ()}, "aggregators .* leave no operation"),
        ({"filters": ("skip",)}, "skip cannot be one of the filters"),
        ({"filters": ("sum",)}, "sum cannot be one of the filters"),
        ({"aggregators": ("sum", "zero")}, "zero cannot be one of the aggregators"),
        ({"aggregators": ("dense",)}, "dense cannot be one of the aggregators"),
        ({"filters": ("dense", "dense")}, "dense is given twice"),
        ({"filters": ("Dense",)}, "operation 'Dense' is not a name"),
        ({"variant": "papers"}, "did you mean 'paper'"),
    ],
)
def test_bad_spaces(settings_: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        SearchSpace(**settings_)


def test_lists_are_welcome() -> None:
    assert SearchSpace(filters=["dense"]) == SearchSpace(filters=("dense",))  # type: ignore[arg-type]
    assert hash(SearchSpace(filters=["dense"])) == hash(SearchSpace(filters=("dense",)))  # type: ignore[arg-type]
