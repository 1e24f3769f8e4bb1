"""A run is resumed with its own data only: other data is refused in one line, and nothing is lost."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from terminal import TINY, gnas, one_line, write_molecules

REFUSED = "cannot resume with other data: the file has changed, or another file, target or split was named"


def content(folder: Path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


JOBS = {
    "search": ("search", TINY),
    "train": (
        "train",
        ("--baseline", "gcn", "--preset", "fast", "--epochs", "1", "--channels", "4", "--device", "cpu"),
    ),
    "compare": ("compare", ("--baselines", "gcn", "--preset", "fast", "--epochs", "1", "--device", "cpu")),
    "strategies": (
        "compare",
        *(
            (
                "--strategies",
                "random",
                "--preset",
                "fast",
                "--seeds",
                "0",
                "--budget-epochs",
                "8",
                "--trial-epochs",
                "1",
            ),
        ),
    ),
    "depth": (
        "depth",
        ("--preset", "fast", "--search-epochs", "1", "--channels", "4", "--cells", "1", "--device", "cpu"),
    ),
}


@pytest.mark.parametrize("name", JOBS)
def test_a_run_is_not_resumed_with_a_file_that_has_changed(name: str) -> None:
    data, (job, options) = write_molecules(Path("data.csv")), JOBS[name]
    words = (job, data, "--target", "logP", *options, "--out", "run")
    assert gnas(*words).code == 0
    before = content(Path("run"))
    write_molecules(data, 10.0)
    for extra in ((), ("--json",)):
        one_line(gnas(*words, "--resume", *extra), 2, "run: ", REFUSED)
    assert content(Path("run")) == before
    write_molecules(data)
    assert gnas(*words, "--resume").code == 0


def test_a_stopped_search_is_not_resumed_with_the_file_of_another_folder() -> None:
    first, other = write_molecules(Path("a/data.csv")), write_molecules(Path("b/data.csv"), 10.0)
    assert gnas("search", first, "--target", "logP", *TINY, "--out", "run").code == 0
    for part in ("result.json", "leaderboard.json", "trained/gcn"):
        path = Path("run", part)
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    one_line(gnas("search", other, "--out", "run", "--resume", "--device", "cpu"), 2, REFUSED)
    assert not Path("run/trained/gcn").exists()
    same = write_molecules(Path("c/data.csv"))  # the content counts, not the path
    assert gnas("search", same, "--out", "run", "--resume", "--device", "cpu").code == 0


def test_another_target_is_refused_on_resume() -> None:
    data = write_molecules(Path("data.csv"))
    assert gnas("search", data, "--target", "logP", *TINY, "--out", "run").code == 0
    one_line(gnas("search", data, "--target", "tpsa", *TINY, "--out", "run", "--resume"), 2, "cannot resume with other")


def test_data_of_a_synced_run_is_checked(tmp_path: Path) -> None:
    data, url = write_molecules(Path("data.csv")), f"file://{tmp_path}/remote"
    words = ("search", data, "--target", "logP", *TINY, "--sync", url)
    assert gnas(*words, "--out", "run").code == 0
    write_molecules(data, 10.0)
    one_line(gnas(*words, "--out", "elsewhere", "--resume"), 2, REFUSED)
    board = json.loads(Path("elsewhere/leaderboard.json").read_text())
    assert board == json.loads(Path("run/leaderboard.json").read_text())
