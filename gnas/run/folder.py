"""A run folder is the record of a run: settings, history, checkpoints, genotype, result. It can stop and go on."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import signal
import warnings
import weakref
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import IO, Any

try:
    import fcntl
except ImportError:  # not a Unix system: folders are then not locked
    fcntl = None  # type: ignore[assignment]

from gnas import distributed
from gnas.arch.architecture import Architecture, load_genotype
from gnas.arch.genotype import Genotype
from gnas.errors import InputError
from gnas.files import dump_config, read_config, read_json, write_atomic, write_json
from gnas.run import checkpoint
from gnas.run.settings import upgrade_config

KEEP = 2  # checkpoints kept: should the last one be damaged, the one before serves


class Locked(InputError):
    """Another process holds a run folder; it may let go of it soon."""


class Reservation:
    """A run folder held for the next :class:`Run` of this process in it, so that nobody comes between."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.lock = _locked(folder)
        _RESERVED[folder.resolve()] = self


_RESERVED: weakref.WeakValueDictionary[Path, Reservation] = weakref.WeakValueDictionary()


def _locked(folder: Path) -> IO[str] | None:
    """An open file that keeps others out of a run folder until it is closed."""
    if fcntl is None:
        return None
    lock = open(folder / ".lock", "w")  # noqa: SIM115 - held as long as the run
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise Locked(f"{folder}: another process is working in this run folder") from None
    return lock


