"""Sampled neighbourhoods on the command line."""

from pathlib import Path

import small
from terminal import gnas

from gnas.data.storage import save_benchmark
from gnas.run.folder import Run


def test_a_graph_is_sampled_as_asked_and_the_run_says_so(tmp_path: Path) -> None:
    data = save_benchmark(small.transductive(), tmp_path / "one.safetensors")
    words = ["train", data, "--formula", "sum", "--cells", "1", "--channels", "4", "--epochs", "1", "--seeds", "41"]
    ended = gnas(*words, "--sample-neighbors", "4,-1", "--out", "run")
    assert ended.code == 0, ended
    assert "neighbours are sampled, hop by hop: 4, all" in ended.out
    assert Run("run").config["settings"]["data"] == {
        "structure": ["auto"],
        "sample_neighbors": [4, -1],
    }  # which here is none
    again = gnas(*words, "--sample-neighbors", "3", "--out", "run", "--resume")
    assert again.code == 2, again
    assert "cannot resume with" in again.err


def test_bad_numbers_are_one_line_and_nothing_is_written(tmp_path: Path) -> None:
    data = save_benchmark(small.transductive(), tmp_path / "one.safetensors")
    ended = gnas("train", data, "--formula", "sum", "--sample-neighbors", "4,0", "--out", "run")
    assert ended.code == 2, ended
    assert ended.err.startswith("error: sample_neighbors is [4, 0]; give a number per hop")
    assert not Path("run").exists()
