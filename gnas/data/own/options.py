"""The options of own data: those of the caller, and those that the reader of a source gets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gnas.arch.stack import READOUTS
from gnas.data.benchmark import Hops, check_sample_neighbors
from gnas.data.encoding import Column, Encoding, is_descriptor
from gnas.data.graph_encodings import Requested, parse_encodings
from gnas.data.splits import DEFAULT_FRACTIONS, Fractions, SplitRule, check_folds, check_fractions, check_seed
from gnas.errors import InputError
from gnas.fields import check_fields, setting
from gnas.model.metrics import METRIC_TABLE
from gnas.model.structure import parse_measures
from gnas.model.task import HEADS, KINDS, LEVELS, LOSSES, Task

ATOMS = ("all", "element", "tokens")  # columns of molecules; tokens: those of ZINC and of gnas 0.1
DESCRIPTORS = ("rdkit",)

Categorical = bool | Sequence[str] | None


@dataclass(frozen=True)
class LoadOptions:
    """The caller's decisions; None: inferred from the data."""

    seed: int = 0
    name: str | None = None
    level: str | None = setting(None, choices=LEVELS)
    kind: str | None = setting(None, choices=KINDS)
    metric: str | None = setting(None, choices=tuple(METRIC_TABLE))
    loss: str | None = setting(None, choices=[name for kind in KINDS for name in LOSSES[kind]])
    readout: str | None = setting(None, choices=READOUTS)
    head: str | None = setting(None, choices=HEADS)
    categorical: Categorical = None
    target: str | Sequence[str] | None = None
    split: str | None = None
    fractions: Sequence[float] = DEFAULT_FRACTIONS
    folds: int | None = None
    fold: int = 1
    standardise: bool = True
    skip_bad: bool = False
    sample_neighbors: Hops = None
    encodings: Requested = None
    structure: Requested = None  # the older option for size and degree alone
    edges: bool | str | None = None
    pos: bool = False
    smiles: str | None = None
    atoms: str | None = setting(None, choices=ATOMS)
    graph_features: str | Sequence[str] | None = None
    descriptors: str | None = setting(None, choices=DESCRIPTORS)

    def __post_init__(self) -> None:
        check_fields(self)
        check_seed(self.seed)
        rule = self.split_rule
        check_folds(self.folds, self.fold)
        if self.folds is not None and rule is not None and rule.method in ("given", "column"):
            raise InputError(
                f"folds makes splits of its own and cannot be used with split={self.split}; choose random, stratified, "
                "scaffold or group:COLUMN"
            )
        object.__setattr__(self, "fractions", check_fractions(self.fractions))
        check_sample_neighbors(self.sample_neighbors)
        parse_encodings(self.encodings or ())
        parse_measures(self.structure or ())
        use_edges(self.edges)
        if "" in (self.name, self.smiles):
            raise InputError("the data options name and smiles cannot be empty; leave them out")
        if not isinstance(self.categorical, bool | None):
            object.__setattr__(self, "categorical", _check_names(self.categorical, "categorical"))
        for name in ("target", "graph_features"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, _check_names(getattr(self, name), name))
        both = [name for name in self.graph_features or () if name in (self.target or ())]
        if both:
            raise InputError(f"column {both[0]!r} is both the target and a feature; name it once")

    @property
    def shares(self) -> Fractions:
        return check_fractions(self.fractions)

    @property
    def split_rule(self) -> SplitRule | None:
        """The requested rule; None: the default."""
        return None if self.split is None else SplitRule.parse(self.split)

    @property
    def reads_split(self) -> bool:
        """Whether a split that comes with the data is used."""
        rule = self.split_rule
        return self.folds is None and (rule is None or rule.method in ("given", "column"))


EDGES = {"auto": True, "yes": True, True: True, "none": False, "no": False, False: False}


def use_edges(requested: bool | str | None, default: bool = True) -> bool:
    """The data option ``edges``: whether networks read the columns of edges."""
    if requested is None:
        return default
    if not isinstance(requested, bool | str) or requested not in EDGES:
        raise InputError(f"edges is {requested!r}; choose yes (or auto), to use the columns of edges, or none")
    return EDGES[requested]


def _check_names(value: Any, what: str) -> tuple[str, ...]:
    names = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list | tuple) else (None,)
    if not names or not all(isinstance(n, str) for n in names):
        raise InputError(f"{what} must be a name or a list of names, not {value!r}")
    return names


@dataclass(frozen=True)
class ReadOptions:
    """How one source is read."""

    target: tuple[str, ...] = ()
    level: str | None = None
    text_columns: tuple[str, ...] = ()  # columns that may hold both texts and numbers
    text_labels: bool = False  # the same for targets
    own_split: bool = True  # use the split that comes with the data
    split_column: str = "split"  # its name
    group_column: str = ""  # the column whose groups must not be divided between splits
    unlabelled: bool = False  # targets may be missing
    skip_bad: bool = False  # leave out SMILES that do not parse, or that have values outside ``vocabulary``
    vocabulary: tuple[Column, ...] = ()  # columns of the network that will read the graphs
    smiles: str | None = None  # the column of SMILES; None: found
    atoms: str = "all"  # columns of molecules
    graph_features: tuple[str, ...] = ()  # numeric columns of whole graphs
    descriptors: bool = False  # compute the descriptors of rdkit

    @property
    def reserved(self) -> tuple[str, ...]:
        """Columns that are neither features nor targets."""
        return tuple(filter(None, ("split", self.split_column, self.group_column)))

    def wants(self, attribute: str) -> bool:
        """Whether an attribute beside ``x`` and ``edge_attr`` is read: always for new data, else if the network reads it."""
        names = [column.name for column in self.vocabulary]
        return not names or any(name == attribute or name.rstrip("0123456789") == attribute for name in names)

    @staticmethod
    def for_loading(options: LoadOptions) -> ReadOptions:
        """Options to read the data of a new benchmark."""
        columns = () if isinstance(options.categorical, bool | None) else tuple(options.categorical)
        rule = options.split_rule or SplitRule("given")
        return ReadOptions(
            target=tuple(options.target or ()),
            level=options.level,
            text_columns=columns,
            text_labels=options.kind == "classification",
            own_split=options.reads_split,
            split_column=rule.column if rule.method == "column" else "split",
            group_column=rule.column if rule.method == "group" else "",
            unlabelled=options.level == "link",  # the edges are the targets
            skip_bad=options.skip_bad,
            smiles=options.smiles,
            atoms=options.atoms or "all",
            graph_features=tuple(options.graph_features or ()),
            descriptors=options.descriptors is not None,
        )

    @staticmethod
    def for_prediction(encoding: Encoding, task: Task, skip_bad: bool, unlabelled: bool = True) -> ReadOptions:
        """Options to read new data for a network that was trained with ``encoding``."""
        columns = (*encoding.nodes, *encoding.edges)
        links = task.level == "link"  # their labels are not columns of nodes or edges
        named = encoding.targets if encoding.source in ("tables", "smiles", "tu") and not links else ()
        return ReadOptions(
            target=encoding.requested or named,
            level=task.level,
            text_columns=tuple(c.name for c in columns if c.kind == "vocabulary"),
            text_labels=task.kind == "classification",
            own_split=False,
            unlabelled=unlabelled or links,
            skip_bad=skip_bad,
            vocabulary=columns,
            smiles=encoding.smiles or None,
            atoms="tokens" if any(c.name == "atom" for c in encoding.nodes) else "all",
            graph_features=tuple(f.name for f in encoding.graphs if not is_descriptor(f.name)),
            descriptors=any(is_descriptor(f.name) for f in encoding.graphs),
        )
