"""``gnas depth``: how deep a network these graphs need (the paper's Algorithm 1)."""

from __future__ import annotations

from gnas.cli import show
from gnas.cli.job import finish_job, job_progress
from gnas.cli.options import Options
from gnas.cli.prepare import PreparedRun, open_workers, prepare_run
from gnas.cli.progress import count_progress
from gnas.cli.screen import Screen
from gnas.files import write_json
from gnas.run.layout import DATA
from gnas.strategies import search_stages
from gnas.strategies.depth import REASONS, average_diameter, search_depth
from gnas.workflow import strategy_from_settings, summarise_data

USUAL = {"start": None, "limit": 24, "rounds": 10}  # the defaults; start: half of the graphs' diameter


def depth(options: Options, screen: Screen) -> None:
    """Search the depth within the bounds that are named, or saved with the run."""
    given = {key: options[key] for key in ("strategy", "seed", "channels")}
    given |= {"search_epochs": options.epochs, "search_batch": options.batch}
    prepared = prepare_run("depth", options, given, ("depth", "{strategy}", "seed{seed}"))
    requested = {"start": options.cells, "limit": options.limit, "rounds": options.rounds}
    bounds = {name: requested[name] or _saved(prepared, name) or usual for name, usual in USUAL.items()}
    with open_workers(prepared, options) as prepared:
        run_depth(prepared, bounds)


def _saved(prepared: PreparedRun, name: str) -> int | None:
    """Options of the resumed run, or of the run passed with ``--settings``."""
    text = str(prepared.saved_options.get(name))
    return int(text) if text.isdigit() else None


def run_depth(prepared: PreparedRun, bounds: dict[str, int | None]) -> None:
    """Search the depth and print the result."""
    screen, settings, benchmark = prepared.screen, prepared.settings, prepared.benchmark
    chosen = strategy_from_settings(settings)
    prepared.lock_folder(**bounds)
    write_json(prepared.folder / DATA, summarise_data(benchmark))
    diameter = None
    if bounds["start"] is None:
        with count_progress(screen, benchmark.name) as on_progress:
            diameter = average_diameter(benchmark.train, seed=settings.search.seed, on_progress=on_progress)
    with job_progress(prepared, search_stages(chosen, "round-1")) as how:
        result = search_depth(
            benchmark,
            settings.space.search_space(),
            chosen,
            start=bounds["start"],
            limit=bounds["limit"] or 1,
            max_rounds=bounds["rounds"] or 1,
            folder=prepared.folder,
            resume=prepared.place.resumed,
            channels=settings.space.channels,
            seed=settings.search.seed,
            **how,
            diameter=diameter,
        )
    if result.diameter is not None:
        screen.pair("diameter", f"{result.diameter} on average: the first search has half as many cells")
    show.show_rounds(screen, result, benchmark.task.metric)
    screen.pair("depth", " → ".join(map(str, result.trajectory)) + f": {REASONS[result.reason]}")
    for note in result.notes:
        screen.pair("note", note)
    show.show_network(screen, result.genotype)
    facts = {"dataset": benchmark.name, "device": str(prepared.device), **result.to_dict()}
    finish_job(prepared, facts, ["gnas", "train", prepared.dataset, "--genotype", str(prepared.folder)])
