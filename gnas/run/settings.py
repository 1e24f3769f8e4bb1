"""Settings of a run in groups: the search space, the search, the training, the data.

They are resolved once, from a preset, a file and overrides, and a run folder keeps them. A name may have its group
(``training.lr``) or not (``lr``): one without a group is looked up in ``space``, ``training`` and ``search``, in this order.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from gnas.arch.genotype import OUTPUTS, VARIANTS
from gnas.arch.operation import MESSAGES
from gnas.arch.space import SearchSpace
from gnas.arch.stack import EDGE_STATES, READOUTS, StackSpace
from gnas.errors import InputError, choose, name_place
from gnas.fields import SWITCHES, check_fields, convert_fields, field_kinds, setting
from gnas.files import check_format, parse_yaml, read_text
from gnas.run.layout import COMMAND, CONFIG
from gnas.run.protocol import TrainConfig

GRADIENT = ("single-level", "darts", "darts1", "darts2")  # they share their options
RACE_SECONDS = 300.0  # of a race without a limit


@dataclass(frozen=True)
class SpaceSettings:
    """What can be found: the candidates of a cell, and the size of the supernet."""

    cells: int = setting(4, "cells of the supernet: the largest depth that can be found", at_least=1)
    channels: int = setting(64, "width of the supernet, and of the found network without `budget`", at_least=1)
    nodes: int = setting(3, "latent nodes on each of the three levels of a cell", at_least=1)
    filters: tuple[str, ...] = setting(SearchSpace.filters, "candidates on levels 1 and 3")
    aggregators: tuple[str, ...] = setting(SearchSpace.aggregators, "candidates on level 2")
    variant: str = setting(
        "paper",
        "flavour of the modules: `paper`, `reference` (the authors' released code) or `bare` ([deviations](deviations.md))",
        choices=VARIANTS,
    )

    messages: tuple[str, ...] = setting(
        SearchSpace.messages, "what an aggregator reads along an edge", choices=MESSAGES, distinct=True
    )
    ffn: tuple[bool, ...] = setting((False,), "feed-forward layer after a cell: the choices", distinct=True)
    mlp: tuple[int, ...] = setting((1,), "linear layers that fuse a cell: the choices", choices=(1, 2), distinct=True)
    dropouts: tuple[float, ...] = setting(
        (), "dropout rates to choose from; none: `training.dropout`", at_least=0, below=1
    )
    readouts: tuple[str, ...] = setting((), "read-outs to choose from; none: the task's", choices=READOUTS)
    edges: tuple[str, ...] = setting(("kept",), "state of edges: the choices", choices=EDGE_STATES, distinct=True)

    def __post_init__(self) -> None:
        check_fields(self, "space")

    def search_space(self) -> SearchSpace:
        """The search space as strategies take it."""
        stack = StackSpace(self.ffn, self.mlp, self.dropouts or (None,), self.readouts or (None,), self.edges)
        cell = (self.nodes, self.nodes, self.filters, self.aggregators, self.variant)
        return SearchSpace(*cell, messages=self.messages, stack=stack)


@dataclass(frozen=True)
class SearchSettings:
    """How to search. ``options`` are the settings of the strategy itself, such as ``alpha_lr``.

    An entry of ``options`` that is a mapping belongs to the strategy of that name: ``{"graphnas": {"trials": 10}}``.
    """

    strategy: str = setting(
        "single-level",
        "`race`, `single-level`, `darts1`, `darts2`, `random`, `evolution`, `graphnas`, or one of another package",
    )
    seed: int = setting(0, "seed of the search", at_least=0)
    epochs: int = setting(50, "epochs of the supernet, or of each trial", at_least=1)
    batch_size: int = setting(64, "graphs in a batch of the search", at_least=1)
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_fields(self, "search")

    @property
    def is_gradient(self) -> bool:
        """Whether the strategy trains a supernet by gradients and takes the options of ``single-level`` and ``darts``."""
        return self.strategy in GRADIENT

    def options_for(self, strategy: str) -> dict[str, Any]:
        """The options of a strategy: those under its name, and the plain ones if they are meant for it.

        Plain options are those of ``self.strategy``. Gradient strategies share them.
        """
        shared = strategy == self.strategy or (self.is_gradient and strategy in GRADIENT)
        plain = {name: value for name, value in self.options.items() if shared and not isinstance(value, Mapping)}
        named = (value for name, value in self.named_options() if name == strategy.replace("_", "-"))
        return {**plain, **next(named, {})}

    def named_options(self) -> list[tuple[str, Mapping[str, Any]]]:
        """The options that are under the name of a strategy."""
        return [(name.replace("_", "-"), value) for name, value in self.options.items() if isinstance(value, Mapping)]


# Few labels in one graph are learned by heart without them: benchmarks/one_graph.py.
# A pass over one graph is a single step: an epoch has several.
# Batch norm sees other variances with dropout than without: its statistics are measured without (precise_norms).
ONE_GRAPH = {"dropout": 0.5, "weight_decay": 5e-4, "ema": 0.98, "epoch_steps": 7, "precise_norms": 16}
ONE_GRAPH_SEARCH = {"epoch_steps": 5}  # of gradient strategies


@dataclass(frozen=True)
class TrainingSettings(TrainConfig):
    """Which networks are trained, from which seeds, and the protocol: the fields of :class:`TrainConfig`."""

    patience: int = setting(
        0,
        "epochs without a lower validation loss before the rate is reduced; `0`: the benchmark's own, 5 for PATTERN and "
        "CLUSTER, else 10",
        at_least=0,
    )
    seeds: tuple[int, ...] = setting((41, 95, 12, 35), "each network is trained from each of them", distinct=True)
    baselines: tuple[str, ...] = setting(
        ("gcn", "gin", "gatedgcn"), "hand-made networks to compare with, trained with as many weights"
    )
    budget: int = setting(
        0, "largest number of weights: the width is chosen to fit; `0`: `space.channels` decides", at_least=0
    )
    dropout: float | None = setting(
        0.0,
        "of the found network, after every cell. `null`: 0; for own data whose targets are nodes of one graph, 0.5 and, where "
        "they have the preset's values, `weight_decay` 5e-4, `ema` 0.98, `epoch_steps` 7, `precise_norms` 16 and "
        "`search.epoch_steps` 5",
        at_least=0,
        below=1,
    )
    ensemble: int = setting(
        0,
        "most networks of an ensemble, chosen on validation among all that were trained; `0`: no ensemble",
        at_least=0,
    )
    output: str = setting(
        "",
        "nodes that form the output of a found cell: `third` (the paper's), `all`, or `leaves` (those that feed no other)",
        choices=OUTPUTS,
    )

    def __post_init__(self) -> None:
        check_fields(self, "training")

    def for_data(self, one_graph: bool, preset: Mapping[str, Any]) -> TrainingSettings:
        """The same with a dropout rate: one that is None depends on whether the targets are nodes of one graph.

        ``preset`` holds the values of the preset: where these settings have others, the data decides nothing.
        """
        if self.dropout is not None or not one_graph:
            return replace(self, dropout=self.dropout or 0.0)
        usual = {one.name: one.default for one in fields(self)} | dict(preset)
        open_names = [name for name in ONE_GRAPH if getattr(self, name) in (None, usual[name])]
        changes: dict[str, Any] = {name: ONE_GRAPH[name] for name in open_names}
        return replace(self, **changes)

    def protocol(self, patience: int) -> TrainConfig:
        """The training protocol; ``patience`` is the benchmark's own, used where none is set."""
        values = {one.name: getattr(self, one.name) for one in fields(TrainConfig)}
        return TrainConfig(**{**values, "patience": self.patience or patience})


