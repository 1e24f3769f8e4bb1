"""Secrets in addresses are masked and control characters written out, wherever a text leaves the process."""

from __future__ import annotations

import json
import shlex
import sys
import warnings
from pathlib import Path

import fsspec
import pytest
from folders import made_up_job
from rich.text import Text
from terminal import TINY, gnas, one_line, write_graphs

from gnas.cli.screen import Screen
from gnas.errors import InputError, RunError
from gnas.printed import escape_controls, mask_secrets
from gnas.use import tracking

SECRET = "hunter2/x+Y="
ESCAPES = "a\x1b[2J\x1b]0;owned\x07b\x9b31mc\rd\u202ee"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("s3://key:sec/ret+=@bucket/run", "s3://***@bucket/run"),
        ("no place at sftp://me:pw@host:22/run: refused", "no place at sftp://***@host:22/run: refused"),
        ("https://token@host/x and https://host/x", "https://***@host/x and https://host/x"),
        ("'https://me:pw@host'", "'https://***@host'"),
        ("az://c/run?sv=1&sig=abc%2F&se=2", "az://c/run?sv=1&sig=***&se=2"),
        ("s3://b/run?X-Amz-Signature=1f&X-Amz-Credential=AK", "s3://b/run?X-Amz-Signature=***&X-Amz-Credential=***"),
        ("https://h/x?access_token=abc#part", "https://h/x?access_token=***#part"),
        ("https://h/x#token=abc", "https://h/x#token=***"),
        (
            "https://h/x?key=AIza&page=2, https://h/x?passphrase=a&auth=b",
            "https://h/x?key=***&page=2, https://h/x?passphrase=***&auth=***",
        ),
        ("dir::s3://a:b@c", "dir::s3://***@c"),
        ("mail me@example.org, 5 @ 3", "mail me@example.org, 5 @ 3"),
        ("file:///shared/run", "file:///shared/run"),
    ],
)
def test_secrets_are_masked(text: str, wanted: str) -> None:
    assert mask_secrets(text) == wanted


@pytest.mark.parametrize("password", ["correct horse 1", "it's hunter2", 'say "hunter2"', "back\\slash", "<hunter2>|"])
def test_a_password_may_hold_any_character(tmp_path: Path, password: str) -> None:
    """In a text, an address ends at a space or quote; a word of the command or a setting is an address as a whole."""
    url = f"memory://me:{password}@any-{len(password)}/run"
    words = ("search", write_graphs(tmp_path / "rings"), *TINY, "--out", tmp_path / "run")
    ended = [gnas(*words, "--sync", url), gnas(*words, "--sync", url), gnas(*words, "--sinc", url)]
    ended.append(gnas(*words, "--sync", url.replace("memory", "nothing"), "--resume"))
    assert [one.code for one in ended] == [0, 2, 2, 2]
    assert not [one for one in ended if password in one.out + one.err]
    kept = [file for file in (tmp_path / "run").rglob("*") if file.is_file()]
    parts = (password, json.dumps(password)[1:-1], shlex.quote(password)[1:-1])
    assert not [file for file in kept if any(part.encode() in file.read_bytes() for part in parts)]


def test_secrets_of_the_environment_are_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "0123456789abcdef")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "")
    assert mask_secrets("bad key 0123456789abcdef") == "bad key ***"


def test_control_characters_are_written_out() -> None:
    assert escape_controls(ESCAPES) == r"a\x1b[2J\x1b]0;owned\x07b\x9b31mc\x0dd\u202ee"
    assert escape_controls("tabs\tand\nlines, ü and 漢字 stay") == "tabs\tand\nlines, ü and 漢字 stay"


@pytest.mark.parametrize("kind", [InputError, RunError])
def test_errors_hold_neither(kind: type[Exception]) -> None:
    text = str(kind(f"s3://me:{SECRET}@bucket {ESCAPES}"))
    assert "hunter2" not in text
    assert "\x1b" not in text


