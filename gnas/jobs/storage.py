"""Run folders at an fsspec URL (s3://, gs://, file://, ...): what a worker writes is pushed there and pulled from there.

A worker works in a folder of its own and pushes what has changed; only whole files appear under their names, and a
result comes last: a folder at the URL that has a result is complete.
"""

from __future__ import annotations

import atexit
import functools
import os
import posixpath
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import Any, ParamSpec, TypeVar

from gnas.errors import InputError, RunError
from gnas.files import write_atomic
from gnas.leases import Lease, LeaseHeld
from gnas.printed import mask_address, remember_secrets
from gnas.run.layout import CONFIG, JOBS, LEASE, RESULT, SHARED_GRAPHS

PART = ".part-"
SETTLE_SECONDS = 0.5  # between writing a lease and reading who has written it
IDLE_SECONDS = 30.0  # a connection that was idle for this time is opened again: servers close it without notice

P = ParamSpec("P")
R = TypeVar("R")


def explain_errors(method: Callable[P, R]) -> Callable[P, R]:
    """What a server answers, as one line: libraries have errors of their own for it."""

    @functools.wraps(method)
    def call(*words: P.args, **options: P.kwargs) -> R:
        try:
            return method(*words, **options)
        except (OSError, ValueError, RunError, MemoryError):
            raise
        except Exception as error:
            storage = words[0]
            assert isinstance(storage, Storage)
            raise RunError(f"storage {storage.url}: {type(error).__name__}: {' '.join(str(error).split())}") from error

    return call


