"""The command line: thin, it parses, calls and prints. ``gnas --help`` is where to begin.

Modules of this folder that hold a command import torch only when the command runs: help is instant.
"""

from __future__ import annotations

import os
from importlib import metadata
from typing import Annotated

import typer

from gnas.cli import compare, depth, doctor, evaluate, explain, predict, report, reproduce, runs, search, train
from gnas.cli.group import Guarded
from gnas.cli.options import format_examples

app = typer.Typer(
    cls=Guarded,
    help="Find a graph neural network, and its depth, for your graphs.",
    epilog=format_examples("gnas search cluster-mini", "gnas doctor"),
    invoke_without_command=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)


@app.callback()
def start(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    # Threads that wait for work must not spin: on a machine with other work that made small networks five times slower.
    # It is read when torch is loaded, which happens later, inside a command.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    if version:
        try:
            typer.echo(f"gnas {metadata.version('gnas')}")
        except metadata.PackageNotFoundError:
            typer.echo("gnas, from a folder, not installed")
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())


def data(context: typer.Context) -> None:
    """List, prepare, check and pack benchmarks and your own graphs."""
    from gnas.cli.data import data_app

    inner = typer.main.get_command(data_app)
    code = inner.main(context.args or ["--help"], prog_name="gnas data", standalone_mode=False)
    raise typer.Exit(code if isinstance(code, int) else 0)


app.command("search", epilog=format_examples(*search.EXAMPLES))(search.search)
app.command("train", epilog=format_examples(*train.EXAMPLES))(train.train)
app.command("depth", epilog=format_examples(*depth.EXAMPLES))(depth.depth)
app.command("compare", epilog=format_examples(*compare.EXAMPLES))(compare.compare)
app.command("predict", epilog=format_examples(*predict.EXAMPLES["predict"]))(predict.predict)
app.command("evaluate", epilog=format_examples(*evaluate.EXAMPLES))(evaluate.evaluate)
app.command("explain", epilog=format_examples(*explain.EXAMPLES))(explain.explain)
app.command("export", epilog=format_examples(*predict.EXAMPLES["export"]))(predict.export)
app.command("report", epilog=format_examples(*report.EXAMPLES["report"]))(report.report)
app.command("watch", epilog=format_examples(*report.EXAMPLES["watch"]))(report.watch_run)
app.command("draw", epilog=format_examples(*report.EXAMPLES["draw"]))(report.draw)
app.command("reproduce", epilog=format_examples(*reproduce.EXAMPLES))(reproduce.reproduce)
app.add_typer(runs.runs_app)
# Its module imports torch: it is opened when it is used.
_OPEN = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
app.command("data", context_settings=_OPEN)(data)
app.command("doctor", epilog=format_examples(*doctor.EXAMPLES))(doctor.doctor)


def main() -> None:
    """The command ``gnas``."""
    app()
