"""``gnas explain``: which atoms, nodes and edges a prediction comes from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gnas.cli import options as o
from gnas.cli.predict import Network, SkipBad, WhichSeed
from gnas.cli.report import refuse_existing
from gnas.cli.screen import Screen

EXAMPLES = (
    "gnas explain runs/molecules-single-level-seed0 new_molecules.csv --row 3",
    "gnas explain runs/cluster-mini-single-level-seed0 cluster-mini --row 0 --row 17 -o explanation.svg",
)


def explain(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder or an exported one.")],
    data: Annotated[str, typer.Argument(metavar="DATA", help="New graphs in the form the network was trained on.")],
    rows: Annotated[
        list[int] | None,
        typer.Option("--row", metavar="N", help="A row of the predictions, from 0; repeatable. Default: 0."),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The target, class or label to explain. Default: the predicted class, or the first target.",
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FILE", help="A .html, .svg or .png file; the scores go beside it.")
    ] = Path("explanation.html"),
    network: Network = None,
    seed: WhichSeed = None,
    device: o.Device = None,
    skip_bad: SkipBad = False,
    data_root: o.DataRoot = None,
    force: o.Overwrite = False,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Explain predictions: how much each atom, node and edge contributes, drawn and as a CSV of scores."""
    screen, chosen = Screen(as_json, quiet), rows or [0]
    with screen.waiting("explaining"):
        from gnas.cli.prepare import choose_device
        from gnas.report.explained import list_files, save_explanations
        from gnas.use.explain import explain as explain_rows

        scores = out.with_suffix(".csv")
        for file in {*list_files(out, chosen), scores}:
            refuse_existing(file, force)
        found = explain_rows(
            run,
            data,
            chosen,
            output=output,
            network=network,
            seed=seed,
            device=choose_device(device),
            data_root=data_root,
            skip_bad=skip_bad,
        )
        written = [*save_explanations(found, out), *save_explanations(found, scores)]
    screen.pair("network", found[0].network)
    for one in found:
        screen.pair("row", one.title.removeprefix("row "))
    files = list(dict.fromkeys(map(str, written)))
    screen.pair("written", ", ".join(files))
    facts = [{"row": one.row, "output": one.output, "value": one.value, "baseline": one.baseline} for one in found]
    screen.result({"network": found[0].network, "rows": facts, "files": files})