class Run:
    """One run folder.

    ``Run(path, config)`` starts a new run and refuses a folder that already holds one; ``resume=True`` goes on with it and
    refuses other settings; ``force=True`` starts over. Where several processes work at one run, the first of them reads and
    writes, and tells the others.
    """

    def __init__(
        self, path: str | Path, config: dict[str, Any] | None = None, *, resume: bool = False, force: bool = False
    ) -> None:
        self.path = Path(path)
        self._lock: IO[str] | None = None
        self.config = self._open(config, resume, force)

    @distributed.by_first
    def _open(self, config: dict[str, Any] | None, resume: bool, force: bool) -> dict[str, Any]:
        known = (self.path / "config.yaml").exists()
        if config is None:
            if not known:
                raise InputError(f"{self.path}: not a run folder (it has no config.yaml)")
            return self._read_config()
        if known and not (resume or force):
            raise InputError(f"{self.path}: already holds a run; give resume to go on with it, or force to replace it")
        self.path.mkdir(parents=True, exist_ok=True)
        try:
            self._take_lock()
            if not known and (self.path / "config.yaml").exists() and not (resume or force):
                raise InputError(f"{self.path}: another process has begun a run here just now")
            if known and resume:
                self._check_same(config)
            elif known:
                self._clear()
            write_atomic(self.path / "config.yaml", dump_config(config))
        except BaseException:
            self.close()  # a traceback may keep this object alive: the folder must not stay locked with it
            raise
        return config

    # -- history ----------------------------------------------------------------------------------------------------

    @distributed.by_first
    def history(self, name: str = "history") -> list[dict[str, Any]]:
        """The records so far; a half-written last line is left out."""
        file = self.path / f"{name}.jsonl"
        records = []
        for line in file.read_text(errors="replace").splitlines() if file.exists() else []:
            try:
                record = json.loads(line)
            except (ValueError, RecursionError):
                break
            if not isinstance(record, dict):
                break
            records.append(record)
        return records

    @distributed.by_first
    def append(self, record: dict[str, Any], name: str = "history") -> None:
        """Add one record and make sure it is on disk."""
        with open(self.path / f"{name}.jsonl", "a") as file:
            file.write(json.dumps(record) + "\n")
            file.flush()
            os.fsync(file.fileno())

    @distributed.by_first
    def truncate(self, count: int, name: str = "history") -> None:
        """Keep the first ``count`` records: those the checkpoint knows of."""
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
        numbers = self._checkpoints(name)
        checkpoint.save(self._checkpoint(name, numbers[-1] + 1 if numbers else 0), state)
        for old in numbers[: -(KEEP - 1)]:
            self._checkpoint(name, old).unlink(missing_ok=True)

    @distributed.by_first
    def load_state(self, name: str = "checkpoint") -> dict[str, Any] | None:
        """The newest state that is whole, or None. A damaged one is passed over with a warning."""
        for number in reversed(self._checkpoints(name)):
            try:
                return checkpoint.load(self._checkpoint(name, number))
            except InputError as error:
                warnings.warn(f"{error}; going back to the checkpoint before it")
        return None

    def _checkpoint(self, name: str, number: int) -> Path:
        return self.path / "checkpoints" / f"{name}-{number:06d}.safetensors"

    def _checkpoints(self, name: str) -> list[int]:
        files = (self.path / "checkpoints").glob(f"{name}-*.safetensors")
        return sorted(int(file.stem.rsplit("-", 1)[1]) for file in files if file.stem.rsplit("-", 1)[1].isdigit())

    # -- results ----------------------------------------------------------------------------------------------------

    @distributed.by_first
    def write_json(self, name: str, value: Any) -> None:
        write_json(self.path / f"{name}.json", value)

    @distributed.by_first
    def read_json(self, name: str, keys: Iterable[str] = ()) -> Any:
        """The value written under ``name``, or None; one without these keys is an error."""
        file = self.path / f"{name}.json"
        try:
            value = read_json(file) if file.exists() else None
        except InputError as error:
            raise InputError(f"{error}; remove it and resume the run") from None
        missing = [key for key in keys if value is not None and (not isinstance(value, dict) or key not in value)]
        if missing:
            raise InputError(f"{file}: it has no {missing[0]!r}; remove it and resume the run")
        return value

    @distributed.by_first
    def write_genotype(self, genotype: Architecture) -> None:
        write_atomic(self.path / "genotype.yaml", genotype.to_yaml())

    @distributed.by_first
    def genotype(self) -> Genotype | None:
        """The genotype this run found or was given."""
        file = self.path / "genotype.yaml"
        return load_genotype(file) if file.exists() else None

    def part(self, name: str, config: dict[str, Any], *, resume: bool = False, force: bool = False) -> Run:
        """A run inside this one: the search, a training, a baseline."""
        return Run(self.path / name, config, resume=resume, force=force)

    def continued(self, name: str, config: dict[str, Any], *, force: bool = False) -> Run:
        """A run inside this one that goes on if it has these settings; one with others is replaced."""
        try:
            same = Run(self.path / name).config == config
        except InputError:  # there is none
            same = False
        keep = same and not force
        return self.part(name, config, resume=keep, force=not keep)

    # -- guards -----------------------------------------------------------------------------------------------------

    def _read_config(self) -> dict[str, Any]:
        return upgrade_config(read_config(self.path / "config.yaml"))

    def _check_same(self, config: dict[str, Any]) -> None:
        before, now = _flatten(self._read_config()), _flatten(config)
        for key in sorted(set(before) | set(now)):
            if before.get(key) != now.get(key):
                raise InputError(
                    f"{self.path}: cannot resume with another {key.removeprefix('settings.')} "
                    f"({now.get(key)!r}; the run has {before.get(key)!r})"
                )

    def _take_lock(self) -> None:
        reserved = _RESERVED.pop(self.path.resolve(), None)
        self._lock = _locked(self.path) if reserved is None else reserved.lock

    def close(self) -> None:
        """Let other processes use the folder."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _clear(self) -> None:
        for name in ("history.jsonl", "genotype.yaml", "result.json"):
            (self.path / name).unlink(missing_ok=True)
        for file in (self.path / "checkpoints").glob("*.safetensors"):
            file.unlink()
        for inner in ("*", "trained/*/*", "strategies/*/*"):
            for part in self.path.glob(f"{inner}/config.yaml"):
                shutil.rmtree(part.parent)


def _flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested values by dotted name, such as ``settings.training.lr``."""
    found = {}
    for name, value in values.items():
        inner = isinstance(value, Mapping)
        found.update(_flatten(value, f"{prefix}{name}.") if inner else {f"{prefix}{name}": value})
    return found


def plain(values: dict[str, Any]) -> dict[str, Any]:
    """Settings as a YAML file gives them back: no tuples, no objects."""
    return json.loads(json.dumps({name: _described(value) for name, value in values.items()}))


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
