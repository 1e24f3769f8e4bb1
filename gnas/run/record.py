"""A run folder read back as typed values: whatever is there so far. Nothing is computed or trained.

This module and :mod:`gnas.run.folder`, which writes, are the only ones that know the files of a run.
"""

from __future__ import annotations

import csv
import functools
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from types import UnionType
from typing import Any, ParamSpec, TypeVar

from gnas.arch.architecture import Architecture, read_architecture
from gnas.arch.genotype import Genotype
from gnas.arch.space import SearchSpace
from gnas.errors import InputError
from gnas.files import NewerFormat, check_inside, is_number, read_bytes, read_config, read_json
from gnas.run import layout
from gnas.run.layout import run_state
from gnas.run.leaderboard import Leaderboard
from gnas.run.settings import config_settings, config_value, upgrade_config
from gnas.run.strategy_curves import StrategyComparison

__all__ = [
    *("RoundRecord", "RunRecord", "SearchFigures", "SearchRecord", "TrainingFigures", "TrainingRecord"),
    *("read_run", "read_search", "read_training", "read_trainings", "run_state"),
]

P = ParamSpec("P")
T = TypeVar("T")
Values = dict[str, Any]  # of a JSON file
Records = list[Values]  # of a history, one per epoch or trial


# -- files -----------------------------------------------------------------------------------------------------------

# What a value of a history or a result is, by its name. Names that are not listed may have any value.
NUMBERS = (
    *("epoch", "epochs", "lr", "seconds", "own_seconds", "trained_epochs", "train_loss", "train_metric", "val_loss"),
    *("val_metric", "val_metric_per_batch", "best_val_metric", "best_epoch", "num_weights", "depth", "identity_share"),
    *("entropy", "margin", "trial", "reached", "tried", "dropped", "test", "val", "train", "test_per_batch"),
)
KINDS: dict[str, tuple[str, type | UnionType]] = {
    **dict.fromkeys(NUMBERS, ("a number", int | float)),
    **dict.fromkeys(("genotype", "genotype_id", "candidate_id", "leader", "metric", "strategy"), ("a text", str)),
    **dict.fromkeys(("operations", "second_level", "candidate", "metrics", "per_target"), ("a mapping", dict)),
    **dict.fromkeys(("alphas", "points", "rounds", "searches", "finalists"), ("a list", list)),
}


def check_kinds(values: Values, source: str) -> None:
    """An error if a value of a record or a result is of another kind than its name says. ``None`` is a value of each kind."""
    for key, value in values.items():
        kind, types = KINDS.get(key, ("", object))
        if value is not None and not isinstance(value, types):
            raise InputError(f"{source}: its {key!r} is not {kind}; this file is not as gnas writes it")


def read_history(folder: Path, name: str = "history") -> Records:
    """The records so far. A half-written last line is left out; a value of another kind is an error."""
    file = folder / f"{name}.jsonl"
    records: Records = []
    text = read_bytes(file, follow=False).decode(errors="replace") if file.exists() else ""
    for line in text.splitlines():
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            break
        if not isinstance(record, dict):
            break
        check_kinds(record, f"{file}, line {len(records) + 1}")
        records.append(record)
    return records


def read_test_rows(folder: Path) -> list[dict[str, str]]:
    """The rows of the test split in the ``predictions.csv`` of a training, by column."""
    text = read_bytes(folder / layout.PREDICTIONS, follow=False).decode()
    return [line for line in csv.DictReader(text.splitlines()) if line["split"] == "test"]


def read_run_json(folder: Path, name: str, keys: Iterable[str] = ()) -> Any:
    """The value of ``NAME.json``, or None if there is no such file. A value without one of ``keys`` is an error."""
    file = folder / f"{name}.json"
    try:
        value = read_json(file, follow=False) if file.exists() else None
    except NewerFormat:
        raise
    except InputError as error:
        raise InputError(f"{error}; remove it and resume the run") from None
    missing = [key for key in keys if value is not None and (not isinstance(value, dict) or key not in value)]
    if missing:
        raise InputError(f"{file}: it has no {missing[0]!r}; remove it and resume the run")
    if name == "result" and isinstance(value, dict):
        check_kinds(value, str(file))
    return value


