"""Every command explains itself, quickly."""

from __future__ import annotations

import re
import resource
import subprocess
import sys

import pytest
from terminal import gnas

COMMANDS = (
    *("search", "train", "depth", "compare", "predict", "export", "report", "draw", "doctor", "runs"),
    *("runs list", "runs show", "runs delete"),
)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example(command: str) -> None:
    ended = gnas(*command.split(), "--help")
    assert ended.code == 0
    assert re.search(rf"Examples?:\s+\$ gnas {command}", ended.out), ended.out


@pytest.mark.parametrize("command", [command for command in COMMANDS if command != "runs"])
def test_every_command_has_json_and_quiet(command: str) -> None:
    text = gnas(*command.split(), "--help").out
    assert "--json" in text
    assert "--quiet" in text


def test_the_first_help_lists_all_commands() -> None:
    ended = gnas()
    assert ended.code == 0
    for command in (*COMMANDS[:10], "data"):
        assert re.search(rf"^\W*{command}\b", ended.out, re.MULTILINE), command
    assert gnas("runs").code == 0
    assert gnas("--version").out.startswith("gnas ")


def test_data_is_reached_through_the_door() -> None:
    ended = gnas("data")
    assert ended.code == 0
    assert "prepare" in ended.out
    assert gnas("data", "list", "--json").out.lstrip().startswith("[")
    assert "--data-root" in gnas("data", "list", "--help").out


def test_help_is_quick_and_imports_no_torch() -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, "-m", "gnas", "--help"], capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert (done.returncode, done.stderr) == (0, "")
    assert after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime < 2
    code = "import sys, gnas.cli; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
