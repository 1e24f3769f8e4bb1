"""The main job: search a network for a benchmark, train it, compare it with hand-made ones, keep everything."""

from __future__ import annotations

import contextlib
import platform
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from importlib import metadata
from itertools import product
from pathlib import Path

import torch

from gnas.arch.architecture import Architecture
from gnas.arch.genotype import CellGenotype, Genotype, Link
from gnas.arch.hand_made import HandMade
from gnas.compare.networks import Candidate, compare
from gnas.data.benchmark import PATIENCE, Benchmark, with_structure
from gnas.data.rows import note_missing_tables, split_csv
from gnas.errors import InputError
from gnas.jobs import Runner
from gnas.model.build import width_of
from gnas.model.network import Network
from gnas.plugins import check_plugin
from gnas.run.folder import Run
from gnas.run.layout import SPLIT
from gnas.run.leaderboard import Leaderboard
from gnas.run.protocol import TrainConfig
from gnas.run.settings import Settings
from gnas.strategies import STRATEGIES, SearchResult, SearchStrategy, search, strategy
from gnas.strategies.base import finished_search
from gnas.training.loop import Record, labelled

# Widths under a budget are multiples of 4: rows that begin on 16 bytes. 86 made a step on a GPU a quarter slower than 84 or 88.
WIDTHS = 4


@dataclass(frozen=True)
class Discovery:
    """What the main job gives: the network found, how it was found, and how it compares."""

    folder: Path
    search: SearchResult
    leaderboard: Leaderboard

    @property
    def genotype(self) -> Architecture:
        return self.search.genotype


def train_config(settings: Settings, patience: int = PATIENCE) -> TrainConfig:
    """The training protocol of these settings; ``patience`` is the benchmark's own, which the settings may replace."""
    return settings.training.protocol(patience)


def chosen_strategy(settings: Settings, name: str | None = None) -> SearchStrategy:
    """The strategy these settings ask for, or another one of a name with what they tell it."""
    name = name or settings.search.strategy
    for other, _ in settings.search.named_options():
        check_plugin(other, STRATEGIES, "gnas.strategies", "strategy")
    budget = {"epochs": settings.search.epochs, "batch_size": settings.search.batch_size}
    return strategy(name, **{**budget, **settings.search.options_for(name)})


def as_built(architecture: Architecture, settings: Settings) -> Architecture:
    """What is built of what was found: the same links, and the output the settings ask for."""
    return architecture.with_output(settings.training.output) if settings.training.output else architecture


def found(architecture: Architecture, benchmark: Benchmark, settings: Settings, name: str = "gnas") -> Candidate:
    """A found network as an entry of a comparison."""
    built = as_built(architecture, settings)
    space, training = settings.space, settings.training
    channels = width_of(built, benchmark.task, space.channels, training.budget, multiple=WIDTHS)
    return Candidate(name, built, channels, training.dropout)


def check_budget(benchmark: Benchmark, settings: Settings) -> None:
    """Refuse a budget that the lightest network of the space exceeds: found out after the search, it would be lost."""
    budget, cells = settings.training.budget, settings.space.cells
    if not budget or settings.search.strategy == "graphnas":  # which chooses widths itself
        return
    space, counts = settings.space.search_space(), []
    n, m = space.nodes, space.outputs
    for name, second in product((name for name in space.filters if name != "zero"), space.second_level):
        first = [Link(0, k, name) for k in range(1, n + 1)]
        middle = [Link(k, n + k, second) for k in range(1, n + 1)]
        last = [Link(n + 1, 2 * n + k, name) for k in range(1, m + 1)]  # one path in common: little is alive
        cell = CellGenotype(n, m, (*first, *middle, *last), space.output)
        genotype = Genotype((cell,) * cells, space.variant).with_output(settings.training.output or space.output)
        with torch.device("meta"):
            counts.append(Network(genotype, benchmark.task, WIDTHS).num_weights())
    if min(counts) > budget:
        raise InputError(f"a budget of {budget:,} weights is too small: {cells} cells have at least {min(counts):,}")


def hand_made(
    name: str, benchmark: Benchmark, num_layers: int, budget: int | None = None, channels: int | None = None
) -> Candidate:
    """A baseline as an entry of a comparison: of this width, or as wide as ``budget`` weights allow, or at its usual size."""
    return Candidate(name, HandMade(name, num_layers, channels, budget))


