"""Shipped genotypes load, belong to the paper's search space, and train."""

import dataclasses
import json
from pathlib import Path

import pytest

import gnas
from gnas import Task
from gnas.arch.architecture import read_architecture
from gnas.arch.shipped import FOLDER, find_genotype_file, find_recipe_file
from gnas.cli.compare import count_weights
from gnas.data.benchmarks import find_patience
from gnas.errors import InputError
from gnas.paper.archive import unpack_archive
from gnas.run.folder import Run
from gnas.run.protocol import TrainConfig
from gnas.workflow import make_candidate, train_config

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
NAMES = sorted(file.stem for file in FOLDER.glob("*.yaml"))
TASKS = {
    "zinc": Task("graph", "regression", 1, categories=(28,)),
    "pattern": Task("node", "classification", 2, categories=(3,)),
    "cluster": Task("node", "classification", 6, categories=(7,)),
    "mnist": Task("graph", "classification", 10, in_channels=3),
    "cifar10": Task("graph", "classification", 10, in_channels=5),
}


def runs_on(dataset: str) -> Path:
    """The run folders in the archive of a dataset."""
    folder = unpack_archive(RESULTS, dataset)
    assert folder is not None
    return folder


def kept_runs(name: str) -> list[Path]:
    """Folders of the kept trainings of a shipped genotype."""
    dataset, _, cells = name.rpartition("-")
    wanted = f"genotype {gnas.load_genotypes(dataset)[int(cells)].id},"
    configs = runs_on(dataset).glob("*/trained/gnas/seed-41/config.yaml")
    return [one.parents[3] for one in configs if wanted in one.read_text()]


@pytest.mark.parametrize("name", NAMES)
def test_the_recipe_is_how_its_results_were_made(name: str) -> None:
    """The same seeds, protocol, input and number of weights as a kept training of it."""
    dataset, _, cells = name.rpartition("-")
    settings = gnas.Settings.resolve(file=find_recipe_file(name))
    genotype, made = gnas.load_genotypes(dataset)[int(cells)], train_config(settings, find_patience(dataset))
    more = tuple(settings.data.get("structure", ()))
    standard = (1.0,) * len(more)
    task = dataclasses.replace(TASKS[dataset], structure=more, structure_center=standard, structure_scale=standard)
    benchmark = dataclasses.replace(gnas.load("cluster-mini"), task=task)  # of which only the task is read
    entry = make_candidate(genotype, benchmark, settings)
    wanted = (set(settings.training.seeds), made, entry.title, count_weights(entry, benchmark))
    kept = []
    for run in kept_runs(name):
        configs = {int(one.name[5:]): Run(one).config for one in run.glob("trained/gnas/seed-*")}
        training = TrainConfig(**{**configs[41]["training"], "checkpoint_every": made.checkpoint_every})
        weights = json.loads((run / "trained/gnas/seed-41/result.json").read_text())["num_weights"]
        kept.append((set(configs), training, configs[41]["describe"], weights))
    assert wanted in kept


def test_the_fewest_cells_come_first():
    assert list(gnas.load_genotypes("zinc")) == [4, 8, 12, 16]
    assert list(gnas.load_genotypes("cluster")) == list(gnas.load_genotypes("pattern")) == [4, 16]


def test_an_unknown_dataset_lists_the_choices():
    with pytest.raises(InputError, match=r"choose one of: .*\bzinc"):
        gnas.load_genotypes("zink")


@pytest.mark.parametrize("name", NAMES)
def test_each_is_a_network_whose_run_is_kept(name):
    dataset, _, cells = name.rpartition("-")
    assert read_architecture(find_genotype_file(name)) == gnas.load_genotypes(dataset)[int(cells)]
    genotype = gnas.load_genotypes(dataset)[int(cells)]
    assert len(genotype) == int(cells)
    assert genotype.with_output("third") in gnas.SearchSpace(variant=genotype.variant)  # only the output may differ
    kept = {read_architecture(one).id for one in runs_on(dataset).glob("*/genotype.yaml")}
    assert genotype.id in kept
