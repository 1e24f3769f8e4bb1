"""Every command: its help, its options and the function that does it. Nothing here imports torch: help is instant."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer

from gnas.cli.group import GuardedGroup
from gnas.cli.options import (
    NETWORK,
    OPTIONS,
    OUTPUT,
    PLACE,
    Option,
    Options,
    argument,
    number,
    panel,
    path,
    paths,
    switch,
    text,
    texts,
)
from gnas.cli.screen import Screen


def format_examples(*lines: str) -> str:
    """The end of a command's help."""
    return "\n\n".join(("Examples:" if len(lines) > 1 else "Example:", *(f"  $ {line}" for line in lines)))


def make_group(name: str, help: str, *examples: str) -> typer.Typer:
    """A command that has commands of its own. Without one it prints its help."""
    inner = typer.Typer(name=name, help=help, epilog=format_examples(*examples), invoke_without_command=True)

    @inner.callback()
    def show_help(context: typer.Context) -> None:
        if context.invoked_subcommand is None:
            typer.echo(context.get_help())

    return inner


def add_command(
    app: typer.Typer,
    name: str,
    function: str,
    options: str,
    help: str,
    *examples: str,
    own: Mapping[str, Option] | None = None,
) -> None:
    """Add a command to ``app`` that imports ``function``, given by its full name, and calls it with the options and the screen.

    ``options`` are the names of its options, in the order of the help; ``--json`` and ``--quiet`` come on top. ``own`` are
    options that this command alone has, or that mean something else there.
    """
    declared = {**OPTIONS, **(own or {})}
    parameters = [declared[one].parameter(one) for one in (*options.split(), "as_json", "quiet")]

    def call(**values: Any) -> None:
        screen = Screen(values["as_json"], values["quiet"])
        with screen.waiting("starting"):
            module, _, place = function.rpartition(".")
            work = getattr(importlib.import_module(module), place)
        work(Options(values), screen)

    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {one.name: one.annotation for one in parameters}
    app.command(name, help=help, epilog=format_examples(*examples))(call)


# Options that stand at the end of every command that makes a run.
SOURCE, WORKERS = "data_root device", "on gpus_per_job sync"
FOLDER = "deterministic out resume force track"

app = typer.Typer(
    cls=GuardedGroup,
    help="Find a graph neural network, and its depth, for your graphs.",
    epilog=format_examples("gnas search cluster-mini", "gnas doctor"),
    invoke_without_command=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)

# -- jobs ----------------------------------------------------------------------------------------------------------------

add_command(
    app,
    "search",
    "gnas.cli.search.search",
    "dataset strategy preset settings seed cells channels search_epochs searches time_limit trials epochs batch seeds budget "
    f"ensemble baselines change target data folds sample_neighbors {SOURCE} {WORKERS} sync_bn {FOLDER}",
    "Find a network for your graphs, train it, compare it with hand-made ones, and write a report.",
    "gnas search cluster-mini",
    "gnas search molecules.csv --target logP --strategy race --time 10m",
    "gnas search molecules.csv --target logP --folds 5 --on local:2",
    "gnas search zinc --preset paper --device cuda --out runs/zinc",
)

add_command(
    app,
    "train",
    "gnas.cli.networks.train",
    "dataset genotype formula baseline preset settings seed seeds cells channels epochs batch budget change target data "
    f"sample_neighbors {SOURCE} {WORKERS} sync_bn {FOLDER}",
    "Train one network by the benchmark's protocol and report its test metric.",
    "gnas train cluster-mini --baseline gin --cells 4",
    "gnas train zinc --genotype runs/zinc-single-level-seed0 --seeds 41,95,12,35",
    "gnas train zinc --genotype zinc-12 --seeds 41",
    r"gnas train molecules.csv --formula '\[identity | dense(sum(dense))]' --cells 3",
    own={
        "genotype": path(
            "FILE|NAME",
            "A genotype file, a run folder, or one that comes with gnas, such as zinc-12, trained as it was for our results.",
        ),
        "formula": texts("TEXT", "A formula for all cells; repeat the option for one formula per cell."),
        "baseline": text(
            "NAME", "A hand-made network: mlp, gcn, gin, graphsage, gat, gatedgcn, monet, or that of a plugin."
        ),
        **panel(NETWORK, seed=number("Seed of a single training.", min=0)),
    },
)

add_command(
    app,
    "depth",
    "gnas.cli.search.depth",
    "dataset cells limit rounds strategy preset settings seed channels epochs batch change target data "
    f"{SOURCE} {WORKERS} {FOLDER}",
    "Search the network and its message-passing depth together, round by round, until the depth settles.",
    "gnas depth cluster-mini",
    "gnas depth zinc --cells 12 --device cuda --out runs/zinc-depth",
    own=panel(
        NETWORK,
        cells=number("Cells to begin with. Default: half of the graphs' diameter.", min=1),
        limit=number("Largest number of cells to search with. Default: 24.", min=1),
        rounds=number("Largest number of rounds. Default: 10.", min=1),
        epochs=number("Epochs of each search.", "--epochs", "--search-epochs", min=1),
    ),
)

