"""``gnas predict`` and ``gnas export``: what a trained network is for."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gnas.cli import options as o
from gnas.cli.report import refuse_existing
from gnas.cli.screen import Screen

EXAMPLES = {
    "predict": (
        "gnas predict runs/molecules-single-level-seed0 new_molecules.csv -o predictions.csv",
        "gnas predict runs/molecules-race-seed0 new_molecules.csv --network ensemble",
        "gnas predict exported new_molecules.csv -o predictions.csv --device cpu",
    ),
    "export": (
        "gnas export runs/cluster-mini-single-level-seed0",
        "gnas export runs/zinc-single-level-seed0 --out zinc-model --seed 41",
        "gnas export runs/molecules-race-seed0 --format onnx",
    ),
}

Network = Annotated[
    str | None,
    typer.Option("--network", metavar="NAME", help="Which of the run's networks. Default: the best by validation."),
]
Format = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="python: readable code. torch: also model.pt2 of torch.export. onnx: also model.onnx.",
    ),
]
WhichSeed = Annotated[
    int | None, typer.Option(metavar="N", help="Which of its trainings. Default: the best by validation.")
]
AverageSeeds = Annotated[
    bool, typer.Option("--average-seeds", help="The mean over all seeds of the network, with its spread.")
]
SkipBad = Annotated[
    bool, typer.Option("--skip-bad", help="Leave out SMILES that do not parse, or with atoms the network never saw.")
]


def predict(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder or an exported one.")],
    data: Annotated[str, typer.Argument(metavar="DATA", help="New graphs in the form the network was trained on.")],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="The CSV file to write.")] = Path(
        "predictions.csv"
    ),
    network: Network = None,
    seed: WhichSeed = None,
    average_seeds: AverageSeeds = False,
    device: o.Device = None,
    skip_bad: SkipBad = False,
    data_root: o.DataRoot = None,
    force: o.Overwrite = False,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Predict with a trained network: one row for each graph, node or edge."""
    screen = Screen(as_json, quiet)
    refuse_existing(out, force)
    with screen.waiting("starting"):
        from gnas.cli.prepare import choose_device
        from gnas.cli.progress import count_progress
        from gnas.use.predict import predict as write_predictions

    with count_progress(screen, data) as on_progress:
        found = write_predictions(
            run,
            data,
            out,
            network=network,
            seed=seed,
            average_seeds=average_seeds,
            device=choose_device(device),
            data_root=data_root,
            skip_bad=skip_bad,
            force=force,
            on_progress=on_progress,
        )
    screen.pair("network", found.network)
    for note in found.notes:
        screen.pair("note", note)
    screen.pair("written", f"{out}: {len(found):,} predictions, columns {', '.join(found.columns)}")
    facts = {"predictions": str(out), "rows": len(found), "columns": list(found.columns), "model": str(run)}
    facts["network"] = found.network
    screen.result(facts | {"notes": list(found.notes)})


def export(
    run: o.RunFolder,
    out: Annotated[Path | None, typer.Option("--out", "-o", metavar="DIR", help="Default: RUN/export.")] = None,
    network: Network = None,
    seed: WhichSeed = None,
    format: Format = "python",
    force: o.Overwrite = False,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Write a trained network as a folder that needs no gnas: a readable module, safetensors weights, a model card."""
    screen = Screen(as_json, quiet)
    with screen.waiting("exporting"):
        from gnas.run.models import default_network, find_model
        from gnas.use.export import export_run

        path = export_run(run, out or run / "export", network=network, seed=seed, format=format, force=force)
        info, best = find_model(path), default_network(run)
    screen.pair("exported", str(path))
    screen.pair("network", info.title)
    if network is None and best not in (info.name, "gnas"):
        screen.pair("note", f"{best} is better on validation, but there is no code to export it; gnas predict uses it")
    screen.pair("files", ", ".join(sorted(file.name for file in path.iterdir())))
    screen.result({"export": str(path), "files": sorted(file.name for file in path.iterdir())})
