"""Small files: text, YAML and JSON read without running code, and written so that a crash never leaves half a file. CSV
texts that run nothing in a spreadsheet either."""

from __future__ import annotations

import contextlib
import csv
import errno
import json
import os
import re
import reprlib
import secrets
import shutil
import stat
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import yaml

from gnas.errors import InputError, choose, name_place

MAX_BYTES = 1_000_000
MOST_HOLES = 2**26  # a file may have so many bytes that are not stored
FORMULA = re.compile(r"'*[=+\-@\t\r\n]")  # how a text begins that a spreadsheet may run
NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def write_atomic(path: str | Path, content: str | bytes) -> Path:
    """Write ``content`` to a temporary file beside ``path``, flush it to disk, then rename it into place.

    The umask says who may read it. A device or pipe is never replaced.
    """
    path = check_target(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    data = content.encode() if isinstance(content, str) else content
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        with contextlib.suppress(OSError):  # the first error is the one to raise
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno and error.filename is None:  # writing and flushing name no file
            error.filename = str(path)
        raise
    return path


def copy_folder(source: Path, target: Path, *without: str) -> None:
    """Copy a folder without its hidden files and those called ``without``. The error of the first failed file is raised."""
    failed: list[OSError] = []

    def copy(one: str, other: str) -> str:
        try:
            return shutil.copy2(one, other)
        except OSError as error:
            failed.append(error)
            raise

    try:
        shutil.copytree(source, target, ignore=shutil.ignore_patterns(".*", *without), copy_function=copy)
    except shutil.Error as error:
        raise (failed or [error])[0] from None


def check_target(path: str | Path) -> Path:
    """The path of a file to write, unless something other than a file is there."""
    path = Path(path)
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return path
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)) or path.absolute().parent == Path("/dev"):
        raise InputError(f"{path}: a device or pipe, which gnas does not replace; name a file")
    return path


def open_regular(path: str | Path, flags: int = os.O_RDONLY, *, follow: bool = True) -> int:
    """A descriptor of a regular file. Anything else is an InputError, and so is a link unless ``follow``.

    Opening a pipe without a writer would never return, and reading a device would never end. A file that is to be read and
    that is nearly all holes is refused, too.
    """
    flags |= getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    try:
        handle = os.open(path, flags | (0 if follow else getattr(os, "O_NOFOLLOW", 0)), 0o666)
    except OSError as error:
        if error.errno == errno.ELOOP and not follow:
            raise InputError(f"{path}: a link; gnas does not follow links in a run folder") from None
        if error.errno == errno.ENXIO:  # a socket, or a pipe that nobody reads
            raise InputError(f"{path}: not a regular file") from None
        raise
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        if os.path.isdir(path):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        raise InputError(f"{path}: not a regular file")
    if not flags & (os.O_WRONLY | os.O_RDWR):
        try:
            _check_holes(handle, str(path))
        except BaseException:
            os.close(handle)
            raise
    return handle


def _check_holes(handle: int, where: str) -> None:
    """Refuse a sparse file: it takes hardly any disk, and all of its size in memory."""
    size, stored, end = os.fstat(handle).st_size, 0, 0
    if size <= MOST_HOLES or not hasattr(os, "SEEK_HOLE"):
        return
    try:
        while stored < size / 50:
            begin = os.lseek(handle, end, os.SEEK_DATA)
            end = os.lseek(handle, begin, os.SEEK_HOLE)
            stored += end - begin
    except OSError as error:
        if error.errno == errno.ENXIO:  # nothing but holes from here on
            raise InputError(
                f"{where}: {size:,} bytes, of which only {stored:,} are stored; gnas does not read it"
            ) from None
    os.lseek(handle, 0, os.SEEK_SET)


def read_bytes(path: str | Path, *, follow: bool = True) -> bytes:
    """The content of a regular file; see :func:`open_regular`."""
    with os.fdopen(open_regular(path, follow=follow), "rb") as file:
        return file.read()


def check_inside(folder: str | Path) -> None:
    """Refuse a run folder with anything in it but files and folders, so that nothing leads out of it.

    Weights & Biases and TensorBoard make links in their own folders, which gnas never reads.
    """
    try:
        entries = list(os.scandir(folder))
    except OSError:  # it is missing or cannot be read: opening it raises the error
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            if entry.name not in ("wandb", "tensorboard"):
                check_inside(entry.path)
        elif not entry.is_file(follow_symlinks=False):
            what = "a link" if entry.is_symlink() else "a pipe, socket or device"
            raise InputError(
                f"{entry.path}: {what} in a run folder, where gnas opens files and folders only; remove it"
            )


