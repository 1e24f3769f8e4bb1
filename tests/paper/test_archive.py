"""An archive holds what its run folders held, without weights, and what is no archive is refused in one line."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from gnas.errors import InputError
from gnas.paper.archive import add_runs, copy_run, unpack_archive
from gnas.run.folder import Run

ALPHAS = [[0.1, 0.2]]


def write_run(folder: Path, epochs: int = 12) -> None:
    with Run(folder, {"job": "search", "lr": 1e-5, "seeds": [41]}) as run:
        run.write_json("result", {"seconds": 2.5})
        run.save_state({"weights": 1})
    (folder / "genotype.yaml").write_text("cells: []\n")
    (folder / "leaderboard.csv").write_text("name\n")
    for name, done in (("search", True), ("trained/gnas/seed-41", False)):
        with Run(folder / name, {"job": name}) as run:
            for epoch in range(1, epochs + 1):
                run.append({"epoch": epoch, "alphas": ALPHAS})
            if done:
                run.write_json("result", {"test": 0.1, "μ": None})


def read_files(folder: Path) -> dict[str, str]:
    return {
        str(file.relative_to(folder)): file.read_text(errors="replace") for file in folder.rglob("*") if file.is_file()
    }


def test_an_archive_holds_the_small_files_of_what_is_finished(tmp_path: Path) -> None:
    write_run(tmp_path / "runs" / "zinc" / "one")
    add_runs(tmp_path / "kept", tmp_path / "runs", ["zinc/one"])
    folder = unpack_archive(tmp_path / "kept", "zinc")
    assert folder is not None
    got, before = read_files(folder / "one"), read_files(tmp_path / "runs" / "zinc" / "one")
    history = got.pop("search/history.jsonl")
    expected = ("config.yaml", "result.json", "genotype.yaml", "search/config.yaml", "search/result.json")
    assert got == {name: before[name] for name in expected}
    assert [record["epoch"] for record in map(json.loads, history.splitlines()) if "alphas" in record] == [10, 12]
    copy_run(tmp_path / "runs" / "zinc" / "one", tmp_path / "copy")
    assert read_files(tmp_path / "copy") == {**got, "search/history.jsonl": history}
    assert len((tmp_path / "kept" / "zinc.jsonl").read_text().splitlines()) == len(expected)


def test_runs_are_added_and_replaced(tmp_path: Path) -> None:
    kept, runs = tmp_path / "kept", tmp_path / "runs"
    for name in ("zinc/b", "mnist/c", "zinc/a"):
        write_run(runs / name)
        add_runs(kept, runs, [name])
    (runs / "zinc" / "a" / "result.json").write_text('{"seconds": 3}')
    add_runs(kept, runs, ["zinc/a", "mnist/c"])
    lines = [json.loads(line) for line in (kept / "zinc.jsonl").read_text().splitlines()]
    assert [line["file"] for line in lines] == sorted({line["file"] for line in lines})
    zinc, mnist = unpack_archive(kept, "zinc"), unpack_archive(kept, "mnist")
    assert zinc is not None
    assert mnist is not None
    assert {folder.name for folder in zinc.iterdir()} == {"a", "b"}
    assert Run(zinc / "a").read_json("result") == {"seconds": 3}
    assert Run(mnist / "c" / "search").history()[-1] == {"epoch": 12, "alphas": ALPHAS}
    assert unpack_archive(kept, "cluster") is None


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 2: expected a file and its content"),
        ("[]", "line 2: expected a file and its content"),
        ('{"file": "zinc/a/model.py", "content": ""}', "line 2: 'zinc/a/model.py' is not a file of a run folder"),
        ('{"file": "../a/result.json", "content": ""}', "line 2: '../a/result.json' is not a file"),
        ('{"file": "/tmp/result.json", "content": ""}', "line 2: '/tmp/result.json' is not a file"),
        ('{"file": "zinc/a/history.jsonl", "content": 1}', "zinc/a/history.jsonl: its content is 1"),
    ],
)
def test_other_files_are_refused(line: str, message: str, tmp_path: Path) -> None:
    good = '{"file": "zinc/a/result.json", "content": {}}\n'
    (tmp_path / "zinc.jsonl").write_text(good + line + "\n")
    with pytest.raises(InputError, match=rf"zinc.jsonl: {message}"):
        unpack_archive(tmp_path, "zinc")
    (tmp_path / "zinc.jsonl").unlink()
    (tmp_path / "zinc-histories.jsonl.gz").write_bytes(gzip.compress(good.encode())[:-9])
    with pytest.raises(InputError, match=r"zinc-histories.jsonl.gz: cannot be read"):
        unpack_archive(tmp_path, "zinc")
