"""Evolution: who lives, who has children, and what children inherit."""

from pathlib import Path

import pytest
from tiny import SPACE, tiny

from gnas.arch.genotype import Genotype
from gnas.run.folder import Run
from gnas.strategies import Evolution, search


def differences(one: Genotype, other: Genotype) -> int:
    pairs = [(a, b) for x, y in zip(one, other, strict=True) for a, b in zip(x.links, y.links, strict=True)]
    return sum(a != b for a, b in pairs)


@pytest.mark.parametrize("kind", ["regression", "classification"])
def test_children_are_mutations_of_the_best_of_the_youngest(kind: str) -> None:
    settings = Evolution(trials=7, population=3, sample=3, epochs=1, batch_size=12)
    history = search(tiny(kind), SPACE, settings, channels=8, num_cells=2).history
    genotypes = [Genotype.from_yaml(record["genotype"]) for record in history]
    sign = 1 if kind == "classification" else -1
    for child in range(3, 7):
        fitness = {k: sign * history[k]["val_metric"] for k in range(child - 3, child)}
        best = [k for k, value in fitness.items() if value == max(fitness.values())]
        assert 1 in [differences(genotypes[child], genotypes[parent]) for parent in best]


def test_the_supernet_is_charged_and_trained_once(tmp_path: Path) -> None:
    settings = Evolution(2, 1, 12, population=2, sample=1, inherit=True, supernet_epochs=3)
    folder = Run(tmp_path, {})
    result = search(tiny(), SPACE, settings, channels=8, num_cells=2, run=folder)
    assert [record["trained_epochs"] for record in result.history] == [4, 5]
    assert len(Run(folder.path / "supernet").history()) == 3
    folder.close()
