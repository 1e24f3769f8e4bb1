"""The report: made of the folder alone, whatever stage it is in; one file, nothing fetched, every name escaped."""

import contextlib
import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import yaml
from folders import made_up_job, put, real_job

import gnas
from gnas.errors import InputError
from gnas.report import compare_report, html, write_report
from gnas.report.pictures import build_frames
from gnas.run import checkpoint
from gnas.run.folder import Run
from gnas.run.record import read_run

VOID = {"meta", "link", "input", "br", "path", "rect", "use", "img", "hr", "circle", "line"}


class Page(HTMLParser):
    """Reads a page: tags must close in order; keeps what the tests ask for."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.attributes: list[tuple[str, dict[str, str | None]]] = []
        self.ids: list[str] = []
        self.words = ""
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes.append((tag, dict(attrs)))
        self.ids += [value for name, value in attrs if name == "id" and value]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] not in (["script"], ["style"]):
            self.words += data + " "

    def count(self, tag: str, cls: str) -> int:
        return sum(t == tag and cls in (a.get("class") or "").split() for t, a in self.attributes)


def page(path: Path) -> Page:
    """The page, with the checks every report must pass."""
    text = path.read_text()
    found = Page(text)
    assert not re.search(r"https?:|//[a-z]+\.", text)
    assert len(found.ids) == len(set(found.ids))
    for tag, attributes in found.attributes:
        for name in ("src", "href", "action"):
            assert (attributes.get(name) or "#").startswith(("#", "data:")), (tag, attributes)
    assert text.startswith("<!doctype html>")
    return found


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return real_job(tmp_path_factory.mktemp("jobs") / "real")


@pytest.fixture
def no_plots(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests of everything else: plots take most of the time."""
    monkeypatch.setattr(html, "make_pictures", lambda run: [])


def test_a_finished_job_answers_first(tmp_path: Path) -> None:
    folder = made_up_job(tmp_path / "job")
    found = page(write_report(folder))
    words = " ".join(found.words.split())
    assert (
        "On the test split of zinc, it reaches MAE 0.2760 ± 0.0030 over 4 seeds. This is 8.3 % better than the best"
        in words
    )
    assert "hand-made network, gatedgcn (0.3010 ± 0.0030)." in words
    assert "The search took 1 min 5 s. Training took 2 min 30 s per seed (4 seeds)." in words
    assert words.index("On the test split") < words.index("Architecture") < words.index("Settings and versions")
    assert {"architecture", "comparison", "curves", "data", "settings", "reuse"} <= set(found.ids)
    assert "refresh" not in {a.get("http-equiv") for _, a in found.attributes}


def test_a_real_job(real: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in real.rglob("*") if path.is_file()}
    path = write_report(real)
    found = page(path)
    assert path == real / "report.html"
    assert found.count("table", "sortable") == 4
    assert "a note" in found.words
    assert path.stat().st_size < 500_000
    assert all(file.stat().st_mtime_ns == time for file, time in before.items())


@pytest.mark.usefixtures("no_plots")
@pytest.mark.parametrize(
    ("stage", "state", "words", "ids"),
    [
        ("begun", "running", "Nothing is recorded yet", {"settings", "data"}),
        ("searching", "running", "The search is at epoch 12 of 12", {"architecture"}),
        ("searching", "stopped", "The search stopped at a network", {"architecture"}),
        ("training", "running", "1 of 4 trainings finished", {"architecture", "comparison", "reuse"}),
    ],
)
def test_a_job_under_way_shows_what_is_there(stage: str, state: str, words: str, ids: set[str], tmp_path: Path) -> None:
    folder = made_up_job(tmp_path / "job", stage=stage)
    with Run(folder, Run(folder).config, resume=True) if state == "running" else contextlib.nullcontext():
        assert read_run(folder).state == state
        found = page(write_report(folder, out=tmp_path / "page.html"))
    assert words in " ".join(found.words.split())
    assert ids <= set(found.ids)


def test_single_searches_trainings_and_depth_searches(real: Path, tmp_path: Path) -> None:
    assert {"architecture", "curves"} <= set(page(write_report(real / "search", out=tmp_path / "a.html")).ids)
    found = page(write_report(real / "trained/gcn/seed-1", out=tmp_path / "b.html"))
    assert "gcn, seed 1: test MAE" in found.words
    depth = tmp_path / "depth"
    for number, cells in enumerate((4, 3), start=1):
        part = made_up_job(depth / f"round-{number}", stage="searching", cells=cells)
        put(part / "config.yaml", yaml.safe_dump({"cells": cells, "space": {"nodes": 3, "outputs": 3}}))
        (part / "search/history.jsonl").rename(part / "history.jsonl")
    done = {"depth": 3, "seconds": 10.0, "strategy": "single-level", "trained_epochs": 12, "seed": 0}
    put(depth / "round-1/result.json", done)
    put(depth / "config.yaml", yaml.safe_dump({"job": "depth", "dataset": "zinc"}))
    found = page(write_report(depth))
    assert "The depth changed 4 → 3 in 1 round." in found.words
    assert read_run(depth).space() is not None
    assert read_run(depth).genotype is not None


def test_strategies_of_other_kinds(tmp_path: Path) -> None:
    random = real_job(tmp_path / "random", strategy="random", strategy_settings={"trials": 3})
    found = page(write_report(random))
    assert "Trial" in json.dumps([frame.label for frame in build_frames(read_run(random)).frames])
    assert "best so far" in found.words
    graphnas = real_job(tmp_path / "graphnas", strategy="graphnas", strategy_settings={"trials": 2})
    found = page(write_report(graphnas))
    assert "the network reaches" in found.words
    assert "it is not drawn" in found.words
    assert "architecture" not in found.ids


