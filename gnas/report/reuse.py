"""How to use what was found: commands and code to copy."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from gnas.arch.genotype import Genotype
from gnas.model.task import Task
from gnas.run.layout import WEIGHTS
from gnas.run.record import RunRecord, read_run_json
from gnas.run.settings import config_value


@dataclass(frozen=True)
class Snippet:
    """Something to copy: where it belongs, and the text."""

    title: str
    text: str


def snippets(job: RunRecord) -> list[Snippet]:
    """What can be done with this run, from the least effort to the most freedom."""
    if job.genotype is None:
        return []
    folder = job.name
    found = [Snippet("Command line: export the network found", f"gnas export {quoted(folder)} --out exported")]
    task = task_code(job)
    if task:
        found.append(Snippet("Python: the network with its trained weights", _network(job, task)))
        found.append(Snippet("Python: the same architecture from this page alone", _from_text(job.genotype, job, task)))
    else:
        found.append(Snippet("The genotype file", job.genotype.to_yaml()))
    return found


def quoted(path: str) -> str:
    """A path for a shell."""
    import shlex

    return shlex.quote(path)


def task_code(job: RunRecord) -> str:
    """The task as Python code, or nothing where the data is not described."""
    told = (job.data or {}).get("task")
    if not isinstance(told, dict):
        return ""
    defaults = {f.name: f.default for f in fields(Task)}
    values = {name: _plain(value) for name, value in told.items() if name in defaults}
    first = [repr(values.pop(name)) for name in ("level", "kind", "num_outputs")]
    rest = [f"{name}={value!r}" for name, value in values.items() if value != _plain(defaults[name])]
    return f"gnas.Task({', '.join([*first, *rest])})"


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list | tuple) else value


def _call(job: RunRecord) -> str:
    dropout = config_value(job.config, "training.dropout") or 0.0
    more = f", dropout={dropout!r}" if dropout else ""
    return f"gnas.Network(genotype, task, channels={_channels(job)}{more})"


def _channels(job: RunRecord) -> int:
    """The width as trained. Where a budget decided it, the description of the model holds it and the settings do not."""
    for training in next(iter(job.by_network().values()), []):
        width = (read_run_json(training.folder, "model") or {}).get("channels")
        if width:
            return int(width)
    return int(config_value(job.config, "space.channels") or 64)


def _network(job: RunRecord, task: str) -> str:
    lines = ["import gnas", ""]
    lines.append(f"genotype = gnas.load_genotype({job.name + '/genotype.yaml'!r})")
    lines += [f"task = {task}", f"network = {_call(job)}"]
    weights = _weights(job)
    if weights:
        lines += ["", "from gnas.run import checkpoint"]
        lines += [f"network.load_state_dict(checkpoint.load({job.name + '/' + weights!r}))"]
    lines += ["network.eval()", "# network(data) or network(x, edge_index, batch), as with any PyG module"]
    return "\n".join(lines) + "\n"


def _from_text(genotype: Genotype, job: RunRecord, task: str) -> str:
    yaml = genotype.to_yaml()
    return f'import gnas\n\ngenotype = gnas.Genotype.from_yaml("""\n{yaml}""")\ntask = {task}\nnetwork = {_call(job)}\n'


def _weights(job: RunRecord) -> str:
    """The weights of the found network's first finished training, as a path inside the run folder."""
    for group in job.by_network().values():
        for training in group:
            path = training.folder / WEIGHTS
            if training.result and path.exists():
                return path.relative_to(job.folder).as_posix()
        break
    return ""
