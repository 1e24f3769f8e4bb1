"""The command line: thin, it parses, calls and prints. ``gnas --help`` is where to begin.

``commands`` declares every command, ``options`` every option. What a command does is imported when it runs.
"""

from __future__ import annotations

import os
from importlib import metadata
from typing import Annotated

import typer

from gnas.cli.commands import app

__all__ = ["app", "main"]


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


def main() -> None:
    """The command ``gnas``."""
    app()
