"""Trained networks from their folders: what describes one, how it is built again, and where its weights lie.

A description is plain JSON, weights are safetensors: nothing that is read here can run code. A folder is a run folder
(``trained/NAME/seed-S`` inside), one such training, or an exported model.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as parse_tensors
from torch import Tensor

from gnas.arch.architecture import Architecture
from gnas.arch.genotype import Genotype
from gnas.arch.graphnas import GraphNASArchitecture
from gnas.arch.hand_made import HandMade
from gnas.data.benchmark import Benchmark
from gnas.data.checks import check_task
from gnas.data.encoding import Encoding
from gnas.errors import InputError, choose, name_place
from gnas.files import check_inside, read_bytes, read_json
from gnas.model.build import build_network
from gnas.model.ensemble import Ensemble
from gnas.model.export_weights import view_exported
from gnas.model.network import GraphModule
from gnas.model.stage import OperationTypes
from gnas.model.task import Task, higher_is_better
from gnas.printed import format_count
from gnas.run import checkpoint, layout
from gnas.run.layout import ENSEMBLE, MODEL, WEIGHTS
from gnas.run.record import TrainingFigures, read_run_json
from gnas.run.words import SPACE, name_metric

MOST_CHANNELS = 65_536
READERS: dict[str, Callable[[Mapping[str, Any]], Architecture]] = {
    "found": lambda values: Genotype.from_yaml(values["genotype"], "genotype"),
    "graphnas": lambda values: GraphNASArchitecture.from_yaml(values["genotype"], "genotype"),
    "baseline": lambda values: HandMade(
        values["baseline"], values["num_layers"], values["channels"], options=values["options"]
    ),
}


@dataclass(frozen=True)
class TrainedInfo:
    """Where a trained network came from: ``results`` holds the figures of every finished seed, by seed."""

    folder: Path
    name: str
    seed: int | None
    description: dict[str, Any] = field(repr=False)
    results: dict[int, TrainingFigures] = field(default_factory=dict, repr=False)

    @property
    def dataset(self) -> str:
        return str(self.description.get("dataset", ""))

    @property
    def title(self) -> str:
        """The network in words: its name, its seed, and the validation metric it was chosen by."""
        words = [self.name, *([f"seed {self.seed}"] if self.seed is not None else [])]
        if self.members:
            words = [f"{self.name} of {format_count(len(self.members), 'network')}"]
        elif self.seed is None and self.results:
            words = [f"{self.name}, mean over {format_count(len(self.results), 'seed')}"]
        result = self.results.get(self.seed) if self.seed is not None else None
        if result is not None:
            words.append(f"validation {name_metric(result.metric, result.val)}".replace(SPACE, " "))
        return ", ".join(words)

    @property
    def members(self) -> list[dict[str, Any]]:
        """Of an ensemble: the name, the seed, the weight in the vote and the validation metric of each network."""
        if self.description.get("kind") != ENSEMBLE:
            return []
        members = self.description.get("members")
        right = isinstance(members, list) and all(
            isinstance(one, dict) and _is_share(one.get("weight")) for one in members
        )
        if not members or not right:
            raise InputError(f"{self.folder / MODEL}: an ensemble needs members, each with a weight above 0")
        return list(members)

    @property
    def exported(self) -> bool:
        return "exported" in self.description

    @property
    def encoding(self) -> Encoding | None:
        """How raw columns became tensors; None where the data came as tensors."""
        values = self.description.get("encoding")
        return None if values is None else Encoding.from_dict(values)


def _is_share(value: object) -> bool:
    return isinstance(value, int | float) and 0 < value <= 1


# -- a network as plain data, and back -----------------------------------------------------------------------------


def describe_model(model: GraphModule, benchmark: Benchmark) -> dict[str, Any]:
    """What it takes to build ``model`` again and to read new data for it, as JSON types."""
    encoding = None if benchmark.encoding is None else benchmark.encoding.to_dict()
    return {**describe_network(model), "encoding": encoding, "dataset": benchmark.name}


def describe_network(model: GraphModule) -> dict[str, Any]:
    """What it takes to build ``model`` again, as JSON types."""
    described: dict[str, Any] = json.loads(json.dumps({**_architecture(model), "task": asdict(model.task)}))
    return described


def _architecture(model: GraphModule) -> dict[str, Any]:
    architecture, options = model.architecture, dict(model.options)
    about: dict[str, Any] = dict.fromkeys(("kind", "genotype", "baseline", "channels", "num_layers"))
    if architecture is None:
        return {**about, "kind": "own", "class": f"{type(model).__module__}.{type(model).__qualname__}"}
    size = {name: options.pop(name, default) for name, default in (("channels", None), ("dropout", 0.0))}
    return {**about, "kind": architecture.kind, **size, "options": options, **architecture.to_dict()}


def build_model(description: Mapping[str, Any], operations: OperationTypes | None = None) -> GraphModule:
    """The network of a description, not trained; ``operations`` are your own, if it has any."""
    try:
        kind = choose(description["kind"], (*READERS, "own"), "kind of network")
        if kind == "own":
            raise InputError(f"a network of the class {description.get('class')} cannot be built from its description")
        task, dropout = read_task(description["task"]), description["dropout"]
        if not isinstance(dropout, int | float) or not 0 <= dropout < 1:
            raise InputError(f"dropout is {dropout!r}; allowed: 0 up to 1")
        architecture, options = READERS[kind](description), {}
        if architecture.channels is None:  # of a genotype, which fits any width
            options = {**description["options"], "channels": _whole(description["channels"], "channels", MOST_CHANNELS)}
        return build_network(architecture, task, dropout=dropout, operations=operations, **options)
    except InputError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise InputError(f"not a description of a network ({type(error).__name__}: {error})") from None


def read_task(values: Mapping[str, Any]) -> Task:
    """The task of a description."""
    known = {f.name for f in fields(Task)}
    for name in values:
        choose(name, known, "part of a task")
    parts: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in values.items()}
    task = Task(**parts)
    check_task(task, "task")
    for name in ("num_outputs", "in_channels"):
        if not isinstance(getattr(task, name), int):
            raise InputError(f"task {name} is {getattr(task, name)!r}; it must be a whole number")
    return task


def _whole(value: Any, what: str, most: int) -> int:
    if not isinstance(value, int) or not 1 <= value <= most:
        raise InputError(f"{what} is {value!r}; allowed: 1 to {most:,}")
    return value


# -- a trained network from its folder -----------------------------------------------------------------------------


def load_model(
    folder: str | Path, network: str | None = None, seed: int | None = None, *, operations: OperationTypes | None = None
) -> tuple[GraphModule, TrainedInfo]:
    """A trained network, ready to predict, and where it came from.

    Args:
        folder: A run folder, the folder of a single training, or an exported model.
        network: One of several networks; by default the best by validation. A folder with one network does not use it.
        seed: One of several seeds; by default the one with the best validation metric.
        operations: Your own operations by name.

    >>> network, info = gnas.load_model("runs/mine")
    >>> info.name, info.seed
    ('gnas', 41)
    """
    info = find_model(folder, network, seed)
    if info.members:
        places = [layout.member_folder(info.folder, number) for number in range(1, len(info.members) + 1)]
        networks = [_load_network(find_model(place), operations) for place in places]
        return Ensemble(networks, [one["weight"] for one in info.members]).eval(), info
    return _load_network(info, operations), info


def load_average(
    folder: str | Path, network: str | None = None, seed: int | None = None, *, operations: OperationTypes | None = None
) -> tuple[GraphModule, TrainedInfo]:
    """The mean over all seeds of a network of a run, as an ensemble in which all count the same."""
    info = find_model(folder, network)
    if seed is not None:
        raise InputError(f"seed {seed} and the mean over all seeds do not go together; give one of them")
    places = {one: layout.seed_folder(info.folder.parent, one) for one in sorted(info.results)}
    if len(places) < 2 or not all((place / MODEL).is_file() for place in places.values()):
        raise InputError(f"{folder}: {info.name} has one training here, and a mean over seeds needs several seeds")
    networks = [load_model(place, operations=operations)[0] for place in places.values()]
    return Ensemble(networks, [1.0] * len(networks)).eval(), replace(info, seed=None)


def _load_network(info: TrainedInfo, operations: OperationTypes | None) -> GraphModule:
    file = info.folder / WEIGHTS
    tensors = _read_exported(file) if info.exported else checkpoint.load(file)
    with name_place(str(info.folder / MODEL)):
        with torch.device("meta"):  # shapes alone: nothing is allocated for a description that does not fit its weights
            wanted = _named(build_model(info.description, operations), info.exported)
        _check_same(wanted, tensors, file)
        model = build_model(info.description, operations).eval()
    with torch.no_grad():
        for key, place in _named(model, info.exported).items():
            place.copy_(tensors[key])
    return model


def find_model(folder: str | Path, name: str | None = None, seed: int | None = None) -> TrainedInfo:
    """The folder of the network that ``load_model`` takes, and its description."""
    path = Path(folder)
    if layout.is_run(path):
        check_inside(path)
    if (path / MODEL).is_file():
        return _only_model(path, seed)
    names = layout.list_networks(path)
    if not names and layout.list_folds(path):
        name = choose_network(path) if name is None else name
        return find_model(layout.fold_folder(path, choose_fold(path, name)), name, seed)
    if not names:
        problem = "no trained network and no exported model here" if path.is_dir() else "no such folder"
        raise InputError(f"{path}: {problem} (a run folder holds {layout.TRAINED}/, an exported model {MODEL})")
    name = choose(choose_network(path) if name is None else name, names, f"trained network of {path}")
    results = _read_results(layout.list_trainings(path, name))
    if not results:
        raise InputError(f"{path}: no training of {name} is finished; resume the run first")
    if seed is not None and seed not in results:
        seeds = ", ".join(map(str, sorted(results)))
        raise InputError(f"{path}: no finished training of {name} with seed {seed}; seeds: {seeds}")
    chosen = choose_seed(results) if seed is None else seed
    place = layout.training_folder(path, name, chosen)
    if not (place / MODEL).is_file():
        raise InputError(f"{place}: no {MODEL}, which a run writes beside its weights; train it again with force")
    return TrainedInfo(place, name, chosen, _read_json(place / MODEL), results)


def choose_network(folder: str | Path, found_only: bool = False, recipes: Collection[str] = ()) -> str:
    """The network to use if none is named: the best by validation, the mean over its seeds and folds, found or hand-made.

    A network that some folds lack is compared with nothing: its folds may be the easy ones. ``found_only`` leaves out
    hand-made ones, except those that ``recipes`` names. If no training is finished, it is the only network, or ``gnas``.
    """
    path = Path(folder)
    means: dict[str, float] = {}
    folds: dict[str, int] = {}
    parts = list(layout.list_folds(path).values()) or [path]
    names = sorted({name for part in parts for name in layout.list_networks(part)})
    for name in names:
        trainings = [layout.list_trainings(part, name) for part in parts]
        by_part = [_read_results(part) for part in trainings]
        results = [one for part in by_part for one in part.values()]
        hand_made = any(_is_hand_made(one, recipes) for part in trainings for one in part.values())
        if results and not (found_only and hand_made):
            sign = 1 if higher_is_better(results[0].metric) else -1
            mean = sign * statistics.fmean(float(result.val) for result in results)
            means[name] = mean if mean == mean else -math.inf
            folds[name] = sum(map(bool, by_part))
    if not means:
        return names[0] if len(names) == 1 else "gnas"
    means = {name: mean for name, mean in means.items() if folds[name] == max(folds.values())}
    return max(sorted(means, key=lambda name: name != "gnas"), key=lambda name: means[name])


def _is_hand_made(training: Path, recipes: Collection[str]) -> bool:
    """Whether the network is a hand-made one that ``recipes`` does not name, or an ensemble with such a member."""
    described = _read_json(training / MODEL) if (training / MODEL).is_file() else {}
    if described.get("kind") == ENSEMBLE:
        return any(_is_hand_made(member, recipes) for member in training.glob("member_*"))
    return described.get("kind") == "baseline" and described.get("baseline") not in recipes


def choose_fold(folder: Path, name: str) -> int:
    """The fold of a run in which this network has the best mean validation metric over its seeds."""
    folds = layout.list_folds(folder)
    known = sorted({network for fold in folds.values() for network in layout.list_networks(fold)})
    choose(name, known, f"trained network of {folder}")
    results = {number: _read_results(layout.list_trainings(fold, name)) for number, fold in folds.items()}
    means = {
        number: TrainingFigures(number, 0.0, statistics.fmean(one.val for one in of.values()), _metric(of))
        for number, of in results.items()
        if of
    }
    if not means:
        raise InputError(f"{folder}: no training of {name} is finished; resume the run first")
    return choose_seed(means)


def _metric(results: Mapping[int, TrainingFigures]) -> str:
    return next(iter(results.values())).metric


def choose_seed(results: Mapping[int, TrainingFigures]) -> int:
    """The seed with the best validation metric; the test metric plays no part."""
    sign = 1 if higher_is_better(next(iter(results.values())).metric) else -1
    figures = {seed: sign * float(result.val) for seed, result in results.items()}
    return max(sorted(results), key=lambda seed: figures[seed] if figures[seed] == figures[seed] else -torch.inf)


def _only_model(path: Path, seed: int | None) -> TrainedInfo:
    """The network of an exported folder, or of the folder of one training."""
    description = _read_json(path / MODEL)
    origin = description.get("exported")
    if isinstance(origin, dict):
        figures = [TrainingFigures.from_dict(one, path) for one in origin.get("results") or ()]
        results = {one.seed: one for one in figures}
        name, found = str(origin.get("name", path.name)), origin.get("seed")
    else:
        results = {one.seed: one for one in _read_results({0: path}).values()}
        name, found = path.resolve().parent.name, next(iter(results), None)
    if seed is not None and seed != found:
        raise InputError(f"{path}: holds the network of seed {found} only, not of seed {seed}")
    return TrainedInfo(path, name, found, description, results)


def _read_results(trainings: Mapping[int, Path]) -> dict[int, TrainingFigures]:
    """The figures of the finished trainings, by seed."""
    done = {seed: folder for seed, folder in trainings.items() if layout.is_finished(folder)}
    return {seed: TrainingFigures.from_dict(read_run_json(one, "result"), one) for seed, one in done.items()}


def _read_json(path: Path) -> dict[str, Any]:
    try:
        value = read_json(path)
    except OSError:
        raise InputError(f"{path}: missing, or not to be read") from None
    if not isinstance(value, dict):
        raise InputError(f"{path}: expected names and values")
    return value


def _read_exported(path: Path) -> dict[str, Tensor]:
    try:
        return parse_tensors(read_bytes(path))
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (SafetensorError, OSError, ValueError) as error:
        raise InputError(f"{path}: damaged weights ({str(error).splitlines()[0][:120]})") from None


def _check_same(wanted: Mapping[str, Tensor], found: Any, file: Path) -> None:
    """The file holds exactly the weights the description asks for; otherwise say what differs."""
    if not isinstance(found, dict) or not all(isinstance(value, Tensor) for value in found.values()):
        raise InputError(f"{file.name} holds no weights of a network")
    names = [*wanted, *(name for name in found if name not in wanted and not name.endswith("num_batches_tracked"))]
    shapes = {name: [list(of[name].shape) if name in of else None for of in (found, wanted)] for name in names}
    wrong = [name for name, (here, there) in shapes.items() if here != there]
    if wrong:
        here, there = (shape or "not there" for shape in shapes[wrong[0]])
        first = f"{wrong[0]} is {here} in {file.name} and {there} in the network described"
        raise InputError(f"{file.name} is of another network: {first} ({len(wrong)} of {len(names)} weights differ)")


def _named(model: GraphModule, exported: bool) -> dict[str, Tensor]:
    return view_exported(model) if exported else model.state_dict()