def read_training_result(folder: Path) -> Values | None:
    """The ``result.json`` of a training with all its values; None if it has not ended. Figures are computed from it."""
    values: Values | None = read_run_json(folder, "result")
    if values is not None:
        TrainingFigures.from_dict(values, folder)
        splits = (values.get("metrics") or {}).values()
        found = [one for split in splits for one in (split.values() if isinstance(split, dict) else [split])]
        if not all(one is None or is_number(one) for one in found):
            raise InputError(f"{folder}: its result has no valid 'metrics'; remove the folder and train again")
    return values


def read_run_config(folder: Path) -> Values:
    """The settings of a run, whose folder holds files and folders only."""
    if not (folder / layout.CONFIG).exists():
        raise InputError(f"{folder}: not a run folder (it has no {layout.CONFIG})")
    check_inside(folder)
    return upgrade_config(read_config(folder / layout.CONFIG, follow=False))


def read_run_architecture(folder: Path) -> Architecture | None:
    """The architecture that a run found or trained; None if there is none yet."""
    file = folder / layout.GENOTYPE
    return read_architecture(file) if file.exists() else None


def refuse_damaged(read: Callable[P, T]) -> Callable[P, T]:
    """Turn any error of ``read`` on damaged files of a run into an InputError of one line.

    The first argument of ``read`` is a run folder or a record.
    """

    @functools.wraps(read)
    def checked(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return read(*args, **kwargs)
        except (InputError, OSError):
            raise
        except Exception as error:
            first = args[0] if args else ""
            folder = first.folder if isinstance(first, RunRecord) else first
            reason = " ".join(f"{type(error).__name__}: {error}".split())[:160]
            raise InputError(f"{folder}: the files of this run are not as gnas writes them ({reason})") from error

    return checked


# -- records ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TrainingFigures:
    """The result of a training: its figures at the epoch with the best validation metric."""

    seed: int
    test: float
    val: float
    metric: str
    train: float | None = None
    test_per_batch: float | None = None
    best_epoch: int | None = None
    epochs: int = 0
    seconds: float = 0.0
    num_weights: int = 0
    norms_lag: bool = False

    @staticmethod
    def from_dict(values: object, source: Path) -> TrainingFigures:
        """The content of a ``result.json``; ``source`` is named in errors."""
        required = {"seed": int, "test": int | float, "val": int | float, "metric": str}
        optional = {
            f.name: int | float | None if f.default is None else int | float
            for f in fields(TrainingFigures)
            if f.name not in required
        }
        values = values if isinstance(values, dict) else {}
        found: Values = {name: values.get(name) for name in required} | {k: values[k] for k in optional if k in values}
        for name, kind in {**required, **optional}.items():
            if name in found and not isinstance(found[name], kind):
                raise InputError(f"{source}: its result has no valid {name!r}; remove the folder and train again")
        return TrainingFigures(**found)

    def to_dict(self) -> Values:
        return asdict(self)


@dataclass(frozen=True)
class TrainingRecord:
    """One network trained from one seed. ``result`` is None while the training is not finished."""

    folder: Path
    name: str
    seed: int
    config: Values = field(repr=False)
    history: Records = field(repr=False)
    result: TrainingFigures | None


@dataclass(frozen=True)
class SearchFigures:
    """The result of a search.

    ``searches`` lists the candidates if it is the best of several searches, ``finalists`` those that a race trained to the end.
    """

    seconds: float
    strategy: str
    trained_epochs: int
    seed: int
    searches: tuple[Values, ...] = ()
    finalists: tuple[Values, ...] = ()

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> SearchFigures:
        several = {name: tuple(values.get(name) or ()) for name in ("searches", "finalists")}
        return SearchFigures(values["seconds"], values["strategy"], values["trained_epochs"], values["seed"], **several)


SEARCH_KEYS = ("seconds", "strategy", "trained_epochs", "seed")


@dataclass(frozen=True)
class SearchRecord:
    """One search. ``result`` and ``architecture`` are None while it is not finished."""

    folder: Path
    config: Values = field(repr=False)
    history: Records = field(repr=False)
    architecture: Architecture | None
    result: SearchFigures | None


@dataclass(frozen=True)
class RoundRecord:
    """A round of a depth search. ``searched`` is None while it is not finished."""

    initial: int | None
    searched: int | None
    val_metric: float | None
    seconds: float | None
    genotype: str | None = None

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> RoundRecord:
        return RoundRecord(**{f.name: values.get(f.name) for f in fields(RoundRecord)})


@dataclass(frozen=True)
class RunRecord:
    """Everything a run folder holds. ``state`` is ``finished``, ``running`` or ``stopped``."""

    folder: Path
    config: Values
    state: str
    data: Values | None = None
    genotype: Genotype | None = None
    history: Records = field(default_factory=list, repr=False)
    search: SearchFigures | None = None
    leaderboard: Leaderboard | None = None
    strategies: StrategyComparison | None = None
    trainings: tuple[TrainingRecord, ...] = ()
    rounds: tuple[RoundRecord, ...] = ()
    result: Values | None = None
    versions: Values | None = None
    notes: tuple[str, ...] = ()
    ensemble: Values | None = None  # the figures of an ensemble, and its members

    @property
    def name(self) -> str:
        return self.folder.resolve().name

    @property
    def dataset(self) -> str:
        names = (self.config.get("dataset"), (self.data or {}).get("name"), self.name)
        return str(next(name for name in names if name))

    @property
    def metric(self) -> str:
        """The name of the metric; ``metric`` if the folder does not hold it yet."""
        if self.leaderboard is not None:
            return self.leaderboard.metric
        if self.strategies is not None:
            return self.strategies.metric
        names = [(self.data or {}).get("task", {}).get("metric")]
        names += [training.result.metric for training in self.trainings if training.result]
        return next((str(metric) for metric in names if metric), "metric")

    @property
    def step(self) -> str:
        """What one record of the search is: an ``epoch``, or a ``trial`` of one candidate."""
        return "trial" if self.history and "trial" in self.history[0] else "epoch"

    @property
    def is_race(self) -> bool:
        """Whether the records of the search are those of a race."""
        return bool(self.history) and "candidate_id" in self.history[-1]

    @property
    def is_racing(self) -> bool:
        """Whether a race is under way: its trainings and leaderboard so far are those of the leaders, and change."""
        return self.is_race and self.search is None

    def by_network(self) -> dict[str, list[TrainingRecord]]:
        """Trainings by network, found networks first."""
        found = {row.name for row in self.leaderboard.rows if row.found} if self.leaderboard else {"gnas"}
        groups: dict[str, list[TrainingRecord]] = {}
        for training in sorted(self.trainings, key=lambda t: (t.name not in found, t.name, t.seed)):
            groups.setdefault(training.name, []).append(training)
        return groups

    def space(self) -> SearchSpace | None:
        """The search space, if the settings hold it and the alphas fit it."""
        record = next((record for record in reversed(self.history) if record.get("alphas")), None)
        if record is None:
            return None
        saved = self.config.get("space")
        try:
            settings = config_settings(self.config)
            known = SearchSpace() if settings is None else settings.space.search_space()
            space = SearchSpace(**saved) if isinstance(saved, dict) else known
        except (InputError, ValueError, TypeError):
            return None
        sizes = [len(link.candidates) for link in space.links()]
        return space if all([len(link) for link in cell] == sizes for cell in record["alphas"]) else None


# -- readers ---------------------------------------------------------------------------------------------------------


@refuse_damaged
def read_run(folder: str | Path) -> RunRecord:
    """Read the folder of a command, of a depth search, or of a single search or training."""
    folder = Path(folder)
    config, own_history = read_run_config(folder), read_history(folder)
    is_search = _is_search(own_history)
    rounds = [*layout.list_rounds(folder).values()]
    parts = [folder if is_search else layout.search_folder(folder), *reversed(rounds)]
    search = next(filter(layout.is_run, parts), None)
    history = read_history(_latest_search(search)) if search else []
    notes: list[str] = []
    genotypes = (_read_drawable(one, notes) for one in (folder, search) if one)
    result = read_run_json(folder, "result")
    return RunRecord(
        folder=folder,
        config=config,
        state=run_state(folder),
        data=read_run_json(folder, "data"),
        genotype=next(filter(None, genotypes), None) or _latest_genotype(history),
        history=history,
        search=_read_search_figures(search) if search else None,
        leaderboard=read_leaderboard(folder),
        strategies=read_comparison(folder),
        trainings=tuple(one for one in read_trainings(folder) if one.name != layout.ENSEMBLE)
        or (() if is_search or not own_history else (read_training(folder),)),
        rounds=tuple(map(RoundRecord.from_dict, (result or {}).get("rounds") or map(_unfinished_round, rounds))),
        result=result,
        versions=read_run_json(folder, "versions"),
        notes=tuple(dict.fromkeys(notes)),
        ensemble=_read_ensemble(folder),
    )


@refuse_damaged
def read_search(folder: str | Path) -> SearchRecord:
    """Read the folder of one search, such as ``RUN/search``."""
    folder = Path(folder)
    result, architecture = _read_search_figures(folder), read_run_architecture(folder)
    return SearchRecord(folder, read_run_config(folder), read_history(folder), architecture, result)


@refuse_damaged
def read_training(folder: str | Path) -> TrainingRecord:
    """Read the folder of one training, such as ``RUN/trained/gcn/seed-41``."""
    folder = Path(folder)
    config = read_run_config(folder)
    name = str(config.get("model") or config.get("dataset") or folder.name)
    result = read_run_json(folder, "result")
    figures = None if result is None else TrainingFigures.from_dict(result, folder)
    return TrainingRecord(folder, name, int(config.get("seed") or 0), config, read_history(folder), figures)


def read_trainings(folder: str | Path, network: str | None = None) -> tuple[TrainingRecord, ...]:
    """Read the trainings of a run: of one network, or of all."""
    names = layout.list_networks(Path(folder)) if network is None else [network]
    return tuple(read_training(one) for name in names for one in layout.list_trainings(Path(folder), name).values())


def file_signature(folder: str | Path) -> tuple[tuple[str, int, int], ...]:
    """Names, sizes and times of the files that a report is made of. It changes when the report would."""
    found = []
    for pattern in ("*.json", "*.yaml", "*.jsonl"):
        for file in Path(folder).rglob(pattern):
            try:
                about = file.stat()
            except FileNotFoundError:  # replaced meanwhile
                continue
            found.append((str(file), about.st_size, about.st_mtime_ns))
    return tuple(sorted(found))


def _read_ensemble(folder: Path) -> Values | None:
    place = next(filter(layout.is_finished, layout.list_trainings(folder, layout.ENSEMBLE).values()), None)
    if place is None:
        return None
    members = (read_run_json(place, "model", ("members",)) or {"members": []})["members"]
    return {**read_run_json(place, "result", ("test", "val")), "members": members}


def _is_search(history: Records) -> bool:
    return bool(history) and ("genotype" in history[0] or "alphas" in history[0])


def _latest_search(folder: Path) -> Path:
    """The search itself, or the last one of several searches of which none is selected yet."""
    several = [] if read_history(folder) else [*layout.list_seeds(folder).values()]
    return several[-1] if several else folder


def _read_search_figures(folder: Path) -> SearchFigures | None:
    values = read_run_json(folder, "result", SEARCH_KEYS)
    return None if values is None else SearchFigures.from_dict(values)


def _unfinished_round(folder: Path) -> Values:
    """A round of a depth search that has no result yet."""
    result, last = read_run_json(folder, "result") or {}, (read_history(folder) or [{}])[-1]
    return {
        "initial": config_value(read_run_config(folder), "space.cells"),
        "searched": result.get("depth"),
        "val_metric": last.get("best_val_metric", last.get("val_metric")),
        "seconds": last.get("seconds"),
    }


def _read_drawable(folder: Path, notes: list[str]) -> Genotype | None:
    """The genotype of a run. A damaged file becomes a note."""
    try:
        architecture = read_run_architecture(folder)
    except InputError as error:
        notes.append(f"{error}; it is not drawn")
        return None
    if architecture is None or isinstance(architecture, Genotype):
        return architecture
    notes.append(f"{architecture.title} is not made of GAP cells: it is not drawn.")
    return None


def _latest_genotype(history: Records) -> Genotype | None:
    """The genotype so far of a search by epochs. A record of a trial holds a single candidate only."""
    try:
        last = history[-1]["genotype"] if history and "trial" not in history[-1] else None
        return Genotype.from_yaml(last) if last else None
    except (InputError, KeyError):
        return None


def read_leaderboard(folder: Path) -> Leaderboard | None:
    """The leaderboard of a run; None if it has none yet."""
    value = read_run_json(folder, "leaderboard")
    try:
        return None if value is None else Leaderboard.from_dict(value)
    except (KeyError, TypeError):
        raise InputError(f"{folder / layout.LEADERBOARD}: not a leaderboard; remove it and resume the run") from None


def read_comparison(folder: Path) -> StrategyComparison | None:
    """The comparison of strategies of a run; None if it has none yet."""
    return StrategyComparison.load(folder) if (folder / layout.COMPARISON).exists() else None
