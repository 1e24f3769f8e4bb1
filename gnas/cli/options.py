"""The options of the command line, each declared once and with the same meaning in every command.

:mod:`gnas.cli.commands` names the options of each command. An option's name is its flag: ``data_root`` is ``--data-root``.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from gnas.errors import InputError
from gnas.files import check_target


@dataclass(frozen=True)
class Option:
    """One option of a command, or one of its arguments.

    Args:
        kind: The type of its value.
        help: What it means, in a sentence.
        metavar: What stands for its value in the help.
        flags: Its flags, if they are not those of its name.
        default: Its value if it is not given; ``...``: it must be given.
        panel: The part of the help where it stands.
        is_argument: Whether it has no flag.
        more: Other arguments of ``typer.Option``, such as ``min``.
    """

    kind: Any
    help: str
    metavar: str | None = None
    flags: tuple[str, ...] = ()
    default: Any = None
    panel: str | None = None
    is_argument: bool = False
    more: Mapping[str, Any] = field(default_factory=dict)

    def parameter(self, name: str) -> inspect.Parameter:
        """The option as a parameter of the function that typer calls."""
        flags = self.flags or ((f"--{name.replace('_', '-')}",) if self.kind is bool else ())
        make = typer.Argument if self.is_argument else typer.Option
        about = make(*flags, metavar=self.metavar, help=self.help, rich_help_panel=self.panel, **self.more)
        default = inspect.Parameter.empty if self.default is ... else self.default
        kind: Any = Annotated[self.kind, about]
        return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)


class Options(dict[str, Any]):
    """The options of one call of a command by name; each is an attribute, too."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


def refuse_existing(path: Path | None, force: bool) -> None:
    """An error rather than a file overwritten by accident, or a device replaced."""
    if path is not None and check_target(path).is_file() and not force:
        raise InputError(f"{path} exists; --force overwrites it")


def text(metavar: str, help: str, *flags: str, default: str | None = None) -> Option:
    """A text, by default none."""
    return Option(str | None if default is None else str, help, metavar, flags, default)


def texts(metavar: str, help: str, *flags: str) -> Option:
    """A text that can be given several times."""
    return Option(list[str] | None, help, metavar, flags)


def number(help: str, *flags: str, metavar: str = "N", default: int | None = None, **limits: int) -> Option:
    """A whole number, by default none; ``limits`` are ``min`` and ``max``."""
    return Option(int | None if default is None else int, help, metavar, flags, default, more=limits)


def path(metavar: str, help: str, *flags: str, default: Any = None) -> Option:
    """A file or a folder, by default none."""
    return Option(Path | None if default is None else Path, help, metavar, flags, default)


def paths(metavar: str, help: str, *flags: str) -> Option:
    """A file or folder that can be given several times."""
    return Option(list[Path] | None, help, metavar, flags)


def switch(help: str, *flags: str, default: bool = False) -> Option:
    """Something that is off unless it is named."""
    return Option(bool, help, None, flags, default)


def argument(kind: Any, metavar: str, help: str, default: Any = ..., **more: Any) -> Option:
    """A value without a flag."""
    return Option(kind, help, metavar, (), default, None, True, more)


def panel(title: str, **options: Option) -> dict[str, Option]:
    """Options that stand together in the help."""
    return {name: replace(option, panel=title) for name, option in options.items()}


NETWORK, PLACE, OUTPUT, DATA = "Network and protocol", "Where it is computed and kept", "Output", "Your own data"

OPTIONS = {
    "dataset": argument(str, "DATASET", "A benchmark ('gnas data list' shows them) or the path of your own graphs."),
    "run": argument(Path, "RUN", "A run folder."),
    "overwrite": switch("Overwrite existing files.", "--force"),
    **panel(
        DATA,
        data_root=path("DIR", "Folder of the benchmark files (else GNAS_DATA, else the cache)."),
        target=texts("COLUMN", "What to predict in your own data; repeatable."),
        data=texts(
            "KEY=VALUE",
            "Decide what is otherwise inferred: level, kind, metric, loss, readout, split, seed, skip_bad, ...; repeatable.",
        ),
        folds=number(
            "Cross-validation: K test folds, each with a run of its own; mean and spread over the folds.",
            metavar="K",
            min=2,
        ),
        sample_neighbors=text(
            "10,5",
            "Neighbours to sample per hop of a graph too large to compute whole (-1: all), or none. Default: 10,5 there.",
        ),
    ),
    **panel(
        NETWORK,
        preset=text(
            "NAME",
            "wide, fast, strong or paper. Default: paper for the paper's datasets on a GPU; wide for races, else fast.",
        ),
        settings=path("FILE|RUN", "A YAML file of settings, or a run folder whose settings are taken."),
        change=texts(
            "KEY=VALUE",
            "Any other setting, such as training.dropout=0.1 or search.alpha_lr=0.01; repeatable.",
            "--set",
        ),
        strategy=text(
            "NAME",
            "race, single-level, darts1, darts2, random, evolution, graphnas. Default: race; single-level in the preset paper.",
        ),
        seed=number("Seed of the search. Default: 0.", min=0),
        seeds=text("41,95,...", "Seeds of the trainings: each network is trained from each seed."),
        cells=number("Cells (layers) of the network.", min=1),
        channels=number("Width of the network.", min=1),
        budget=number("Weights of the trained networks: widths are chosen to fit.", min=0),
        search_epochs=number("Epochs of the search, or of each trial.", min=1),
        searches=number(
            "Number of searches, from consecutive seeds. Each result is trained briefly; the best on validation is used.",
            min=1,
        ),
        time_limit=text(
            "10m",
            "Time limit of a race, such as 90s, 10m or 1h30m. Other strategies by trials start no trial after it.",
            "--time",
        ),
        trials=number("Networks to try, for race and other strategies by trials.", min=1),
        ensemble=number(
            "Also an ensemble of at most K of the trained networks, chosen on validation. Default: none.",
            metavar="K",
            min=0,
        ),
        epochs=number("Largest number of epochs of a training.", min=1),
        batch=number("Graphs in a batch.", min=1),
        baselines=text("NAMES", "Hand-made networks to compare with: gcn,gin,... or all or none."),
    ),
    **panel(
        PLACE,
        device=text("NAME", "cpu, cuda, cuda:1, ... Default: cuda if there is one."),
        sync_bn=switch("With torchrun: batch norm over the nodes of all processes, as in a single process."),
        deterministic=switch("The same bits in every run, also on a GPU and with any number of threads; slower."),
        on=text(
            "WHERE",
            "Where runs are computed: here (default), local:N (N processes of this machine) or ray (a Ray cluster).",
        ),
        gpus_per_job=Option(
            float | None,
            "With --on: GPUs of each run, or a share of one such as 0.25.",
            "N",
            more={"min": 0},
        ),
        sync=text(
            "URL",
            "Copy the run folder to this fsspec URL too (s3://..., file://...), for workers that do not share a disk.",
        ),
        out=path("DIR", "Run folder. Default: a name under runs/."),
        resume=switch("Resume the run in the folder, with its settings."),
        force=switch("Replace the run in the folder."),
    ),
    **panel(
        OUTPUT,
        track=text(
            "NAMES",
            "tensorboard, mlflow, wandb or none. Default: tensorboard if installed. History is kept as JSON lines always.",
        ),
        as_json=switch("Print one JSON object and nothing else.", "--json"),
        quiet=switch("Print nothing but errors.", "--quiet", "-q"),
    ),
}
