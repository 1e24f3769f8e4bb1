"""Wrong use and failures: one line that helps, the right exit code, no traceback."""

from __future__ import annotations

import errno
import fcntl
from pathlib import Path

import pytest
import torch
from terminal import TINY, Ended, gnas, one_line

from gnas.errors import InputError, Interrupted
from gnas.training.meter import NotFinite


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("search", "zink"), ("neither a benchmark nor an existing path", "zinc")),
        (("search", "cluster-mini", "--strategy", "singel-level"), ("did you mean 'single-level'",)),
        (("search", "cluster-mini", "--set", "chanels=3"), ("did you mean 'channels'",)),
        (("search", "cluster-mini", "--set", "channels"), ("KEY=VALUE",)),
        (("search", "cluster-mini", "--set", "dropout=2"), ("dropout is 2.0", "less than 1")),
        (("search", "cluster-mini", "--set", "train_settings.clp=1"), ("did you mean 'clip'",)),
        (("search", "cluster-mini", "--preset", "fats"), ("did you mean 'fast'",)),
        (("search", "cluster-mini", "--baselines", "gcm"), ("did you mean 'gcn'",)),
        (("search", "cluster-mini", "--device", "tpu9"), ("unknown device", "cuda")),
        (("search", "cluster-mini", "--seeds", "1,1"), ("each once",)),
        (("search", "cluster-mini", "--seeds", "one"), ("seeds",)),
        (("search", "cluster-mini", "--track", "tensorbord"), ("did you mean 'tensorboard'",)),
        (("search", "cluster-mini", "--resume", "--force"), ("not both",)),
        (("search", "cluster-mini", "--settings", "none.yaml"), ("none.yaml", "cannot be read")),
        (("search", "cluster-mini", "--cells", "0"), ("--cells", "see gnas search --help")),
        (("search", "cluster-mini", "--celz", "3"), ("--celz", "--cells")),
        (("search",), ("missing argument", "see gnas search --help")),
        (("serch",), ("did you mean 'search'",)),
        (("draw", "none.yaml"), ("none.yaml",)),
        (("report", "none"), ("none", "not a run folder")),
        (("runs", "show", "none"), ("none", "not a run folder")),
        (("runs", "delete", "none", "--force"), ("none", "not a run folder")),
        (("runs", "list", "none"), ("none", "no such folder")),
        (("compare", "cluster-mini", "--baselines", "none"), ("nothing to compare",)),
        (("compare", "cluster-mini", "--found", "none"), ("none",)),
        (("depth", "cluster-mini", "--strategy", "graphnas"), ("graphnas",)),
        (("data", "check", "zink"), ("did you mean 'zinc'",)),
    ],
)
def test_wrong_use_is_one_line_and_exit_code_2(words: tuple[str, ...], said: tuple[str, ...]) -> None:
    ended = gnas(*words)
    one_line(ended, 2)
    for word in said:
        assert word.lower() in ended.err.lower(), ended.err


def test_nothing_is_written_by_a_command_that_is_refused() -> None:
    gnas("search", "cluster-mini", "--strategy", "singel-level")
    gnas("search", "zink")
    one_line(gnas("search", "cluster-mini", "--budget", "12"), 2, "a budget of 12 weights is too small")
    assert not list(Path.cwd().iterdir())


