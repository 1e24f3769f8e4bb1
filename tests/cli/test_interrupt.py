"""Ctrl-C in a process of its own: it saves, prints the command that goes on, and that command ends the same way."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest
from terminal import TINY, fingerprint, gnas, stopped_by_ctrl_c

LONG = ("--search-epochs", "25")


@pytest.mark.skipif(sys.platform == "win32", reason="signals of Unix")
def test_ctrl_c_saves_and_the_printed_command_goes_on(rings: Path) -> None:
    words = ["search", str(rings), *TINY, *LONG, "--out", "stopped"]
    said = stopped_by_ctrl_c(words, Path("stopped/search/history.jsonl"))
    last = said.strip().splitlines()[-1]
    assert last.startswith("stopped at epoch "), said
    command = shlex.split(last.partition("resume with: ")[2])
    assert command == ["python", "-m", "gnas", *words, "--resume"]
    ended = gnas(*command[3:])
    assert ended.code == 0, ended
    assert "before)" in ended.err  # some of the epochs were
    assert gnas("search", rings, *TINY, *LONG, "--out", "whole").code == 0
    assert fingerprint(Path("stopped")) == fingerprint(Path("whole"))
