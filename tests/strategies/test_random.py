"""Random search: draws are independent, uniform over the space, and repeat themselves."""

from tiny import SPACE, tiny

from gnas.strategies import RandomSearch, search
from gnas.strategies.base import SearchResult


def draw(seed: int, trials: int = 6) -> SearchResult:
    return search(
        tiny(), SPACE, RandomSearch(trials=trials, epochs=1, batch_size=12), channels=4, num_cells=1, seed=seed
    )


def test_the_best_of_the_draws_is_the_result() -> None:
    result = draw(0)
    best = min(result.history, key=lambda record: record["val_metric"])
    assert result.genotype.to_yaml() == best["genotype"]
    assert result.genotype in SPACE
    assert result.trained_epochs == 6


def test_more_trials_begin_with_the_same_draws() -> None:
    few, many = draw(1, 3), draw(1, 5)
    names = ("genotype", "val_metric")
    assert [[one[name] for name in names] for one in many.history[:3]] == [
        [one[name] for name in names] for one in few.history
    ]
    assert draw(2, 3).history[0]["genotype"] != few.history[0]["genotype"]
