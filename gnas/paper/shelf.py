"""Finished runs, wherever they lie: in the folder worked in, and in folders of runs kept earlier. Nothing is run here."""

from __future__ import annotations

import csv
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from gnas.arch.architecture import Architecture
from gnas.errors import InputError
from gnas.files import is_number
from gnas.paper.archive import unpack_archive
from gnas.paper.jobs import DataJob, DepthJob, Job, SearchJob, StrategiesJob, TrainJob
from gnas.paper.paper import printed
from gnas.paper.scale import SEEDS
from gnas.run.folder import Run
from gnas.run.strategy_curves import StrategyComparison
from gnas.strategies import SearchResult
from gnas.workflow import as_built

FIGURES = ("test", "num_weights", "epochs", "seconds")  # what every result of a training has
ROWS = "baselines.csv"  # rows of hand-made networks whose run folders were not kept


@dataclass(frozen=True)
class Searched:
    """What a finished search left: the architecture, its result and, read when asked for, its history."""

    run: Run
    architecture: Architecture
    result: dict[str, Any]

    def history(self) -> list[dict[str, Any]]:
        return self.run.history()

    def as_result(self) -> SearchResult:
        """The same as the search returned it."""
        told = (self.result[name] for name in ("seconds", "strategy", "trained_epochs", "seed"))
        return SearchResult(self.architecture, self.history(), *told)


@dataclass(frozen=True)
class Trained:
    """One network and the results of its finished seeds, by seed. ``about`` is its folder's name."""

    about: str
    results: dict[int, dict[str, Any]]
    architecture: Architecture | None = None
    device: str = ""
    search_seconds: float | None = None

    @property
    def val(self) -> float | None:
        """Mean validation metric; None where it was not recorded."""
        values = [result.get("val") for result in self.results.values()]
        return statistics.fmean(values) if values and None not in values else None  # type: ignore[arg-type]

    @property
    def weights(self) -> int:
        return int(next(iter(self.results.values()))["num_weights"])


