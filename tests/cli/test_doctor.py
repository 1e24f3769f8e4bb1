"""``gnas doctor``: what the installation has, and what is wrong with it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from terminal import gnas, one_line

from gnas import cost
from gnas.cli.settings import usual_preset
from gnas.run.words import megabytes


def test_doctor() -> None:
    ended = gnas("doctor", "--json")
    names = {finding["what"] for finding in ended.json["findings"]}
    assert {"python", "torch", "gnas", "threads", "aggregate", "fused", "trial", "data root", "disk", "extras"} <= names
    assert ended.code == (0 if ended.json["ok"] else 1)
    assert "a small network runs on" in gnas("doctor").out


def test_doctor_sees_a_gpu_that_torch_cannot_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("torch.version.cuda", None)
    monkeypatch.setattr("gnas.cli.doctor._nvidia", lambda: "NVIDIA H200")
    ended = gnas("doctor")
    assert ended.code == 1
    assert "NVIDIA H200, but torch" in ended.out
    assert "reinstall torch with CUDA" in ended.out


def test_a_benchmark_is_estimated_without_its_data() -> None:
    ended = gnas("doctor", "zinc", "--device", "cpu", "--preset", "paper", "--cells", "4")
    assert ended.code == 0, ended
    assert "zinc: 10,000 graphs of 23 nodes and 50 edges (published figures)" in ended.out
    assert "4 seeds" in ended.out
    assert "about 154 epochs each" in ended.out
    few, many = (
        gnas("doctor", "zinc", "--device", "cpu", "--preset", "paper", "--cells", cells, "--json").json
        for cells in ("4", "8")
    )
    assert 1.5 < many["search_seconds"] / few["search_seconds"] < 2.5
    assert few["settings"]["space"]["cells"] == 4


def test_own_data_is_read(rings: Path) -> None:
    found = gnas("doctor", rings, "--device", "cpu", "--json")
    assert found.code == 0, found
    assert found.json["search_seconds"] > 0
    assert "(the data)" in gnas("doctor", rings, "--device", "cpu").out


def test_strategies_that_were_not_measured_are_named() -> None:
    ended = gnas("doctor", "zinc", "--device", "cpu", "--strategy", "evolution")
    assert "evolution was not measured" in ended.out


def test_refusals() -> None:
    one_line(gnas("doctor", "nosuch"), 2, "neither a benchmark nor an existing path")
    one_line(gnas("doctor", "zinc", "--device", "gpu!"), 2, "unknown device")
    one_line(gnas("doctor", "zinc", "--preset", "quick"), 2, "unknown preset")


def test_sizes() -> None:
    assert [megabytes(310.0), megabytes(2048.0)] == ["310\u00a0MB", "2.0\u00a0GB"]


def test_the_preset_of_a_command_that_names_none() -> None:
    """A search is a race in the preset wide, unless it names another strategy or the epochs of one."""
    cpu = torch.device("cpu")
    assert usual_preset("search", "mine.csv", cpu, {})[0] == "wide"
    assert usual_preset("search", "mine.csv", cpu, {"strategy": "race", "search_epochs": 3})[0] == "wide"
    assert usual_preset("search", "mine.csv", cpu, {"strategy": "darts"})[0] == "fast"
    assert usual_preset("train", "mine.csv", cpu, {})[0] == "fast"
    preset, why = usual_preset("search", "mine.csv", cpu, {"search_epochs": 3})
    assert (preset, why) == ("fast", "--search-epochs is not for a race; --strategy race --epochs N for one")


def test_a_search_that_does_not_fit_says_so_before_it_starts(rings: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def begin(*_: object, **__: object) -> None:
        raise RuntimeError("begun")

    monkeypatch.setattr(cost, "free_mb", lambda device: 50.0)
    monkeypatch.setattr("gnas.cli.search.discover", begin)
    ended = gnas("search", rings, "--preset", "fast", "--device", "cpu", "--out", "run")
    said, ended_with = ended.err.strip().splitlines()[-2:]
    assert re.search(
        r"^warning: .* needs about \d+\sMB of memory, and 50\sMB are free on cpu: lower the batch", said
    ), ended
    assert "begun" in ended_with
