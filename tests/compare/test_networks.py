"""Comparisons: what is trained is collected, ranked in the right direction, and written so that it can be read again."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from small import benchmark, builder, stop_after
from tiny import untimed

from gnas.compare import networks as module
from gnas.compare.networks import Candidate, compare, make_row, train_candidate
from gnas.errors import InputError, Interrupted
from gnas.run import checkpoint
from gnas.run.folder import Run
from gnas.run.leaderboard import Leaderboard
from gnas.run.protocol import TrainConfig
from gnas.training.train import train

BENCH = benchmark()
CONFIG = TrainConfig(epochs=2, batch_size=6)
SEEDS = (41, 12)


def candidates(bench=BENCH) -> list[Candidate]:
    return [
        Candidate("gnas", builder(bench), 2, found=True, describe="wide"),
        Candidate("narrow", builder(bench, 8), 2, remark="half as wide | nothing else", describe="narrow"),
    ]


@pytest.fixture
def trainings(monkeypatch) -> list[tuple[int, ...]]:
    """The seeds of every call that trains."""
    calls, real = [], module.train_seeds

    def counted(build, bench, config, seeds, **how):
        calls.append(tuple(seeds))
        return real(build, bench, config, seeds, **how)

    monkeypatch.setattr(module, "train_seeds", counted)
    return calls


def timeless(board: Leaderboard) -> Leaderboard:
    return replace(board, rows=tuple(replace(row, seconds=0, seconds_per_epoch=0) for row in board.rows))


def test_rows_are_the_trainings(tmp_path: Path) -> None:
    heard: list[dict] = []
    board = compare(BENCH, candidates(), CONFIG, SEEDS, tmp_path, on_epoch=heard.append)
    assert {(r["model"], r["seed"]) for r in heard} == {(name, seed) for name in ("gnas", "narrow") for seed in SEEDS}
    for row, candidate in ((next(r for r in board.rows if r.name == c.name), c) for c in candidates()):
        alone = [train(candidate.build, BENCH, CONFIG, seed) for seed in SEEDS]
        assert row.mean == pytest.approx(sum(r.test for r in alone) / 2)
        assert row.std == pytest.approx(abs(alone[0].test - alone[1].test) / 2)
        assert row.val == pytest.approx(sum(r.val for r in alone) / 2)
        assert (row.seeds, row.num_weights, row.depth) == (2, alone[0].num_weights, 2)
        assert (row.found, row.remark) == (candidate.found, candidate.remark)
        folder = tmp_path / "trained" / row.name / "seed-41"
        weights = checkpoint.load(folder / "weights.safetensors")
        assert all((weights[name] == value).all() for name, value in alone[0].model.state_dict().items())
        assert untimed(Run(folder).history()) == untimed(alone[0].history)
        assert json.loads((folder / "model.json").read_text())


def test_finished_trainings_are_not_repeated(tmp_path: Path, trainings: list) -> None:
    first = compare(BENCH, candidates(), CONFIG, (41,), tmp_path)
    assert trainings == [(41,), (41,)]
    again = compare(BENCH, candidates(), CONFIG, (41,), tmp_path)
    assert again == first
    assert len(trainings) == 2
    more = compare(BENCH, candidates(), CONFIG, (41, 12), tmp_path)
    assert trainings[2:] == [(12,), (12,)]  # only what is missing
    assert timeless(more) == timeless(compare(BENCH, candidates(), CONFIG, (41, 12), tmp_path / "other"))


def test_an_interrupted_comparison_goes_on(tmp_path: Path, trainings: list) -> None:
    wanted = compare(BENCH, candidates(), CONFIG, SEEDS, tmp_path / "whole")
    trainings.clear()
    with pytest.raises(Interrupted) as held:  # in the first candidate's second seed
        compare(BENCH, candidates(), CONFIG, SEEDS, tmp_path / "run", should_stop=stop_after(6))
    assert held.traceback  # somebody keeps the error: the folders are free all the same
    found = compare(BENCH, candidates(), CONFIG, SEEDS, tmp_path / "run")
    assert timeless(found) == timeless(wanted)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"config": CONFIG.with_(lr=0.1)}, r"trained/gnas/seed-41: cannot resume with another training"),
        ({"describe": "other"}, r"trained/gnas/seed-41: cannot resume with another describe"),
        ({"dataset": "other"}, r"cannot resume with another dataset \('other'; the run has 'small-regression'\)"),
    ],
)
def test_other_settings_in_the_same_folder_are_refused(tmp_path: Path, change: dict, message: str) -> None:
    one = candidates()[0]
    train_candidate(BENCH, one, CONFIG, (41,), tmp_path)
    other = replace(one, describe=change.get("describe", one.describe))
    bench = replace(BENCH, name=change.get("dataset", BENCH.name))
    with pytest.raises(InputError, match=message):
        train_candidate(bench, other, change.get("config", CONFIG), (41,), tmp_path)


def test_seeds_are_needed_and_differ(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="at least one seed"):
        compare(BENCH, candidates(), CONFIG, (), tmp_path)
    with pytest.raises(InputError, match=r"seeds \[1, 2, 1\] name one of them twice"):
        compare(BENCH, candidates(), CONFIG, (1, 2, 1), tmp_path)
    assert list(tmp_path.iterdir()) == []


# -- the leaderboard --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["regression", "classification"])
def test_the_best_comes_first(tmp_path: Path, kind: str, monkeypatch) -> None:
    bench, scores = benchmark(kind), {"a": 0.5, "b": 0.9, "c": 0.1}

    def told(bench, candidate, *args, **how):
        result = {"test": scores[candidate.name], "val": 1.0, "num_weights": 1, "seconds": 6.0, "epochs": 3}
        return [result, {**result, "seconds": 3.0, "epochs": 0}]

    monkeypatch.setattr(module, "train_candidate", told)
    board = compare(bench, [Candidate(name, builder(bench), 1) for name in scores], CONFIG, (1,), tmp_path)
    assert [row.name for row in board.rows] == (["b", "a", "c"] if kind == "classification" else ["c", "a", "b"])
    assert (board.dataset, board.metric) == (bench.name, bench.task.metric)
    assert (board.rows[0].seconds, board.rows[0].seconds_per_epoch) == (9.0, 2.5)


def test_trainings_that_batch_norm_spoils_are_remarked():
    figures = {"test": 50.0, "val": 51.0, "num_weights": 10, "seconds": 1.0, "epochs": 2}
    candidate = Candidate("gcn", lambda: None, 4, remark="half as wide")
    results = [figures, {**figures, "norms_lag": True}, {**figures, "norms_lag": False}]
    assert make_row(candidate, results).remark == "half as wide; batch norms lag in 1 of 3 seeds"
    assert make_row(candidate, results[::2]).remark == "half as wide"
