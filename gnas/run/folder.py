"""A run folder is the record of a run: settings, history, checkpoints, genotype, result. It can be stopped and resumed."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import os
import shutil
import signal
import time
import warnings
import weakref
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import IO, Any

try:
    import fcntl
except ImportError:  # not a Unix system: folders are locked by leases
    fcntl = None  # type: ignore[assignment]

from gnas import distributed
from gnas.arch.architecture import Architecture, load_genotype
from gnas.arch.genotype import Genotype
from gnas.errors import InputError, RunError
from gnas.files import add_format, check_inside, copy_folder, dump_config, open_regular, write_atomic, write_json
from gnas.leases import FileSlot, Lease, LeaseHeld
from gnas.run import checkpoint, layout
from gnas.run.record import (
    SearchRecord,
    read_history,
    read_run_architecture,
    read_run_config,
    read_run_json,
    read_search,
    read_training_result,
)
from gnas.run.settings import default_value

KEEP = 2  # checkpoints kept: if the last one is damaged, the one before is used
LOCK_TRIES = 10  # a reader that looks whether the folder is locked holds the lock for a moment
LATER = {"epoch_steps": 1}  # settings of any training that runs of gnas 0.1 do not name, and what these runs did
FINGERPRINT = "fingerprint"  # the setting that identifies the data of a run: Benchmark.fingerprint


class Locked(InputError):
    """Another process holds a run folder. It may release it soon."""


class Reservation:
    """A run folder locked for the next :class:`Run` of this process in it, so that no other process takes it meanwhile."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.lock = _lock_folder(folder)
        _RESERVED[folder.resolve()] = self


_RESERVED: weakref.WeakValueDictionary[Path, Reservation] = weakref.WeakValueDictionary()


Lock = IO[str] | Lease


def _lock_folder(folder: Path) -> Lock:
    """Lock a run folder until the lock is closed: by ``flock``, or by a lease if the file system has none."""
    slot = FileSlot(folder / layout.LEASE)
    if fcntl is None:
        return _lease_folder(slot)
    lock = os.fdopen(open_regular(folder / layout.LOCK, os.O_RDWR | os.O_CREAT, follow=False), "r+")
    for attempt in range(LOCK_TRIES):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if slot.is_held():  # by a machine that sees this folder without flock
                break
            return lock
        except OSError as error:
            if not layout.is_held(error):
                lock.close()
                if layout.lacks_flock(error):
                    return _lease_folder(slot)
                raise
            time.sleep(0.01 if attempt < LOCK_TRIES - 1 else 0)
    lock.close()
    raise Locked(f"{folder}: another process is working in this run folder")


def _is_there(lock: IO[str], path: Path) -> bool:
    """Whether an open file still lies at its path."""
    try:
        return os.path.samestat(os.fstat(lock.fileno()), path.lstat())
    except FileNotFoundError:
        return False


def _lease_folder(slot: FileSlot) -> Lease:
    try:
        lease = Lease(slot)
    except LeaseHeld as error:
        raise Locked(str(error)) from None
    _warn_of_lease()
    return lease


@functools.cache
def _warn_of_lease() -> None:
    """Warn once per process that a lease is used."""
    warnings.warn(
        f"this file system has no flock: run folders are locked by a file {layout.LEASE} that names the process and is "
        "renewed every few seconds"
    )


def check_data(folder: Path, before: dict[str, Any], fingerprint: str | None) -> None:
    """Refuse to resume a run with other data. ``before`` are its settings; those of gnas 0.1 have no fingerprint."""
    saved = before.get(FINGERPRINT)
    if None not in (fingerprint, saved) and fingerprint != saved:
        raise InputError(
            f"{folder}: cannot resume with other data: the file has changed, or another file, target or split was named "
            f"(fingerprint {str(fingerprint)[:10]}; the run has {str(saved)[:10]}); use the data of the run, or start a new run"
        )


def same_settings(before: dict[str, Any], config: dict[str, Any]) -> bool:
    """Whether a run has these settings. The data is not compared if the run has no fingerprint."""
    if FINGERPRINT in before and before[FINGERPRINT] != config.get(FINGERPRINT):
        return False
    return next(_find_differences(before, config), None) is None