GROUPS: dict[str, type[SpaceSettings | TrainingSettings | SearchSettings]] = {
    "space": SpaceSettings,
    "training": TrainingSettings,
    "search": SearchSettings,
}

# Names of settings before they had groups. Files, commands and Python code that use them still work.
OLD_NAMES = {"search_epochs": "search.epochs", "search_batch": "search.batch_size", "batch": "training.batch_size"}
OLD_GROUPS = {"strategy_settings": "search", "train_settings": "training"}
OLD_FACTS = ("job", "dataset", "network")  # other values that config.yaml had beside the settings
OLD_RUN = {"strategy", "seeds", "search_epochs", *OLD_GROUPS}  # a run named every setting, these among them

# The normalisation by degrees of GCN gains several points on graphs with communities, and a search takes no longer.
_WIDER = (*SearchSpace.aggregators, "symmetric")

# Size and degree as two more inputs: most often they help, at worst they cost half a point (docs/results-details.md).
_STRUCTURE = {"structure": ["auto"]}

PRESETS: dict[str, dict[str, Any]] = {
    "paper": {},
    # Minutes on a CPU: a smaller network, fewer epochs, one seed. Few steps: larger ones.
    "fast": {
        "space": {"aggregators": _WIDER, "channels": 32, "cells": 3},
        "search": {"epochs": 40, "batch_size": 16},
        "gradient": {"alpha_lr": 1e-2, "lr": 0.1},
        "training": {
            "seeds": (41,),
            "epochs": 60,
            "batch_size": 32,
            "lr": 3e-3,
            "patience": 5,
            "dropout": None,
        },
        "data": _STRUCTURE,
    },
    # Relations, feed-forward layers and encodings, and a race over all of it. The recipe of today's best stacks.
    "wide": {
        "space": {
            "variant": "bare",
            "filters": ("identity", "sparse", "dense"),
            "aggregators": (*_WIDER, "std"),
            "messages": ("plain", "edge", "gated", "attention", "pair"),
            "ffn": (True, False),
            "mlp": (1, 2),
            "edges": ("updated", "kept"),
        },
        "search": {"strategy": "race"},
        "training": {
            "seeds": (41,),
            "epochs": 100,
            "batch_size": 32,
            "lr": 2e-3,
            "optimizer": "adamw",
            "weight_decay": 1e-5,
            "schedule": "cosine",
            "clip": 1.0,
            "ema": 0.99,
            "precise_norms": 16,
            "dropout": None,
        },
        "data": {"encodings": ["auto"]},
    },
    # More than the paper's recipe: the best epoch of the search, warm-up and cosine, decoupled weight decay, averaged
    # weights, for which the statistics of batch norm must be measured.
    "strong": {
        "space": {"aggregators": _WIDER},
        "gradient": {"derive": "best", "precise_norms": 16},
        "training": {
            "epochs": 300,
            "schedule": "cosine",
            "warmup": 5,
            "optimizer": "adamw",
            "weight_decay": 1e-4,
            "ema": 0.999,
            "precise_norms": 16,
            "clip": 5.0,
            "dropout": None,
        },
        "data": _STRUCTURE,
    },
}


