"""Supernets as proposers of a race."""

import numpy as np
from tiny import SPACE, tiny

from gnas.run.protocol import TrainConfig
from gnas.strategies.base import SearchContext, SearchProblem
from gnas.strategies.race_supernets import Derived, derive_several, train_supernets

CONFIG = TrainConfig(batch_size=6)


def problem() -> SearchProblem:
    data = tiny()
    return SearchProblem(data.train, data.val, data.task, SPACE, 4, 2)


def test_several_seeds_derive_genotypes_whose_cells_are_the_same() -> None:
    found = train_supernets(problem(), SearchContext(0), CONFIG, 2, 6)
    assert found.epochs == 12
    assert 1 <= len(found.genotypes) <= 6
    assert len(set(found.genotypes)) == len(found.genotypes)
    assert all(one in SPACE and len(set(one.cells)) == 1 for one in found.genotypes)


def test_without_time_no_supernet_is_trained() -> None:
    assert train_supernets(problem(), SearchContext(0), CONFIG, 2, 6, limit=0.0).genotypes == ()


def test_the_last_the_best_and_the_middle_epoch_are_derived() -> None:
    rng = np.random.default_rng(0)
    drawn = [SPACE.sample(rng, 2) for _ in range(5)]
    losses = [0.5, 0.1, 0.4, 0.3, 0.2]
    history = [{"genotype": one.to_yaml(), "val_loss": loss} for one, loss in zip(drawn, losses, strict=True)]
    assert derive_several(history) == [drawn[4], drawn[1], drawn[2]]
    assert derive_several([]) == []


def test_what_was_derived_is_read_from_the_state() -> None:
    rng = np.random.default_rng(0)
    derived = Derived((SPACE.sample(rng, 2), SPACE.sample(rng, 1)), 12, 3.5)
    assert Derived.from_dict(derived.to_dict()) == derived
