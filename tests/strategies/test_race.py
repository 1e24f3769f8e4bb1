"""Races: promotions, budgets, the trainings to the end, a killed process."""

import time
from pathlib import Path

import pytest
import torch
from small import benchmark
from tiny import SPACE, tiny, untimed

from gnas.arch.hand_made import HandMade
from gnas.run.folder import Run
from gnas.run.protocol import TrainConfig
from gnas.strategies import Race, SearchResult, search
from gnas.strategies.candidate import RaceCandidate
from gnas.strategies.race_clock import fills_workers
from gnas.strategies.race_search import RaceSearch
from gnas.strategies.race_standing import Standing
from gnas.training.engine import take_turns
from gnas.training.sampling import open_store
from gnas.training.train import Trainer, train

SMALL = {"epochs": 9, "batch_size": 6, "round_size": 3}


def race(trials: int = 8, kind: str = "regression", how: dict | None = None, **settings: object) -> SearchResult:
    chosen = Race(**{"trials": trials, "finals": 1, **SMALL, **settings})  # type: ignore[arg-type]
    return search(tiny(kind), SPACE, chosen, channels=8, num_cells=1, **(how or {}))


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


def test_the_finalists_are_trained_to_the_end() -> None:
    result = race()
    assert [one["epochs"] for one in result.finalists] == [9, 9]
    kinds = {RaceCandidate.from_dict(one["candidate"]).is_hand_made for one in result.finalists}
    assert kinds == {True, False}
    values = [one["val_metric"] for one in result.finalists]
    assert values == sorted(values)
    assert result.history[-1]["best_val_metric"] == min(values)
    assert len({one["candidate_id"] for one in result.history}) == 8
    assert result.trained_epochs < 8 * 9


def test_a_brief_training_is_the_beginning_of_a_whole_one() -> None:
    """What went through all rungs has the figures of the same network trained at once."""
    best = race(trials=6).finalists[0]
    candidate = RaceCandidate.from_dict(best["candidate"])
    config = TrainConfig(batch_size=6, lr=candidate.lr, schedule="restarts", **best["training"])
    data = benchmark()
    assert train(lambda: candidate.build(data.task), data, config, 41).val == best["val_metric"]


def test_the_epochs_are_not_exceeded() -> None:
    result = race(trials=50, max_epochs=40)
    assert 18 <= result.trained_epochs <= 40


def test_a_race_by_time_ends_in_time_and_trains_to_the_end() -> None:
    started = time.monotonic()
    result = race(trials=1, max_seconds=4.0, epochs=200)
    assert time.monotonic() - started < 8.0  # on a busy machine
    best = result.finalists[0]
    assert best["epochs"] == best["training"]["ends"][-1] <= 200
    assert len({one["candidate_id"] for one in result.history}) > 2


def test_a_limit_shorter_than_an_epoch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every step takes a tenth of a second: an epoch of 600 takes a minute. A part of it gives an answer."""
    step = Trainer._step

    def slow(self: Trainer, *args: object) -> None:
        time.sleep(0.1)
        step(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(Trainer, "_step", slow)
    started = time.monotonic()
    with pytest.warns(UserWarning, match=r"an epoch of 600 steps takes about .*, longer than the limit of 3.0\ss"):
        result = race(max_seconds=3.0, training=TrainConfig(epochs=9, batch_size=6, epoch_steps=600))
    assert time.monotonic() - started < 20.0  # on a busy machine
    (only,) = result.history
    assert only["stopped"]
    assert only["reached"] == only["ends"][-1] == 1
    assert result.finalists[0]["val_metric"] == only["val_metric"]


def test_a_training_that_is_late_ends_within_its_epoch() -> None:
    data, calls = benchmark(), []

    def is_late() -> bool:
        calls.append(1)
        return len(calls) == 5

    task = data.task
    torch.manual_seed(41)
    model = RaceCandidate(HandMade("gcn", 2, 8), 0.01, channels=8).build(task)
    config = TrainConfig(epochs=9, batch_size=6, epoch_steps=4)
    stores = {name: open_store(split, torch.device("cpu")) for name, split in data.splits().items()}
    trainer = Trainer(model, config, 41, torch.device("cpu"), stores)
    trainer.is_late = is_late
    steps = len(trainer.plan())
    take_turns([trainer.steps()])
    assert trainer.done
    assert len(trainer.history) == 1 + (5 - 1) // steps
    assert ("part" in trainer.history[-1]) == (5 % steps != 0)
    assert trainer.result().epochs == len(trainer.history)


def test_with_a_limit_of_time_the_speed_of_a_candidate_decides_its_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every other candidate is said to be ten times slower: it gets a tenth of the epochs."""
    speeds = iter([0.01, 0.1] * 50)
    monkeypatch.setattr("gnas.strategies.race_search.measure_epoch", lambda *_: next(speeds))
    monkeypatch.setattr(
        RaceSearch, "_seconds_left", lambda _: None
    )  # no training is stopped, however busy the machine is
    result = race(trials=1, max_seconds=4.0, epochs=500)
    first = {one["candidate_id"]: one["ends"] for one in reversed(result.history)}
    wholes = sorted({ends[-1] for ends in first.values()})
    assert wholes[0] == pytest.approx(wholes[-1] / 10, rel=0.2)
    assert len({len(ends) for ends in first.values()}) == 1  # all pass as many rungs


