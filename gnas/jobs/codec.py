"""Arguments and results of jobs as JSON, and back. Nothing that is read can run code.

Numbers, texts, lists and dicts with text keys are JSON already. Other values are a dict with one key that begins with ``$``:
a tuple, a dict with other keys, a dataclass of ``CLASSES``, an architecture, and graphs or networks, whose tensors lie in a
file below the root of the runner.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

from gnas.arch.architecture import read_architecture
from gnas.arch.genotype import Genotype
from gnas.arch.graphnas import GraphNASArchitecture
from gnas.data.storage import read_graphs
from gnas.errors import InputError, choose
from gnas.files import shorten
from gnas.graph import GraphSet
from gnas.model.network import GraphModule
from gnas.run import checkpoint
from gnas.run.models import build_model, describe_network

# The dataclasses that a job can carry, by name, and the module of each. They are imported when a job uses them.
# The built-in strategies come on top.
CLASSES = {
    "SearchSpace": "gnas.arch.space",
    "StackSpace": "gnas.arch.stack",
    "HandMade": "gnas.arch.hand_made",
    "Task": "gnas.model.task",
    "Column": "gnas.data.encoding",
    "Encoding": "gnas.data.encoding",
    "Feature": "gnas.data.encoding",
    "Benchmark": "gnas.data.benchmark",
    "TrainConfig": "gnas.run.protocol",
    "SearchProblem": "gnas.strategies.base",
    "SearchResult": "gnas.strategies.base",
    "TrialSettings": "gnas.strategies.trial",
    "TrialData": "gnas.strategies.trial",
    "RaceCandidate": "gnas.strategies.candidate",
    "SearchBudget": "gnas.compare.strategies",
    "Candidate": "gnas.compare.networks",
    "Source": "gnas.paper.runs",
    "Scale": "gnas.paper.runs",
    "Changes": "gnas.paper.runs",
    "DataRun": "gnas.paper.runs",
    "SearchRun": "gnas.paper.runs",
    "DepthRun": "gnas.paper.runs",
    "TrainRun": "gnas.paper.runs",
    "StrategiesRun": "gnas.paper.runs",
}
HERE = "use --on here"


@dataclass(frozen=True)
class Files:
    """Where the tensors of values go. Without it, graphs and networks cannot be sent."""

    write_graphs: Callable[[GraphSet], str]  # write them, and return the name of the file
    write_weights: Callable[[GraphModule], str]


def encode(value: Any, files: Files | None = None) -> Any:
    """``value`` as JSON types; an error for what cannot be sent to a worker."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"$float": repr(value)}
    if isinstance(value, tuple):
        return {"$tuple": [encode(item, files) for item in value]}
    if isinstance(value, list):
        return [encode(item, files) for item in value]
    if isinstance(value, Mapping):
        if all(isinstance(key, str) and not key.startswith("$") for key in value):
            return {key: encode(item, files) for key, item in value.items()}
        return {"$dict": [[encode(key, files), encode(item, files)] for key, item in value.items()]}
    if isinstance(value, Genotype | GraphNASArchitecture):
        return {"$architecture": value.to_yaml()}
    if files is not None and isinstance(value, GraphSet):
        return {"$graphs": files.write_graphs(value)}
    if files is not None and isinstance(value, GraphModule):
        description = describe_network(value)
        build_model(description)  # an error now, not in the worker
        return {"$network": {"description": description, "weights": files.write_weights(value)}}
    return _encode_dataclass(value, files)


def _encode_dataclass(value: Any, files: Files | None) -> dict[str, Any]:
    name = type(value).__name__
    if not is_dataclass(value) or list_classes().get(name) != type(value).__module__:
        raise InputError(f"{_describe(value)} cannot be sent to workers; {HERE}")
    content = {f.name: encode(getattr(value, f.name), files) for f in fields(value) if f.init}
    return {"$class": [name, content]}


def list_classes() -> dict[str, str]:
    """The names of all dataclasses that a job can carry, and the module of each."""
    strategies = importlib.import_module("gnas.strategies").STRATEGIES.values()  # late: strategies use jobs
    return {**CLASSES, **{kind.__name__: kind.__module__ for kind in strategies if isinstance(kind, type)}}


def _describe(value: Any) -> str:
    if callable(value):
        return f"{getattr(value, '__qualname__', type(value).__name__)}, a class or function of your own,"
    return f"a {type(value).__name__}, which is not a part of gnas,"


def decode(value: Any, find_file: Callable[[str], Path] | None = None) -> Any:
    """The value that ``encode`` wrote; ``find_file`` opens a file below the root by name."""
    if isinstance(value, list):
        return [decode(item, find_file) for item in value]
    if not isinstance(value, dict):
        return value
    if not any(isinstance(key, str) and key.startswith("$") for key in value):
        return {key: decode(item, find_file) for key, item in value.items()}
    try:
        ((kind, content),) = value.items()
        return _DECODERS[choose(kind, _DECODERS, "kind of value")](content, find_file)
    except InputError:
        raise
    except (TypeError, ValueError, KeyError, AttributeError, RuntimeError, RecursionError) as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"{shorten(value)} is not a value of a job ({type(error).__name__}: {reason})") from None


def _decode_class(content: Any, find_file: Callable[[str], Path] | None) -> Any:
    name, values = content
    classes = list_classes()
    module = classes[choose(name, classes, "class of a job's value")]
    return getattr(importlib.import_module(module), name)(**{key: decode(v, find_file) for key, v in values.items()})


def _decode_network(content: Any, find_file: Callable[[str], Path] | None) -> GraphModule:
    model = build_model(content["description"])
    model.load_state_dict(checkpoint.load(_find(content["weights"], find_file)))
    return model


def _find(name: Any, find_file: Callable[[str], Path] | None) -> Path:
    if find_file is None:
        raise InputError(f"{shorten(name)} is a file, and a result has none")
    return find_file(name)


_DECODERS: dict[str, Callable[[Any, Callable[[str], Path] | None], Any]] = {
    "$float": lambda content, _: float(content),
    "$tuple": lambda content, find_file: tuple(decode(item, find_file) for item in content),
    "$dict": lambda content, find_file: {decode(k, find_file): decode(v, find_file) for k, v in content},
    "$architecture": lambda content, _: read_architecture(str(content)),
    "$graphs": lambda content, find_file: read_graphs(_find(content, find_file)),
    "$network": _decode_network,
    "$class": _decode_class,
}
