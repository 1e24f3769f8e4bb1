"""The folder a command works in: new, gone on with, or replaced; never overwritten by accident."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

from gnas.cli.group import COMMAND, as_typed
from gnas.cli.records import about, is_running
from gnas.errors import InputError
from gnas.files import write_json
from gnas.run.settings import read_command, read_settings

OURS = (
    *("config.yaml", "command.json", "versions.json", "data.json", "history.jsonl", "genotype.yaml", "result.json"),
    *("leaderboard.csv", "leaderboard.json", "leaderboard.md", "report.html", "tracking.json"),
    *("strategies.csv", "strategies.json", "strategies.md", "strategies.svg", "strategies.png", "strategies"),
    *("checkpoints", "search", "trained", "jobs", "tensorboard", "wandb", "mlflow.db"),
)

HALF = re.compile(r"\..+\.(yaml|json|jsonl|safetensors|html|csv|md|svg|png)\.\w{8}")


class Place:
    """A run folder before the work begins."""

    def __init__(self, folder: Path, job: str, resume: bool, force: bool) -> None:
        self.folder, self.job, self.force = folder, job, force
        if resume and force:
            raise InputError("give --resume or --force, not both")
        known = (folder / "config.yaml").exists()
        self.resumed = resume and known
        if folder.is_file():
            raise InputError(f"{folder} is a file; --out names a folder")
        if known and not (resume or force):
            raise InputError(f"{folder} already holds a run; --resume goes on with it, --force replaces it")
        if not known and folder.is_dir() and {path.name for path in _visible(folder)} - set(OURS):
            raise InputError(f"{folder} is not empty and not a run folder; choose another with --out")
        held = about(folder).job if known else job
        if resume and held != job:
            raise InputError(f"{folder} holds the run of a gnas {held}; go on with it by that command")
        if known and is_running(folder):
            raise InputError(f"{folder}: another process is working in this run folder")

    @property
    def saved(self) -> dict[str, Any]:
        """What the command that began this run was told: its settings, the data's among them."""
        file = self.folder / "command.json"
        if not self.resumed:
            return {}
        if not file.exists():  # begun from Python
            return {"settings": read_settings(self.folder / "config.yaml")} if self.job == "search" else {}
        try:
            return read_command(file)
        except InputError as error:
            raise InputError(f"{error}; remove it and name the settings with --settings") from None

    def begin(self, told: dict[str, Any], versions: dict[str, str]) -> None:
        """Clear what is to be replaced, and keep how the run was started and by which versions."""
        from gnas.run.folder import Reservation  # it imports torch, which a command that begins a run has loaded

        self.held = Reservation(self.folder)  # two that begin at once: one of them clears and writes
        if not (self.resumed or self.force) and (self.folder / "config.yaml").exists():
            raise InputError(f"{self.folder} already holds a run; --resume goes on with it, --force replaces it")
        if self.force:
            clear(self.folder)
        remove_halves(self.folder)
        if not self.resumed:
            words = {"command": as_typed(COMMAND.get()), "job": self.job, **told}
            write_json(self.folder / "command.json", words)
        write_json(self.folder / "versions.json", versions)


def clear(folder: Path) -> None:
    """Remove what runs write into their folder, and nothing else."""
    for path in [*(folder / name for name in OURS), *folder.glob("round-*")]:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def remove_halves(folder: Path) -> None:
    """Remove what a killed process had not written to the end: the files that ``write_atomic`` would have renamed."""
    for path in folder.rglob(".*"):
        if HALF.fullmatch(path.name) and path.is_file():
            path.unlink()


def _visible(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if not path.name.startswith(".")]


def run_name(dataset: str, *words: str) -> Path:
    """The default folder: the same for the same command."""
    name = Path(dataset).stem if Path(dataset).suffix else Path(dataset).name
    return Path("runs") / "-".join(re.sub(r"[^\w.]+", "-", word).strip("-.") or "data" for word in (name, *words))