add_command(
    app,
    "compare",
    "gnas.cli.compare.compare",
    "dataset baselines found strategies budget_epochs trial_epochs derivations preset settings seeds cells channels epochs "
    f"batch budget ensemble change target data folds {SOURCE} {WORKERS} {FOLDER}",
    """Train networks by the same protocol, seeds and number of weights, and rank them. Finished trainings are reused.

    Hand-made networks are as deep and have as many weights as the first found one; without one, the benchmark's size.
    With --strategies, ways to search are compared instead: the best network so far against what it has cost.
    """,
    "gnas compare cluster-mini --baselines gcn,gin --seeds 41,95",
    "gnas compare zinc --baselines all --found runs/zinc-single-level-seed0 --found runs/zinc-random-seed0",
    "gnas compare zinc --baselines all --seeds 41,95,12,35 --on local:4",
    "gnas compare molecules.csv --target logP --baselines gcn,gin --folds 5",
    "gnas compare cluster-mini --strategies all --seeds 0,1,2 --budget-epochs 80",
    own={
        "found": paths(
            "RUN", "A run folder or genotype file, or a name such as zinc-12, whose network takes part; repeatable."
        ),
        "strategies": text(
            "NAMES", "Compare ways to search instead: single-level,darts,random,evolution,graphnas or all."
        ),
        **panel(
            "With --strategies",
            budget_epochs=number(
                "Epochs that each strategy may train. Default: of a search, and of the networks derived from it.", min=1
            ),
            trial_epochs=number("Epochs of every network tried. Default: 10.", min=1),
            derivations=number("Networks derived while a supernet is searched. Default: 4.", min=1),
        ),
    },
)

# -- trained networks ----------------------------------------------------------------------------------------------------

MODEL = {
    "run": argument(Path, "RUN", "A run folder or an exported one."),
    "data": argument(str, "DATA", "New graphs in the form the network was trained on."),
    "network": text("NAME", "Which of the run's networks. Default: the best by validation."),
    "seed": number("Which of its trainings. Default: the best by validation."),
    "average_seeds": switch("The mean over all seeds of the network, with its spread."),
    "skip_bad": switch("Leave out SMILES that do not parse, or with atoms the network never saw."),
}

add_command(
    app,
    "predict",
    "gnas.cli.predict.predict",
    "run data out network seed average_seeds device skip_bad data_root overwrite",
    "Predict with a trained network: one row for each graph, node or edge.",
    "gnas predict runs/molecules-single-level-seed0 new_molecules.csv -o predictions.csv",
    "gnas predict runs/molecules-race-seed0 new_molecules.csv --network ensemble",
    "gnas predict exported new_molecules.csv -o predictions.csv --device cpu",
    own={**MODEL, "out": path("FILE", "The CSV file to write.", "--out", "-o", default=Path("predictions.csv"))},
)

add_command(
    app,
    "evaluate",
    "gnas.cli.predict.evaluate",
    "run data network seed average_seeds device skip_bad data_root",
    """Evaluate a trained network on labelled data: all metrics, overall and for each target. Rows without a target do
    not count.""",
    "gnas evaluate runs/molecules-single-level-seed0 labelled_molecules.csv",
    "gnas evaluate exported labelled_molecules.csv --json",
    own={**MODEL, "data": argument(str, "DATA", "Labelled graphs in the form the network was trained on.")},
)

add_command(
    app,
    "explain",
    "gnas.cli.predict.explain",
    "run data rows output out network seed device skip_bad data_root overwrite",
    "Explain predictions: how much each atom, node and edge contributes, drawn and as a CSV of scores.",
    "gnas explain runs/molecules-single-level-seed0 new_molecules.csv --row 3",
    "gnas explain runs/cluster-mini-single-level-seed0 cluster-mini --row 0 --row 17 -o explanation.svg",
    own={
        **MODEL,
        "rows": Option(list[int] | None, "A row of the predictions, from 0; repeatable. Default: 0.", "N", ("--row",)),
        "output": text(
            "NAME", "The target, class or label to explain. Default: the predicted class, or the first target."
        ),
        "out": path(
            "FILE",
            "A .html, .svg or .png file; the scores go beside it.",
            "--out",
            "-o",
            default=Path("explanation.html"),
        ),
    },
)