def test_a_round_keeps_all_workers_busy() -> None:
    """With a limit of time, new candidates are tried beside a long training, more than ``round_size`` of them."""
    assert not fills_workers([1.0], 2)
    assert not fills_workers([8.0, *[1.0] * 7], 2)
    assert fills_workers([8.0, *[1.0] * 8], 2)
    assert fills_workers([1000.0, *[1.0] * 15], 2)  # one round is not the whole race


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


def test_a_killed_process_goes_on(tmp_path: Path) -> None:
    """Nothing is saved at the moment of death: the last state on disk must do."""
    wanted = race()

    class Killed(BaseException):
        pass

    def kill(record: dict) -> None:
        if record["trial"] == 5:
            raise Killed

    with Run(tmp_path / "run", {}) as folder, pytest.raises(Killed):
        race(how={"run": folder, "on_epoch": kill})
    with open(tmp_path / "run" / "history.jsonl", "a") as file:
        file.write('{"trial": 6, "half')  # written, but not known to a checkpoint
    with Run(tmp_path / "run", {}, resume=True) as folder:
        found = race(how={"run": folder})
    assert untimed(found.history) == untimed(wanted.history)
    assert found.finalists == wanted.finalists


def test_cycles_end_with_the_rungs() -> None:
    assert TrainConfig(epochs=81).cycle_ends() == (3, 9, 27, 81)
    assert TrainConfig(epochs=2).cycle_ends() == (1, 2)
    assert TrainConfig(epochs=1).cycle_ends() == (1,)
    assert TrainConfig(epochs=9, ends=(1, 1, 4, 9)).cycle_ends() == (1, 4, 9)


def test_what_an_ensemble_may_choose_from_reached_one_of_the_last_two_rungs() -> None:
    standing = Standing((1, 3, 9), True)
    for number in range(1, 9):
        standing.add_record(record(f"n{number}", 3 if number > 2 else 1, number / 10, seconds=number))
    standing.add_record(record("n9", 3, None))
    keys = {f"n{number}": RaceCandidate(HandMade(f"n{number}"), 0.1).id for number in range(1, 10)}
    assert standing.reserve(0) == set()
    assert standing.reserve(1) == {keys[f"n{number}"] for number in (8, 7, 6)}
    assert standing.reserve(5) == {keys[f"n{number}"] for number in range(3, 9)}


def test_the_trainings_for_an_ensemble_are_kept(tmp_path: Path) -> None:
    with Run(tmp_path / "search", {}) as run:
        result = race(trials=9, ensemble=1, how={"run": run})
    kept = {folder.name for folder in (tmp_path / "search" / "trials").iterdir() if folder.is_dir()}
    late = {one["candidate_id"] for one in result.history if one["reached"] >= 3 and one["val_metric"] is not None}
    assert {one["id"] for one in result.finalists} <= kept <= late
    assert len(kept) > len(result.finalists)
