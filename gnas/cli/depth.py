"""``gnas depth``: how deep a network these graphs need (the paper's Algorithm 1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from gnas.cli import options as o
from gnas.cli.screen import Screen

if TYPE_CHECKING:
    from gnas.cli.prepare import PreparedRun

EXAMPLES = ("gnas depth cluster-mini", "gnas depth zinc --cells 12 --device cuda --out runs/zinc-depth")
USUAL = {"start": None, "limit": 24, "rounds": 10}  # where nothing is said; start: half of the graphs' diameter

Start = Annotated[
    int | None,
    typer.Option(
        "--cells",
        metavar="N",
        min=1,
        help="Cells to begin with. Default: half of the graphs' diameter.",
        rich_help_panel=o.NETWORK,
    ),
]
DepthEpochs = Annotated[
    int | None,
    typer.Option(
        "--epochs", "--search-epochs", metavar="N", min=1, help="Epochs of each search.", rich_help_panel=o.NETWORK
    ),
]


def depth(
    context: typer.Context,
    dataset: o.Dataset,
    cells: Start = None,
    limit: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Most cells to search with. Default: 24.", rich_help_panel=o.NETWORK),
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Most rounds. Default: 10.", rich_help_panel=o.NETWORK)
    ] = None,
    strategy: o.Strategy = None,
    preset: o.Preset = None,
    settings: o.SettingsFile = None,
    seed: o.Seed = None,
    channels: o.Channels = None,
    epochs: DepthEpochs = None,
    batch: o.Batch = None,
    change: o.Change = None,
    target: o.Target = None,
    data: o.DataOption = None,
    data_root: o.DataRoot = None,
    device: o.Device = None,
    on: o.On = None,
    gpus_per_job: o.GpusPerJob = None,
    sync: o.Sync = None,
    deterministic: o.Deterministic = False,
    out: o.Out = None,
    resume: o.Resume = False,
    force: o.Force = False,
    track: o.Track = None,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Search the network and its message-passing depth together, round by round, until the depth settles."""
    with Screen(as_json, quiet).waiting("starting"):
        from gnas.cli.prepare import prepare_run
        from gnas.cli.workers import open_workers

    given = {
        "strategy": strategy,
        "seed": seed,
        "channels": channels,
        "search_epochs": epochs,
        "search_batch": batch,
    }
    prepared = prepare_run("depth", context.params, given, ("depth", "{strategy}", "seed{seed}"))
    asked = {"start": cells, "limit": limit, "rounds": rounds}
    bounds = {name: asked[name] or _saved(prepared, name) or usual for name, usual in USUAL.items()}
    with open_workers(prepared, context.params) as prepared:
        run_depth(prepared, bounds)


def _saved(prepared: PreparedRun, name: str) -> int | None:
    """Options of the resumed run, or of the run passed with ``--settings``."""
    text = str(prepared.saved_options.get(name))
    return int(text) if text.isdigit() else None


def run_depth(prepared: PreparedRun, bounds: dict[str, int | None]) -> None:
    """Search the depth, and what is printed of it."""
    from gnas.cli import show
    from gnas.cli.job import job_progress, write_report
    from gnas.cli.progress import count_progress
    from gnas.files import write_json
    from gnas.strategies import search_stages
    from gnas.strategies.depth import REASONS, average_diameter, search_depth
    from gnas.workflow import strategy_from_settings, summarise_data

    screen, settings, benchmark = prepared.screen, prepared.settings, prepared.benchmark
    chosen = strategy_from_settings(settings)
    prepared.lock_folder(**bounds)
    write_json(prepared.folder / "data.json", summarise_data(benchmark))
    diameter = None
    if bounds["start"] is None:
        with count_progress(screen, benchmark.name) as tell:
            diameter = average_diameter(benchmark.train, seed=settings.search.seed, on_progress=tell)
    with job_progress(prepared, search_stages(chosen, "round-1")) as work:
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
            device=prepared.device,
            on_epoch=work.on_epoch,
            should_stop=work.should_stop,
            runner=prepared.runner,
            diameter=diameter,
        )
    if result.diameter is not None:
        screen.pair("diameter", f"{result.diameter} on average: the first search has half as many cells")
    show.show_rounds(screen, result, benchmark.task.metric)
    screen.pair("depth", " → ".join(map(str, result.trajectory)) + f": {REASONS[result.reason]}")
    for note in result.notes:
        screen.pair("note", note)
    show.show_network(screen, result.genotype)
    report = write_report(prepared.folder)
    show.show_next_steps(screen, report, ["gnas", "train", prepared.dataset, "--genotype", str(prepared.folder)])
    screen.result(
        {
            "run": str(prepared.folder),
            "dataset": benchmark.name,
            "device": str(prepared.device),
            **result.to_dict(),
            "report": report,
        }
    )