add_command(
    app,
    "export",
    "gnas.cli.predict.export",
    "run out network seed format overwrite",
    "Write a trained network as a folder that needs no gnas: a readable module, safetensors weights, a model card.",
    "gnas export runs/cluster-mini-single-level-seed0",
    "gnas export runs/zinc-single-level-seed0 --out zinc-model --seed 41",
    "gnas export runs/molecules-race-seed0 --format onnx",
    own={
        **MODEL,
        "run": OPTIONS["run"],
        "out": path("DIR", "Default: RUN/export.", "--out", "-o"),
        "format": text(
            "NAME",
            "python: readable code. torch: also model.pt2 of torch.export. onnx: also model.onnx.",
            default="python",
        ),
    },
)

# -- pages and pictures --------------------------------------------------------------------------------------------------

add_command(
    app,
    "report",
    "gnas.cli.runs.report",
    "runs out pictures overwrite",
    "Write the report of a run as one HTML file, or of several runs beside each other.",
    "gnas report runs/cluster-mini-single-level-seed0",
    "gnas report runs/zinc-random-seed0 runs/zinc-evolution-seed0 --out comparison.html",
    own={
        "runs": argument(list[Path], "RUN...", "Run folders; several are compared."),
        "out": path("FILE", "Default: RUN/report.html; of several runs comparison.html.", "--out", "-o"),
        "pictures": path("DIR", "Also write every plot of the run as SVG and PNG here."),
    },
)

add_command(
    app,
    "watch",
    "gnas.cli.runs.watch",
    "run port until_finished browser",
    """Follow a run on a local page: the leaders' curves, what was dropped, the architecture, the time left.

    Only this machine can open the page, and only at the address that is printed. The run folder is read, not written.
    """,
    "gnas watch runs/molecules-race-seed0",
    "gnas watch runs/zinc-single-level-seed0 --until-finished --port 8000",
    own={
        "port": number("Default: any free one.", default=0, min=0, max=65535),
        "until_finished": switch("End when the run is finished."),
        "browser": switch("Open the page in a browser.", "--browser/--no-browser", default=True),
    },
)

add_command(
    app,
    "draw",
    "gnas.cli.runs.draw",
    "what formula out title race overwrite",
    "Draw an architecture: each cell in three levels, a colour per operation, unused branches faded, the formula below.",
    "gnas draw runs/cluster-mini-single-level-seed0",
    "gnas draw genotype.yaml -o architecture.png",
    "gnas draw runs/molecules-race-seed0 --race -o race.svg",
    r"gnas draw --formula '\[identity | dense(sum(dense))]' -o gatedgcn.svg",
    own={
        "what": argument(
            Path | None,
            "GENOTYPE|RUN",
            "A genotype file, a run folder, or one that comes with gnas, such as zinc-12.",
            default=None,
            show_default=False,
        ),
        "formula": texts("TEXT", "Draw a formula instead; repeat the option for one formula per cell."),
        "out": path("FILE", "A .svg or .png file. Default: RUN/genotype.svg, or FILE.svg.", "--out", "-o"),
        "title": text("TEXT", "Words above the drawing.", default=""),
        "race": switch("Draw the race of a run as an animated .svg file."),
    },
)

# -- the paper -----------------------------------------------------------------------------------------------------------

add_command(
    app,
    "reproduce",
    "gnas.cli.reproduce.reproduce",
    f"only datasets methods depths seeds searches change quick listing no_run {SOURCE} {WORKERS} out read_from keep "
    "time_limit page",
    """Reproduce the paper's tables and figures: read finished runs, do the missing ones, draw everything.

    Tables show paper, ours and the difference side by side. Every run is a folder below --out. It can be stopped at any
    moment; the same command resumes it. Failed runs are listed and do not stop the others.
    """,
    "gnas reproduce --quick",
    "gnas reproduce --list",
    "gnas reproduce --only table-zinc --methods gnas --device cuda --time-limit 560 --out runs/paper",
    "gnas reproduce --from benchmarks/results --no-run --page docs/results-details.md",
    own={
        **panel(
            "What is reproduced",
            only=texts("NAME", "A table or figure, such as table-zinc; repeatable. Default: all."),
            datasets=text("NAMES", "Only these of the paper's datasets: zinc,pattern,..."),
            methods=text("NAMES", "Only these networks: gnas,gcn,...,graphnas."),
            depths=text("4,16", "Only these of the paper's depths."),
            searches=number("Searches per line; the table shows the best network by validation.", default=1, min=1),
            quick=switch("Minutes on a CPU: small data, small networks."),
        ),
        "listing": switch("List the runs that are done and left, and how long they take.", "--list", "--dry-run"),
        "no_run": switch("Only draw finished runs."),
        **panel(
            PLACE,
            sync=text(
                "URL",
                "Copy --out to this fsspec URL too (s3://..., file://...), and start with the runs there.",
            ),
            out=path("DIR", "Where runs, tables and figures go. Default: runs/paper."),
            read_from=paths("DIR", "Read finished runs or archives from here too; repeatable.", "--from"),
            keep=path("DIR", "Add finished runs to the archives here, without weights."),
            time_limit=Option(
                float | None, "Stop after this time; the same command resumes.", "SECONDS", more={"min": 0}
            ),
        ),
        **panel(OUTPUT, page=path("FILE", "Update the tables and figures of a Markdown page with marks.")),
    },
)