@dataclass(frozen=True)
class Settings:
    """Everything that decides a run, as plain values in groups. The same settings repeat the same run.

    Args:
        preset: The set of defaults.
        space: What can be found.
        search: How to search.
        training: What is trained, and how.
        data: How the dataset is loaded: the options of :func:`gnas.load`.

    Example:
        >>> settings = Settings.resolve("fast", cells=2, search_epochs=10, training={"clip": 1.0})
        >>> settings.space.cells, settings.search.epochs, settings.training.clip
        (2, 10, 1.0)
    """

    preset: str = "paper"
    space: SpaceSettings = field(default_factory=SpaceSettings)
    search: SearchSettings = field(default_factory=SearchSettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)
    data: Mapping[str, Any] = field(default_factory=dict)  # how the dataset is loaded: the options of gnas.load

    @staticmethod
    def resolve(preset: str = "paper", file: str | Path | None = None, **overrides: Any) -> Settings:
        """Settings from a preset, a file and overrides; what comes later wins.

        Args:
            preset: ``paper``, ``wide``, ``fast`` or ``strong``. A file may name another one.
            file: a YAML file or a run folder; see :func:`read_settings`.
            overrides: groups (``training={"lr": 0.01}``) or single settings (``lr=0.01``); None means not set.
        """
        values = {} if file is None else read_settings(file)
        given = {name: value for name, value in overrides.items() if value is not None}
        return Settings.from_values(preset, values, given, str(file or ""))

    @staticmethod
    def from_values(preset: str, values: Mapping[str, Any], given: Mapping[str, Any], source: str = "") -> Settings:
        """A preset, changed by ``values``, changed by ``given``; errors in ``values`` name ``source``.

        ``values`` may name another preset. A preset adds nothing to values that name every setting, as those of a run do.
        """
        over = group_settings(given)
        with name_place(source) if source else contextlib.nullcontext():
            preset = _preset(values.get("preset", preset))
            here = group_settings(values)
            found = Settings(preset=preset)
            if not _is_complete(values, here):
                named = [groups["search"].get("strategy") for groups in (over, here) if "search" in groups]
                found = found._with(_preset_values(preset, next(filter(None, named), _preset_strategy(preset))))
            found = found._with({**here, "preset": preset})
        return found._with(over)

    def changed(self, values: Mapping[str, Any]) -> Settings:
        """A copy with other values. Names have a group or not, groups may be mappings; values are brought to their type.

        Options of the search and of the data are added to those that are there.
        """
        return self._with(group_settings(values))

    def _with(self, groups: Mapping[str, Any]) -> Settings:
        settings = self
        for group, values in groups.items():
            if group == "preset":
                settings = replace(settings, preset=_preset(values))
            elif group == "data":
                options = {str(name): _data_option(str(name), value) for name, value in values.items()}
                settings = replace(settings, data={**settings.data, **options})
            else:
                settings = replace(settings, **{group: _changed_group(getattr(settings, group), values, group)})
        return settings

    def for_data(self, one_graph: bool) -> Settings:
        """The settings with what the data decides; ``one_graph``: the targets are nodes of a single graph.

        A rate of dropout that is set, as in every run folder, means that the data decides nothing.
        """
        search, preset = self.search, PRESETS[self.preset].get("training", {})
        if one_graph and self.training.dropout is None and search.is_gradient:
            search = replace(search, options={**ONE_GRAPH_SEARCH, **search.options})
        return replace(self, search=search, training=self.training.for_data(one_graph, preset))

    def get(self, name: str) -> Any:
        """The value of a setting by its name, with its group or without."""
        group, _, inner = find_setting(name).partition(".")
        return getattr(getattr(self, group), inner) if inner else getattr(self, group)

    def with_limit(self) -> Settings:
        """The same, with ``RACE_SECONDS`` for a race that nothing limits."""
        limits = {"max_seconds", "max_epochs", "trials"}
        if self.search.strategy != "race" or not limits.isdisjoint(self.search.options_for("race")):
            return self
        return self.changed({"search.max_seconds": RACE_SECONDS})

    def to_dict(self) -> dict[str, Any]:
        """Plain values in groups for a YAML file."""
        search = {name: value for name, value in _plain(self.search).items() if name != "options"}
        groups = {"space": _plain(self.space), "search": {**search, **self.search.options}}
        return {"preset": self.preset, **groups, "training": _plain(self.training), **self._data()}

    def training_dict(self) -> dict[str, Any]:
        """The settings that a training depends on, for the file of a run that does not search."""
        space = {"cells": self.space.cells, "channels": self.space.channels}
        own = {"seeds": list(self.training.seeds), "ensemble": self.training.ensemble}
        training = {**own, **self.protocol_dict()["training"]}
        return {"preset": self.preset, "space": space, "training": training, **self._data()}

    def protocol_dict(self) -> dict[str, Any]:
        """The settings that every training of one network shares."""
        other = ("baselines", "ensemble", "output", "seeds")
        return {"training": {name: value for name, value in _plain(self.training).items() if name not in other}}

    def differences(self) -> dict[str, Any]:
        """The settings that differ from the defaults, in groups."""
        usual, found = Settings().to_dict(), {}
        for group, values in self.to_dict().items():
            if isinstance(values, Mapping):
                before = usual.get(group, {})
                changed = {name: value for name, value in values.items() if value != before.get(name)}
                found.update({group: changed} if changed else {})
            elif values != usual[group]:
                found[group] = values
        return found

    def _data(self) -> dict[str, Any]:
        return {"data": dict(self.data)} if self.data else {}


