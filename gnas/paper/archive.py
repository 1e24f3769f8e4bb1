"""Archives of finished runs: the same facts as their run folders in few files of plain JSON, without weights.

``NAME.jsonl`` holds the settings, genotypes and results of all run folders below ``NAME/``, one line per file, sorted by
path. ``NAME-histories.jsonl.gz`` holds their histories, which are most of the bytes. Of the architecture parameters in
the history of a search, every tenth epoch and the last are stored.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import re
import reprlib
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

try:
    import fcntl
except ImportError:  # not a Unix system: archives are then not locked
    fcntl = None  # type: ignore[assignment]

from gnas.errors import InputError, name_place
from gnas.files import dump_config, parse_yaml, write_atomic
from gnas.leases import FileSlot, wait_for_lease
from gnas.run import layout
from gnas.run.layout import (
    COMMAND,
    COMPARISON,
    CONFIG,
    DATA,
    GENOTYPE,
    HISTORY,
    LEADERBOARD,
    LEASE,
    RESULT,
    ROUND,
    VERSIONS,
    lacks_flock,
)

# Tables in CSV and Markdown are left out: the JSON file beside them has all their figures.
FILES = (
    *(CONFIG, COMMAND, VERSIONS, DATA, GENOTYPE, RESULT, ROUND),
    *(LEADERBOARD, COMPARISON, HISTORY),
)
ALPHAS_EVERY = 10
_PART = re.compile(r"[\w+=-][\w+=.,-]{0,200}")  # of a path: no dot first, so that none leads out of the archive


def add_runs(archives: Path, root: Path, names: Iterable[str]) -> None:
    """Add the small files of the run folders ``root/NAME`` to the archives of a folder.

    A file that an archive has already is replaced. Several processes may add to the same archives.
    """
    files: dict[str, dict[str, str]] = {}
    for name in names:
        for path, text in read_small_files(root / name).items():
            files.setdefault(PurePosixPath(name).parts[0], {})[f"{name}/{path}"] = text
    with _locked(archives):
        for name, texts in files.items():
            records, histories = _archive_files(archives, name)
            _update(records, {path: text for path, text in texts.items() if not path.endswith(HISTORY)})
            _update(histories, {path: text for path, text in texts.items() if path.endswith(HISTORY)})


def copy_run(folder: Path, target: Path, *, trained: bool = True) -> None:
    """Copy the small files of a run folder; without ``trained``, those of its trainings are left out."""
    for path, text in read_small_files(folder, trained=trained).items():
        write_atomic(target / path, text)


def read_small_files(folder: Path, *, trained: bool = True) -> dict[str, str]:
    """Text by path of what an archive stores of a run folder and of its finished parts."""
    texts = {}
    inner = [layout.search_folder(folder), *layout.list_rounds(folder).values()]
    for network in layout.list_networks(folder) if trained else ():
        inner += layout.list_trainings(folder, network).values()
    for part in (folder, *filter(layout.is_finished, inner)):
        for file in (part / name for name in FILES if (part / name).exists()):
            if file.name == LEADERBOARD and not trained:
                continue
            with name_place(str(file)):
                text = file.read_bytes().decode(errors="replace")
                path = file.relative_to(folder).as_posix()
                texts[path] = _thin_history(text) if file.name == HISTORY else text
    return texts


def unpack_archive(folder: Path, name: str) -> Path | None:
    """Run folders of the archive ``name`` in a temporary folder that lasts as long as this process, or None."""
    files = [file for file in _archive_files(folder, name) if file.exists()]
    if not files:
        return None
    return Path(_unpack(tuple((file.resolve(), file.stat().st_mtime_ns) for file in files)).name) / name


@cache
def _unpack(files: tuple[tuple[Path, int], ...]) -> tempfile.TemporaryDirectory[str]:
    target = tempfile.TemporaryDirectory(prefix="gnas-results-")
    try:
        for file, _ in files:
            for path, value in _read_lines(file):
                place = Path(target.name) / path
                with name_place(str(file)):
                    text = _to_text(path, value)
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_text(text, encoding="utf-8")
    except BaseException:
        target.cleanup()
        raise
    return target


# -- files and lines -----------------------------------------------------------------------------------------------------


def _archive_files(folder: Path, name: str) -> tuple[Path, Path]:
    return folder / f"{name}.jsonl", folder / f"{name}-histories.jsonl.gz"


def _update(file: Path, texts: Mapping[str, str]) -> None:
    """Write an archive again with other contents of some files."""
    if not texts:
        return
    values = dict(_read_lines(file)) if file.exists() else {}
    values |= {path: _to_value(path, text) for path, text in texts.items()}
    lines = (json.dumps({"file": path, "content": values[path]}, ensure_ascii=False) + "\n" for path in sorted(values))
    content = "".join(lines).encode()
    write_atomic(file, gzip.compress(content, mtime=0) if file.suffix == ".gz" else content)


def _read_lines(file: Path) -> Iterator[tuple[str, Any]]:
    """Paths and contents of an archive."""
    with name_place(str(file)):
        try:
            content = file.read_bytes()
            lines = (gzip.decompress(content) if file.suffix == ".gz" else content).decode().split("\n")
        except (OSError, EOFError, ValueError, zlib.error) as error:
            raise InputError(f"cannot be read: {error}") from None
        for number, line in enumerate(filter(None, lines), start=1):
            try:
                value = json.loads(line)
                path, inside = PurePosixPath(value["file"]), value["content"]
            except (ValueError, RecursionError, TypeError, KeyError):
                raise InputError(f"line {number}: expected a file and its content") from None
            if path.name not in FILES or not all(_PART.fullmatch(part) for part in path.parts):
                raise InputError(f"line {number}: {reprlib.repr(str(path))} is not a file of a run folder")
            yield str(path), inside


def _to_value(path: str, text: str) -> Any:
    """The text of a file as the JSON value that an archive stores."""
    if path.endswith(CONFIG):
        return parse_yaml(text, path, typed=True)
    if path.endswith(HISTORY):
        return [json.loads(line) for line in text.splitlines()]
    try:
        return json.loads(text) if path.endswith(".json") else text
    except (ValueError, RecursionError):
        raise InputError(f"{path}: not valid JSON") from None


def _to_text(path: str, value: Any) -> str:
    """The inverse of :func:`_to_value`."""
    if path.endswith(".json"):
        return json.dumps(value, indent=2) + "\n"
    if path.endswith(CONFIG) and isinstance(value, dict):
        return dump_config(value)
    if path.endswith(HISTORY) and isinstance(value, list):
        return "".join(json.dumps(record) + "\n" for record in value)
    if path.endswith((CONFIG, HISTORY)) or not isinstance(value, str):
        raise InputError(f"{path}: its content is {reprlib.repr(value)}")
    return value


def _thin_history(text: str) -> str:
    """A history whose records have alphas in every tenth epoch and in the last only."""
    lines = text.splitlines()
    thin = []
    for number, line in enumerate(lines, start=1):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            record = None
        if not isinstance(record, dict):
            raise InputError(f"line {number} is not a record")
        if "alphas" in record and number % ALPHAS_EVERY and number != len(lines):
            del record["alphas"]
        thin.append(json.dumps(record) + "\n")
    return "".join(thin)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Inside, no other process adds to the archives of a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY) if fcntl is not None else None
    lease = None if handle is not None and _lock(handle) else wait_for_lease(FileSlot(folder / LEASE))
    try:
        yield
    finally:
        if lease is not None:
            lease.close()
        if handle is not None:
            os.close(handle)


def _lock(handle: int) -> bool:
    """Wait for the lock of a folder; False if its file system has none."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        return True
    except OSError as error:
        if lacks_flock(error):
            return False
        raise
