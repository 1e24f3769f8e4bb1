"""Data for a command: loaded with a bar if it takes long, and described in a few lines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

from gnas.cli.screen import Screen
from gnas.cli.settings import assignment
from gnas.datasets import NAMES, Benchmark, load
from gnas.datasets.describe import describe
from gnas.errors import InputError

_NAMES = ("level", "kind", "metric", "loss", "split", "categorical", "fractions", "standardise", "skip_bad")
_LISTS = ("target", "categorical", "fractions")
_SWITCHES = {"true": True, "yes": True, "false": False, "no": False}


def load_data(
    screen: Screen, dataset: str, data_root: Path | None, options: dict[str, Any], show: bool = True
) -> Benchmark:
    """The benchmark, described for people."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24, complete_style="cyan"),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=screen.err, transient=True, disable=screen.quiet or not screen.live) as bars:
        task = bars.add_task(f"loading {dataset}", total=None)

        def on_progress(what: str, done: int, total: int) -> None:
            bars.update(task, description=f"{dataset}: {what}", completed=done, total=total)

        more: dict[str, Any] = {"on_progress": on_progress} if dataset in NAMES else {}
        try:
            benchmark = load(dataset, data_root=data_root, **options, **more)
        except InputError as error:
            raise InputError(as_options(str(error))) from error
    if show:
        screen.pair("data", describe(benchmark))
    return benchmark


def as_options(text: str) -> str:
    """A message about arguments of ``load`` in the words of the command line.

    >>> as_options("name it with target=; or set kind='regression'")
    "name it with --target; or set --data kind='regression'"
    """
    return re.sub(r"\btarget=", "--target ", re.sub(rf"\b({'|'.join(_NAMES)})=", r"--data \1=", text)).replace(
        " ;", ";"
    )


def data_options(target: Sequence[str] | None, texts: Sequence[str] | None) -> dict[str, Any]:
    """``--target`` and ``--data key=value`` as arguments of ``load``.

    >>> data_options(["logP"], ["split=scaffold", "skip_bad=true", "seed=3"])
    {'split': 'scaffold', 'skip_bad': True, 'seed': 3, 'target': ['logP']}
    """
    found = {name: _value(name, value) for name, value in (assignment(text, "--data") for text in texts or ())}
    return {**found, "target": list(target)} if target else found


def _value(name: str, text: str) -> Any:
    if text.lower() in _SWITCHES:
        return _SWITCHES[text.lower()]
    if name in _LISTS:
        parts = [part.strip() for part in text.split(",")]
        return [float(part) for part in parts] if name == "fractions" and all(map(_is_number, parts)) else parts
    return int(text) if name == "seed" and text.isdigit() else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
