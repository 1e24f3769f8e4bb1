"""``gnas depth``: how deep a network these graphs need (the paper's Algorithm 1)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from gnas.cli import options as o
from gnas.cli.screen import Screen

if TYPE_CHECKING:
    from gnas.cli.begin import Begun

EXAMPLES = ("gnas depth cluster-mini", "gnas depth zinc --cells 12 --device cuda --out runs/zinc-depth")

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
    rounds: Annotated[int, typer.Option(metavar="N", min=1, help="Most rounds.", rich_help_panel=o.NETWORK)] = 10,
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
        from gnas.cli.begin import begin

    given = {
        "strategy": strategy,
        "seed": seed,
        "channels": channels,
        "search_epochs": epochs,
        "search_batch": batch,
    }
    begun = begin("depth", context.params, given, ("depth", "{strategy}", "seed{seed}"))
    run_depth(begun, cells, limit, rounds)


def run_depth(begun: Begun, start: int | None, limit: int | None, rounds: int) -> None:
    """Search the depth, and what is printed of it."""
    from gnas.cli import show
    from gnas.cli.job import search_stage, working, write_report
    from gnas.cli.settings import chosen_strategy
    from gnas.depth import REASONS, search_depth
    from gnas.files import write_atomic
    from gnas.space import SearchSpace
    from gnas.workflow import summarise

    screen, settings, benchmark = begun.screen, begun.settings, begun.benchmark
    chosen = chosen_strategy(settings)
    saved = begun.place.saved
    start, limit = start or saved.get("start"), limit or saved.get("limit") or 24
    begun.claim(start=start, limit=limit)
    write_atomic(begun.folder / "data.json", json.dumps(summarise(benchmark), indent=2) + "\n")
    with working(begun, [search_stage(chosen, "round-1")]) as work:
        result = search_depth(
            benchmark,
            SearchSpace(settings.nodes, settings.nodes, variant=settings.variant),
            chosen,
            start=start,
            limit=limit,
            max_rounds=rounds,
            folder=begun.folder,
            resume=begun.place.resumed,
            channels=settings.channels,
            seed=settings.seed,
            device=begun.device,
            on_epoch=work.on_epoch,
            should_stop=work.should_stop,
        )
    if result.diameter is not None:
        screen.pair("diameter", f"{result.diameter} on average: the first search has half as many cells")
    show.rounds(screen, result, benchmark.task.metric)
    screen.pair("depth", " → ".join(map(str, result.trajectory)) + f": {REASONS[result.reason]}")
    for note in result.notes:
        screen.pair("note", note)
    show.network(screen, result.genotype)
    report = write_report(begun.folder)
    show.next_steps(screen, report, ["gnas", "train", begun.dataset, "--genotype", str(begun.folder)])
    screen.result(
        {
            "run": str(begun.folder),
            "dataset": benchmark.name,
            "device": str(begun.device),
            **result.to_dict(),
            "report": None if report is None else str(report),
        }
    )