def test_the_screen_shows_neither(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen()
    url = f"s3://me:{SECRET}@bucket/{ESCAPES}"
    screen.say(url, Text(ESCAPES))
    screen.pair("run", url)
    screen.pairs(ESCAPES, [(url, url)])
    Screen(as_json=True).result({"url": url, "list": [url]})
    said = "".join(capsys.readouterr())
    assert "bucket" in said
    assert "hunter2" not in said
    assert not [c for c in said if c < " " and c not in "\n\t"]


def files_of(url: str) -> dict[str, bytes]:
    store, path = fsspec.core.url_to_fs(url)
    return {str(name): store.cat_file(name) for name in store.find(path)}


def test_a_search_at_a_url_with_a_password_keeps_it_nowhere(tmp_path: Path) -> None:
    url = f"memory://me:{SECRET}@bucket/run"
    words = ("search", write_graphs(tmp_path / "rings"), *TINY, "--sync", url, "--out", tmp_path / "run")
    first = gnas(*words)
    assert first.code == 0, first
    again = gnas(*words)
    one_line(again, 2, "memory://***@bucket/run", "already holds a run")
    resumed = gnas(*words, "--resume", "--json")  # the user names the URL again
    assert resumed.code == 0, resumed
    for ended in (first, again, resumed):
        assert "hunter2" not in ended.out + ended.err
    here = {str(file): file.read_bytes() for file in (tmp_path / "run").rglob("*") if file.is_file()}
    there = files_of(url)
    assert len(there) > 10
    assert [name for name, data in {**here, **there}.items() if b"hunter2" in data] == []
    command = json.loads((tmp_path / "run" / "command.json").read_text())["command"]
    assert "--sync 'memory://***@bucket/run'" in command


def test_a_server_that_refuses_is_named_without_its_password(tmp_path: Path) -> None:
    for on in ("here", "local:1"):
        words = ("search", "cluster-mini", *TINY, "--sync", f"ftp://me:{SECRET}@127.0.0.1:1/run", "--on", on)
        ended = gnas(*words, "--out", tmp_path / "run")
        assert ended.code != 0
        assert "hunter2" not in ended.out + ended.err
        assert len(ended.err.strip().splitlines()) == 1


def test_trackers_get_no_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing:
        def log(self, record: dict) -> None:
            raise OSError(f"cannot reach https://me:{SECRET}@host/api")

        def close(self) -> None: ...

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        tracking.Several([Failing()]).log({})
    assert "https://***@host/api" in str(said[0].message)
    monkeypatch.setattr(sys, "argv", ["gnas", "--sync", f"s3://me:{SECRET}@bucket"])
    with tracking._masked_arguments():
        assert sys.argv == ["gnas", "--sync", "s3://***@bucket"]
    assert sys.argv[2].startswith("s3://me")


# -- names from outside ----------------------------------------------------------------------------------------------


def raw_controls(text: str) -> list[str]:
    return [c for c in text if (c < " " and c not in "\n\t") or "\x7f" <= c < "\xa0"]


def test_names_with_escapes_do_not_reach_the_terminal(tmp_path: Path) -> None:
    name = "a\x1b]0;owned\x07\x1b[2Jb"
    run = made_up_job(tmp_path / "runs" / name)
    config = run / "config.yaml"
    config.write_text(config.read_text().replace("dataset: ", 'dataset: "zinc\\e[31m" #', 1))
    listed = gnas("runs", "list", tmp_path / "runs")
    assert "\\x1b]0;owned" in listed.out
    outcomes = [listed, gnas("runs", "show", run), gnas("runs", "delete", run), gnas("report", run)]
    outcomes += [gnas("show", run), gnas("predict", run, tmp_path / f"{name}.csv"), gnas("train", tmp_path / name)]
    outcomes += [gnas("search", tmp_path / name), gnas(name), gnas("runs", "list", f"--{name}")]
    for ended in outcomes:
        assert raw_controls(ended.out + ended.err) == [], ended