def write_json(path: str | Path, value: Any) -> Path:
    """Write a value as JSON in the same way, indented to be read; a file of a run names its form."""
    return write_atomic(path, json.dumps(add_format(Path(path).stem, value), indent=2) + "\n")


def format_csv(header: Iterable[object], rows: Iterable[Iterable[object]]) -> str:
    """Rows as the text of a CSV file.

    A text that a spreadsheet would run as a formula gets an apostrophe in front, as OWASP advises; numbers stay as they are.
    To get the texts back, remove one apostrophe from cells that begin with apostrophes and one of ``= + - @``, a tab or a
    line break.
    """
    lines: list[str] = []
    # Texts with a carriage return are only quoted if it is part of the line end; the file's line ends are plain.
    sink = SimpleNamespace(write=lambda line: lines.append(line.removesuffix("\r\n")))
    writer = csv.writer(sink, lineterminator="\r\n")
    writer.writerow(map(_disarm, header))
    writer.writerows(map(_disarm, row) for row in rows)
    return "".join(f"{line}\n" for line in lines)


def _disarm(cell: object) -> object:
    if isinstance(cell, str) and FORMULA.match(cell) and not NUMBER.fullmatch(cell):
        return f"'{cell}"
    return cell


def read_text(path: str | Path, *, follow: bool = True) -> str:
    """The text of a small UTF-8 file."""
    try:
        with os.fdopen(open_regular(path, follow=follow), "rb") as file:
            content = file.read(MAX_BYTES + 1)
    except InputError:  # it names the file
        raise
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from None
    with name_place(str(path)):
        _check_size(len(content))
        try:
            return content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise InputError(f"is not UTF-8 text (byte {error.start})") from None


def parse_yaml(text: str, source: str, typed: bool = False) -> object:
    """Plain YAML as nested dicts, lists and strings; ``typed`` also makes numbers, booleans and nulls of what looks so."""
    with name_place(source):
        _check_size(len(text))
        try:
            return (_TypedLoader if typed else _PlainLoader)(text).get_single_data()
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark
            place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
            raise InputError(f"{place}not plain YAML: {' '.join(str(error.problem).split())}") from None
        except yaml.reader.ReaderError as error:
            raise InputError(f"position {error.position}: character {error.character:#x} is not allowed") from None
        except ValueError as error:  # a date or a number that is none
            raise InputError(f"not plain YAML: {' '.join(str(error).split())[:120]}") from None


def read_config(path: str | Path, *, follow: bool = True) -> dict[str, Any]:
    """Settings by name as :func:`dump_config` wrote them, of this version of gnas or an earlier one."""
    found = parse_yaml(read_text(path, follow=follow), str(path), typed=True)
    if not isinstance(found, dict):
        raise InputError(f"{path}: expected settings by name")
    checked: dict[str, Any] = check_format(found, str(path))
    return checked


def read_json(path: str | Path, *, follow: bool = True) -> Any:
    """The value of a JSON file, of this version of gnas or an earlier one."""
    try:
        return check_format(json.loads(read_bytes(path, follow=follow)), str(path))
    except InputError:
        raise
    except (ValueError, RecursionError):
        raise InputError(f"{path}: not valid JSON") from None


def dump_config(config: dict[str, Any]) -> str:
    """Settings as YAML that :func:`read_config` reads: a value that occurs twice is written twice."""
    return yaml.dump(config, Dumper=_PlainDumper, sort_keys=False, allow_unicode=True)


def _check_size(size: int) -> None:
    if size > MAX_BYTES:
        raise InputError(f"is larger than {MAX_BYTES:,} bytes; such files hold a few thousand")


class _Strict:
    """Refuses aliases (a few lines of them unfold without end), deep nesting, and a key that occurs twice."""

    level = 0

    def compose_node(self: Any, parent: Any, index: Any) -> Any:
        event = self.peek_event()
        if isinstance(event, yaml.AliasEvent) or self.level > 10:
            problem = "nesting deeper than 10" if self.level > 10 else "an alias"
            raise yaml.composer.ComposerError(None, None, f"{problem} is not allowed", event.start_mark)
        self.level += 1
        node = super().compose_node(parent, index)  # type: ignore[misc]
        self.level -= 1
        return node

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            if str(key.value) in seen:
                problem = f"key {reprlib.repr(key.value)} is given twice"
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            seen.add(str(key.value))
        return super().construct_mapping(node, deep)  # type: ignore[misc, no-any-return]


class _PlainLoader(_Strict, yaml.BaseLoader):
    """Tighter than ``safe_load``: no tags, dates or numbers, all scalars are str."""


