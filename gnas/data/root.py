"""Where data files lie: the data root a user names, and the per-user folder that catches what cannot be written there."""

from __future__ import annotations

import os
from pathlib import Path


def data_root(root: str | Path | None = None) -> Path:
    """The folder of data files: the argument, else ``GNAS_DATA``, else the per-user cache folder."""
    named = root or os.environ.get("GNAS_DATA")
    return Path(named).expanduser() if named else user_cache()


def user_cache() -> Path:
    """The per-user folder for prepared data (``XDG_CACHE_HOME`` is honoured)."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "gnas" / "data"


def writable(folder: Path) -> bool:
    """Whether files may be created in ``folder``, or it may be created. A folder without write bits counts as read-only
    even for a superuser, whom the system would let through."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder.is_dir() and bool(folder.stat().st_mode & 0o222) and os.access(folder, os.W_OK)


def cache_folder(root: Path, name: str) -> Path:
    """Where a prepared benchmark is written: under the data root, or in the per-user folder if that is read-only."""
    folder = root / name
    return folder if writable(folder) else user_cache() / name


def find(root: Path, relative: str) -> Path | None:
    """The file under the data root, else in the per-user folder, else None."""
    for folder in dict.fromkeys((root, user_cache())):
        if (folder / relative).is_file():
            return folder / relative
    return None
