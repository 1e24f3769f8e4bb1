"""Shipped genotypes load, belong to the paper's search space, and train."""

import pytest

import gnas
from gnas.errors import InputError


def test_zinc_has_the_network_of_our_results():
    genotype = gnas.genotypes("zinc")[4]
    assert genotype.id == "47fa98d92f"
    assert genotype.depth() == len(genotype) == 4
    assert genotype in gnas.SearchSpace()


def test_it_fits_the_papers_number_of_weights():
    task = gnas.Task("graph", "regression", 1, categories=(28,))

    def build(channels):
        return gnas.Network(gnas.genotypes("zinc")[4], task, channels)

    width = gnas.width_for(410_000, build)
    assert build(width).num_weights() == 404_657


def test_an_unknown_dataset_lists_the_choices():
    with pytest.raises(InputError, match="choose one of: zinc"):
        gnas.genotypes("zink")
