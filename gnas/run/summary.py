"""Run folders in a few facts, for lists of runs. Reads quickly, imports no torch, and takes a folder in any state."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gnas.errors import InputError
from gnas.files import is_number, read_config, read_json
from gnas.run.layout import CONFIG, LEADERBOARD, RESULT, is_run, run_state
from gnas.run.settings import config_value, upgrade_config

MAX_LEVELS = 4  # of folders between the root of a list and a run
MAX_TEXT = 200  # characters of a name


@dataclass(frozen=True)
class RunSummary:
    """One run folder. A fact that the folder does not hold is None."""

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


def summarise_run(folder: str | Path) -> RunSummary:
    """The facts of one run folder."""
    folder = Path(folder)
    if not is_run(folder):
        hint = "" if folder.exists() else " (no such folder)"
        raise InputError(f"{folder}: not a run folder, it has no {CONFIG}{hint}")
    config = upgrade_config(read_config(folder / CONFIG, follow=False))
    if not ("job" in config or "dataset" in config):
        raise InputError(f"{folder}: not a run folder, its {CONFIG} names no job")
    result = _read_values(folder / RESULT)
    row = _best_row(_read_values(folder / LEADERBOARD))
    search = result["search"] if isinstance(result.get("search"), dict) else result
    strategy = config_value(config, "search.strategy")
    return RunSummary(
        folder,
        _text(config.get("job")) or "train",
        run_state(folder),
        _text(config.get("dataset")),
        _text(strategy.get("name") if isinstance(strategy, dict) else strategy),
        _whole(config_value(config, "search.seed")),
        _whole(row.get("depth", search.get("depth"))),
        _text(row.get("metric", result.get("metric"))),
        _number(row.get("mean", result.get("test"))),
        (folder / CONFIG).stat().st_mtime,
    )


def list_runs(root: str | Path) -> list[RunSummary]:
    """The runs below ``root``, the newest first. The parts of a run are not listed."""
    return sorted(_walk(Path(root), 0), key=lambda run: -run.changed)


def _walk(folder: Path, level: int) -> Iterator[RunSummary]:
    if is_run(folder):
        with contextlib.suppress(InputError, OSError):  # damaged, or removed meanwhile
            yield summarise_run(folder)
    elif level < MAX_LEVELS:
        for child in _list_folders(folder):
            yield from _walk(child, level + 1)


def _list_folders(folder: Path) -> list[Path]:
    try:
        found = sorted(folder.iterdir())
    except OSError:  # it cannot be read, or was removed meanwhile
        return []
    return [path for path in found if path.is_dir() and not path.name.startswith(".") and not path.is_symlink()]


def _best_row(board: dict[str, Any]) -> dict[str, Any]:
    """The row of the found network, else the best row, with the name of the metric."""
    rows = board.get("rows")
    rows = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    row = next((row for row in rows if row.get("found")), rows[0] if rows else None)
    return {**row, "metric": board.get("metric")} if row else {}


def _text(value: Any) -> str | None:
    return value[:MAX_TEXT] if isinstance(value, str) else None


def _number(value: Any) -> float | None:
    return float(value) if is_number(value) else None


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and is_number(value) else None


def _read_values(file: Path) -> dict[str, Any]:
    """A JSON file of names and values; empty if it is missing or damaged."""
    try:
        value = read_json(file, follow=False)
    except (OSError, InputError):
        return {}
    return value if isinstance(value, dict) else {}