class _TypedLoader(_Strict, yaml.SafeLoader):
    """As ``safe_load``, which makes plain values only."""


class _PlainDumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


def check_mapping(value: object, keys: Iterable[str], others: bool = False) -> dict[str, Any]:
    """``value`` if it is a mapping with these keys, and no others unless allowed."""
    wanted = list(keys)
    if not isinstance(value, dict):
        raise InputError(f"{reprlib.repr(value)} is not a mapping with the keys {', '.join(wanted)}")
    for key in wanted:
        if key not in value:
            raise InputError(f"key {key} is missing; the keys are {', '.join(wanted)}")
    for key in () if others else value:
        choose(shorten(key), wanted, "key")
    return value


def check_document(value: object, name: str, keys: Iterable[str], versions: Sequence[str] = ("1",)) -> dict[str, Any]:
    """``value`` if it is a document of this format in one of these versions, with these keys."""
    document = check_mapping(value, ("format", "version"), others=True)
    choose(shorten(document["format"]), (name,), "file format")
    if re.fullmatch(r"\d{1,6}", str(document["version"])):
        kind, newest = name.removeprefix("gnas-"), int(versions[-1])
        check_version(kind, int(document["version"]), newest, "", document.get("written_by"))
    choose(shorten(document["version"]), versions, f"{name} version")
    return check_mapping(document, ("format", "version", *keys))


def check_sequence(value: object, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise InputError(f"{what} is {reprlib.repr(value)}; it must be a list")
    return value


def check_digits(value: object, what: str) -> int:
    if not isinstance(value, str) or not re.fullmatch("[0-9]{1,6}", value):
        raise InputError(f"{what} is {reprlib.repr(value)}; it must be a whole number")
    return int(value)


def is_number(value: object) -> bool:
    """Whether a value of a file is a number that figures can be computed from."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300


def shorten(value: object) -> str:
    """``value`` as a string short enough to be quoted in one line."""
    return value if isinstance(value, str) and len(value) < 40 else reprlib.repr(value)


# -- the version of each kind of file ---------------------------------------------------------------------------------

# A JSON or YAML file names its form and the gnas that wrote it: ``"format": "gnas-result-1", "written_by": "0.2.0"``. Files of
# gnas 0.1 have no such names. The version of a run folder is in its ``config.yaml``; it also counts for its tables and histories.
# A file of a newer version is refused, with the gnas that reads it.

# The newest version of each kind that this gnas reads and writes, by the name of the file.
FORMATS = {
    **dict.fromkeys(("run", "command", "versions", "data", "result", "leaderboard", "strategies"), 1),
    **dict.fromkeys(("round", "model", "tracking"), 1),
}
NAMES = ("format", "written_by")
_FORM = re.compile(r"gnas-([a-z]+)-(\d{1,6})")


class NewerFormat(InputError):
    """A file of a later version of gnas."""


def own_version() -> str:
    """The version of this gnas."""
    import gnas

    return gnas.__version__


def add_format(kind: str, value: Any) -> Any:
    """The content of a file with its form in front; other values, and files without a form, as they are."""
    if kind not in FORMATS or not isinstance(value, Mapping):
        return value
    return {"format": f"gnas-{kind}-{FORMATS[kind]}", "written_by": own_version(), **remove_format(value)}


def remove_format(value: Any) -> Any:
    """The content of a file without its form."""
    if not isinstance(value, dict) or not isinstance(form := value.get("format"), str) or not _FORM.fullmatch(form):
        return value
    return {name: item for name, item in value.items() if name not in NAMES}


def check_format(value: Any, where: str) -> Any:
    """The content of a file without its form; an error if it is newer than this gnas."""
    found = _FORM.fullmatch(str(value.get("format"))) if isinstance(value, dict) else None
    if found is not None and found[1] in FORMATS:
        check_version(found[1], int(found[2]), FORMATS[found[1]], where, value.get("written_by"))
    return remove_format(value)


def check_version(kind: str, version: int, newest: int, where: str, writer: Any = None) -> None:
    """An error if a file has a newer version than this gnas reads. ``writer`` is the gnas that wrote it, if it says so."""
    if version > newest:
        known = isinstance(writer, str) and re.fullmatch(r"[\w.+-]{1,30}", writer)
        needed = f"gnas {writer}" if known else "a later version of gnas"
        install = f"pip install gnas>={writer}" if known else "pip install --upgrade gnas"
        place = f"{where}: " if where else ""
        raise NewerFormat(
            f"{place}{needed} wrote it, as version {version} of {kind} files; this gnas ({own_version()}) reads up to {newest}: "
            f"{install}"
        )
