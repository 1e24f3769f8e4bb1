"""How raw columns became tensors, as plain data, so that new data of the same form is read in the same way."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnas.errors import InputError, choose

Array = NDArray[Any]
Place = Callable[[int], str]  # where a row came from, for an error line

COLUMN_KINDS = ("continuous", "integer", "vocabulary", "degree")
SOURCES = ("pyg", "networkx", "tables", "smiles", "tu")
LARGEST_DEGREE = 63


class UnknownValue(InputError):
    """A category that the data of the network does not have."""


@dataclass(frozen=True)
class Column:
    """One input column: a number as it is, an integer 0..size-1, a position in ``values``, or the node's in-degree.

    With ``other`` the last category stands for every value that the training data does not have. An integer column whose
    training data lacks some of 0..size-2 has the others as ``values``. Without ``other`` every category keeps its number;
    ``absent`` are those that the training data does not have.
    """

    name: str
    kind: str = "continuous"
    size: int = 0  # number of categories; 0 for a continuous column
    values: tuple[str | int, ...] = ()
    other: bool = False
    center: float = 0.0  # a continuous column is read as (value - center) / scale
    scale: float = 1.0
    absent: tuple[int, ...] = field(default=(), compare=False)  # decides no number: it is only noted

    def __post_init__(self) -> None:
        choose(self.kind, COLUMN_KINDS, "column kind")
        if (self.kind == "continuous") != (self.size == 0) or self.size < 0:
            raise InputError(f"column {self.name!r} is {self.kind} and cannot have {self.size} categories")
        if self.other and self.kind not in ("integer", "vocabulary"):
            raise InputError(f"column {self.name!r} is {self.kind} and cannot have a category for other values")
        if self.kind == "vocabulary" and len(self.values) != self.size - self.other:
            raise InputError(f"column {self.name!r} has {len(self.values)} values for {self.size} categories")
        if self.kind != "vocabulary" and not all(isinstance(value, int) for value in self.values):
            raise InputError(f"column {self.name!r} is {self.kind}: its values must be whole numbers")

    @property
    def categorical(self) -> bool:
        return self.size > 0

    def read(self, values: Array, place: Place) -> Array:
        """Category numbers (int64) or features (float32) of raw ``values``; ``place`` says where a row came from."""
        if self.kind == "continuous" or (values.dtype.kind == "S" and self.kind != "vocabulary"):
            numbers = check_finite(values, self.name, place)
            plain = self.center == 0 and self.scale == 1
            return numbers if plain else ((numbers.astype(np.float64) - self.center) / self.scale).astype(np.float32)
        codes = self.codes(values)
        if self.other:
            return np.where(codes < 0, self.size - 1, codes)
        if len(codes) and codes.min() < 0:
            row = int((codes < 0).argmax())
            found = f"{place(row)}: column {self.name!r} is {format_value(values[row])}"
            if self.kind == "vocabulary":
                raise UnknownValue(f"{found}, which the data of the network does not have ({format_list(self.values)})")
            raise UnknownValue(f"{found}; its categories are 0..{self.size - 1}")
        return codes

    def codes(self, values: Array) -> Array:
        """Category numbers of raw ``values`` of a categorical column; -1 for a value that is no category."""
        if self.kind == "vocabulary":
            texts = all(isinstance(v, str) for v in self.values)
            entries = [v.encode() for v in self.values if isinstance(v, str)] if texts else self.values
            return find_positions(np.array(entries, np.bytes_ if texts else np.int64), values)
        with np.errstate(invalid="ignore"):
            whole = values.astype(np.int64)
        known = (whole == values) & (whole >= 0) & (whole < self.size - self.other)
        if self.values:
            known &= find_positions(np.array(self.values, np.int64), whole) >= 0
        return np.where(known, whole, -1)

    def note_unseen(self, values: Array, place: Place) -> list[str]:
        """A line on the values that the training data does not have: the first three, and their first places."""
        if values.dtype.kind == "S" and self.kind != "vocabulary":
            return []
        if self.other:
            rows = np.flatnonzero(self.codes(values) < 0)
        else:
            absent = np.array(self.absent, np.int64)
            rows = np.flatnonzero(find_positions(absent, self.codes(values)) >= 0)
        if not len(rows):
            return []
        found = [format_value(value) for value in np.unique(values[rows]).tolist()]
        are, them = ("is", "it") if len(found) == 1 else ("are", "them")
        then = f"{are} read as 'other'" if self.other else f"nothing is learned about {them}"
        where = _format_places(rows.tolist(), place)
        return [f"column {self.name!r}: {format_list(found, 3)} {are} not in the training data and {then} ({where})"]


def _format_places(rows: list[int], place: Place) -> str:
    """The first places of these rows, each once, and how many rows lie elsewhere."""
    places: dict[str, None] = {}
    for number, row in enumerate(rows):
        here = place(row)
        if len(places) == 3 and here not in places:
            return f"{', '.join(places)} and {len(rows) - number:,} more"
        places[here] = None
    return ", ".join(places)


RDKIT = "rdkit:"  # begins the name of a feature that is computed from the molecule


def is_descriptor(name: str) -> bool:
    """Whether a feature of this name is computed from the molecule, not read from the table."""
    return name.startswith(RDKIT)


CLIP = 10.0  # standard deviations; a feature beyond that is an outlier that no training has seen


@dataclass(frozen=True)
class Feature:
    """A number of each whole graph that joins the read-out: a column of the table, or a descriptor (``rdkit:TPSA``).

    ``center`` and ``scale`` are the mean and the standard deviation of the training data.
    """

    name: str
    center: float = 0.0
    scale: float = 1.0

    def read(self, values: Array) -> Array:
        """``values`` standardised and clipped; a missing value is the mean."""
        with np.errstate(invalid="ignore", over="ignore"):
            found = (values.astype(np.float64) - self.center) / self.scale
        return np.clip(np.where(np.isnan(found), 0.0, found), -CLIP, CLIP).astype(np.float32)


@dataclass(frozen=True)
class Encoding:
    """All that is needed to read new data of the same form: columns, vocabularies, target names and class labels."""

    source: str
    level: str
    kind: str
    nodes: tuple[Column, ...]
    edges: tuple[Column, ...] = ()
    targets: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    requested: tuple[str, ...] = ()  # the target that the caller named, if any
    reasons: tuple[str, ...] = ()  # how each part of the task was inferred
    graphs: tuple[Feature, ...] = ()  # numbers of whole graphs
    smiles: str = ""  # the column of SMILES that the caller named, if any

    @property
    def mixed(self) -> bool:
        """Whether categorical columns are one-hot because there are continuous columns too."""
        return len({c.categorical for c in self.nodes}) == 2

    @property
    def categories(self) -> tuple[int, ...]:
        return tuple(c.size for c in self.nodes) if all(c.categorical for c in self.nodes) else ()

    @property
    def in_channels(self) -> int:
        return 0 if self.categories else sum(max(c.size, 1) for c in self.nodes)

    @property
    def edge_categories(self) -> tuple[int, ...]:
        return tuple(c.size for c in self.edges) if all(c.categorical for c in self.edges) else ()

    @property
    def edge_channels(self) -> int:
        return 0 if self.edge_categories else sum(max(c.size, 1) for c in self.edges)

    def to_dict(self) -> dict[str, Any]:
        """As JSON types."""
        return asdict(self)

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> Encoding:
        """The inverse of ``to_dict``; an error for anything else."""
        older = {"requested": values.get("asked", ()), "graphs": (), "smiles": ""}  # what older files lack
        readers: dict[str, Any] = dict.fromkeys(("targets", "labels", "requested", "reasons"), str)
        readers |= {"nodes": _read_column, "edges": _read_column, "graphs": _read_feature}
        try:
            content = {f.name: {**older, **values}[f.name] for f in fields(Encoding)}
            content |= {name: tuple(map(read, content[name])) for name, read in readers.items()}
            content["smiles"] = str(content["smiles"])
            choose(content["source"], SOURCES, "encoding source")
            return Encoding(**content)
        except InputError:
            raise
        except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
            raise InputError(f"not an encoding ({type(error).__name__}: {error})") from None


def _read_column(values: Mapping[str, Any]) -> Column:
    name, entries, absent = str(values["name"]), tuple(values["values"]), tuple(values.get("absent", ()))
    if not (all(type(v) is str for v in entries) or all(type(v) is int and abs(v) < 2**63 for v in entries)):
        raise InputError(f"column {name!r}: values must be all texts or all whole numbers")
    if not all(type(v) is int and 0 <= v < 2**31 for v in absent):
        raise InputError(f"column {name!r}: absent must be categories")
    center, scale = _read_moments(values, f"column {name!r}")
    other = bool(values.get("other", False))
    return Column(name, str(values["kind"]), int(values["size"]), entries, other, center, scale, absent)


def _read_feature(values: Mapping[str, Any]) -> Feature:
    return Feature(str(values["name"]), *_read_moments(values, f"feature {str(values['name'])!r}"))


def _read_moments(values: Mapping[str, Any], what: str) -> tuple[float, float]:
    center, scale = float(values.get("center", 0)), float(values.get("scale", 1))
    if not (np.isfinite(center) and 0 < scale < np.inf):
        raise InputError(f"{what}: center and scale must be finite numbers, scale above 0")
    return center, scale


def read_columns(columns: Sequence[Column], table: Mapping[str, Array], place: Place) -> Array:
    """Rows of category numbers when every column is categorical; otherwise floats, with categories one-hot."""
    parts = [column.read(table[column.name], place) for column in columns]
    if all(c.categorical for c in columns):
        small = np.int16 if max(c.size for c in columns) < 2**15 else np.int32
        return np.stack(parts, axis=1).astype(small)
    blocks = [_one_hot(p, c) if c.categorical else p[:, None] for p, c in zip(parts, columns, strict=True)]
    return np.concatenate(blocks, axis=1)


def _one_hot(codes: Array, column: Column) -> Array:
    """One-hot rows; the category for other values is a row of zeros, since nothing is learned about it."""
    hot = np.zeros((len(codes), column.size), np.float32)
    hot[np.arange(len(codes)), codes] = 1
    if column.other:
        hot[:, -1] = 0
    return hot


def check_finite(values: Array, name: str, place: Place) -> Array:
    """``values`` as float32, all finite."""
    if values.dtype.kind == "S":
        first = format_value(values[0]) if len(values) else "text"
        raise InputError(f"{place(0)}: {name!r} is {first}; a number is needed")
    with np.errstate(over="ignore"):
        numbers = values.astype(np.float32)
    wrong = ~np.isfinite(numbers)
    if wrong.any():
        row = int(wrong.argmax())
        raise InputError(f"{place(row)}: {name!r} is {values[row]}; every value must be a finite number")
    return numbers


# -- values in a list of known ones, many at a time ----------------------------------------------------------------


def find_positions(entries: Array, values: Array) -> Array:
    """The first position of each value in ``entries``; -1 if it is not there. Both hold numbers or both hold texts."""
    if not len(entries) or (entries.dtype.kind == "S") != (values.dtype.kind == "S"):
        return np.full(len(values), -1)
    if entries.dtype.kind == values.dtype.kind == "i":
        low, high = int(entries.min()), int(entries.max())
        if high - low < 4 * len(entries) + 2**16:  # a table is several times faster than a search
            table = np.full(high - low + 1, -1)
            table[entries[::-1] - low] = np.arange(len(entries))[::-1]
            inside = (values >= low) & (values <= high)
            return np.where(inside, table[np.where(inside, values, low) - low], -1)
    order = np.argsort(entries, kind="stable")
    at = np.minimum(np.searchsorted(entries, values, sorter=order), len(entries) - 1)
    return np.where(entries[order[at]] == values, order[at], -1)


def find_repeat(values: Array) -> int | None:
    """The row of the first value that occurs for the second time."""
    repeats = find_positions(values, values) != np.arange(len(values))
    return int(repeats.argmax()) if repeats.any() else None


# -- words for error lines and notes -------------------------------------------------------------------------------


def format_value(value: Any) -> str:
    """A raw value as a user wrote it."""
    return repr(value.decode(errors="replace")) if isinstance(value, bytes) else str(value)


def format_list(values: Sequence[Any], most: int = 8) -> str:
    """The first few values, and how many more there are."""
    text = ", ".join(" ".join(str(v).split()) for v in values[:most])
    return text if len(values) <= most else f"{text} and {len(values) - most} more"
