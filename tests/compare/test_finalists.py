"""The finalists of a race in a run folder: taken over, compared, usable at any moment."""

import time
from dataclasses import replace
from pathlib import Path

import pytest
from small import benchmark, stop_after
from tiny import untimed

from gnas.arch.hand_made import HandMade
from gnas.compare import finalists
from gnas.compare.finalists import Finalist
from gnas.errors import Interrupted
from gnas.run.folder import Run
from gnas.run.leaderboard import Leaderboard
from gnas.run.models import choose_network, find_model, load_model
from gnas.run.protocol import TrainConfig
from gnas.run.settings import Settings
from gnas.strategies.candidate import RaceCandidate
from gnas.training.evaluation import evaluate
from gnas.use.predict import predict
from gnas.workflow import Discovery, discover

BENCH = benchmark()
SETTINGS = Settings.resolve(
    strategy="race",
    nodes=2,
    cells=1,
    channels=8,
    epochs=4,
    batch=6,
    seeds=(1, 2),
    baselines=("gcn",),
    search={"trials": 4, "finals": 1, "round_size": 2},
)


def told(one: Discovery) -> tuple:
    rows = [replace(row, seconds=0, seconds_per_epoch=0) for row in one.leaderboard.rows]
    return one.genotype, untimed(one.search.history), rows


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Discovery:
    return discover(BENCH, SETTINGS, tmp_path_factory.mktemp("whole") / "run")


def test_the_best_found_and_the_best_hand_made_network_are_compared(whole: Discovery) -> None:
    rows = {row.name: row for row in whole.leaderboard.rows}
    hand_made = next(one for one in whole.search.finalists if "baseline" in one["candidate"]["architecture"])
    assert "gnas" in rows
    assert {row.found for row in rows.values()} == {True, False}
    assert all(row.seeds == 2 for row in rows.values())
    first = Run(whole.folder / "trained" / "gnas" / "seed-1").read_json("result")
    best = next(one for one in whole.search.finalists if one is not hand_made)
    assert first["val"] == best["val_metric"]  # of the race, not trained again
    assert first["epochs"] == 4


def test_the_best_by_validation_is_used(whole: Discovery) -> None:
    best = min(whole.leaderboard.rows, key=lambda row: row.val).name
    assert choose_network(whole.folder) == best == find_model(whole.folder).name
    predicted = predict(whole.folder, BENCH.test)
    assert predicted.network.startswith(f"{best}, seed ")
    assert choose_network(whole.folder, found_only=True) == "gnas"


@pytest.mark.parametrize("count", [3, 20, 40])
def test_a_stopped_job_resumes_to_the_same_result(count: int, whole: Discovery, tmp_path: Path) -> None:
    with pytest.raises(Interrupted):
        discover(BENCH, SETTINGS, tmp_path / "run", should_stop=stop_after(count))
    found = discover(BENCH, SETTINGS, tmp_path / "run", resume=True)
    assert told(found) == told(whole)


def test_a_killed_race_leaves_networks_that_can_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finalists, "PAUSE", 0.0)
    monkeypatch.setattr(finalists, "SHARE", 1e9)

    class Killed(BaseException):
        pass

    def kill(record: dict) -> None:
        if record.get("trial") == 5:
            raise Killed

    with pytest.raises(Killed):
        discover(BENCH, SETTINGS, tmp_path / "run", on_epoch=kill)
    board = Leaderboard.from_dict(Run(tmp_path / "run").read_json("leaderboard"))
    assert len(board.rows) == 2
    model, info = load_model(tmp_path / "run")
    row = next(row for row in board.rows if row.name == info.name)
    assert evaluate(model, BENCH.val)["metric"] == pytest.approx(row.val)
    assert evaluate(model, BENCH.test)["metric"] == pytest.approx(row.mean)
    done = discover(BENCH, SETTINGS, tmp_path / "run", resume=True)
    names = {path.name for path in (tmp_path / "run" / "trained").iterdir()}
    assert names == {row.name for row in done.leaderboard.rows}


def test_a_limit_of_time_holds_for_the_whole_job(tmp_path: Path) -> None:
    settings = SETTINGS.changed({"search.max_seconds": 5, "training.epochs": 30, "training.seeds": (1,)})
    started = time.monotonic()
    found = discover(BENCH, settings, tmp_path / "run", started=started)
    assert time.monotonic() - started < 10  # on a busy machine
    assert len(found.leaderboard.rows) == 2


def test_an_unfinished_finalist_is_compared_as_it_is() -> None:
    raced = RaceCandidate(HandMade("gin", 2), 0.01, channels=8)
    record = {"candidate": raced.to_dict(), "id": "a", "epochs": 7, "val_metric": 0.5, "training": {"ends": [2, 6, 20]}}
    one = Finalist.from_record(record)
    assert one.entry.protocol(TrainConfig()).epochs == 20
    done = one.as_trained()
    assert done.entry.protocol(TrainConfig()).cycle_ends() == (2, 6, 7)
    assert "7 of 20 epochs" in done.entry.remark
    whole = Finalist.from_record({**record, "epochs": 20})
    assert whole.as_trained() is whole
