"""Run folders as a list shows them, read without torch: quick, and whatever state they are in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gnas.errors import InputError
from gnas.files import read_config, read_json
from gnas.run.settings import config_value, upgrade_config


@dataclass(frozen=True)
class About:
    """One run folder in a few facts; what it does not tell is None."""

    folder: Path
    job: str
    state: str  # finished, running or stopped
    dataset: str | None = None
    strategy: str | None = None
    seed: int | None = None
    depth: int | None = None
    metric: str | None = None
    test: float | None = None
    changed: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "folder": str(self.folder)}


def about(folder: Path) -> About:
    """The facts of a run folder."""
    file = folder / "config.yaml"
    if not file.is_file():
        hint = "" if folder.exists() else " (there is nothing of this name)"
        raise InputError(f"{folder}: not a run folder, it has no config.yaml{hint}")
    config = upgrade_config(read_config(file))
    if not ("job" in config or "dataset" in config):
        raise InputError(f"{folder}: not a run folder, its config.yaml names no job")
    result = _read(folder / "result.json")
    found = _best_found(_read(folder / "leaderboard.json"))
    strategy = config_value(config, "search.strategy")
    told = result["search"] if isinstance(result.get("search"), dict) else result
    return About(
        folder,
        str(config.get("job", "train")),
        "finished" if result else "running" if is_running(folder) else "stopped",
        config.get("dataset"),
        strategy.get("name") if isinstance(strategy, dict) else strategy,
        config_value(config, "search.seed"),
        found.get("depth", told.get("depth")),
        found.get("metric", result.get("metric")),
        found.get("mean", result.get("test")),
        file.stat().st_mtime,
    )


def runs_under(root: Path) -> Iterator[About]:
    """The run folders below ``root``, the newest first; the parts of a run are not runs of their own here."""
    yield from sorted(_walk(root, 0), key=lambda run: -run.changed)


def _walk(folder: Path, level: int) -> Iterator[About]:
    if (folder / "config.yaml").is_file():
        try:
            yield about(folder)
        except InputError:
            return
    elif level < 4:
        for child in sorted(folder.iterdir()):
            if child.is_dir() and not child.name.startswith(".") and not child.is_symlink():
                yield from _walk(child, level + 1)


def is_running(folder: Path) -> bool:
    """Whether a process holds the folder's lock."""
    try:
        import fcntl

        with open(folder / ".lock") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return False
    except (ImportError, FileNotFoundError):
        return False
    except OSError:
        return True


def _best_found(board: dict[str, Any]) -> dict[str, Any]:
    """The row of the found network, or the best row, with the metric's name."""
    told = board.get("rows")
    rows = [row for row in told if isinstance(row, dict)] if isinstance(told, list) else []
    row = next((row for row in rows if row.get("found")), rows[0] if rows else None)
    return {**row, "metric": board.get("metric")} if row else {}


def _read(file: Path) -> dict[str, Any]:
    try:
        found = read_json(file)
        return found if isinstance(found, dict) else {}
    except (OSError, InputError):
        return {}
