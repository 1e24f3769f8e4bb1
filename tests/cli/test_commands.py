"""The contract of every command: help with an example, --json, --quiet, and help that comes at once."""

from __future__ import annotations

import re
import resource
import subprocess
import sys
from importlib import metadata

import pytest
from terminal import gnas
from typer.main import get_command

from gnas.cli import app
from gnas.cli.commands import data_app

TOP = get_command(app).commands  # type: ignore[attr-defined]
GROUPS = {"runs": TOP["runs"], "data": get_command(data_app)}
INNER = [f"{name} {inner}" for name, group in GROUPS.items() for inner in group.commands]  # type: ignore[attr-defined]
COMMANDS = [name for name in TOP if name not in GROUPS] + INNER
SHARED = ("out", "seed", "cells", "channels", "epochs", "strategy", "device", "data-root", "resume", "force")


def text_of(command: str) -> str:
    ended = gnas(*command.split(), "--help")
    assert ended.code == 0
    return ended.out


def test_all_commands_are_there() -> None:
    wanted = {"search", "train", "depth", "compare", "predict", "evaluate", "export"}
    wanted |= {"report", "draw", "data", "runs", "doctor"}
    assert wanted <= set(TOP)
    assert {"runs list", "runs show", "runs delete"} <= set(INNER)
    assert {"data list", "data prepare", "data check", "data pack"} <= set(INNER)


@pytest.mark.parametrize("command", [*COMMANDS, *GROUPS])
def test_help_has_a_sentence_and_an_example(command: str) -> None:
    text = text_of(command)
    assert re.search(rf"Examples?:\s+\$ gnas {command}", text), text
    assert re.search(r"Usage: .*\n\s*\n\s*\w+.*\.", text), text


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_json_and_quiet(command: str) -> None:
    text = text_of(command)
    assert "--json" in text
    assert "--quiet" in text


@pytest.mark.parametrize("command", COMMANDS)
def test_a_wrong_option_is_wrong_use(command: str) -> None:
    ended = gnas(*command.split(), "--no-such-option")
    assert ended.code == 2, ended
    assert ended.err.startswith("error: "), ended.err
    assert len(ended.err.splitlines()) == 1
    assert f"see gnas {command} --help" in ended.err


def test_the_same_words_everywhere() -> None:
    for command in ("search", "train", "depth"):
        text = text_of(command)
        missing = [word for word in SHARED if f"--{word}" not in text]
        assert missing == (["strategy"] if command == "train" else []), command
    for command in COMMANDS:  # nothing that means the same goes by another name
        assert not re.search(r"--(output-dir|folder|random-seed|layers|width|hidden|gpu|overwrite)\b", text_of(command))


def test_the_first_help_lists_all_commands() -> None:
    ended = gnas()
    assert ended.code == 0
    for command in TOP:
        assert re.search(rf"^\W*{command}\b", ended.out, re.MULTILINE), command
    assert gnas("runs").code == 0
    assert gnas("--version").out.startswith("gnas ")


def test_data_is_reached_through_the_door() -> None:
    ended = gnas("data")
    assert ended.code == 0
    assert "prepare" in ended.out
    assert "zinc" in [row["name"] for row in gnas("data", "list", "--json").json["benchmarks"]]
    assert gnas("data", "list", "--quiet").out == ""


@pytest.mark.parametrize(
    "words",
    [
        ("data", "list"),
        ("data", "prepare", "digits"),
        ("data", "check", "cluster-mini"),
        ("data", "pack", "cluster-mini", "-o", "graphs.safetensors"),
        ("runs", "list", "."),
        ("doctor",),
        ("draw", "--formula", "mean", "-o", "mean.svg"),
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_json_is_one_object_and_quiet_is_silent(words: tuple[str, ...]) -> None:
    ended = gnas(*words, "--json")
    assert isinstance(ended.json, dict)
    again = gnas(*words, "--quiet", *(["--force"] if "-o" in words else []))
    assert (again.code, again.out, again.err) == (ended.code, "", "")


def test_help_is_quick_and_imports_no_torch() -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, "-m", "gnas", "--help"], capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert (done.returncode, done.stderr) == (0, "")
    assert after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime < 2
    code = "import sys, gnas.cli; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_version_of_a_folder_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    ended = gnas("--version")
    assert (ended.code, ended.out) == (0, "gnas, from a folder, not installed\n")
