"""The main job: search a network for a benchmark, train it, compare it with hand-made ones, keep everything."""

from __future__ import annotations

import contextlib
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from gnas.arch.architecture import Architecture
from gnas.arch.hand_made import HandMade
from gnas.compare.ensemble import add_ensemble
from gnas.compare.finalists import LeaderKeeper, find_best_hand_made, pick_finalists, remove_so_far, take_over
from gnas.compare.networks import Candidate, Training, compare
from gnas.data.benchmark import PATIENCE, Benchmark
from gnas.data.graph_encodings import with_encodings
from gnas.data.rows import note_missing_tables, split_csv
from gnas.errors import InputError
from gnas.jobs import Runner
from gnas.model.baselines import usual_depth, usual_options
from gnas.model.build import width_of
from gnas.model.encoder import list_encodings
from gnas.model.network import GraphModule
from gnas.plugins import check_plugin
from gnas.run.folder import Run
from gnas.run.layout import SPLIT, list_networks, search_folder
from gnas.run.leaderboard import Leaderboard
from gnas.run.models import load_model
from gnas.run.protocol import TrainConfig
from gnas.run.settings import Settings
from gnas.strategies import STRATEGIES, Race, SearchResult, SearchStrategy, make_strategy, search, search_stages
from gnas.strategies.base import SearchContext, read_finished_search
from gnas.strategies.weights import least_weights
from gnas.training.loop import Record, add_labels
from gnas.training.stages import Stage, show_progress, train_stages

# Widths under a budget are multiples of 4: rows that begin on 16 bytes. 86 made a step on a GPU a quarter slower than 84 or 88.
WIDTHS = 4


@dataclass(frozen=True)
class Discovery:
    """The result of the main job: the search, with the network that was found, and the leaderboard."""

    folder: Path
    search: SearchResult
    leaderboard: Leaderboard

    @property
    def genotype(self) -> Architecture:
        return self.search.genotype

    @cached_property
    def network(self) -> GraphModule:
        """The trained network that was best on validation, as an ordinary module."""
        return load_model(self.folder)[0]


def train_config(settings: Settings, patience: int = PATIENCE) -> TrainConfig:
    """The training protocol of these settings; ``patience`` is the benchmark's own, which the settings may replace."""
    return settings.training.protocol(patience)


def strategy_from_settings(settings: Settings, name: str | None = None) -> SearchStrategy:
    """The strategy of these settings, or the one called ``name`` with the options that the settings have for it."""
    name = name or settings.search.strategy
    for other, _ in settings.search.named_options():
        check_plugin(other, STRATEGIES, "gnas.strategies", "strategy")
    budget: dict[str, Any] = {"epochs": settings.search.epochs, "batch_size": settings.search.batch_size}
    if name == "race":  # which trains as the training does
        seeds = settings.training.seeds
        budget = {"training": train_config(settings), "train_seed": seeds[0], "train_seeds": len(seeds)}
        budget |= {"max_weights": settings.training.budget, "ensemble": settings.training.ensemble}
        budget |= {"dropout": settings.training.dropout or 0.0}
    return make_strategy(name, **{**budget, **settings.search.options_for(name)})


def job_stages(settings: Settings) -> list[Stage]:
    """The stages of the main job: the search, and a training for each network."""
    chosen, training = strategy_from_settings(settings), settings.training
    baselines = () if isinstance(chosen, Race) else training.baselines  # a race chooses among all
    return [*search_stages(chosen), *train_stages(["gnas", *baselines], training.epochs, len(training.seeds))]


def with_chosen_output(architecture: Architecture, settings: Settings) -> Architecture:
    """The architecture with the output nodes that the settings name. The links stay the same."""
    return architecture.with_output(settings.training.output) if settings.training.output else architecture


def make_candidate(
    architecture: Architecture, benchmark: Benchmark, settings: Settings, name: str = "gnas"
) -> Candidate:
    """A found network as an entry of a comparison."""
    built = with_chosen_output(architecture, settings)
    space, training = settings.space, settings.training
    channels = width_of(built, benchmark.task, space.channels, training.budget, multiple=WIDTHS)
    return Candidate(name, built, channels, training.dropout or 0.0)


def check_budget(benchmark: Benchmark, settings: Settings) -> None:
    """Refuse a budget that the lightest network of the space exceeds. An error after the search would be too late."""
    budget, cells = settings.training.budget, settings.space.cells
    if not budget or settings.search.strategy == "graphnas":  # which chooses widths itself
        return
    least = least_weights(settings.space.search_space(), benchmark.task, WIDTHS, cells, settings.training.output)
    if least > budget:
        raise InputError(f"a budget of {budget:,} weights is too small: {cells} cells have at least {least:,}")


