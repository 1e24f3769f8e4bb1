"""How to use the network of a run: commands and code to copy."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, fields
from typing import Any

from gnas.arch.genotype import Genotype
from gnas.model.task import Task
from gnas.report.answer import used_row
from gnas.run.layout import WEIGHTS
from gnas.run.record import RunRecord, read_run_json
from gnas.run.settings import config_value


@dataclass(frozen=True)
class Snippet:
    """A text to copy, with its title."""

    title: str
    text: str


def make_snippets(run: RunRecord) -> list[Snippet]:
    """Commands and code for this run, the simplest first."""
    if run.genotype is None:
        return []
    found, task = [], _task_code(run)
    if any(training.result and (training.folder / WEIGHTS).exists() for training in run.trainings):
        name = shlex.quote(run.name)
        commands = f"gnas predict {name} DATA -o predictions.csv\ngnas export {name} --out exported"
        found = [Snippet("Command line: predict, export", commands), Snippet("Python: the network", _loading(run))]
    if task:
        found.append(Snippet("Python: the architecture without the run folder", _from_text(run.genotype, run, task)))
    else:
        found.append(Snippet("The genotype file", run.genotype.to_yaml()))
    return found


def _task_code(run: RunRecord) -> str:
    """The task as Python code; empty if the run has no record of its data."""
    values = (run.data or {}).get("task")
    if not isinstance(values, dict):
        return ""
    defaults = {f.name: f.default for f in fields(Task)}
    values = {name: _plain(value) for name, value in values.items() if name in defaults}
    first = [repr(values.pop(name)) for name in ("level", "kind", "num_outputs")]
    rest = [f"{name}={value!r}" for name, value in values.items() if value != _plain(defaults[name])]
    return f"gnas.Task({', '.join([*first, *rest])})"


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list | tuple) else value


def _call(run: RunRecord) -> str:
    dropout = config_value(run.config, "training.dropout") or 0.0
    more = f", dropout={dropout!r}" if dropout else ""
    return f"gnas.Network(genotype, task, channels={_channels(run)}{more})"


def _channels(run: RunRecord) -> int:
    """The width as trained. Where a budget decided it, the description of the model holds it and the settings do not."""
    for training in next(iter(run.by_network().values()), []):
        width = (read_run_json(training.folder, "model") or {}).get("channels")
        if width:
            return int(width)
    return int(config_value(run.config, "space.channels") or 64)


def _loading(run: RunRecord) -> str:
    used = used_row(run.leaderboard)
    own = "" if used is None else f'  # {used.name}; network="gnas" is the found one'
    lines = ["import gnas", "", f"network, info = gnas.load_model({run.name!r}){own}"]
    return "\n".join([*lines, "# network(data) or network(x, edge_index, batch), as with any PyG module"]) + "\n"


def _from_text(genotype: Genotype, run: RunRecord, task: str) -> str:
    yaml = genotype.to_yaml()
    return f'import gnas\n\ngenotype = gnas.Genotype.from_yaml("""\n{yaml}""")\ntask = {task}\nnetwork = {_call(run)}\n'
