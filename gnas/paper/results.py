"""Results of finished runs: in the output folder, in other folders of runs and in archives. Nothing is run here."""

from __future__ import annotations

import csv
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from gnas.arch.architecture import Architecture
from gnas.errors import InputError
from gnas.files import is_number, read_text
from gnas.paper.archive import unpack_archive
from gnas.paper.catalogue import read_published
from gnas.paper.runs import NO_CHANGES, SEEDS, DataRun, DepthRun, PaperRun, SearchRun, StrategiesRun, TrainRun
from gnas.run import layout
from gnas.run.record import (
    RoundRecord,
    SearchFigures,
    TrainingFigures,
    read_comparison,
    read_history,
    read_run_architecture,
    read_run_config,
    read_run_json,
)
from gnas.run.strategy_curves import StrategyComparison
from gnas.strategies import SearchResult
from gnas.workflow import with_chosen_output

FIGURES = ("test", "val", "num_weights", "epochs", "seconds")  # the result of a training must have them
ROWS = "baselines.csv"  # rows of hand-made networks without run folders
SeedResults = dict[int, TrainingFigures]


@dataclass(frozen=True)
class FinishedSearch:
    """A finished search, or Algorithm 1 at its end."""

    folder: Path
    architecture: Architecture
    result: dict[str, Any]  # the content of result.json

    @property
    def rounds(self) -> tuple[RoundRecord, ...]:
        """The rounds of Algorithm 1."""
        return tuple(map(RoundRecord.from_dict, self.result.get("rounds", ())))

    def history(self) -> list[dict[str, Any]]:
        return read_history(self.folder)

    def to_result(self) -> SearchResult:
        """The value that the search returned."""
        figures = SearchFigures.from_dict(self.result)
        return SearchResult(
            self.architecture, self.history(), figures.seconds, figures.strategy, figures.trained_epochs, figures.seed
        )


@dataclass(frozen=True)
class TrainedNetwork:
    """One network and the results of its finished seeds. ``run`` is the name of its run folder."""

    run: str
    results: SeedResults
    architecture: Architecture | None = None
    device: str = ""
    search_seconds: float | None = None

    @property
    def val(self) -> float | None:
        """Mean validation metric; None if a result has none."""
        mean = statistics.fmean(result.val for result in self.results.values())
        return None if math.isnan(mean) else mean

    @property
    def num_weights(self) -> int:
        return next(iter(self.results.values())).num_weights

    def merge(self, other: TrainedNetwork) -> TrainedNetwork:
        """The same network with the seeds of both; results of this one come first."""
        return replace(self, results=other.results | self.results)