class Shelf:
    """Folders to look in, the one that is worked in first."""

    def __init__(self, places: Sequence[Path]) -> None:
        self.places = tuple(places)
        self._archives: dict[
            tuple[Path, str], Path | None
        ] = {}  # as they were when first read: ``places[0]`` has the news

    def datasets(self, name: str) -> Iterator[Path]:
        """The folders with runs on a dataset: one per place, and what the place's archive of that dataset holds."""
        for place in self.places:
            if (place, name) not in self._archives:
                self._archives[place, name] = unpack_archive(place, name)
            found = (place / name, self._archives[place, name])
            yield from (folder for folder in found if folder is not None and folder.is_dir())

    def folders(self, relative: str) -> Iterator[Path]:
        """The run folders of this name, such as ``zinc/gin-4``."""
        dataset, _, name = relative.partition("/")
        for folder in self.datasets(dataset):
            if (folder / name).is_dir():
                yield folder / name

    def alike(self, relative: str) -> Iterator[Path]:
        """Run folders that differ from this name in the seed of the search, and in what follows it, only."""
        dataset, _, name = relative.partition("/")
        start = name[: name.index("-seed") + len("-seed")]
        for folder in self.datasets(dataset):
            yield from sorted(folder.glob(f"{start}*"))

    def devices(self, relative: str) -> list[str]:
        """The devices a run folder's runs were made on, where that was kept."""
        return [name for folder in self.folders(relative) if (name := _device(folder))]

    def data(self, job: DataJob) -> dict[str, Any] | None:
        """Counts of a dataset: from a run that counted, or from any other run on it."""
        counted = Path(job.folder).name
        for runs in self.datasets(job.source.folder):
            for folder in (runs / counted, *sorted(runs.glob("*"))):
                found = _read(folder, "result" if folder.name == counted else "data")
                if found is not None and found.get("name") == job.source.name:
                    return found
        return None

    def search(self, job: SearchJob) -> Searched | None:
        return next(filter(None, (_searched(folder / "search") for folder in self.folders(job.folder))), None)

    def depth(self, job: DepthJob) -> Searched | None:
        """The end of Algorithm 1; its result holds the rounds."""
        return next(filter(None, (_searched(folder) for folder in self.folders(job.folder))), None)

    def first_depth(self, job: DepthJob) -> int | None:
        """Depth of the first search of Algorithm 1, which may be there although the algorithm has not come to its end."""
        ended, searched = self.depth(job), self.search(job.search(job.start))
        if ended is not None:
            return int(ended.result["rounds"][0]["searched"])
        return None if searched is None else searched.architecture.depth()

    def found(self, of: SearchJob | DepthJob) -> Searched | None:
        """The architecture a training needs."""
        return self.search(of) if isinstance(of, SearchJob) else self.depth(of)

    def trained_in(self, job: TrainJob) -> list[str]:
        """The folders a network's trainings lie in: its own, and for Algorithm 1 that of its last search too.

        What that search found is trained for the line of as many cells. Where that line may have as many weights, both
        are the same network, and a second training would give nothing new; another budget means another width.
        """
        folders, scale = [job.folder], job.scale
        if isinstance(job.of, DepthJob) and (ended := self.depth(job.of)) is not None:
            last = ended.result["rounds"][-1]
            lines = [e for e in printed() if e.model == "gnas" and scale.sources[e.dataset] == job.source]
            budgets = {scale.budget(e.budget) for e in lines if scale.depth(e.depth) == last["initial"]}
            same = budgets == {job.budget}  # lines that a small scale gives as many cells share a folder
            if same and last["genotype"] == ended.architecture.id:
                folders.append(replace(job, of=job.of.search(last["initial"])).folder)
        return folders

    def trained(self, job: TrainJob) -> dict[int, dict[str, Any]]:
        """Results of the seeds asked for that are finished, of the network that was found."""
        found = None if job.of is None else self.found(job.of)
        if job.of is not None and found is None:
            return {}
        wanted = None if found is None else as_built(found.architecture, job.settings()).id
        results: dict[int, dict[str, Any]] = {}
        for folder in (folder for name in self.trained_in(job) for folder in self.folders(name)):
            results = _results(folder / "trained" / job.model, wanted) | results
        if job.of is None and not job.budget and job.folder.endswith(f"/{job.model}-{job.layers}"):
            results = self._rows.get((job.source.folder, job.model, job.layers), {}) | results
        return {seed: results[seed] for seed in job.seeds if seed in results}

    def done(self, job: Job) -> bool:
        if isinstance(job, DataJob):
            return self.data(job) is not None
        if isinstance(job, TrainJob):
            return len(self.trained(job)) == len(job.seeds)
        if isinstance(job, StrategiesJob):
            return self.strategies(job) is not None
        return self.found(job) is not None

    def strategies(self, job: StrategiesJob) -> StrategyComparison | None:
        """The comparison, once every strategy has run from every seed."""
        for folder in self.folders(job.folder):
            if (folder / "strategies.json").exists():
                return StrategyComparison.load(folder)
        return None

    def networks(self, job: TrainJob) -> list[Trained]:
        """Every trained network that may stand in this job's line: other searches and other trainings of it too."""
        if job.of is None:
            results = self.trained(job)
            device = next(filter(None, map(_device, self.folders(job.folder))), "")
            return [Trained(Path(job.folder).name, results, None, device)] if results else []
        merged: dict[tuple[str, str], Trained] = {}
        for one in (one for folder in self.alike(job.of.folder) for one in _networks(folder, job.model)):
            name = (one.about, one.architecture.id if one.architecture else "")
            before = merged.get(name, one)
            merged[name] = replace(before, results=one.results | before.results)
        found, (_, *shared) = self.found(job.of), self.trained_in(job)
        for folder in (folder for relative in shared for folder in self.folders(relative)):
            for one in _networks(folder, job.model):
                if found is not None and one.architecture == as_built(found.architecture, job.settings()):
                    name = (Path(job.folder).name, one.architecture.id)  # the seeds of both folders are of one network
                    told = found.result.get("seconds")  # of all searches of Algorithm 1, not of its last alone
                    before = merged.get(name, replace(one, search_seconds=told))
                    merged[name] = replace(before, results=one.results | before.results)
        return list(merged.values())

    def searched(self, job: SearchJob) -> list[Searched]:
        """Every finished search of this kind, by seed: that of the job and those that differ in seed or settings."""
        found: dict[str, Searched] = {}
        for folder in self.alike(job.folder):
            one = _searched(folder / "search")
            if one is not None:
                found.setdefault(folder.name, one)
        return [found[name] for name in sorted(found)]

    @cached_property
    def _rows(self) -> dict[tuple[str, str, int], dict[int, dict[str, Any]]]:
        """Results of hand-made networks that are kept as rows of a table only."""
        found: dict[tuple[str, str, int], dict[int, dict[str, Any]]] = {}
        for file in (place / ROWS for place in self.places if (place / ROWS).exists()):
            with open(file, newline="", encoding="utf-8") as lines:
                for number, row in enumerate(csv.DictReader(lines), start=2):
                    try:
                        found.setdefault((row["dataset"], row["model"], int(row["layers"])), _from_row(row))
                    except (KeyError, ValueError, TypeError, AttributeError):
                        raise InputError(f"{file}, line {number}: not a row of a hand-made network") from None
        return found