def test_names_from_outside_are_escaped(tmp_path: Path) -> None:
    evil = "<img src=x onerror=alert(1)>$_&\"'</script>"
    folder = made_up_job(tmp_path / "a <b> run", dataset=evil)
    data = json.loads((folder / "data.json").read_text())
    put(folder / "data.json", {**data, "source": evil, "notes": [evil]})
    board = json.loads((folder / "leaderboard.json").read_text())
    board["rows"][1] |= {"name": evil, "remark": evil}
    put(folder / "leaderboard.json", board)
    for path in (write_report(folder), compare_report([folder], tmp_path / "all.html")):
        found = page(path)
        assert "img" not in {tag for tag, _ in found.attributes}
        assert found.words.count(evil) >= 3


@pytest.mark.usefixtures("no_plots")
def test_too_many_drawings_are_thinned_out_and_the_page_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = made_up_job(tmp_path / "job", epochs=30, cells=4)
    frames = build_frames(read_run(folder), limit=200_000)
    assert sum(map(len, (svg for svg, _ in frames.drawings))) <= 200_000
    assert frames.frames[-1].label == "Epoch 30"
    assert frames.left_out == 30 - len(frames.frames) > 0
    monkeypatch.setattr(html, "build_frames", lambda job: frames)
    assert f"{frames.left_out} epochs of the search are left out" in page(write_report(folder)).words


def test_a_long_search_of_a_deep_network_stays_below_three_megabytes(tmp_path: Path) -> None:
    assert write_report(made_up_job(tmp_path / "deep", epochs=60, cells=16)).stat().st_size < 3_000_000


def test_runs_compared(tmp_path: Path) -> None:
    folders = [made_up_job(tmp_path / name, stage=stage) for name, stage in (("a", "finished"), ("b", "training"))]
    folders.append(made_up_job(tmp_path / "c", dataset="mnist"))
    found = page(compare_report(folders, tmp_path / "all.html"))
    words = " ".join(found.words.split())
    assert "3 runs compared" in words
    assert "zinc: all networks" in words
    assert "mnist: all networks" in words
    assert found.count("figure", "cell") == 9
    assert found.count("table", "sortable") == 3
    with pytest.raises(InputError, match="at least one"):
        compare_report([], tmp_path / "none.html")


@pytest.mark.usefixtures("no_plots")
def test_not_a_run_is_one_line(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "missing"):
        with pytest.raises(InputError, match="not a run folder") as caught:
            write_report(folder)
        assert "\n" not in str(caught.value)
    folder = made_up_job(tmp_path / "job")
    put(folder / "leaderboard.json", {"rows": [{"odd": 1}]})
    with pytest.raises(InputError, match="not a leaderboard"):
        write_report(folder)
    put(folder / "leaderboard.json", "{")
    with pytest.raises(InputError, match="not valid JSON"):
        write_report(folder)


@pytest.mark.usefixtures("no_plots")
def test_a_damaged_genotype_is_noted(tmp_path: Path) -> None:
    folder = made_up_job(tmp_path / "job")
    put(folder / "genotype.yaml", "format: other")
    assert "it is not drawn" in page(write_report(folder)).words


@pytest.mark.usefixtures("no_plots")
def test_out_may_be_a_folder_or_a_file(tmp_path: Path) -> None:
    folder = made_up_job(tmp_path / "job", stage="begun")
    assert write_report(folder, out=tmp_path) == tmp_path / "report.html"
    assert write_report(folder, out=tmp_path / "x" / "y.html").exists()


@pytest.mark.usefixtures("no_plots")
def test_versions_of_the_run_come_first(tmp_path: Path) -> None:
    folder = made_up_job(tmp_path / "job", stage="begun")
    assert "The run did not record its own" in page(write_report(folder)).words
    put(folder / "versions.json", {"torch": "9.9.9"})
    words = page(write_report(folder)).words
    assert "9.9.9" in words
    assert "did not record its own" not in words


@pytest.mark.usefixtures("no_plots")
def test_a_folder_that_is_removed_meanwhile_does_not_come_back_with_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, render = made_up_job(tmp_path / "run"), html.render_run

    def render_and_remove(*words: Any) -> str:
        page = render(*words)
        shutil.rmtree(folder)
        return page

    monkeypatch.setattr(html, "render_run", render_and_remove)
    with pytest.raises(InputError, match="run: the folder was removed while its report was made"):
        write_report(folder)
    assert not folder.exists()


def test_the_code_on_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = real_job(tmp_path / "real")
    monkeypatch.chdir(tmp_path)
    python = [snippet.text for snippet in html.make_snippets(read_run(real)) if snippet.title.startswith("Python")]
    assert len(python) == 2
    networks = []
    for text in python:
        names: dict = {}
        exec(text, names)
        networks.append(names["network"])
    assert names["genotype"] == read_run(real).genotype
    assert isinstance(networks[0], gnas.Network)
    assert not networks[0].training
    stored = json.loads((real / "trained/gnas/seed-1/result.json").read_text())
    assert networks[0].num_weights() == networks[1].num_weights() == stored["num_weights"]
    weights = checkpoint.load(real / "trained/gnas/seed-1/weights.safetensors")
    assert all((networks[0].state_dict()[name] == value).all() for name, value in weights.items())