class Results:
    """Finished runs in several places. The first place is the output folder, to which new runs are written."""

    def __init__(self, places: Sequence[Path]) -> None:
        self.places = tuple(places)
        self._archives: dict[tuple[Path, str], Path | None] = {}  # read once: new runs are in the output folder

    # -- folders -----------------------------------------------------------------------------------------------------

    def dataset_folders(self, dataset: str) -> Iterator[Path]:
        """Folders that hold the run folders of a dataset: of each place, and of its archive."""
        for place in self.places:
            if (place, dataset) not in self._archives:
                self._archives[place, dataset] = unpack_archive(place, dataset)
            folders = (place / dataset, self._archives[place, dataset])
            yield from (folder for folder in folders if folder is not None and folder.is_dir())

    def run_folders(self, relative: str) -> Iterator[Path]:
        """All run folders of a name such as ``zinc/gin-4``."""
        dataset, _, name = relative.partition("/")
        for folder in self.dataset_folders(dataset):
            if (folder / name).is_dir():
                yield folder / name

    def devices(self, relative: str) -> list[str]:
        """The devices of the runs in the folders of this name, where they were recorded."""
        return [name for folder in self.run_folders(relative) if (name := _read_device(folder))]

    # -- what a run has given ----------------------------------------------------------------------------------------

    def is_done(self, run: PaperRun) -> bool:
        if isinstance(run, DataRun):
            return self.find_data(run) is not None
        if isinstance(run, TrainRun):
            return len(self.find_trainings(run)) == len(run.seeds)
        if isinstance(run, StrategiesRun):
            return self.find_strategies(run) is not None
        return self.find_search(run) is not None

    def find_data(self, run: DataRun) -> dict[str, Any] | None:
        """Counts of a dataset: of the run that counts, or of any other run on it."""
        name = Path(run.folder).name
        for folder in self.dataset_folders(run.source.folder):
            for one in (folder / name, *sorted(folder.glob("*"))):
                data = _read_values(one, "result" if one.name == name else "data")
                if data is not None and data.get("name") == run.source.name:
                    return data
        return None

    def find_search(self, run: SearchRun | DepthRun) -> FinishedSearch | None:
        """The result of a search or of Algorithm 1."""
        return next(filter(None, (_read_search(folder, run) for folder in self.run_folders(run.folder))), None)

    def find_first_depth(self, run: DepthRun) -> int | None:
        """Depth of the first search of Algorithm 1. It can be known before the algorithm ends."""
        end, first = self.find_search(run), self.find_search(run.search(run.start))
        if end is not None:
            return end.rounds[0].searched
        return None if first is None else first.architecture.depth()

    def find_strategies(self, run: StrategiesRun) -> StrategyComparison | None:
        """The comparison, once every strategy has run from every seed."""
        return next(filter(None, map(read_comparison, self.run_folders(run.folder))), None)

    def find_trainings(self, run: TrainRun) -> SeedResults:
        """Results of the run's seeds that are finished. For a found network, those of another network do not count."""
        search = None if run.of is None else self.find_search(run.of)
        if run.of is not None and search is None:
            return {}
        network = None if search is None else with_chosen_output(search.architecture, run.settings())
        results: SeedResults = {}
        for folder in (folder for name in self.training_folders(run) for folder in self.run_folders(name)):
            results = _read_trainings(folder, run.model, network) | results
        if run.of is None and not run.budget and run.folder == replace(run, changes=NO_CHANGES).folder:
            results = self._rows.get((run.source.folder, run.model, run.layers), ("", {}))[1] | results
        return {seed: results[seed] for seed in run.seeds if seed in results}

    def training_folders(self, run: TrainRun) -> list[str]:
        """The folders of a network's trainings: its own, and for Algorithm 1 that of its last search too.

        The result of that search is also trained for the line with that number of cells. If that line allows the same
        number of weights, both are the same network and no second training is needed.
        """
        folders, scale = [run.folder], run.scale
        if isinstance(run.of, DepthRun) and (end := self.find_search(run.of)) is not None:
            last = end.rounds[-1]
            lines = [e for e in read_published() if e.model == "gnas" and scale.sources[e.dataset] == run.source]
            budgets = {scale.budget(e.budget) for e in lines if scale.depth(e.depth) == last.initial}
            same = budgets == {run.budget}  # on a small scale, lines with the same number of cells share a folder
            if same and last.initial is not None and last.genotype == end.architecture.id:
                folders.append(replace(run, of=run.of.search(last.initial)).folder)
        return folders

    # -- everything that can stand in a line -------------------------------------------------------------------------

    def list_networks(self, run: TrainRun) -> list[TrainedNetwork]:
        """Every trained network that can stand in the line of this run: of other search seeds and settings too."""
        if run.of is None:
            results = self.find_trainings(run)
            known, _ = self._rows.get((run.source.folder, run.model, run.layers), ("", {}))
            device = next(iter(self.devices(run.folder)), known)
            return [TrainedNetwork(Path(run.folder).name, results, None, device)] if results else []
        merged: dict[tuple[str, str], TrainedNetwork] = {}

        def add(network: TrainedNetwork, name: str) -> None:
            key = name, network.architecture.id if network.architecture else ""
            merged[key] = merged[key].merge(network) if key in merged else network

        for folder in self._similar_folders(run.of, Path(run.folder).name):
            for network in _read_networks(folder, run.model):
                add(network, network.run)
        search, (_, *shared) = self.find_search(run.of), self.training_folders(run)
        if search is not None:
            same = with_chosen_output(search.architecture, run.settings())
            seconds = search.result.get("seconds")  # of all searches of Algorithm 1, not only of the last
            for folder in (folder for name in shared for folder in self.run_folders(name)):
                for network in _read_networks(folder, run.model):
                    if network.architecture == same:  # both folders hold seeds of one network
                        add(replace(network, search_seconds=seconds), Path(run.folder).name)
        return list(merged.values())

    def list_searches(self, run: SearchRun) -> list[FinishedSearch]:
        """Finished searches with this strategy and number of cells, of any seed and settings, in the order of names."""
        found: dict[str, FinishedSearch] = {}
        for folder in self._similar_folders(run, Path(run.folder).name):
            search = _read_search(folder, run)
            if search is not None:
                found.setdefault(folder.name, search)
        return [found[name] for name in sorted(found)]

    def _similar_folders(self, run: SearchRun | DepthRun, own: str) -> Iterator[Path]:
        """Run folders of searches that differ from ``run`` in seed and settings only, and those with the name ``own``."""
        for dataset in self.dataset_folders(run.source.folder):
            yield from (one for one in sorted(dataset.glob("*")) if one.name == own or _is_similar(one, run))

    @cached_property
    def _rows(self) -> dict[tuple[str, str, int], tuple[str, SeedResults]]:
        """Device and results of hand-made networks that are rows of a CSV file only."""
        rows: dict[tuple[str, str, int], tuple[str, SeedResults]] = {}
        for file in (place / ROWS for place in self.places if (place / ROWS).exists()):
            for number, row in enumerate(csv.DictReader(read_text(file).splitlines()), start=2):
                try:
                    rows.setdefault((row["dataset"], row["model"], int(row["layers"])), _parse_row(row))
                except (KeyError, ValueError, TypeError, AttributeError):
                    raise InputError(f"{file}, line {number}: not a row of a hand-made network") from None
        return rows


