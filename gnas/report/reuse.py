"""How to use the network of a run: commands and code to copy."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, fields
from typing import Any

from gnas.arch.genotype import Genotype
from gnas.model.task import Task
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
    task = _task_code(run)
    found = [Snippet("Command line: export the network", f"gnas export {shlex.quote(run.name)} --out exported")]
    if task:
        found.append(Snippet("Python: the network with its trained weights", _network(run, task)))
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


def _network(run: RunRecord, task: str) -> str:
    lines = ["import gnas", ""]
    lines.append(f"genotype = gnas.load_genotype({run.name + '/genotype.yaml'!r})")
    lines += [f"task = {task}", f"network = {_call(run)}"]
    weights = _weights(run)
    if weights:
        lines += ["", "from gnas.run import checkpoint"]
        lines += [f"network.load_state_dict(checkpoint.load({run.name + '/' + weights!r}))"]
    lines += ["network.eval()", "# network(data) or network(x, edge_index, batch), as with any PyG module"]
    return "\n".join(lines) + "\n"


def _from_text(genotype: Genotype, run: RunRecord, task: str) -> str:
    yaml = genotype.to_yaml()
    return f'import gnas\n\ngenotype = gnas.Genotype.from_yaml("""\n{yaml}""")\ntask = {task}\nnetwork = {_call(run)}\n'


def _weights(run: RunRecord) -> str:
    """The weights of the found network's first finished training, as a path inside the run folder."""
    for group in run.by_network().values():
        for training in group:
            path = training.folder / WEIGHTS
            if training.result and path.exists():
                return path.relative_to(run.folder).as_posix()
        break
    return ""