# -- data ----------------------------------------------------------------------------------------------------------------

BENCHMARK = {
    "name": argument(str, "NAME", "A benchmark; 'gnas data list' shows them."),
    "seed": number("Seed of the random choices in the data.", default=0, min=0),
}
OWN_DATA = {
    "dataset": argument(str, "DATA", "A benchmark's name, or the path of your own data."),
    "seed": number("Seed of the random choices in the data.", min=0),
}

data_app = make_group(
    "data",
    "List, prepare, check and pack benchmarks and your own graphs.",
    "gnas data list",
    "gnas data show molecules.csv",
    "gnas data check zinc",
)

add_command(
    data_app,
    "list",
    "gnas.cli.data.list_data",
    "data_root",
    "Show the benchmarks and where each would be read from now.",
    "gnas data list",
    "gnas data list --data-root /data --json",
)

add_command(
    data_app,
    "show",
    "gnas.cli.data.show_data",
    "dataset target data seed preset data_root",
    "Show what 'gnas search' would read: what is used and how, what was inferred, left out, and what looks wrong.",
    "gnas data show molecules.csv --target logP",
    "gnas data show MUTAG/ --json",
    own=OWN_DATA,
)

add_command(
    data_app,
    "prepare",
    "gnas.cli.data.prepare_data",
    "name data_root seed device workers",
    "Build a benchmark's file once, so that loading it takes seconds. After an interruption, run it again to continue.",
    "gnas data prepare mnist",
    own={
        **BENCHMARK,
        "device": text("NAME", "Where superpixel edges are built: cpu or cuda.", default="cpu"),
        "workers": number("Processes for raw images; 0: all cores.", default=0, min=0),
    },
)

add_command(
    data_app,
    "check",
    "gnas.cli.data.check_data",
    "name data_root seed",
    "Verify a benchmark against its published statistics; exit code 1 if it differs.",
    "gnas data check zinc --data-root /data",
    own=BENCHMARK,
)

add_command(
    data_app,
    "pack",
    "gnas.cli.data.pack_data",
    "dataset out target data seed data_root overwrite",
    "Write graphs, splits and task into one safe file that loads anywhere.",
    "gnas data pack tables/ -o graphs.safetensors",
    own={
        **OWN_DATA,
        "out": path("FILE", "The .safetensors file to write.", "--out", "--output", "-o", default=...),
    },
)

app.add_typer(data_app)

# -- runs and the machine ------------------------------------------------------------------------------------------------

add_command(
    app,
    "doctor",
    "gnas.cli.doctor.doctor",
    "dataset preset strategy cells channels search_epochs epochs batch seeds device target data data_root",
    """Show what this installation has and would use, and what is wrong with it. The exit code is 1 if something is wrong.

    With a dataset: how long a search and its trainings would take there, and what memory they need.
    """,
    "gnas doctor",
    "gnas doctor --json > doctor.json",
    "gnas doctor zinc --preset paper --cells 12 --device cuda",
    own={
        "dataset": argument(
            str | None, "[DATASET]", "Estimate time and memory of a run on this dataset instead.", default=None
        )
    },
)

runs_app = make_group(
    "runs",
    "List, show and delete run folders.",
    "gnas runs list",
    "gnas runs show runs/cluster-mini-single-level-seed0",
)

add_command(
    runs_app,
    "list",
    "gnas.cli.runs.list_all",
    "root",
    "List the runs under a folder, the newest first.",
    "gnas runs list",
    "gnas runs list /data/experiments --json",
    own={"root": argument(Path, "ROOT", "Folder to look in, some levels deep.", default=Path("runs"))},
)

add_command(
    runs_app,
    "show",
    "gnas.cli.runs.show_run",
    "run",
    "Show one run: what was found, how good it is, how far it is.",
    "gnas runs show runs/cluster-mini-single-level-seed0",
)

add_command(
    runs_app,
    "delete",
    "gnas.cli.runs.delete_run",
    "run force",
    "Delete a run: everything that gnas made in its folder; asks first.",
    "gnas runs delete runs/cluster-mini-single-level-seed0",
    own={"force": switch("Do not ask.")},
)

app.add_typer(runs_app)
