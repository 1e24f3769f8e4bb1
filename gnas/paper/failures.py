"""Runs that failed, with the reason: kept in a file beside the runs until they succeed, so that none is forgotten."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from gnas.errors import InputError
from gnas.files import read_json, write_json

FILE = "failed.json"


def read_failed(places: Sequence[Path]) -> dict[str, str]:
    """Reasons by the run's key, from all places."""
    found: dict[str, str] = {}
    for file in (place / FILE for place in places if (place / FILE).exists()):
        try:
            read = read_json(file)
        except InputError:
            read = None
        if not isinstance(read, dict):
            raise InputError(f"{file}: not a list of failed runs; remove it")
        found |= {str(key): str(reason) for key, reason in read.items() if key not in found}
    return found


def note_failed(place: Path, failed: Mapping[str, str], done: Collection[str]) -> dict[str, str]:
    """Add reasons to those kept in a place, less the runs that are done; with none left, the file goes."""
    known = {key: why for key, why in {**read_failed([place]), **failed}.items() if key not in done}
    if known:
        write_json(place / FILE, dict(sorted(known.items())))
    else:
        (place / FILE).unlink(missing_ok=True)
    return known


def reason(error: BaseException) -> str:
    """An error as one line."""
    text = " ".join(str(error).split())[:400]
    return text if isinstance(error, InputError) and text else f"{type(error).__name__}: {text}".rstrip(": ")
