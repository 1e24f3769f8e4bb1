"""Hand-made networks of today as genotypes."""

import pytest

from gnas.arch.gap import genotype
from gnas.arch.hand_made import HandMade
from gnas.arch.recipes import RECIPES, as_genotype, as_hand_made, expand_recipe
from gnas.errors import InputError
from gnas.run.settings import Settings


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_is_a_genotype_of_the_wide_space_and_back(name: str) -> None:
    for cells in (1, 4):
        found = expand_recipe(name, cells)
        assert len(found) == cells
        assert len(set(found.cells)) == 1
        assert as_hand_made(found) == HandMade(name, cells)
        assert as_genotype(HandMade(name, cells)) == found
        stack = Settings.resolve("wide").space.search_space().stack
        assert found.stack in stack


def test_other_networks_are_what_they_are() -> None:
    own = genotype("[identity | mean]", 2, "bare")
    assert as_hand_made(own) is own
    assert as_genotype(own) is own
    assert as_genotype(HandMade("monet")) is None
    mixed = genotype(["[identity | sum(edge)]", "[identity | mean(gated)]"], variant="bare")
    assert as_hand_made(mixed) is mixed


def test_an_unknown_recipe_is_an_error_that_lists_them() -> None:
    with pytest.raises(InputError, match=r"unknown recipe 'gin\+\+'.*gatedgcn\+"):
        expand_recipe("gin++")
