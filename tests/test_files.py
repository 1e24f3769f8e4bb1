"""A write that fails leaves the old content and nothing else."""

import csv
import errno
import io
import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnas.errors import InputError
from gnas.files import copy_folder, format_csv, read_bytes, write_atomic


@pytest.mark.parametrize("content", ["text with ü\n", b"\x00\xff", ""])
def test_what_is_written_is_read(tmp_path: Path, content: str | bytes) -> None:
    path = write_atomic(tmp_path / "new" / "file", content)
    assert path.read_bytes() == (content.encode() if isinstance(content, str) else content)
    assert path.stat().st_mode & 0o777 == 0o644
    assert os.listdir(path.parent) == ["file"]


def full_disk(*_: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("failure", [full_disk, interrupted])
@pytest.mark.parametrize("call", ["fsync", "open", "replace", "fdopen"])
@pytest.mark.parametrize("before", [None, "old"])
def test_a_failed_write_changes_nothing(tmp_path: Path, monkeypatch, call: str, failure, before: str | None) -> None:
    path = tmp_path / "file"
    if before is not None:
        write_atomic(path, before)
    monkeypatch.setattr(os, call, failure)
    with pytest.raises((OSError, KeyboardInterrupt)):
        write_atomic(path, "new")
    assert (path.read_text() if path.exists() else None) == before
    assert os.listdir(tmp_path) == ([] if before is None else ["file"])


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_a_disk_that_is_full_in_the_middle(tmp_path: Path, monkeypatch) -> None:
    write_atomic(tmp_path / "file", "old")
    opened = os.fdopen

    def full(handle: int, mode: str):
        os.close(handle)
        return opened(os.open("/dev/full", os.O_WRONLY), mode)

    monkeypatch.setattr(os, "fdopen", full)
    with pytest.raises(OSError, match="No space left"):
        write_atomic(tmp_path / "file", "new" * 100_000)
    assert (tmp_path / "file").read_text() == "old"
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("call", ["fsync", "replace", "open"])
def test_an_error_of_the_disk_names_the_file(tmp_path: Path, monkeypatch, call: str) -> None:
    """Writing and flushing fail without a name."""

    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(OSError, match="Input/output error") as said:
        write_atomic(tmp_path / "file", "new")
    assert said.value.filename == str(tmp_path / "file")


def test_a_folder_whose_copy_fails_names_one_file(tmp_path: Path, monkeypatch) -> None:
    """The error of shutil is a list of all."""
    for name in ("one", "two", ".hidden"):
        write_atomic(tmp_path / "source" / name, name)
    copied = tmp_path / "whole"
    copy_folder(tmp_path / "source", copied)
    assert sorted(os.listdir(copied)) == ["one", "two"]

    def fail(source: str, target: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", target)

    monkeypatch.setattr("shutil.copy2", fail)
    with pytest.raises(OSError, match=r"^\[Errno 28\] No space left on device: '[^']*/(one|two)'$"):
        copy_folder(tmp_path / "source", tmp_path / "part")


def test_a_reader_sees_the_old_content_or_the_new(tmp_path: Path, monkeypatch) -> None:
    path, seen = write_atomic(tmp_path / "file", "old"), []
    replace = os.replace
    monkeypatch.setattr(os, "replace", lambda a, b: (seen.append(path.read_text()), replace(a, b)))
    write_atomic(path, "new")
    assert (seen, path.read_text()) == (["old"], "new")


# -- CSV ------------------------------------------------------------------------------------------------------------


def read_csv(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline=""), strict=True))


def test_spreadsheets_run_nothing_and_numbers_stay_numbers() -> None:
    row = [
        "=1+1",
        "+a",
        "-",
        "@x",
        "\tx",
        "\rx",
        "\nx",
        "'=x",
        -1.5,
        -3,
        "-1.5",
        "+1e-3",
        ".5",
        "-1-1",
        "it's",
        "'",
        "",
        None,
    ]
    header, found = read_csv(format_csv(["-a", *"bcdefghijklmnopqr"], [row]))
    assert header == ["'-a", *"bcdefghijklmnopqr"]
    assert found[:8] == ["'=1+1", "'+a", "'-", "'@x", "'\tx", "'\rx", "'\nx", "''=x"]
    assert found[8:] == ["-1.5", "-3", "-1.5", "+1e-3", ".5", "'-1-1", "it's", "'", "", ""]


@given(st.lists(st.text("'=+-@\t\r\n\",;1.ae ", min_size=0, max_size=6), min_size=2, max_size=4))
def test_every_text_comes_back(cells: list[str]) -> None:
    text = format_csv([f"c{k}" for k in range(len(cells))], [cells])
    found = [re.sub(r"^'(?='*[=+\-@\t\r\n])", "", cell) for cell in read_csv(text)[1]]
    assert found == cells
    for cell in read_csv(text)[1]:
        assert cell[:1] not in ("=", "@", "\t", "\r", "\n")
        assert cell[:1] not in ("+", "-") or float(cell) is not None


@pytest.mark.skipif(os.name != "posix", reason="needs a umask")
@pytest.mark.parametrize("mask", [0o022, 0o027, 0o077])
def test_the_umask_says_who_may_read(tmp_path: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        file = write_atomic(tmp_path / "inner" / "file", "text")
        write_atomic(file, "again")
    finally:
        os.umask(before)
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o666 & ~mask, 0o777 & ~mask)


@pytest.mark.skipif(not hasattr(os, "SEEK_HOLE"), reason="this system does not say where holes are")
@pytest.mark.parametrize("begin", [b"", b'{"epoch": 1}\n'])
def test_a_file_of_holes_is_refused_before_memory_is_taken(tmp_path: Path, begin: bytes) -> None:
    """A few bytes on disk and in an archive; read, they filled the machine."""
    file = tmp_path / "history.jsonl"
    file.write_bytes(begin)
    os.truncate(file, 2**36)
    if file.stat().st_blocks * 512 > 2**20:
        pytest.skip("this file system has no holes")
    with pytest.raises(InputError, match=r"history\.jsonl: 68,719,476,736 bytes, of which only"):
        read_bytes(file)
    os.truncate(file, len(begin) + 1000)
    assert read_bytes(file) == begin + bytes(1000)
