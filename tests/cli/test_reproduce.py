"""``gnas reproduce``: the plan, a very small part of ``--quick`` from runs to tables, stopping, failing, bad words."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from terminal import gnas, one_line

ROOT = Path(__file__).parents[2]
# Two networks, one epoch each, by the code that --quick runs.
SMALL = (
    *("reproduce", "--quick", "--only", "table-zinc,figure-collapse", "--datasets", "zinc", "--methods", "gnas,gin"),
    *(
        "--depths",
        "4",
        "--seeds",
        "41",
        "--set",
        "epochs=1",
        "--set",
        "search_epochs=1",
        "--device",
        "cpu",
        "--out",
        "out",
    ),
)


@pytest.mark.filterwarnings("ignore:epoch")
def test_from_nothing_to_tables_and_on_after_a_time_limit() -> None:
    plan = gnas(*SMALL, "--list", "--json").json
    assert (plan["done"], plan["left"]) == (0, 4)
    assert plan["seconds_left"] > 0
    stopped = gnas(*SMALL, "--time-limit", "0", "--json")
    assert stopped.code == 0, stopped
    assert (stopped.json["stopped"], len(stopped.json["left"])) == (True, 4)
    ended = gnas(*SMALL, "--keep", "kept", "--json")
    assert ended.code == 0, ended
    assert (len(ended.json["done"]), ended.json["left"], ended.json["failed"]) == (4, [], {})
    lines = {row["model"]: row for row in ended.json["tables"]["table-zinc"]}
    assert set(lines) == {"gnas", "gin"}
    told = json.loads(next(Path("out").rglob("trained/gin/seed-41/result.json")).read_text())
    assert (lines["gin"]["ours_metric"], lines["gin"]["weights"]) == (told["test"], told["num_weights"])
    assert lines["gin"]["paper_metric"] == 0.387
    assert all(Path(name).exists() for names in ended.json["figures"].values() for name in names)
    shutil.rmtree("out")
    kept = gnas(*SMALL, "--from", "kept", "--no-run", "--json").json
    assert kept["tables"] == ended.json["tables"]
    shown = gnas(*SMALL, "--from", "kept", "--no-run")
    assert "4 of 4 runs done" in shown.out
    assert "not comparable with the paper" in shown.out


def test_failed_runs_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GNAS_OFFLINE", "1")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    words = ("reproduce", "--only", "table-zinc", "--methods", "gin", "--data-root", tmp_path, "--out", "out")
    ended = gnas(*words, "--device", "cpu")
    assert ended.code == 1, ended
    assert "failed   zinc/gin-4 seeds 41, 95, 12, 35: no data for 'zinc'" in ended.out
    assert "failed: no data for 'zinc'" in Path("out/tables/table-zinc.md").read_text()
    assert "no data for 'zinc'" in Path("out/index.md").read_text()
    plan = gnas(*words, "--list", "--json").json
    assert [run["state"].partition(":")[0] for run in plan["runs"]] == ["failed before"] * 2


def test_the_page_of_results_is_up_to_date(tmp_path: Path) -> None:
    """docs/results-details.md holds what the kept runs give; after new ones: the command in docs/reproduce.md."""
    page = tmp_path / "docs" / "results-details.md"
    page.parent.mkdir()
    shutil.copyfile(ROOT / "docs" / "results-details.md", page)
    ended = gnas(
        "reproduce", "--from", ROOT / "benchmarks" / "results", "--no-run", "--page", page, "--out", "out", "--quiet"
    )
    assert ended.code == 0, ended
    assert page.read_text() == (ROOT / "docs" / "results-details.md").read_text()


def test_an_estimate_for_a_gpu_needs_none() -> None:
    plan = gnas("reproduce", "--list", "--device", "cuda", "--only", "table-nodes", "--json").json
    here = gnas("reproduce", "--list", "--device", "cpu", "--only", "table-nodes", "--json").json
    assert 0 < plan["seconds_left"] < here["seconds_left"]


def test_bad_words_are_one_line() -> None:
    one_line(gnas("reproduce", "--only", "table-zink"), 2, "unknown table or figure", "did you mean 'table-zinc'")
    one_line(gnas("reproduce", "--depths", "deep"), 2, "--depths 'deep': 'deep' is not a whole number")
    one_line(gnas("reproduce", "--set", "cells=3"), 2, "'cells' cannot be changed here")
    one_line(gnas("reproduce", "--set", "data.split=random"), 2, "data.split cannot be changed here")
    one_line(gnas("reproduce", "--set", "data.structure=girth"), 2, "unknown structure 'girth'", "size, degree")
    one_line(gnas("reproduce", "--set", "dropuot=3"), 2, "unknown setting 'dropuot'")
    one_line(gnas("reproduce", "--from", "nowhere"), 2, "nowhere: no such folder")
    one_line(gnas("reproduce", "--page", "nowhere.md", "--no-run"), 2, "nowhere.md: no such file")
    one_line(gnas("reproduce", "--searches", "0"), 2, "searches")
