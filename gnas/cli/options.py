"""The words of the command line: one option each, meaning the same in every command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

NETWORK, PLACE, OUTPUT, DATA = "Network and protocol", "Where it is computed and kept", "Output", "Your own data"

# -- what ---------------------------------------------------------------------------------------------------------------

Dataset = Annotated[
    str,
    typer.Argument(metavar="DATASET", help="A benchmark ('gnas data list' shows them) or the path of your own graphs."),
]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")]
DataRoot = Annotated[
    Path | None,
    typer.Option(
        "--data-root",
        metavar="DIR",
        help="Folder of the benchmark files (else GNAS_DATA, else the cache).",
        rich_help_panel=DATA,
    ),
]
Target = Annotated[
    list[str] | None,
    typer.Option(
        "--target", metavar="COLUMN", help="What to predict in your own data; repeatable.", rich_help_panel=DATA
    ),
]
DataOption = Annotated[
    list[str] | None,
    typer.Option(
        "--data",
        metavar="KEY=VALUE",
        help="Decide what is otherwise inferred: level, kind, metric, loss, readout, split, seed, skip_bad, ...; repeatable.",
        rich_help_panel=DATA,
    ),
]

Folds = Annotated[
    int | None,
    typer.Option(
        "--folds",
        metavar="K",
        min=2,
        help="Cross-validation: K test folds, each with a run of its own; mean and spread over the folds.",
        rich_help_panel=DATA,
    ),
]
SampleNeighbors = Annotated[
    str | None,
    typer.Option(
        "--sample-neighbors",
        metavar="10,5",
        help="Neighbours drawn a hop, for a graph too large to be computed whole (-1: all), or none. Default: 10,5 where it is.",
        rich_help_panel=DATA,
    ),
]

# -- network and protocol -------------------------------------------------------------------------------------------------

Preset = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="wide, fast, strong or paper. Default: paper for the paper's datasets on a GPU; wide for races, else fast.",
        rich_help_panel=NETWORK,
    ),
]
SettingsFile = Annotated[
    Path | None,
    typer.Option(
        "--settings",
        metavar="FILE|RUN",
        help="A YAML file of settings, or a run folder whose settings are taken.",
        rich_help_panel=NETWORK,
    ),
]
Change = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Any other setting, such as training.dropout=0.1 or search.alpha_lr=0.01; repeatable.",
        rich_help_panel=NETWORK,
    ),
]
Strategy = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="race, single-level, darts1, darts2, random, evolution, graphnas. Default: race; single-level in the preset paper.",
        rich_help_panel=NETWORK,
    ),
]
Seed = Annotated[
    int | None, typer.Option(metavar="N", min=0, help="Of the search. Default: 0.", rich_help_panel=NETWORK)
]
Seeds = Annotated[
    str | None,
    typer.Option(metavar="41,95,...", help="Of the trainings: each network, each seed.", rich_help_panel=NETWORK),
]
Cells = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="Cells (layers) of the network.", rich_help_panel=NETWORK)
]
Channels = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="Width of the network.", rich_help_panel=NETWORK)
]
Budget = Annotated[
    int | None,
    typer.Option(
        metavar="N", min=0, help="Weights of the trained networks: widths are chosen to fit.", rich_help_panel=NETWORK
    ),
]
SearchEpochs = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, help="Epochs of the search (of each trial, by trials).", rich_help_panel=NETWORK),
]
Searches = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        help="Searches, from seeds in a row: what each finds is trained briefly, validation chooses.",
        rich_help_panel=NETWORK,
    ),
]
Time = Annotated[
    str | None,
    typer.Option(
        "--time",
        metavar="10m",
        help="How long a race may take in all, such as 90s, 10m or 1h30m; strategies by trials start none after it.",
        rich_help_panel=NETWORK,
    ),
]
Trials = Annotated[
    int | None,
    typer.Option(
        metavar="N", min=1, help="Networks to try, for race and other strategies by trials.", rich_help_panel=NETWORK
    ),
]
Ensemble = Annotated[
    int | None,
    typer.Option(
        metavar="K",
        min=0,
        help="Also an ensemble of at most K of the trained networks, chosen on validation. Default: none.",
        rich_help_panel=NETWORK,
    ),
]
Epochs = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="Epochs of a training, at most.", rich_help_panel=NETWORK)
]
Batch = Annotated[int | None, typer.Option(metavar="N", min=1, help="Graphs in a batch.", rich_help_panel=NETWORK)]
Baselines = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES", help="Hand-made networks to compare with: gcn,gin,... or all or none.", rich_help_panel=NETWORK
    ),
]

# -- where ------------------------------------------------------------------------------------------------------------------

Device = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="cpu, cuda, cuda:1, ... Default: cuda if there is one.", rich_help_panel=PLACE),
]
SyncNorm = Annotated[
    bool,
    typer.Option(
        "--sync-bn",
        help="Of several processes (torchrun): batch norm over the nodes of all of them, as one process would.",
        rich_help_panel=PLACE,
    ),
]
Deterministic = Annotated[
    bool,
    typer.Option(
        "--deterministic",
        help="Bit for bit the same on a GPU too, and with any number of threads; slower.",
        rich_help_panel=PLACE,
    ),
]
On = Annotated[
    str | None,
    typer.Option(
        "--on",
        metavar="WHERE",
        help="Who does the runs: here (default), local:N (N processes of this machine) or ray (a Ray cluster).",
        rich_help_panel=PLACE,
    ),
]
GpusPerJob = Annotated[
    float | None,
    typer.Option(
        "--gpus-per-job",
        metavar="N",
        min=0,
        help="With --on: GPUs of each run, or a share of one such as 0.25.",
        rich_help_panel=PLACE,
    ),
]
Sync = Annotated[
    str | None,
    typer.Option(
        "--sync",
        metavar="URL",
        help="Keep the run folder at this fsspec URL too (s3://..., file://...), for workers that do not share a disk.",
        rich_help_panel=PLACE,
    ),
]
Out = Annotated[
    Path | None,
    typer.Option("--out", metavar="DIR", help="Run folder. Default: a name under runs/.", rich_help_panel=PLACE),
]
Resume = Annotated[
    bool, typer.Option("--resume", help="Resume the run in the folder, with its settings.", rich_help_panel=PLACE)
]
Force = Annotated[bool, typer.Option("--force", help="Replace the run in the folder.", rich_help_panel=PLACE)]
Overwrite = Annotated[bool, typer.Option("--force", help="Overwrite existing files.")]
Track = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES",
        help="tensorboard, mlflow, wandb or none. Default: tensorboard if installed. History is kept as JSON lines always.",
        rich_help_panel=OUTPUT,
    ),
]

# -- output -----------------------------------------------------------------------------------------------------------------

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.", rich_help_panel=OUTPUT)]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.", rich_help_panel=OUTPUT)]


def format_examples(*lines: str) -> str:
    """The end of a command's help."""
    return "\n\n".join(("Examples:" if len(lines) > 1 else "Example:", *(f"  $ {line}" for line in lines)))