def make_baseline_candidate(
    name: str,
    benchmark: Benchmark,
    num_layers: int,
    budget: int | None = None,
    channels: int | None = None,
    dropout: float = 0.0,
) -> Candidate:
    """A baseline as an entry of a comparison.

    Args:
        name: The name of the baseline.
        benchmark: The data.
        num_layers: Number of layers.
        budget: The network is as wide as this number of weights allows.
        channels: The width. Without ``channels`` and ``budget`` it is the usual one of the depth.
        dropout: The dropout rate.
    >>> make_baseline_candidate("gcn", benchmark, num_layers=4).depth  # doctest: +SKIP
    4
    """
    options = usual_options(name, benchmark.task, dropout)
    return Candidate(name, HandMade(name, num_layers, channels, budget, options), dropout=dropout)


def baseline_dropout(benchmark: Benchmark, settings: Settings) -> float:
    """The dropout rate of hand-made networks: that of the found one if the targets are nodes of one graph, else none."""
    return settings.training.dropout or 0.0 if benchmark.has_one_graph else 0.0


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
    started: float | None = None,
) -> Discovery:
    """Search, train and compare: the whole job of ``gnas search``, without printing.

    Every part is a run of its own inside ``folder`` and is not repeated on resume. Networks read the ``encodings`` that the
    settings name, unless the benchmark was loaded with some.

    Args:
        benchmark: The data.
        settings: All settings of the job.
        folder: The run folder.
        device: Where to compute.
        engine: How steps are executed; ``auto`` chooses the fastest for the device.
        resume, force: What to do if the folder holds a run: resume it, or start again.
        on_epoch: Gets a record per epoch. Without it, a notebook shows the progress.
        should_stop: Once it returns True, the state is saved and ``Interrupted`` is raised.
        rivals: Networks of your own to compare with.
        runner: Workers, whose root is ``folder``, for the search or its trials and for the trainings.
        started: The time (``time.monotonic``) from which a limit of time counts; by default the start of the search.

    >>> settings = gnas.Settings.resolve("fast", cells=2, channels=8, search_epochs=1, epochs=1, baselines=())
    >>> found = gnas.discover(data, settings, "runs/whole-job")
    >>> found.genotype.depth() <= 2, found.network(data.test[0].x, data.test[0].edge_index).dim()
    (True, 2)
    """
    if not list_encodings(benchmark.task):
        benchmark = with_encodings(benchmark, settings.data.get("encodings"), settings.data.get("structure"))
    settings = settings.for_data(benchmark.has_one_graph)
    check_budget(benchmark, settings)
    config = {"job": "search", **benchmark.identity, "settings": settings.to_dict()}
    with (
        show_progress(on_epoch, lambda: job_stages(settings), benchmark.task.metric) as on_epoch,
        Run(folder, config, resume=resume, force=force) as run,
    ):
        write_data(run, benchmark)
        run.write_json("versions", list_versions(device))
        keeper = LeaderKeeper(run, benchmark, settings.training.seeds[0], device)
        how: dict[str, Any] = {"should_stop": should_stop, "runner": runner}
        seed, where = settings.search.seed, torch.device(device)
        context = SearchContext(seed, where, engine, on_epoch=on_epoch, on_leaders=keeper, **how)
        with keeper.kept_on_stop():
            result = search_part(run, benchmark, settings, context, force, started)
        if result.finalists:
            entries, protocol = make_race_candidates(run, benchmark, settings, result)
        else:
            result = replace(result, genotype=with_chosen_output(result.genotype, settings))
            entries, protocol = make_candidates(benchmark, settings, result), None
        run.write_genotype(result.genotype)
        board = train_and_rank(
            run,
            benchmark,
            settings,
            [*entries, *rivals],
            protocol=protocol,
            search=result,
            device=device,
            on_epoch=add_labels(on_epoch, stage="train"),
            **how,
        )
        run.write_json("result", {"search": result.to_dict(), "leaderboard": board.to_dict()})
    return Discovery(run.path, result, board)