def test_bad_files(finished: tuple[Path, Ended]) -> None:
    Path("settings.yaml").write_text("cels: 3\n")
    one_line(
        gnas("search", "cluster-mini", "--settings", "settings.yaml"), 2, "settings.yaml: ", "did you mean 'cells'"
    )
    for wrong, said in (
        ("cells: many", "cells is 'many'"),
        ("preset: fats", "did you mean 'fast'"),
        ("data: 3", "data is '3'"),
    ):
        Path("settings.yaml").write_text(wrong)
        one_line(gnas("search", "cluster-mini", "--settings", "settings.yaml"), 2, "settings.yaml: ", said)
    Path("settings.yaml").write_text("data: {targte: y}")
    one_line(gnas("search", "cluster-mini", "--settings", "settings.yaml"), 2, "targte")
    text = (finished[0] / "genotype.yaml").read_text()
    Path("genotype.yaml").write_text(text.replace("links:", "lniks:"))
    one_line(gnas("train", "cluster-mini", "--genotype", "genotype.yaml"), 2, "genotype.yaml", "links")
    one_line(gnas("draw", "genotype.yaml"), 2, "genotype.yaml", "links")
    Path("genotype.yaml").write_bytes(b"\xff\xfe\x00binary")
    one_line(gnas("draw", "genotype.yaml"), 2, "genotype.yaml")


def test_existing_folders(rings: Path, finished: tuple[Path, Ended]) -> None:
    one_line(gnas("search", rings, *TINY, "--out", finished[0]), 2, "--resume resumes it, --force replaces it")
    one_line(gnas("depth", rings, "--out", finished[0], "--resume"), 2, "holds the run of a gnas search")
    Path("thesis").mkdir()
    Path("thesis/chapter.tex").write_text("")
    one_line(gnas("search", rings, *TINY, "--out", "thesis"), 2, "not empty and not a run folder")
    one_line(gnas("search", rings, *TINY, "--out", "thesis/chapter.tex"), 2, "is a file")
    one_line(gnas("report", "thesis"), 2, "not a run folder")


def test_a_folder_another_process_works_in(rings: Path, finished: tuple[Path, Ended]) -> None:
    with open(finished[0] / ".lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for words in (("search", rings, "--out", finished[0], "--resume"), ("runs", "delete", finished[0], "--force")):
            one_line(gnas(*words), 2, "working in this run folder")


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (InputError("bad\ninput"), 2, "error: bad input"),
        (NotFinite("the loss is not finite at epoch 3"), 1, "error: the loss is not finite at epoch 3"),
        (OSError(errno.ENOSPC, "No space left on device", "x/y"), 1, "error: x/y: No space left on device; free some"),
        (
            PermissionError(errno.EACCES, "Permission denied", "x"),
            1,
            "error: x: Permission denied; choose another folder",
        ),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to"), 1, "--channels (now 4) or --cells (now 2)"),
        (MemoryError(), 1, "--batch 8, --set search.batch_size=8"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), 1, "error: out of memory; reduce the batch"),
        (
            ZeroDivisionError("division by zero"),
            1,
            "error: unexpected ZeroDivisionError: division by zero (GNAS_DEBUG=1",
        ),
        (Interrupted("stopped at epoch 2, step 1"), 130, "stopped at epoch 2, step 1; resume with: gnas search"),
        (KeyboardInterrupt(), 130, "stopped at once, the last checkpoint is kept; resume with: gnas search"),
    ],
)
def test_failures(rings: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, said: str) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("gnas.cli.search.discover", fail)
    ended = gnas("search", rings, *TINY, "--force", "--out", "run")
    assert ended.code == code, ended
    assert said in ended.err
    assert "Traceback" not in ended.err
    assert "--force" not in ended.err.replace("--force overwrites", "").replace("again with --force", "")
    if code == 130:
        assert ended.err.strip().endswith("--out run --resume")


def test_debug_shows_where(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GNAS_DEBUG", "1")
    ended = gnas("search", "zink")
    assert ended.code == 2
    assert "Traceback" in ended.err


def test_a_report_that_fails_does_not_lose_the_run(rings: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("no fonts")

    monkeypatch.setattr("gnas.report.html.write_report", fail)
    ended = gnas("search", rings, *TINY, "--search-epochs", "1", "--epochs", "1", "--json")
    assert ended.code == 0
    assert ended.json["report"] is None
    assert "warning: the report could not be written (no fonts); the run is complete: gnas report runs/" in ended.err
