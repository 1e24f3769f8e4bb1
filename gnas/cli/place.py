"""The folder a command works in: new, resumed or replaced; never overwritten by accident."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from gnas.cli.group import COMMAND, as_typed
from gnas.errors import InputError
from gnas.files import check_inside, read_config, write_json
from gnas.run import layout
from gnas.run.settings import read_command, read_settings
from gnas.run.summary import summarise_run


class Place:
    """A run folder before the work begins."""

    def __init__(self, folder: Path, job: str, resume: bool, force: bool) -> None:
        self.folder, self.job, self.force = folder, job, force
        if resume and force:
            raise InputError("give --resume or --force, not both")
        known = layout.is_run(folder)
        if known:
            check_inside(folder)
        self.resumed = resume and known
        if folder.is_file():
            raise InputError(f"{folder} is a file; --out names a folder")
        if known and not (resume or force):
            raise self._refusal()
        if not known and folder.is_dir() and {path.name for path in _visible(folder)} - set(layout.OWN_NAMES):
            raise InputError(f"{folder} is not empty and not a run folder; choose another with --out")
        found = summarise_run(folder).job if known else job
        if resume and found != job:
            raise InputError(f"{folder} holds the run of a gnas {found}; resume it with that command")
        if known and layout.is_locked(folder):
            raise InputError(f"{folder}: another process is working in this run folder")

    @property
    def saved(self) -> dict[str, Any]:
        """The options of the resumed command: its settings, those of the data among them."""
        file = self.folder / layout.COMMAND
        if not self.resumed:
            return {}
        if not file.exists():  # started from Python
            return {"settings": read_settings(self.folder / layout.CONFIG)} if self.job == "search" else {}
        try:
            return read_command(file)
        except InputError as error:
            raise InputError(f"{error}; remove it and name the settings with --settings") from None

    def begin(self, options: dict[str, Any], versions: dict[str, str], fingerprint: str | None = None) -> None:
        """Clear what is to be replaced, and save how the run was started and by which versions.

        A resumed run with another ``fingerprint`` of its data is refused before anything is written.
        """
        from gnas.run.folder import Reservation, check_data  # it imports torch, which a command that runs has loaded

        self.reservation = Reservation(self.folder)  # of two commands that start at once, one clears and writes
        if self.resumed:
            check_data(self.folder, read_config(self.folder / layout.CONFIG), fingerprint)
        elif not self.force and layout.is_run(self.folder):
            raise self._refusal()
        if self.force:
            clear_run(self.folder)
        remove_temporary_files(self.folder)
        layout.remove_shared(self.folder)
        if not self.resumed:
            words = {"command": as_typed(COMMAND.get()), "job": self.job, **options}
            write_json(self.folder / layout.COMMAND, words)
        write_json(self.folder / "versions.json", versions)

    def _refusal(self) -> InputError:
        return InputError(f"{self.folder} already holds a run; --resume resumes it, --force replaces it")


def clear_run(folder: Path) -> None:
    """Remove what runs write into their folder, and nothing else."""
    for path in layout.own_paths(folder):
        layout.remove_path(path)


def remove_temporary_files(folder: Path) -> None:
    """Remove files that a killed process did not write to the end: those that ``write_atomic`` would have renamed."""
    for path in folder.rglob(".*"):
        if layout.TEMPORARY.fullmatch(path.name) and path.is_file():
            path.unlink()


def _visible(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if not path.name.startswith(".")]


def run_name(dataset: str, *words: str) -> Path:
    """The default folder: the same for the same command."""
    name = Path(dataset).stem if Path(dataset).suffix else Path(dataset).name
    return Path("runs") / "-".join(re.sub(r"[^\w.]+", "-", word).strip("-.") or "data" for word in (name, *words))
