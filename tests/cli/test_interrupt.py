"""Ctrl-C in a process of its own: it saves, prints the command that goes on, and that command ends the same way."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from terminal import TINY, fingerprint, gnas

LONG = ("--search-epochs", "25")


@pytest.mark.skipif(sys.platform == "win32", reason="signals of Unix")
def test_ctrl_c_saves_and_the_printed_command_goes_on(rings: Path) -> None:
    words = ["search", str(rings), *TINY, *LONG, "--out", "stopped"]
    process = subprocess.Popen(
        [sys.executable, "-m", "gnas", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    wait_for_epochs(Path("stopped/search/history.jsonl"), 2, process)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    last = said.strip().splitlines()[-1]
    assert last.startswith("stopped at epoch "), said
    assert "Traceback" not in said
    command = shlex.split(last.partition("go on with: ")[2])
    assert command == ["python", "-m", "gnas", *words, "--resume"]
    ended = gnas(*command[3:])
    assert ended.code == 0, ended
    assert "before)" in ended.err  # some of the epochs were
    assert gnas("search", rings, *TINY, *LONG, "--out", "whole").code == 0
    assert fingerprint(Path("stopped")) == fingerprint(Path("whole"))


def wait_for_epochs(file: Path, count: int, process: subprocess.Popen) -> None:
    limit = time.monotonic() + 60
    while time.monotonic() < limit and process.poll() is None:
        if file.exists() and file.read_text().count("\n") >= count:
            return
        time.sleep(0.005)
    raise AssertionError(f"no {count} epochs: {process.communicate()[1]}")
