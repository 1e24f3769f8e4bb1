"""A run folder read back as one value: whatever is there so far. Nothing is computed or trained."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from gnas.arch.genotype import Genotype
from gnas.arch.space import SearchSpace
from gnas.errors import InputError
from gnas.run.folder import Run
from gnas.run.leaderboard import Leaderboard
from gnas.run.settings import config_settings, config_value
from gnas.run.strategy_curves import StrategyComparison
from gnas.strategies.finished import read_architecture

P = ParamSpec("P")
T = TypeVar("T")
Records = list[dict[str, Any]]
SILENT = 600.0  # seconds without a new record after which an unfinished run counts as stopped, or three epochs


@dataclass(frozen=True)
class Training:
    """One network trained from one seed: its records so far and, when it is done, its result."""

    name: str
    seed: int
    history: Records = field(repr=False)
    result: dict[str, Any] | None
    describe: str = ""


@dataclass(frozen=True)
class Job:
    """Everything a run folder holds. ``state`` is ``finished``, ``running`` or ``stopped``."""

    folder: Path
    config: dict[str, Any]
    state: str
    data: dict[str, Any] | None = None
    genotype: Genotype | None = None
    history: Records = field(default_factory=list, repr=False)
    search: dict[str, Any] | None = None
    leaderboard: Leaderboard | None = None
    strategies: StrategyComparison | None = None
    trainings: tuple[Training, ...] = ()
    rounds: tuple[dict[str, Any], ...] = ()
    result: dict[str, Any] | None = None
    versions: dict[str, Any] | None = None
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.folder.resolve().name

    @property
    def dataset(self) -> str:
        names = (self.config.get("dataset"), (self.data or {}).get("name"), self.name)
        return str(next(name for name in names if name))

    @property
    def metric(self) -> str:
        """The metric's name, as far as the folder tells it."""
        if self.leaderboard is not None:
            return self.leaderboard.metric
        if self.strategies is not None:
            return self.strategies.metric
        told = [(self.data or {}).get("task", {}).get("metric")]
        told += [(training.result or {}).get("metric") for training in self.trainings]
        return next((str(metric) for metric in told if metric), "metric")

    @property
    def step(self) -> str:
        """What a record of the search stands for: an ``epoch``, or a ``trial`` of one candidate."""
        return "trial" if self.history and "trial" in self.history[0] else "epoch"

    def by_network(self) -> dict[str, list[Training]]:
        """Trainings by network, found ones first."""
        found = {row.name for row in self.leaderboard.rows if row.found} if self.leaderboard else {"gnas"}
        groups: dict[str, list[Training]] = {}
        for training in sorted(self.trainings, key=lambda t: (t.name not in found, t.name, t.seed)):
            groups.setdefault(training.name, []).append(training)
        return groups

    def space(self) -> SearchSpace | None:
        """The space searched, if the settings tell it and the alphas fit it."""
        record = next((record for record in reversed(self.history) if record.get("alphas")), None)
        if record is None:
            return None
        told = self.config.get("space")
        try:
            settings = config_settings(self.config)
            known = SearchSpace() if settings is None else settings.space.search_space()
            space = SearchSpace(**told) if isinstance(told, dict) else known
        except (InputError, ValueError, TypeError):
            return None
        sizes = [len(link.candidates) for link in space.links()]
        return space if all([len(link) for link in cell] == sizes for cell in record["alphas"]) else None


def legible(read: Callable[P, T]) -> Callable[P, T]:
    """``read``, for which a run folder whose files are not as gnas writes them is bad input, however they are wrong."""

    @functools.wraps(read)
    def checked(*args: P.args, **more: P.kwargs) -> T:
        try:
            return read(*args, **more)
        except (InputError, OSError):
            raise
        except Exception as error:
            first = args[0] if args else ""
            where = first.folder if isinstance(first, Job) else first
            reason = " ".join(f"{type(error).__name__}: {error}".split())[:160]
            raise InputError(f"{where}: the files of this run are not as gnas writes them ({reason})") from error

    return checked


