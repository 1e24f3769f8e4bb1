"""``gnas doctor DATASET``: the estimate before a long run."""

from __future__ import annotations

from pathlib import Path

import torch
from terminal import gnas, one_line

from gnas.cli.forecast import format_megabytes
from gnas.cli.settings import usual_preset


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
    assert [format_megabytes(310.0), format_megabytes(2048.0)] == ["310 MB", "2.0 GB"]


def test_the_preset_of_a_command_that_names_none() -> None:
    """A search is a race in the preset wide, unless it names another strategy or the epochs of one."""
    cpu = torch.device("cpu")
    assert usual_preset("search", "mine.csv", cpu, {})[0] == "wide"
    assert usual_preset("search", "mine.csv", cpu, {"strategy": "race", "search_epochs": 3})[0] == "wide"
    assert usual_preset("search", "mine.csv", cpu, {"strategy": "darts"})[0] == "fast"
    assert usual_preset("train", "mine.csv", cpu, {})[0] == "fast"
    preset, why = usual_preset("search", "mine.csv", cpu, {"search_epochs": 3})
    assert (preset, why) == ("fast", "--search-epochs is not for a race; --strategy race --epochs N for one")
