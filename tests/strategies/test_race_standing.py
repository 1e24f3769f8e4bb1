"""Who stands where in a race: promotions, dropped candidates, scores across rungs."""

import pytest

from gnas.arch.hand_made import HandMade
from gnas.strategies.candidate import RaceCandidate
from gnas.strategies.race_standing import Standing


def record(name: str, reached: int, value: float | None, seconds: float = 1.0) -> dict:
    candidate = RaceCandidate(HandMade(name), 0.1)
    return {
        "candidate": candidate.recipe(),
        "genotype": candidate.architecture.to_yaml(),
        "reached": reached,
        "val_metric": value,
        "seconds": seconds,
    }


@pytest.mark.parametrize("higher", [True, False])
def test_the_better_third_is_promoted(higher: bool) -> None:
    standing = Standing((1, 3, 9), higher)
    sign = 1 if higher else -1
    for number, value in enumerate([0.1, 0.9, 0.5, 0.3, 0.8, 0.2], start=1):
        standing.add_record(record(f"n{number}", 1, sign * value, seconds=number))
    names = [one.candidate.architecture.title for one in standing.promotable()]
    assert names == ["n2, 4 layers", "n5, 4 layers"]
    standing.add_record(record("n2", 3, sign * 0.95))
    assert [one.candidate.architecture.title for one in standing.promotable()] == ["n5, 4 layers"]
    dropped = {one.candidate.architecture.title for one in standing.drop_last(1)}
    assert dropped == {f"n{number}, 4 layers" for number in (1, 4, 6)}
    assert not standing.drop_last(1)


def test_a_failed_training_is_never_promoted() -> None:
    standing = Standing((1, 3), True)
    for number, value in enumerate([None, 0.2, 0.1], start=1):
        standing.add_record(record(f"n{number}", 1, value))
    assert [one.candidate.architecture.title for one in standing.ranked()] == ["n2, 4 layers", "n3, 4 layers"]
    scores = {one.candidate.architecture.title: one.score for one in standing.tried()}
    assert scores["n1, 4 layers"] == min(scores.values())


def test_later_rungs_decide_the_order_of_scores() -> None:
    standing = Standing((1, 3), True)
    for number, value in enumerate([0.9, 0.8, 0.1, 0.2], start=1):
        standing.add_record(record(f"n{number}", 1, value))
    standing.add_record(record("n1", 3, 0.9))
    standing.add_record(record("n2", 3, 0.99))
    scores = {one.candidate.architecture.title[:2]: one.score for one in standing.tried()}
    assert scores["n2"] > scores["n1"] > scores["n4"] > scores["n3"]


def test_a_rung_ends_at_its_own_epoch_for_each_candidate() -> None:
    standing = Standing((1, 3, 9), True)
    standing.add_record({**record("n1", 2, 0.5), "ends": [2, 6, 18]})
    standing.add_record({**record("n2", 1, 0.4), "ends": [1, 1, 2]})
    one, two = standing.entries.values()
    assert (len(one.values), len(two.values)) == (1, 2)  # the second has passed two rungs
    assert (standing.next_end(one), standing.next_end(two)) == (6, 2)
    standing.add_record({**record("n1", 40, 0.9), "ends": [2, 6, 40]})  # its last training was made longer
    assert (one.ends[-1], len(one.values)) == (40, 3)


def test_the_loss_decides_between_equal_candidates() -> None:
    standing = Standing((1, 3), True)
    for number, loss in enumerate([0.7, 0.3, 0.5], start=1):
        standing.add_record({**record(f"n{number}", 1, 0.9), "val_loss": loss})
    assert [one.candidate.architecture.title[:2] for one in standing.ranked()] == ["n2", "n3", "n1"]


def test_what_an_ensemble_may_choose_from_reached_one_of_the_last_two_rungs() -> None:
    standing = Standing((1, 3, 9), True)
    for number in range(1, 9):
        standing.add_record(record(f"n{number}", 3 if number > 2 else 1, number / 10, seconds=number))
    standing.add_record(record("n9", 3, None))
    keys = {f"n{number}": RaceCandidate(HandMade(f"n{number}"), 0.1).id for number in range(1, 10)}
    assert standing.reserve(0) == set()
    assert standing.reserve(1) == {keys[f"n{number}"] for number in (8, 7, 6)}
    assert standing.reserve(5) == {keys[f"n{number}"] for number in range(3, 9)}