def train_and_rank(
    run: Run,
    benchmark: Benchmark,
    settings: Settings,
    entries: Sequence[Candidate],
    *,
    protocol: TrainConfig | None = None,
    search: SearchResult | None = None,
    device: torch.device | str = "cpu",
    **how: Any,
) -> Leaderboard:
    """Train these networks in the folder of a run, or reuse their trainings, and rank them with the ensemble, if any.

    Args:
        run: The run.
        benchmark: The data.
        settings: The settings of the run.
        entries: The networks.
        protocol: The training protocol; by default that of the settings.
        search: The result of a race, whose other candidates can be members of the ensemble.
        device: Where to train.
        how: ``on_epoch``, ``should_stop`` and ``runner`` of :func:`gnas.compare.networks.compare`.
    """
    training = settings.training
    protocol = protocol or train_config(settings, benchmark.patience)
    board = compare(benchmark, entries, protocol, training.seeds, run.path, device=device, **how)
    seed, batch_size = training.seeds[0], training.batch_size
    more: dict[str, Any] = {"seed": seed, "search": search, "device": device, "batch_size": batch_size}
    return add_ensemble(board, benchmark, training.ensemble, run.path, **more)


def make_candidates(benchmark: Benchmark, settings: Settings, result: SearchResult) -> list[Candidate]:
    """The found network, and hand-made ones with as many weights, of its depth or of the usual one on one graph."""
    entry = make_candidate(result.genotype, benchmark, settings)
    budget = entry.build(benchmark.task).num_weights()  # equal terms: no network gets more weights
    rate, names = baseline_dropout(benchmark, settings), settings.training.baselines
    depth = usual_depth(benchmark.task, max(result.genotype.depth(), 1), rate)
    return [entry, *(make_baseline_candidate(name, benchmark, depth, budget, dropout=rate) for name in names)]


def make_race_candidates(
    run: Run, benchmark: Benchmark, settings: Settings, result: SearchResult
) -> tuple[list[Candidate], TrainConfig]:
    """The best found network of a race and the best hand-made one, whose trainings are taken over, and the protocol.

    A race without a limit of time is followed by trainings of the other baselines, each with its best choices in the race.
    """
    race = strategy_from_settings(settings)
    assert isinstance(race, Race)
    config = replace(race.protocol(), **result.finalists[0]["training"])
    finalists = pick_finalists(result.finalists)
    if race.max_seconds is not None:
        finalists = [one.as_trained() for one in finalists]
    for one in finalists:
        training = Training(benchmark, one.entry, config, settings.training.seeds[0], run.path)
        take_over(one, training, search_folder(run.path))
    entries = [one.entry for one in finalists]
    if race.max_seconds is None:
        higher, known = benchmark.task.higher_is_better, {one.name for one in entries}
        others = (find_best_hand_made(result.history, name, higher) for name in settings.training.baselines)
        entries += [one for one in others if one is not None and one.name not in known]
    for name in set(list_networks(run.path)) - {one.name for one in entries}:
        remove_so_far(run.path, name)
    return entries, config


def search_part(
    run: Run,
    benchmark: Benchmark,
    settings: Settings,
    context: SearchContext,
    force: bool = False,
    started: float | None = None,
) -> SearchResult:
    """The search of a job, or its result if it is already there. A limit of time counts from ``started``."""
    config = {"job": "search", "fingerprint": benchmark.fingerprint, "settings": settings.to_dict()}
    chosen = strategy_from_settings(settings)
    if isinstance(chosen, Race) and chosen.max_seconds is not None and started is not None:
        left = chosen.max_seconds - (time.monotonic() - started)
        chosen = replace(chosen, max_seconds=max(left, 1.0))
    with run.part("search", config, resume=not force, force=force) as part:
        done = read_finished_search(part)
        if done is not None:
            return replace(done, task=benchmark.task, channels=settings.space.channels)
        return search(
            benchmark,
            settings.space.search_space(),
            chosen,
            channels=settings.space.channels,
            num_cells=settings.space.cells,
            seed=context.seed,
            device=context.device,
            engine=context.engine,
            run=part,
            on_epoch=add_labels(context.on_epoch, stage="search"),
            should_stop=context.should_stop,
            runner=context.runner,
            on_leaders=context.on_leaders,
        )


def write_data(run: Run, benchmark: Benchmark) -> None:
    """Write the facts of the data and the split of every row into a run folder."""
    run.write_json("data", summarise_data(benchmark))
    split = split_csv(benchmark)
    if split is not None:
        run.write_csv(SPLIT, split)


def summarise_data(benchmark: Benchmark) -> Record:
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


def list_versions(device: torch.device | str) -> dict[str, str]:
    """The versions of the packages, and the device, that a run uses."""
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
