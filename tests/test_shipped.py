"""Shipped genotypes load, belong to the paper's search space, and train."""

from pathlib import Path

import pytest

import gnas
from gnas.errors import InputError
from gnas.shipped import FOLDER
from gnas.strategies.graphnas_space import load_architecture

RESULTS = Path(__file__).parents[1] / "benchmarks" / "results"


def test_zinc_has_the_network_of_our_results():
    genotype = gnas.genotypes("zinc")[4]
    assert genotype.id == "47fa98d92f"
    assert genotype.depth() == len(genotype) == 4
    assert genotype in gnas.SearchSpace()


@pytest.mark.parametrize(
    ("cells", "budget", "weights"), [(4, 410_000, 404_657), (8, 820_000, 804_953), (12, 1_200_000, 1_186_426)]
)
def test_it_fits_the_papers_number_of_weights(cells, budget, weights):
    task = gnas.Task("graph", "regression", 1, categories=(28,))

    def build(channels):
        return gnas.Network(gnas.genotypes("zinc")[cells], task, channels)

    width = gnas.width_for(budget, build)
    assert build(width).num_weights() == weights


def test_the_fewest_cells_come_first():
    assert list(gnas.genotypes("zinc")) == [4, 8, 12, 16]
    assert list(gnas.genotypes("cluster")) == list(gnas.genotypes("pattern")) == [4, 16]


def test_an_unknown_dataset_lists_the_choices():
    with pytest.raises(InputError, match=r"choose one of: .*\bzinc"):
        gnas.genotypes("zink")


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.yaml")), ids=lambda file: file.stem)
def test_each_is_a_network_whose_run_is_kept(file):
    dataset, _, cells = file.stem.rpartition("-")
    genotype = gnas.genotypes(dataset)[int(cells)]
    assert len(genotype) == int(cells)
    assert genotype.with_output("third") in gnas.SearchSpace(variant=genotype.variant)  # only the output may differ
    kept = {load_architecture(one).id for one in (RESULTS / dataset).glob("*/genotype.yaml")}
    assert genotype.id in kept