def _find_differences(before: dict[str, Any], config: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Settings in which a run differs from ``config``: name, the run's value, the other. The data is not compared.

    A setting that is newer than the run has its default there.
    """
    saved, now = flatten_values(before), flatten_values(config)
    for key in sorted({*saved, *now} - {FINGERPRINT}):
        name = key.removeprefix("settings.")
        later = LATER.get(name.rpartition(".")[2])
        known = saved[key] if key in saved else default_value(name) if later is None else later
        if _as_saved(known) != _as_saved(now.get(key)):
            yield name, known, now.get(key)


def _as_saved(value: Any) -> Any:
    """A value as a file holds it."""
    return list(value) if isinstance(value, tuple) else value


def _without_data(config: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in config.items() if name != FINGERPRINT}


class Run:
    """One run folder, and the only writer of its files. :mod:`gnas.run.record` reads them.

    ``Run(path, config)`` starts a new run and refuses a folder that already holds one. ``resume=True`` resumes the run and
    refuses other settings and other data. ``force=True`` starts over. If several processes work on one run, the first of
    them reads and writes for all.
    """

    def __init__(
        self, path: str | Path, config: dict[str, Any] | None = None, *, resume: bool = False, force: bool = False
    ) -> None:
        self.path = Path(path)
        self._lock: Lock | None = None
        self.config = self._open(config, resume, force)

    @distributed.by_first
    def _open(self, config: dict[str, Any] | None, resume: bool, force: bool) -> dict[str, Any]:
        if config is None:
            return read_run_config(self.path)
        known = layout.is_run(self.path)
        check_inside(self.path)
        if known and not (resume or force):
            raise InputError(f"{self.path}: already holds a run; resume=True resumes it, force=True replaces it")
        self.path.mkdir(parents=True, exist_ok=True)
        try:
            self._take_lock()
            if not known and layout.is_run(self.path) and not (resume or force):
                raise InputError(f"{self.path}: another process has just started a run here")
            if known and resume:
                config = self._check_same(config)
            elif known:
                self._clear()
            write_atomic(self.path / layout.CONFIG, dump_config(add_format("run", config)))
        except BaseException:
            self.close()  # a traceback may keep this object alive: the folder must not stay locked with it
            raise
        return config

    # -- history ----------------------------------------------------------------------------------------------------

    @distributed.by_first
    def history(self, name: str = "history") -> list[dict[str, Any]]:
        """The records so far. A half-written last line is left out."""
        return read_history(self.path, name)

    @distributed.by_first
    def append(self, record: dict[str, Any], name: str = "history") -> None:
        """Add one record and make sure it is on disk."""
        self._check_lock()
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        with os.fdopen(open_regular(self.path / f"{name}.jsonl", flags, follow=False), "a") as file:
            file.write(json.dumps(record) + "\n")
            file.flush()
            os.fsync(file.fileno())

    @distributed.by_first
    def truncate(self, count: int, name: str = "history") -> None:
        """Keep the first ``count`` records: those that the checkpoint counts."""
        records = self.history(name)
        if len(records) < count:
            raise InputError(
                f"{self.path}/{name}.jsonl holds {len(records)} records, its checkpoint knows {count}; start again with force"
            )
        write_atomic(self.path / f"{name}.jsonl", "".join(json.dumps(r) + "\n" for r in records[:count]))

    # -- checkpoints ------------------------------------------------------------------------------------------------

    @distributed.by_first
    def save_state(self, state: dict[str, Any], name: str = "checkpoint") -> None:
        """Write the next checkpoint, then drop all but the last two."""
        self._check_lock()
        numbers = self._checkpoints(name)
        checkpoint.save(self._checkpoint(name, numbers[-1] + 1 if numbers else 0), state)
        for old in numbers[: -(KEEP - 1)]:
            self._checkpoint(name, old).unlink(missing_ok=True)

    @distributed.by_first
    def load_state(self, name: str = "checkpoint") -> dict[str, Any] | None:
        """The newest state that is intact, or None. A damaged one is skipped with a warning."""
        for number in reversed(self._checkpoints(name)):
            try:
                state: dict[str, Any] = checkpoint.load(self._checkpoint(name, number))
                return state
            except InputError as error:
                warnings.warn(f"{error}; going back to the checkpoint before it")
        return None

    def _checkpoint(self, name: str, number: int) -> Path:
        return self.path / layout.CHECKPOINTS / f"{name}-{number:06d}.safetensors"

    def _checkpoints(self, name: str) -> list[int]:
        files = (self.path / layout.CHECKPOINTS).glob(f"{name}-*.safetensors")
        return sorted(int(file.stem.rsplit("-", 1)[1]) for file in files if file.stem.rsplit("-", 1)[1].isdigit())

    # -- results ----------------------------------------------------------------------------------------------------

    @distributed.by_first
    def write_json(self, name: str, value: Any) -> None:
        self._check_lock()
        write_json(self.path / f"{name}.json", value)

    @distributed.by_first
    def write_csv(self, name: str, text: str) -> None:
        self._check_lock()
        write_atomic(self.path / name, text)

    @distributed.by_first
    def read_json(self, name: str, keys: Iterable[str] = ()) -> Any:
        """The value written under ``name``, or None. A value without one of ``keys`` is an error."""
        return read_run_json(self.path, name, keys)

    @distributed.by_first
    def read_training(self) -> dict[str, Any] | None:
        """The result of a training that has ended, checked; else None."""
        return read_training_result(self.path)

    @distributed.by_first
    def write_genotype(self, genotype: Architecture) -> None:
        self._check_lock()
        write_atomic(self.path / layout.GENOTYPE, genotype.to_yaml())

    @distributed.by_first
    def write_network(self, weights: Mapping[str, Any], description: Mapping[str, Any], part: str = "") -> None:
        """Write what :func:`gnas.run.models.load_model` reads: weights and their description, in a ``part`` of the folder."""
        self._check_lock()
        checkpoint.save(self.path / part / layout.WEIGHTS, weights)
        write_json(self.path / part / layout.MODEL, description)

    @distributed.by_first
    def genotype(self) -> Genotype | None:
        """The genotype that this run found or trains."""
        file = self.path / layout.GENOTYPE
        return load_genotype(file) if file.exists() else None

    @distributed.by_first
    def architecture(self) -> Architecture | None:
        """The architecture that this run found or trains: a genotype, or one of GraphNAS."""
        return read_run_architecture(self.path)

    @distributed.by_first
    def read_search(self) -> SearchRecord:
        """This folder as the record of a search."""
        return read_search(self.path)

    def part(self, name: str, config: dict[str, Any], *, resume: bool = False, force: bool = False) -> Run:
        """A run inside this one: the search, a training, a baseline."""
        self._check_lock()
        return Run(self.path / name, config, resume=resume, force=force)

    def continue_run(self, name: str, config: dict[str, Any], *, force: bool = False) -> Run:
        """A run inside this one. It is resumed if it has these settings, and replaced if it has others."""
        try:
            same = same_settings(Run(self.path / name).config, config)
        except InputError:  # there is none
            same = False
        resume = same and not force
        return self.part(name, config, resume=resume, force=not resume)

    # -- guards -----------------------------------------------------------------------------------------------------

    def _check_same(self, config: dict[str, Any]) -> dict[str, Any]:
        """The settings of the resumed run, if they are ``config``. One without a fingerprint of its data gets none."""
        saved = read_run_config(self.path)
        for name, known, now in _find_differences(saved, config):
            raise InputError(f"{self.path}: cannot resume with another {name} ({now!r}; the run has {known!r})")
        check_data(self.path, saved, config.get(FINGERPRINT))
        if FINGERPRINT in saved:
            return config
        inner = any(layout.is_run(parent) for parent in self.path.resolve().parents[:3])
        if FINGERPRINT in config and not inner:  # once per command, not for each part
            warnings.warn(f"{self.path}: this run has no fingerprint of its data, so the data cannot be checked")
        return _without_data(config)

    def _take_lock(self) -> None:
        reserved = _RESERVED.pop(self.path.resolve(), None)
        self._lock = _lock_folder(self.path) if reserved is None else reserved.lock

    def _check_lock(self) -> None:
        """An error if this process does not hold the folder any more. A folder that was removed must not come back in parts."""
        if isinstance(self._lock, Lease):
            self._lock.check()
        elif self._lock is not None and not _is_there(self._lock, self.path / layout.LOCK):
            raise RunError(
                f"{self.path}: the folder was removed or replaced while this run worked in it; start the run again"
            )

    def close(self) -> None:
        """Let other processes use the folder."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    @contextlib.contextmanager
    def release_lock(self) -> Iterator[None]:
        """Inside, a job may open this folder as a run of its own, in this process or in a worker."""
        held = self._lock is not None
        self.close()
        try:
            yield
        finally:
            if held:
                self._take_lock()

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _clear(self) -> None:
        for name in (layout.HISTORY, layout.GENOTYPE, layout.RESULT, layout.SPLIT, layout.PREDICTIONS):
            (self.path / name).unlink(missing_ok=True)
        for file in (self.path / layout.CHECKPOINTS).glob("*.safetensors"):
            file.unlink()
        for part in list(layout.list_parts(self.path)):
            shutil.rmtree(part)


def flatten_values(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested values by dotted name, such as ``settings.training.lr``."""
    found = {}
    for name, value in values.items():
        inner = isinstance(value, Mapping)
        found.update(flatten_values(value, f"{prefix}{name}.") if inner else {f"{prefix}{name}": value})
    return found


def copy_training(source: Path, target: Path, config: dict[str, Any], *, checkpoints: bool = False) -> None:
    """Copy a training under other settings, with or without its checkpoints. The target appears at once and complete."""
    temporary = target.with_name(f".{target.name}")
    shutil.rmtree(temporary, ignore_errors=True)
    copy_folder(source, temporary, *([] if checkpoints else [layout.CHECKPOINTS]))
    write_atomic(temporary / layout.CONFIG, dump_config(add_format("run", config)))
    shutil.rmtree(target, ignore_errors=True)
    temporary.rename(target)


def plain_config(values: dict[str, Any]) -> dict[str, Any]:
    """Settings as they are read from a YAML file: no tuples, no objects."""
    copied: dict[str, Any] = json.loads(json.dumps({name: _described(value) for name, value in values.items()}))
    return copied


def _described(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    return (
        value if value is None or isinstance(value, bool | int | float | str) else getattr(value, "name", repr(value))
    )


@contextlib.contextmanager
def stop_on_interrupt() -> Iterator[list[bool]]:
    """Inside, Ctrl-C (or SIGTERM) sets the flag instead of raising, so that a run can end after its current step."""
    flag: list[bool] = []

    def handler(number: int, frame: FrameType | None) -> None:
        if flag:
            raise KeyboardInterrupt
        flag.append(True)

    before = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield flag
    finally:
        for number, old in before.items():
            signal.signal(number, old)
