"""Races: promotions, budgets, the trainings to the end, a killed process."""

import time
from pathlib import Path

import pytest
from small import benchmark
from tiny import SPACE, tiny, untimed

from gnas.run.folder import Run
from gnas.run.protocol import TrainConfig
from gnas.strategies import Race, SearchResult, search
from gnas.strategies.candidate import RaceCandidate
from gnas.strategies.race_search import RaceSearch
from gnas.training.train import Trainer, train

SMALL = {"epochs": 9, "batch_size": 6, "round_size": 3}


def race(trials: int = 8, kind: str = "regression", how: dict | None = None, **settings: object) -> SearchResult:
    chosen = Race(**{"trials": trials, "finals": 1, **SMALL, **settings})  # type: ignore[arg-type]
    return search(tiny(kind), SPACE, chosen, channels=8, num_cells=1, **(how or {}))


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


def test_the_trainings_for_an_ensemble_are_kept(tmp_path: Path) -> None:
    with Run(tmp_path / "search", {}) as run:
        result = race(trials=9, ensemble=1, how={"run": run})
    kept = {folder.name for folder in (tmp_path / "search" / "trials").iterdir() if folder.is_dir()}
    late = {one["candidate_id"] for one in result.history if one["reached"] >= 3 and one["val_metric"] is not None}
    assert {one["id"] for one in result.finalists} <= kept <= late
    assert len(kept) > len(result.finalists)
