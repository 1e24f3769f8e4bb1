"""A run folder is the record of a run: settings, history, checkpoints, genotype, result. It can stop and go on."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import IO, Any

import yaml

try:
    import fcntl
except ImportError:  # not a Unix system: folders are then not locked
    fcntl = None  # type: ignore[assignment]

from gnas import checkpoint
from gnas.authors import load_genotype
from gnas.errors import InputError
from gnas.files import write_atomic
from gnas.genotype import Genotype

KEEP = 2  # checkpoints kept: should the last one be damaged, the one before serves


class Interrupted(Exception):
    """The user asked a run to stop; its state is saved."""


class Run:
    """One run folder.

    ``Run(path, config)`` starts a new run and refuses a folder that already holds one; ``resume=True`` goes on with it and
    refuses other settings; ``force=True`` starts over.
    """

    def __init__(
        self, path: str | Path, config: dict[str, Any] | None = None, *, resume: bool = False, force: bool = False
    ) -> None:
        self.path = Path(path)
        self._lock: IO[str] | None = None
        known = (self.path / "config.yaml").exists()
        if config is None:
            if not known:
                raise InputError(f"{self.path}: not a run folder (it has no config.yaml)")
            self.config = self._read_config()
            return
        if known and not (resume or force):
            raise InputError(f"{self.path}: already holds a run; give resume to go on with it, or force to replace it")
        self.path.mkdir(parents=True, exist_ok=True)
        try:
            self._take_lock()
            if known and resume:
                self._check_same(config)
            elif known:
                self._clear()
            self.config = config
            write_atomic(self.path / "config.yaml", yaml.safe_dump(config, sort_keys=False, allow_unicode=True))
        except BaseException:
            self.close()  # a traceback may keep this object alive: the folder must not stay locked with it
            raise

    # -- history ----------------------------------------------------------------------------------------------------

    def history(self, name: str = "history") -> list[dict[str, Any]]:
        """The records so far; a half-written last line is left out."""
        file = self.path / f"{name}.jsonl"
        records = []
        for line in file.read_text().splitlines() if file.exists() else []:
            try:
                records.append(json.loads(line))
            except json.JSONDecodeError:
                break
        return records

    def append(self, record: dict[str, Any], name: str = "history") -> None:
        """Add one record and make sure it is on disk."""
        with open(self.path / f"{name}.jsonl", "a") as file:
            file.write(json.dumps(record) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def truncate(self, count: int, name: str = "history") -> None:
        """Keep the first ``count`` records: those the checkpoint knows of."""
        records = self.history(name)
        if len(records) < count:
            raise InputError(
                f"{self.path}/{name}.jsonl holds {len(records)} records, its checkpoint knows {count}; start again with force"
            )
        write_atomic(self.path / f"{name}.jsonl", "".join(json.dumps(r) + "\n" for r in records[:count]))

    # -- checkpoints ------------------------------------------------------------------------------------------------

    def save_state(self, state: dict[str, Any], name: str = "checkpoint") -> None:
        """Write the next checkpoint, then drop all but the last two."""
        numbers = self._checkpoints(name)
        checkpoint.save(self._checkpoint(name, numbers[-1] + 1 if numbers else 0), state)
        for old in numbers[: -(KEEP - 1)]:
            self._checkpoint(name, old).unlink(missing_ok=True)

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

    def write_json(self, name: str, value: Any) -> None:
        write_atomic(self.path / f"{name}.json", json.dumps(value, indent=2) + "\n")

    def read_json(self, name: str) -> Any:
        """The value written under ``name``, or None."""
        file = self.path / f"{name}.json"
        try:
            return json.loads(file.read_text()) if file.exists() else None
        except ValueError:
            raise InputError(f"{file}: not valid JSON; remove it and resume the run") from None

    def write_genotype(self, genotype: Any) -> None:
        write_atomic(self.path / "genotype.yaml", genotype.to_yaml())

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
        file = self.path / "config.yaml"
        try:
            config = yaml.safe_load(file.read_text())
        except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
            raise InputError(f"{file}: not valid YAML ({str(error).splitlines()[0]})") from None
        if not isinstance(config, dict):
            raise InputError(f"{file}: expected settings by name")
        return config

    def _check_same(self, config: dict[str, Any]) -> None:
        before = self._read_config()
        for key in sorted(set(before) | set(config)):
            if before.get(key) != config.get(key):
                raise InputError(
                    f"{self.path}: cannot resume with another {key} ({config.get(key)!r}; the run has {before.get(key)!r})"
                )

    def _take_lock(self) -> None:
        if fcntl is None:
            return
        lock = open(self.path / ".lock", "w")  # noqa: SIM115 - held as long as the run
        self._lock = lock
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(f"{self.path}: another process is working in this run folder") from None

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
        for part in [*self.path.glob("*/config.yaml"), *self.path.glob("trained/*/*/config.yaml")]:
            shutil.rmtree(part.parent)


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