def default_preset(given: Mapping[str, Any]) -> str:
    """The preset where none is named: ``wide`` for a race, which is the default strategy, ``fast`` for others.

    ``given`` are the settings that are named. A race has no epochs of a search: ``search_epochs`` means another strategy.

    >>> default_preset({}), default_preset({"strategy": "darts"}), default_preset({"search_epochs": 10})
    ('wide', 'fast', 'fast')
    """
    search = group_settings({name: value for name, value in given.items() if value is not None}).get("search", {})
    return "wide" if search.get("strategy", "single-level" if "epochs" in search else "race") == "race" else "fast"


def setting_names() -> list[str]:
    """The names of all settings with their groups, such as ``training.lr``."""
    return [f"{group}.{name}" for group, kind in GROUPS.items() for name in field_kinds(kind)]


def find_setting(name: str) -> str:
    """The name of a setting with its group: ``lr`` is ``training.lr``, ``search_epochs`` is ``search.epochs``."""
    name = OLD_NAMES.get(name, name)
    group, dot, inner = name.partition(".")
    group = OLD_GROUPS.get(group, group)
    if group in (*GROUPS, "data", "preset"):
        if dot and group in ("space", "training"):
            choose(inner, field_kinds(GROUPS[group]), f"{group} setting")
        return f"{group}.{inner}" if dot else group
    for candidate in () if dot else GROUPS:
        if name in field_kinds(GROUPS[candidate]):
            return f"{candidate}.{name}"
    known = [*OLD_NAMES, *(one for kind in GROUPS.values() for one in field_kinds(kind)), *GROUPS, "data"]
    choose(name, list(dict.fromkeys(known)), "setting")
    raise AssertionError("choose accepts a known name alone")