def discover(
    benchmark: Benchmark,
    settings: Settings,
    folder: str | Path,
    *,
    device: torch.device | str = "cpu",
    engine: str = "auto",
    resume: bool = False,
    force: bool = False,
    on_epoch: Callable[[Record], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
    rivals: Sequence[Candidate] = (),
    runner: Runner | None = None,
) -> Discovery:
    """Search, train, compare; every part is a run of its own inside ``folder`` and is not repeated on resume.

    Nodes read the ``structure`` that the settings name, unless the benchmark was loaded with one. With a ``runner``,
    whose root is ``folder``, its workers do the search or its trials, and the trainings.
    """
    if not benchmark.task.structure:
        benchmark = with_structure(benchmark, settings.data.get("structure"))
    check_budget(benchmark, settings)
    config = {"job": "search", **benchmark.identity, "settings": settings.to_dict()}
    with Run(folder, config, resume=resume, force=force) as run:
        write_data(run, benchmark)
        run.write_json("versions", versions(device))
        result = search_part(run, benchmark, settings, device, engine, force, on_epoch, should_stop, runner)
        result = replace(result, genotype=as_built(result.genotype, settings))
        run.write_genotype(result.genotype)
        depth = max(result.genotype.depth(), 1)
        entries = [found(result.genotype, benchmark, settings)]
        budget = entries[0].build(benchmark.task).num_weights()  # equal terms: no network gets more weights
        entries += [hand_made(name, benchmark, depth, budget) for name in settings.training.baselines]
        board = compare(
            benchmark,
            [*entries, *rivals],
            train_config(settings, benchmark.patience),
            settings.training.seeds,
            run.path,
            device=device,
            on_epoch=labelled(on_epoch, stage="train"),
            should_stop=should_stop,
            runner=runner,
        )
        run.write_json("result", {"search": result.to_dict(), "leaderboard": board.to_dict()})
    return Discovery(run.path, result, board)


def search_part(
    run: Run,
    benchmark: Benchmark,
    settings: Settings,
    device: torch.device | str,
    engine: str,
    force: bool,
    on_epoch: Callable[[Record], None] | None,
    should_stop: Callable[[], bool] | None,
    runner: Runner | None = None,
) -> SearchResult:
    """The search of a job, or its result if it is already there."""
    config = {"job": "search", "fingerprint": benchmark.fingerprint, "settings": settings.to_dict()}
    with run.part("search", config, resume=not force, force=force) as part:
        done = finished_search(part)
        if done is not None:
            return done
        return search(
            benchmark,
            settings.space.search_space(),
            chosen_strategy(settings),
            channels=settings.space.channels,
            num_cells=settings.space.cells,
            seed=settings.search.seed,
            device=device,
            engine=engine,
            run=part,
            on_epoch=labelled(on_epoch, stage="search"),
            should_stop=should_stop,
            runner=runner,
        )


def write_data(run: Run, benchmark: Benchmark) -> None:
    """Write the facts of the data and the split of every row into a run folder."""
    run.write_json("data", summarise(benchmark))
    split = split_csv(benchmark)
    if split is not None:
        run.write_csv(SPLIT, split)


def summarise(benchmark: Benchmark) -> Record:
    """Facts of the data a report shows."""
    splits = {
        name: {
            "graphs": len(split),
            "nodes": split.num_nodes,
            "edges": split.num_edges,
            "nodes_min": int(split.node_counts.min()),
            "nodes_max": int(split.node_counts.max()),
        }
        for name, split in benchmark.splits().items()
    }
    return {
        "name": benchmark.name,
        "source": benchmark.source,
        "columns": [column.name for column in benchmark.encoding.nodes] if benchmark.encoding else [],
        "notes": [*benchmark.notes, *note_missing_tables(benchmark)],
        "task": asdict(benchmark.task),
        "splits": splits,
    }


def versions(device: torch.device | str) -> dict[str, str]:
    """What a run was made with."""
    kind = torch.device(device)
    name = torch.cuda.get_device_name(kind) if kind.type == "cuda" else "CPU"
    return {**package_versions("gnas", "torch", "torch-geometric", "numpy"), "device": name}


def package_versions(*names: str) -> dict[str, str]:
    """Versions of Python and of those packages that are installed."""
    found = {"python": platform.python_version()}
    for name in names:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found
