"""How sure a difference is: paired over seeds, or a bootstrap over test graphs, and what the answer says of it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from folders import board, made_up_job

from gnas.report.answer import describe_run
from gnas.report.uncertainty import find_difference
from gnas.run.leaderboard import Leaderboard, Row
from gnas.run.record import RunRecord, TrainingFigures, TrainingRecord, read_run

RANDOM = np.random.default_rng(0)


def trained(folder: Path, name: str, seed: int, test: float) -> TrainingRecord:
    return TrainingRecord(folder, name, seed, {}, [], TrainingFigures(seed, test, test, "mae"))


def job(tmp_path: Path, tests: dict[str, list[float]], rows: tuple[Row, ...] | None = None) -> RunRecord:
    made = read_run(made_up_job(tmp_path / "job"))
    trainings = tuple(
        trained(tmp_path / name / str(seed), name, seed, test)
        for name, values in tests.items()
        for seed, test in enumerate(values)
    )
    return replace(made, trainings=trainings, leaderboard=replace(board(), rows=rows or board().rows))


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str], None]:
    def write(name: str, text: str) -> None:
        file = tmp_path / name / "0" / "predictions.csv"
        file.parent.mkdir(parents=True)
        file.write_text(text)

    return write


def rows_of(job: RunRecord) -> tuple[Row, Row]:
    assert job.leaderboard is not None
    found = {row.name: row for row in job.leaderboard.rows}
    return found["gnas"], found["gatedgcn"]


def test_seeds_are_compared_in_pairs(tmp_path: Path) -> None:
    """The seeds differ much, the two networks of one seed do not."""
    run = job(tmp_path, {"gnas": [0.1, 0.5, 0.9], "gatedgcn": [0.15, 0.56, 0.94]})
    found = find_difference(run, *rows_of(run))
    assert found is not None
    assert found.value == pytest.approx(-0.05)
    assert found.high - found.value == pytest.approx(4.303 * 0.01 / 3**0.5, rel=1e-3)
    assert found.is_sure
    text = " ".join(describe_run(run)).replace("\u00a0", " ")
    assert "95 % interval of −0.0748 to −0.0252 (a paired t interval over 3 seeds), so it is more than chance" in text


def test_a_bootstrap_over_graphs(tmp_path: Path, write: Callable[[str, str], None]) -> None:
    y, errors = RANDOM.normal(size=60), {}
    for name, noise in (("gnas", 0.1), ("gatedgcn", 1.0)):
        errors[name] = noise * RANDOM.normal(size=60)
        lines = [
            f"{k},test,{value},{value + error}" for k, (value, error) in enumerate(zip(y, errors[name], strict=True))
        ]
        write(name, "\n".join(["graph,split,y,prediction", "0,val,1.0,900.0", *lines]))
    figures = {name: float(np.abs(values).mean()) for name, values in errors.items()}
    run = job(tmp_path, {name: [figure * 1.1] for name, figure in figures.items()})
    assert find_difference(run, *rows_of(run)) is None  # figures of other predictions
    run = job(tmp_path, {name: [figure] for name, figure in figures.items()})
    found = find_difference(run, *rows_of(run))
    assert found is not None
    assert found.over == "60 test graphs"
    assert found.low < found.value < found.high < 0
    assert found.is_sure


def test_classes_of_nodes_are_drawn_by_graph(tmp_path: Path, write: Callable[[str, str], None]) -> None:
    """All nodes of a graph agree: 12 graphs of 50 nodes say no more than 12 rows."""
    for name, right in (("gnas", 7), ("gatedgcn", 5)):
        answers = {True: "a,0.9,0.1", False: "b,0.1,0.9"}
        lines = [f"{graph},{node},test,a,{answers[graph < right]}" for graph in range(12) for node in range(50)]
        write(name, "\n".join(["graph,node,split,y,prediction,p_a,p_b", *lines]))
    rows = tuple(replace(row, seeds=1) for row in board().rows)
    run = job(tmp_path, {"gnas": [100 * 7 / 12], "gatedgcn": [100 * 5 / 12]}, rows)
    run = replace(run, leaderboard=Leaderboard("mine", "accuracy", rows))
    found = find_difference(run, *rows_of(run))
    assert found is not None
    assert found.value == pytest.approx(100 * 2 / 12)
    assert found.low <= 0 < found.high
    text = " ".join(describe_run(run))
    assert "so it may be chance" in text
    assert "a bootstrap over 12 test graphs" in text


def test_what_cannot_be_compared_has_no_interval(tmp_path: Path, write: Callable[[str, str], None]) -> None:
    run = job(tmp_path, {"gnas": [0.1], "gatedgcn": [0.8]})
    assert find_difference(run, *rows_of(run)) is None  # no predictions
    for name, y in (("gnas", 1.0), ("gatedgcn", 2.0)):  # other targets
        write(name, "\n".join(["graph,split,y,prediction", *(f"{k},test,{y},1.0" for k in range(9))]))
    assert find_difference(run, *rows_of(run)) is None


def test_a_supernet_that_did_not_learn_is_named(tmp_path: Path) -> None:
    run = job(tmp_path, {})
    told = {"epochs": 5, "rate": 0.1, "new_rate": 0.01}
    history = [*run.history[:4], {**run.history[4], "not_learned": told}, *run.history[5:]]
    text = " ".join(describe_run(replace(run, history=history)))
    assert (
        "At rate 0.1 the supernet was no better than a constant prediction, so the search began anew with rate 0.01"
        in text
    )