@legible
def read_job(folder: str | Path) -> Job:
    """Read the folder of a main job, of a depth search, or of a single search or training."""
    run = Run(folder)
    rounds = sorted((one for one in map(_part, run.path.glob("round-*")) if one), key=_number)
    searching = run if _is_search(run) else _part(run.path / "search") or (rounds[-1] if rounds else None)
    history = _under_way(searching).history() if searching else []
    notes: list[str] = []
    genotypes = (_genotype(one, notes) for one in (run, searching) if one)
    result, board, trainings = run.read_json("result"), run.read_json("leaderboard"), _trainings(run)
    return Job(
        folder=run.path,
        config=run.config,
        state=_state(run, [history, *(training.history for training in trainings)]),
        data=run.read_json("data"),
        genotype=next(filter(None, genotypes), None) or _latest(history),
        history=history,
        search=searching.read_json("result") if searching else None,
        leaderboard=_leaderboard(board, run.path),
        strategies=StrategyComparison.load(run.path) if (run.path / "strategies.json").exists() else None,
        trainings=trainings,
        rounds=tuple((result or {}).get("rounds") or map(_round, rounds)),
        result=result,
        versions=run.read_json("versions"),
        notes=tuple(dict.fromkeys(notes)),
    )


def signature(folder: str | Path) -> tuple[tuple[str, int, int], ...]:
    """Names, sizes and times of the files a report is made of: it changes when the report would."""
    found = []
    for pattern in ("*.json", "*.yaml", "*.jsonl"):
        for file in Path(folder).rglob(pattern):
            try:
                about = file.stat()
            except FileNotFoundError:  # replaced while we look
                continue
            found.append((str(file), about.st_size, about.st_mtime_ns))
    return tuple(sorted(found))


def _is_search(run: Run) -> bool:
    first = run.history()[:1]
    return bool(first) and ("genotype" in first[0] or "alphas" in first[0])


def _under_way(run: Run) -> Run:
    """Of several searches, none of which is chosen yet, the last one begun; else the search itself."""
    parts = [] if run.history() else sorted(filter(None, map(_part, run.path.glob("seed-*"))), key=_number)
    return parts[-1] if parts else run


def _part(path: Path) -> Run | None:
    return Run(path) if (path / "config.yaml").exists() else None


def _number(run: Run) -> int:
    number = run.path.name.partition("-")[2]
    return int(number) if number.isdigit() else 0


def _round(run: Run) -> dict[str, Any]:
    """A round of a depth search that is still under way, as its result will tell it."""
    done, last = run.read_json("result") or {}, (run.history() or [{}])[-1]
    metric = last.get("best_val_metric", last.get("val_metric"))
    told = {"searched": done.get("depth"), "val_metric": metric, "seconds": last.get("seconds")}
    return {"initial": config_value(run.config, "space.cells"), **told}


def _genotype(run: Run, notes: list[str]) -> Genotype | None:
    """The genotype of a run; a file that is none is noted and not drawn."""
    try:
        found = read_architecture(run)
    except InputError as error:
        notes.append(f"{error}; it is not drawn")
        return None
    if found is None or isinstance(found, Genotype):
        return found
    notes.append(f"{found.title} is not made of GAP cells: it is not drawn.")
    return None


def _latest(history: Records) -> Genotype | None:
    """The choices so far, of a search by epochs; those of a search by trials are a candidate's only."""
    try:
        last = history[-1]["genotype"] if history and "trial" not in history[-1] else None
        return Genotype.from_yaml(last) if last else None
    except (InputError, KeyError):
        return None


def _leaderboard(value: Any, folder: Path) -> Leaderboard | None:
    try:
        return None if value is None else Leaderboard.from_dict(value)
    except (KeyError, TypeError):
        raise InputError(f"{folder / 'leaderboard.json'}: not a leaderboard; remove it and resume the run") from None


def _trainings(run: Run) -> tuple[Training, ...]:
    folders = sorted(path.parent for path in run.path.glob("trained/*/seed-*/config.yaml"))
    runs = [Run(folder) for folder in folders]
    if not runs and not _is_search(run) and run.history():
        runs = [run]
    return tuple(_training(one) for one in runs)


def _training(run: Run) -> Training:
    name = str(run.config.get("model") or run.config.get("dataset") or run.path.name)
    told = str(run.config.get("describe") or "")
    return Training(name, int(run.config.get("seed") or 0), run.history(), run.read_json("result"), told)


def _state(run: Run, histories: list[Records]) -> str:
    if run.read_json("result") is not None:
        return "finished"
    files = signature(run.path)
    newest = max((time_ns for _, _, time_ns in files), default=0) / 1e9
    epochs = [history[-1].get("seconds", 0.0) / len(history) for history in histories if history]
    return "running" if time.time() - newest < max(SILENT, 3 * max(epochs, default=0.0)) else "stopped"
