"""The version of each kind of file that gnas writes. A file of a newer version is refused, with the gnas that reads it.

A JSON or YAML file names its form and the gnas that wrote it: ``"format": "gnas-result-1", "written_by": "0.2.0"``. Files of
gnas 0.1 have no such names. The version of a run folder is in its ``config.yaml``; it also counts for its tables and histories.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from gnas.errors import InputError

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
