"""``gnas evaluate``: how good a trained network is on labelled data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gnas.cli import options as o
from gnas.cli.predict import AverageSeeds, Network, SkipBad, WhichSeed
from gnas.cli.screen import Screen

if TYPE_CHECKING:
    from gnas.use.evaluate import Evaluation

EXAMPLES = (
    "gnas evaluate runs/molecules-single-level-seed0 labelled_molecules.csv",
    "gnas evaluate exported labelled_molecules.csv --json",
)


def evaluate(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder or an exported one.")],
    data: Annotated[
        str, typer.Argument(metavar="DATA", help="Labelled graphs in the form the network was trained on.")
    ],
    network: Network = None,
    seed: WhichSeed = None,
    average_seeds: AverageSeeds = False,
    device: o.Device = None,
    skip_bad: SkipBad = False,
    data_root: o.DataRoot = None,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Evaluate a trained network on labelled data: all metrics, overall and for each target. Rows without a target do
    not count."""
    screen = Screen(as_json, quiet)
    with screen.waiting("starting"):
        from gnas.cli.prepare import choose_device
        from gnas.cli.progress import count_progress
        from gnas.use.evaluate import evaluate as compute_evaluation

    with count_progress(screen, data) as on_progress:
        found = compute_evaluation(
            run,
            data,
            device=choose_device(device),
            network=network,
            seed=seed,
            average_seeds=average_seeds,
            data_root=data_root,
            skip_bad=skip_bad,
            on_progress=on_progress,
        )
    if screen.talks:
        _show(screen, found)
    screen.result({"model": str(run), "data": data, **found.to_dict()})


def _show(screen: Screen, found: Evaluation) -> None:
    from gnas.run.table import Column, Table, show_count
    from gnas.run.words import count, direction, format_metric, unit

    screen.pair("network", found.network)
    left_out = f"; {count(found.left_out, 'row')} without a target left out" if found.left_out else ""
    screen.pair("rows", f"{found.rows:,}{left_out}")
    for note in found.notes:
        screen.pair("note", note)
    columns = (
        Column[str]("metric", unit),
        Column[str]("value", found.metrics.__getitem__, text=lambda name: format_metric(name, found.metrics[name])),
        Column[str]("", direction),
    )
    screen.say(Table(columns, list(found.metrics), strong=lambda name: name == found.metric).to_rich())
    if not found.per_target:
        return

    def column(metric: str) -> Column[Any]:
        values = found.per_target[metric]
        return Column(unit(metric), values.__getitem__, show=lambda value: format_metric(metric, value), align="right")

    first = (Column[Any]("target", str), Column[Any]("rows", found.counts.__getitem__, show_count))
    screen.say(Table((*first, *map(column, found.per_target)), list(found.counts)).to_rich())
