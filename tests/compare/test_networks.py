"""Comparisons: what is trained is collected, ranked in the right direction, and written so that it can be read again."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from small import GENOTYPE, benchmark, builder, stop_after
from tiny import untimed

from gnas.compare import networks as module
from gnas.compare.networks import Candidate, compare, make_row
from gnas.errors import InputError, Interrupted
from gnas.files import dump_config
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
        Candidate("gnas", GENOTYPE, 16),
        Candidate("narrow", GENOTYPE, 8, remark="half as wide | nothing else"),
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
        alone = [train(lambda candidate=candidate: candidate.build(BENCH.task), BENCH, CONFIG, seed) for seed in SEEDS]
        assert row.mean == pytest.approx(sum(r.test for r in alone) / 2)
        assert row.std == pytest.approx(abs(alone[0].test - alone[1].test) / 2)
        assert row.val == pytest.approx(sum(r.val for r in alone) / 2)
        assert (row.seeds, row.num_weights, row.depth) == (2, alone[0].num_weights, 2)
        assert (row.found, row.remark) == (candidate.found, candidate.remark)
        folder = tmp_path / "trained" / row.name / "seed-41"
        weights = checkpoint.load(folder / "weights.safetensors")
        assert all((weights[name] == value).all() for name, value in alone[0].network.state_dict().items())
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
        ({"channels": 8}, r"trained/gnas/seed-41: cannot resume with another architecture"),
        ({"dataset": "other"}, r"cannot resume with another dataset \('other'; the run has 'small-regression'\)"),
    ],
)
def test_other_settings_in_the_same_folder_are_refused(tmp_path: Path, change: dict, message: str) -> None:
    one = candidates()[0]
    compare(BENCH, [one], CONFIG, (41,), tmp_path)
    other = replace(one, channels=change.get("channels", one.channels))
    bench = replace(BENCH, name=change.get("dataset", BENCH.name))
    with pytest.raises(InputError, match=message):
        compare(bench, [other], change.get("config", CONFIG), (41,), tmp_path)


def test_a_training_of_version_0_1_is_collected_and_resumed(tmp_path: Path, trainings: list) -> None:
    """Its settings describe the network in words."""
    compare(BENCH, candidates()[:1], CONFIG, SEEDS, tmp_path)
    for seed, done in zip(SEEDS, (True, False), strict=True):
        folder = tmp_path / "trained" / "gnas" / f"seed-{seed}"
        config = Run(folder).config
        del config["architecture"]
        config["describe"] = f"genotype {GENOTYPE.id}, channels 16, dropout 0.0"
        (folder / "config.yaml").write_text(dump_config(config))
        if not done:
            (folder / "result.json").unlink()
    trainings.clear()
    compare(BENCH, candidates()[:1], CONFIG, SEEDS, tmp_path)
    assert trainings == [SEEDS[1:]]
    with pytest.raises(InputError, match="cannot resume with another describe"):
        compare(BENCH, [replace(candidates()[0], channels=8)], CONFIG, SEEDS, tmp_path)


def test_a_network_of_your_own_is_trained_here(tmp_path: Path) -> None:
    own = Candidate("own", own=builder(BENCH, 8), own_depth=2)
    row, same = compare(BENCH, [own, Candidate("same", GENOTYPE, 8)], CONFIG, (41,), tmp_path).rows
    assert (row.mean, row.depth, row.num_weights) == (same.mean, same.depth, same.num_weights)
    with pytest.raises(InputError, match="needs an architecture or a function"):
        Candidate("neither")


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

    def read_result(training):
        result = {"test": scores[training.candidate.name], "val": 1.0, "num_weights": 1, "seconds": 6.0, "epochs": 3}
        return result if training.seed == 1 else {**result, "seconds": 3.0, "epochs": 0}

    monkeypatch.setattr(module.Training, "read_result", read_result)
    board = compare(bench, [Candidate(name, GENOTYPE) for name in scores], CONFIG, (1, 2), tmp_path)
    assert [row.name for row in board.rows] == (["b", "a", "c"] if kind == "classification" else ["c", "a", "b"])
    assert (board.dataset, board.metric) == (bench.name, bench.task.metric)
    assert (board.rows[0].seconds, board.rows[0].seconds_per_epoch) == (9.0, 2.5)


def test_trainings_that_batch_norm_spoils_are_remarked():
    figures = {"test": 50.0, "val": 51.0, "num_weights": 10, "seconds": 1.0, "epochs": 2}
    candidate = Candidate("gcn", own=lambda: None, own_depth=4, remark="half as wide")
    results = [figures, {**figures, "norms_lag": True}, {**figures, "norms_lag": False}]
    assert make_row(candidate, results).remark == "half as wide; batch norms lag in 1 of 3 seeds"
    assert make_row(candidate, results[::2]).remark == "half as wide"