def group_settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by group, whatever way they are named; the old groups last, as they had the last word."""
    found: dict[str, Any] = {}
    for name, value in sorted(values.items(), key=lambda item: str(item[0]) in OLD_GROUPS):
        group, _, inner = find_setting(str(name)).partition(".")
        if group == "preset":
            found["preset"] = value
        elif inner:
            _insert(found.setdefault(group, {}), inner, value)
        else:
            if not isinstance(value, Mapping):
                raise InputError(f"{name} is {value!r}; it must be settings by name, such as {_example(group)}")
            for key, item in value.items():
                if group in ("space", "training"):
                    find_setting(f"{group}.{key}")
                _insert(found.setdefault(group, {}), str(key), item)
    return found


def _insert(values: dict[str, Any], name: str, value: Any) -> None:
    """Set ``name``; one with a dot, such as ``graphnas.trials``, inside the mapping of its first part."""
    outer, dot, inner = name.partition(".")
    before = values.get(outer)
    if dot or isinstance(value, Mapping):
        more = {inner: value} if dot else value
        values[outer] = {**(before if isinstance(before, Mapping) else {}), **more}
    else:
        values[outer] = value


def _example(group: str) -> str:
    return {"data": "{split: random}", "search": "{epochs: 50}", "training": "{lr: 0.001}"}.get(group, "{cells: 4}")


def _is_complete(values: Mapping[str, Any], groups: Mapping[str, Any]) -> bool:
    """Whether the values name every setting, as a run writes them now or did before settings had groups."""
    named = {f"{group}.{name}" for group in GROUPS if group in groups for name in groups[group]}
    return set(values) >= OLD_RUN or named >= set(setting_names())


def _changed_group(group: Any, values: Mapping[str, Any], name: str) -> Any:
    known = field_kinds(type(group))
    own = convert_fields(type(group), {key: value for key, value in values.items() if key in known}, name)
    options = {key: value for key, value in values.items() if key not in known}
    if options:  # of the search
        own["options"] = dict(group.options)
        for key, value in options.items():
            _insert(own["options"], key, _guess(value))
    return replace(group, **own)


def _plain(group: Any) -> dict[str, Any]:
    values = {one.name: getattr(group, one.name) for one in fields(group)}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def _preset(name: Any) -> str:
    return choose(str(name), PRESETS, "preset")


def _preset_strategy(preset: str) -> str:
    return str(PRESETS[preset].get("search", {}).get("strategy", SearchSettings.strategy))


def _preset_values(preset: str, strategy: Any) -> dict[str, Any]:
    """The values of a preset; its options for gradient strategies only where the strategy is one."""
    values = dict(PRESETS[preset])
    options = values.pop("gradient", {})
    return {**values, "search": {**values.get("search", {}), **(options if strategy in GRADIENT else {})}}


def default_value(name: str) -> Any:
    """The default of a setting, such as ``space.messages``, as a file writes it; None if no setting has this name."""
    spaces = ({"space": asdict(SearchSpace())}, Settings().to_dict())  # a depth search keeps the space itself
    for found in spaces:
        value: Any = found
        for part in name.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        if value is not None:
            return list(value) if isinstance(value, tuple) else value
    return None


def upgrade_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """The ``config.yaml`` of a run as it is written now: settings in groups, under ``settings``.

    One that has no settings of this kind is returned as it is.
    """
    if not {"preset", *OLD_GROUPS} & set(config):
        return dict(config)
    facts = {name: value for name, value in config.items() if name in OLD_FACTS or not is_setting(name)}
    settings = Settings().changed({name: value for name, value in config.items() if name not in facts})
    if "strategy" in config:
        return {**facts, "settings": settings.to_dict()}
    return {**facts, "settings": settings.training_dict() if "preset" in config else settings.protocol_dict()}


def is_setting(name: str) -> bool:
    """Whether a setting or a group has this name, or had it before settings had groups."""
    try:
        return bool(find_setting(name))
    except InputError:
        return False


def config_settings(config: Mapping[str, Any]) -> Settings | None:
    """The settings in the ``config.yaml`` of a run; None where it has none. A setting that is not there has its default."""
    values = config.get("settings")
    return Settings().changed(values) if isinstance(values, Mapping) else None


def config_value(config: Mapping[str, Any], name: str) -> Any:
    """A setting in the ``config.yaml`` of a run by its full name, such as ``space.channels``; None if it is not there.

    Configs of depth searches and of comparisons have some settings beside their other facts, without a group.
    """
    group, _, inner = name.partition(".")
    settings = config.get("settings")
    values = settings.get(group) if isinstance(settings, Mapping) else None
    return values.get(inner) if isinstance(values, Mapping) and inner in values else config.get(inner)


def read_settings(path: str | Path) -> dict[str, Any]:
    """Settings by name from a YAML file, from the ``config.yaml`` or ``command.json`` of a run, or from a run folder."""
    content = read_command(path)
    inner = content.get("settings")
    values = dict(inner) if isinstance(inner, Mapping) else content
    if isinstance(values.get("strategy"), Mapping):  # the config.yaml of a depth search
        raise InputError(f"{path}: not a file of settings; name the run folder, whose command.json has them")
    return {name: value for name, value in values.items() if name not in OLD_FACTS}


def read_command(path: str | Path) -> dict[str, Any]:
    """The content of a settings file; of a run folder, the options of the command that started it."""
    file = Path(path)
    if file.is_dir():
        file = next((file / name for name in (COMMAND, CONFIG) if (file / name).exists()), file)
    found = parse_yaml(read_text(file), str(file))
    if not isinstance(found, dict):
        raise InputError(f"{file}: expected settings by name, such as 'space: {{cells: 4}}'")
    checked: dict[str, Any] = check_format(found, str(file))
    return checked


def _data_option(name: str, value: Any) -> Any:
    """An option of ``gnas.load`` as text gives it: names stay texts, even those that look like numbers."""
    if isinstance(value, str) and value.lower() in SWITCHES and not value.isdigit() and name != "target":
        return SWITCHES[value.lower()]
    listed = ("target", "categorical", "encodings", "structure", "graph_features")
    if name in listed and isinstance(value, str | list | tuple):
        return [part.strip() for part in value.split(",")] if isinstance(value, str) else [str(part) for part in value]
    if name in ("fractions", "sample_neighbors") and isinstance(value, str):
        value = value.replace(",", " ").split()
    return _guess(value)


def _guess(value: Any) -> Any:
    """A value whose type is not declared here: numbers, switches and null out of their texts."""
    if isinstance(value, Mapping):
        return {str(name): _guess(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_guess(item) for item in value]
    if not isinstance(value, str):
        return value
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    return {"true": True, "false": False, "null": None}.get(value.lower(), value)