class Storage:
    """A folder at ``url``, which may not be there yet. One thread at a time uses it: it has one connection."""

    def __init__(self, url: str) -> None:
        try:
            from fsspec.core import url_to_fs
        except ImportError:
            raise InputError("storage at a URL needs fsspec; install it with: pip install 'gnas[cluster]'") from None
        if "://" not in url:
            raise InputError(f"storage {url!r}: write it as a URL, such as s3://bucket/run or file:///shared/run")
        remember_secrets(url)
        self._open = functools.partial(url_to_fs, url, skip_instance_cache=True)
        try:
            self._fs, path = self._open()
        except Exception as error:  # every kind of storage has errors of its own
            raise InputError(f"storage {url!r}: {' '.join(str(error).split())}") from None
        self._used = time.monotonic()
        self.url, self.path = url, str(path).rstrip("/")
        self._sent: dict[str, tuple[int, int]] = {}

    @property
    def fs(self) -> Any:
        """The file system of fsspec. One whose server has closed the connection would say that there are no files."""
        if time.monotonic() - self._used > IDLE_SECONDS:
            self._fs = self._open()[0]
        self._used = time.monotonic()
        return self._fs

    # -- one command at a time ---------------------------------------------------------------------------------------

    @explain_errors
    def claim(self) -> bool:
        """Keep other processes out of the URL until ``release``; whether this process did not before."""
        if self._key in _CLAIMS:
            return False
        try:
            _CLAIMS[self._key] = Lease(UrlSlot(Storage(self.url)))  # a thread renews it, over a connection of its own
        except LeaseHeld as error:
            raise InputError(f"{error}; one command at a time can work at a URL") from None
        atexit.register(self.release)
        return True

    def release(self) -> None:
        """Let other processes use the URL."""
        lease = _CLAIMS.pop(self._key, None)
        if lease is not None:
            lease.close()
            atexit.unregister(self.release)

    @property
    def _key(self) -> str:
        return self.url.rstrip("/")

    # -- files -------------------------------------------------------------------------------------------------------

    @explain_errors
    def pull(self, name: str, folder: Path) -> int:
        """Bring what lies under ``name`` into ``folder``; returns the number of files."""
        there = self._at(name)
        self.fs.invalidate_cache()
        found = [str(file) for file in self.fs.find(there)] if self.fs.exists(there) else []
        files = [file for file in found if PART not in file and posixpath.basename(file) != LEASE]
        for file in sorted(files, key=lambda file: _push_order(posixpath.basename(file))):
            inside = PurePosixPath(posixpath.relpath(file, self.fs._strip_protocol(there)))
            if inside.is_absolute() or ".." in inside.parts:
                raise InputError(f"{self.url}: {file!r} lies outside of it")
            here = write_atomic(folder / inside, self.fs.cat_file(file))
            self._sent[posixpath.join(name, str(inside))] = _version(here)  # the same as there: not to be sent back
        return len(files)

    @explain_errors
    def sweep(self, name: str) -> None:
        """Remove incomplete files of a killed worker. Only the worker of this folder may call it."""
        there = self._at(name)
        self.fs.invalidate_cache()
        for file in self.fs.find(there) if self.fs.exists(there) else []:
            if posixpath.basename(str(file)).startswith(PART):
                self.fs.rm_file(file)

    @explain_errors
    def remove_shared(self) -> None:
        """Remove the graphs that a killed command left for its workers. Only who has claimed the URL may call it."""
        there = self._at(JOBS)
        self.fs.invalidate_cache()
        for file in self.fs.find(there) if self.fs.exists(there) else []:
            if fnmatch(posixpath.basename(str(file)), SHARED_GRAPHS[0]):
                self.fs.rm_file(file)

    @explain_errors
    def push(self, folder: Path, name: str, skip: Callable[[str], bool] = lambda name: False) -> int:
        """Send the files of ``folder`` that have changed since they were last sent; returns their number."""
        files = [file for file in folder.rglob("*") if file.is_file() and not file.name.startswith(".")]
        names = {file: posixpath.join(name, file.relative_to(folder).as_posix()) for file in files}
        order = sorted(files, key=lambda file: _push_order(file.name))
        changed = [file for file in order if self._sent.get(names[file]) != _version(file)]
        sent = sum(self.push_file(file, names[file]) for file in changed if not skip(names[file]))
        self._forget_old(set(names.values()), name)
        return sent

    @explain_errors
    def push_file(self, file: Path, name: str) -> bool:
        """Send one file, unless it was sent as it is."""
        version = _version(file)
        if self._sent.get(name) == version:
            return False
        if self._key in _CLAIMS:
            _CLAIMS[self._key].check()
        self.write(name, file.read_bytes())
        self._sent[name] = version
        return True

    def write(self, name: str, data: bytes) -> None:
        """Write a file; it appears at once and complete."""
        target = self._at(name)
        half = posixpath.join(posixpath.dirname(target), f"{PART}{uuid.uuid4().hex}")
        self._make_folder(posixpath.dirname(target))
        self.fs.pipe_file(half, data)
        self._rename(half, target)

    def _make_folder(self, folder: str) -> None:
        for left in (2, 1, 0):
            try:
                self.fs.makedirs(folder, exist_ok=True)
                return
            except Exception:  # another process has made it, or a folder above it, at this moment
                self.fs.invalidate_cache()
                if not left:
                    raise

    @explain_errors
    def holds(self, name: str) -> bool:
        """Whether there is such a file or folder."""
        self.fs.invalidate_cache()
        return bool(self.fs.exists(self._at(name)))

    @explain_errors
    def fetch(self, name: str, file: Path) -> Path:
        """One file, brought here unless it is here."""
        if not file.exists():
            write_atomic(file, self.fs.cat_file(self._at(name)))
        return file

    @explain_errors
    def remove(self, name: str) -> None:
        """Remove a file or folder, if it is there."""
        if not self.holds(name):
            return
        if self.fs.isfile(self._at(name)):
            self.fs.rm_file(self._at(name))
        else:
            self.fs.rm(self._at(name), recursive=True)

    def _rename(self, half: str, target: str) -> None:
        if "file" in self.fs.protocol:  # its mv is not atomic
            os.replace(self.fs._strip_protocol(half), self.fs._strip_protocol(target))
        else:
            self.fs.mv(half, target)

    def _forget_old(self, here: set[str], name: str) -> None:
        """Checkpoints that were dropped here are dropped there."""
        inside = f"{name}/" if name else ""
        for old in [sent for sent in self._sent if sent.startswith(inside) and sent not in here]:
            del self._sent[old]
            if self.fs.exists(self._at(old)):
                self.fs.rm_file(self._at(old))

    def _at(self, name: str) -> str:
        return posixpath.join(self.path, name) if name else self.path


@dataclass(frozen=True)
class UrlSlot:
    """A lease as a file at a URL. Most kinds of storage cannot create a file only if there is none: the last writer wins."""

    storage: Storage

    @property
    def name(self) -> str:
        return mask_address(self.storage.url)

    @property
    def settle(self) -> float:
        return 0.0 if "memory" in self.storage.fs.protocol else SETTLE_SECONDS

    def read(self) -> bytes | None:
        self.storage.fs.invalidate_cache()
        try:
            return bytes(self.storage.fs.cat_file(self.storage._at(LEASE)))
        except FileNotFoundError:
            return None

    def create(self, data: bytes) -> bool:
        if self.read() is not None:
            return False
        self.storage.write(LEASE, data)
        return True

    def write(self, data: bytes) -> None:
        self.storage.write(LEASE, data)

    def remove(self, data: bytes) -> None:
        if self.read() == data:
            self.storage.remove(LEASE)


_CLAIMS: dict[str, Lease] = {}  # of this process, by URL


def _version(file: Path) -> tuple[int, int]:
    about = file.stat()
    return about.st_size, about.st_mtime_ns


def _push_order(name: str) -> tuple[int, Any]:
    """Settings and history first, a result last: a checkpoint never arrives before the records that it counts."""
    return (0 if name == CONFIG else 1 if name.endswith(".jsonl") else 3 if name == RESULT else 2), name