# -- reading one run folder ----------------------------------------------------------------------------------------------


def _parse_row(row: Mapping[str, str]) -> tuple[str, SeedResults]:
    """Device and results by seed. The seconds are those of all seeds at once; the validation metric is not recorded."""
    weights, seconds = int(row["weights"]), float(row["seconds"])
    pairs = zip(row["tests"].split(), row["epochs"].split(), strict=True)
    return row["hardware"], {
        seed: TrainingFigures(
            *(seed, float(test), math.nan, row["metric"]), epochs=int(epochs), seconds=seconds, num_weights=weights
        )
        for seed, (test, epochs) in zip(SEEDS, pairs, strict=False)
    }


def _is_similar(folder: Path, run: SearchRun | DepthRun) -> bool:
    """Whether the search behind a run folder has the strategy and number of cells, or the first depth, of ``run``."""
    search = _read_search_values(folder)
    if isinstance(run, SearchRun):
        formulas = search.get("formulas")
        return search.get("strategy") == run.strategy and isinstance(formulas, list) and len(formulas) == run.cells
    rounds = search.get("rounds")
    first = rounds[0] if isinstance(rounds, list) and rounds else None
    return isinstance(first, dict) and first.get("initial") == run.start


def _read_search_values(folder: Path) -> dict[str, Any]:
    """The figures of the search behind a run folder."""
    result = _read_values(folder, "result") or _read_values(layout.search_folder(folder), "result") or {}
    search = result.get("search", result)
    return search if isinstance(search, dict) else {}


def _read_search(folder: Path, run: SearchRun | DepthRun) -> FinishedSearch | None:
    folder = layout.search_folder(folder) if isinstance(run, SearchRun) else folder
    result = _read_values(folder, "result")
    if result is None:
        return None
    architecture = read_run_architecture(folder)
    if architecture is None or result.get("genotype") != architecture.id:
        return None
    if "rounds" not in result and not is_number(result.get("seconds")):
        raise InputError(f"{folder / layout.RESULT}: has no seconds; remove the folder and run it again")
    return FinishedSearch(folder, architecture, result)


def _read_networks(folder: Path, model: str) -> Iterator[TrainedNetwork]:
    """The network trained in a folder, if there is one."""
    architecture = read_run_architecture(folder)
    results = {} if architecture is None else _read_trainings(folder, model, architecture)
    if results:
        seconds, device = _read_search_values(folder).get("seconds"), _read_device(folder)
        yield TrainedNetwork(folder.name, results, architecture, device, seconds if is_number(seconds) else None)


def _read_trainings(folder: Path, model: str, architecture: Architecture | None) -> SeedResults:
    """Results by seed; those of another architecture do not count."""
    found = {}
    for seed, one in layout.list_trainings(folder, model).items():
        values = _read_values(one, "result")
        if values is None:
            continue
        missing = [name for name in FIGURES if not is_number(values.get(name))]
        if missing:
            raise InputError(f"{one / layout.RESULT}: has no {missing[0]}; remove the folder and run it again")
        if architecture is None or _is_trained(architecture, read_run_config(one)):
            found[seed] = TrainingFigures.from_dict(values, one / layout.RESULT)
    return found


def _is_trained(architecture: Architecture, config: Mapping[str, Any]) -> bool:
    """Whether a training with these settings is one of this architecture."""
    trained = config.get("architecture")
    if isinstance(trained, dict):
        return trained.get("id") == architecture.id
    return str(config.get("describe", "")).partition(",")[0] == architecture.title  # version 0.1 wrote a text


def _read_device(folder: Path) -> str:
    return str((_read_values(folder, "versions") or {}).get("device", ""))


def _read_values(folder: Path, name: str) -> dict[str, Any] | None:
    """A JSON file of a run folder, or None if there is no such run or file."""
    values = read_run_json(folder, name) if layout.is_run(folder) else None
    if values is not None and not isinstance(values, dict):
        raise InputError(f"{folder / f'{name}.json'}: expected names and values")
    return values
