"""One reader of run folders: typed records, one rule for the state of a run, one line for damaged files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from folders import made_up_job, put, real_job

from gnas.errors import InputError
from gnas.run import layout
from gnas.run.folder import Run
from gnas.run.record import TrainingFigures, read_history, read_run, read_search, read_trainings
from gnas.run.summary import list_runs, summarise_run


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return real_job(tmp_path_factory.mktemp("record") / "job")


def states(folder: Path) -> set[str]:
    return {layout.run_state(folder), read_run(folder).state, summarise_run(folder).state, list_runs(folder)[0].state}


@pytest.mark.parametrize("age", [0, 100_000])
def test_the_state_of_a_run_is_the_same_for_every_reader(tmp_path: Path, age: float) -> None:
    """By its result and its lock, whatever the times of its files."""
    folder = made_up_job(tmp_path / "job", stage="training", age=age)
    assert states(folder) == {"stopped"}
    with Run(folder, Run(folder).config, resume=True):
        os.utime(folder / "config.yaml", (1, 1))
        assert states(folder) == {"running"}
    assert states(folder) == {"stopped"}
    put(folder / "result.json", {})
    assert states(folder) == {"finished"}


def test_a_reader_does_not_keep_a_run_out(tmp_path: Path) -> None:
    with Run(tmp_path, {"job": "search"}):
        pass
    for _ in range(20):
        assert not layout.is_locked(tmp_path)
        Run(tmp_path, {"job": "search"}, resume=True).close()


def test_records_of_a_real_run(real: Path) -> None:
    record = read_run(real)
    assert {(one.name, one.seed) for one in record.trainings} == {(n, s) for n in ("gnas", "gcn") for s in (1, 2)}
    assert list(record.by_network()) == ["gnas", "gcn"]
    for one in record.trainings:
        assert one.folder == layout.training_folder(real, one.name, one.seed)
        assert one.result is not None
        assert TrainingFigures.from_dict(one.result.to_dict(), one.folder) == one.result
        assert one.config["fingerprint"] == record.config["fingerprint"]
    search = read_search(layout.search_folder(real))
    assert search.result == record.search
    assert search.architecture == record.genotype
    assert search.history == record.history
    assert [one.name for one in read_trainings(real, "gcn")] == ["gcn", "gcn"]


def test_names_of_folders(tmp_path: Path) -> None:
    for path in ("trained/gcn/seed-10", "trained/gcn/seed-9", "trained/gcn/seed-x", "round-2", "round-10"):
        put(tmp_path / path / "config.yaml", "seed: 1\n")
    (tmp_path / "trained/gcn/seed-3").mkdir()  # no run was started in it
    assert list(layout.list_trainings(tmp_path, "gcn")) == [9, 10]
    assert list(layout.list_rounds(tmp_path)) == [2, 10]
    assert layout.list_networks(tmp_path) == ["gcn"]


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("data.json", {"task": 3}),
        ("search/result.json", {"seconds": 1}),
        ("trained/gcn/seed-41/result.json", {"seed": 41, "test": "good", "val": 1, "metric": "mae"}),
        ("trained/gcn/seed-41/config.yaml", "seed: [1]\n"),
        ("result.json", {"rounds": [3]}),
        ("leaderboard.json", {"rows": [{"odd": 1}]}),
    ],
)
def test_damaged_files_are_one_line(tmp_path: Path, file: str, content: object) -> None:
    from gnas.report import write_report

    folder = made_up_job(tmp_path / "job")
    put(folder / file, content)
    with pytest.raises(InputError) as caught:
        write_report(folder)
    assert str(folder) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("key", "value"), [("val_metric", ""), ("seconds", [1.0]), ("genotype", 3), ("alphas", {})])
def test_a_value_of_another_kind_in_a_history_is_one_line(tmp_path: Path, key: str, value: object) -> None:
    """The live view and a resumed race computed with it."""
    from gnas.report.live import render_state

    folder = made_up_job(tmp_path / "job")
    file = next(folder.rglob("history.jsonl"))
    records = [json.loads(line) for line in file.read_text().splitlines()]
    file.write_text("".join(json.dumps({**record, key: value}) + "\n" for record in records))
    with pytest.raises(InputError, match=f"history.jsonl, line 1: its '{key}' is not a"):
        read_history(file.parent)
    with pytest.raises(InputError, match=f"line 1: its '{key}' is not a"):
        render_state(folder)


def test_a_live_view_of_odd_files_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from gnas.report import live

    folder = made_up_job(tmp_path / "job")
    monkeypatch.setattr(live, "make_live_pictures", lambda run, racers: 1 + None)  # type: ignore[operator]
    with pytest.raises(InputError, match="the files of this run are not as gnas writes them"):
        live.render_state(folder)


@pytest.mark.parametrize(
    ("key", "value"),
    [("seconds", []), ("seconds", None), ("num_weights", None), ("metrics", [1]), ("metrics", {"test": {"mae": "x"}})],
)
def test_a_resumed_comparison_refuses_a_result_of_another_kind(tmp_path: Path, key: str, value: object) -> None:
    folder = made_up_job(tmp_path / "job")
    training = folder / "trained" / "gcn" / "seed-41"
    result = {"seed": 41, "test": 0.2, "val": 0.3, "metric": "mae", "epochs": 2, "seconds": 1.0, "num_weights": 5}
    put(training / "result.json", result)
    assert Run(training).read_training() is not None
    put(training / "result.json", {**result, key: value})
    with pytest.raises(InputError, match=f"'{key}'") as caught:
        Run(training).read_training()
    assert str(training) in str(caught.value)


def test_a_list_of_runs_imports_no_torch() -> None:
    code = "import sys, gnas.run.summary; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