def _from_row(row: dict[str, str]) -> dict[int, dict[str, Any]]:
    """Results by seed of a row; its seconds are those of all seeds at once."""
    shared = {"num_weights": int(row["weights"]), "metric": row["metric"], "seconds": float(row["seconds"])}
    shared |= {"device": row["hardware"]}
    pairs = zip(row["tests"].split(), row["epochs"].split(), strict=True)
    return {
        seed: {"seed": seed, "test": float(test), "epochs": int(epochs), **shared}
        for seed, (test, epochs) in zip(SEEDS, pairs, strict=False)
    }


def _searched(folder: Path) -> Searched | None:
    result = _read(folder, "result")
    if result is None:
        return None
    run = Run(folder)
    architecture = run.architecture()
    if architecture is None or result.get("genotype") != architecture.id:
        return None
    if "rounds" not in result and not is_number(result.get("seconds")):
        raise InputError(f"{folder / 'result.json'}: has no seconds; remove the folder and run it again")
    return Searched(run, architecture, result)


def _networks(folder: Path, model: str) -> Iterator[Trained]:
    """The network trained in a folder, if it is there."""
    if not (folder / "genotype.yaml").exists():
        return
    architecture = Run(folder).architecture()
    results = {} if architecture is None else _results(folder / "trained" / model, architecture.id)
    if results:
        told = _read(folder, "result") or {}
        search = told.get("search", told)
        seconds = search.get("seconds") if isinstance(search, dict) else None
        yield Trained(folder.name, results, architecture, _device(folder), seconds if is_number(seconds) else None)


def _results(folder: Path, genotype: str | None) -> dict[int, dict[str, Any]]:
    """Results by seed; those of another genotype do not count."""
    found = {}
    for one in sorted(folder.glob("seed-*")):
        result = _read(one, "result")
        if result is None or not one.name[5:].isdigit():
            continue
        told = [name for name in ("val", "train") if result.get(name) is not None]
        missing = [name for name in (*FIGURES, *told) if not is_number(result.get(name))]
        if missing:
            raise InputError(f"{one / 'result.json'}: has no {missing[0]}; remove the folder and run it again")
        described = str(Run(one).config.get("describe", ""))
        if genotype is None or genotype in described:
            found[int(one.name[5:])] = result
    return found


def _device(folder: Path) -> str:
    return str((_read(folder, "versions") or {}).get("device", ""))


def _read(folder: Path, name: str) -> dict[str, Any] | None:
    """A JSON file of a run folder, or None where there is no such run or file."""
    if not (folder / "config.yaml").exists() or not (folder / f"{name}.json").exists():
        return None
    found = Run(folder).read_json(name)
    if not isinstance(found, dict):
        raise InputError(f"{folder / f'{name}.json'}: expected names and values")
    return found
