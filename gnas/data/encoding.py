"""How raw columns became tensors, as plain data, so that new data of the same form is read in the same way."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from gnas.data.lookup import Array, positions
from gnas.errors import InputError, choose

Place = Callable[[int], str]

COLUMN_KINDS = ("continuous", "integer", "vocabulary", "degree")
SOURCES = ("pyg", "networkx", "tables", "smiles")
LARGEST_DEGREE = 63


class UnknownValue(InputError):
    """A category that the data loaded first did not have."""


@dataclass(frozen=True)
class Column:
    """One input column: a number as it is, an integer 0..size-1, a place in ``values``, or the node's in-degree."""

    name: str
    kind: str = "continuous"
    size: int = 0  # number of categories; 0 for a continuous column
    values: tuple[str | int, ...] = ()

    def __post_init__(self) -> None:
        choose(self.kind, COLUMN_KINDS, "column kind")
        if (self.kind == "continuous") != (self.size == 0) or self.size < 0:
            raise InputError(f"column {self.name!r} is {self.kind} and cannot have {self.size} categories")
        if self.kind == "vocabulary" and len(self.values) != self.size:
            raise InputError(f"column {self.name!r} has {len(self.values)} values for {self.size} categories")

    @property
    def categorical(self) -> bool:
        return self.size > 0

    def read(self, values: Array, place: Place) -> Array:
        """Category numbers (int64) or features (float32) of raw ``values``; ``place`` says where a row came from."""
        if self.kind == "continuous" or (values.dtype.kind == "S" and self.kind != "vocabulary"):
            return finite(values, self.name, place)
        codes = self.codes(values)
        if len(codes) and codes.min() < 0:
            row = int((codes < 0).argmax())
            what = f"{place(row)}: column {self.name!r} is {shown(values[row])}"
            if self.kind == "vocabulary":
                raise UnknownValue(f"{what}, a value not known from the data loaded first ({some(self.values)})")
            raise UnknownValue(f"{what}; its known categories are 0..{self.size - 1}")
        return codes

    def codes(self, values: Array) -> Array:
        """Category numbers of raw ``values`` of a categorical column; -1 for those it does not know."""
        if self.kind == "vocabulary":
            texts = all(isinstance(v, str) for v in self.values)
            known = [v.encode() for v in self.values if isinstance(v, str)] if texts else self.values
            return positions(np.array(known, np.bytes_ if texts else np.int64), values)
        with np.errstate(invalid="ignore"):
            whole = values.astype(np.int64)
        return np.where((whole == values) & (whole >= 0) & (whole < self.size), whole, -1)


def finite(values: Array, name: str, place: Place) -> Array:
    """``values`` as float32, all finite."""
    if values.dtype.kind == "S":
        raise InputError(f"{place(0)}: {name!r} is {shown(values[0]) if len(values) else 'text'}; a number is needed")
    with np.errstate(over="ignore"):
        numbers = values.astype(np.float32)
    wrong = ~np.isfinite(numbers)
    if wrong.any():
        row = int(wrong.argmax())
        raise InputError(f"{place(row)}: {name!r} is {values[row]}; every value must be a finite number")
    return numbers


def read_columns(columns: Sequence[Column], table: Mapping[str, Array], place: Place) -> Array:
    """Rows of category numbers when every column is categorical; otherwise floats, with categories one-hot."""
    parts = [column.read(table[column.name], place) for column in columns]
    if all(c.categorical for c in columns):
        small = np.int16 if max(c.size for c in columns) < 2**15 else np.int32
        return np.stack(parts, axis=1).astype(small)
    blocks = [_one_hot(p, c.size) if c.categorical else p[:, None] for p, c in zip(parts, columns, strict=True)]
    return np.concatenate(blocks, axis=1)


def _one_hot(codes: Array, size: int) -> Array:
    hot = np.zeros((len(codes), size), np.float32)
    hot[np.arange(len(codes)), codes] = 1
    return hot


def shown(value: Any) -> str:
    """A raw value as a user wrote it."""
    return repr(value.decode(errors="replace")) if isinstance(value, bytes) else str(value)


def counted(count: int, noun: str) -> str:
    """A number with its noun: ``1 row``, ``2 rows``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def some(values: Sequence[Any], most: int = 8) -> str:
    """The first few values, and how many more there are."""
    text = ", ".join(" ".join(str(v).split()) for v in values[:most])
    return text if len(values) <= most else f"{text} and {len(values) - most} more"


@dataclass(frozen=True)
class Encoding:
    """Everything needed to read new data of the same form: columns, vocabularies, target names and class labels."""

    source: str
    level: str
    kind: str
    nodes: tuple[Column, ...]
    edges: tuple[Column, ...] = ()
    targets: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()  # the target the caller named, if any
    reasons: tuple[str, ...] = ()  # how each part of the task was inferred

    @property
    def mixed(self) -> bool:
        """Whether categorical columns were turned one-hot to stand beside continuous ones."""
        return len({c.categorical for c in self.nodes}) == 2

    @property
    def categories(self) -> tuple[int, ...]:
        return tuple(c.size for c in self.nodes) if all(c.categorical for c in self.nodes) else ()

    @property
    def in_channels(self) -> int:
        return 0 if self.categories else sum(max(c.size, 1) for c in self.nodes)

    def to_dict(self) -> dict[str, Any]:
        """As JSON types."""
        return asdict(self)

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> Encoding:
        """The inverse of ``to_dict``; an error for anything else."""
        try:
            known = {f.name: values[f.name] for f in fields(Encoding)}
            for name in ("nodes", "edges"):
                known[name] = tuple(_column(c) for c in known[name])
            for name in ("targets", "labels", "asked", "reasons"):
                known[name] = tuple(str(v) for v in known[name])
            choose(known["source"], SOURCES, "encoding source")
            return Encoding(**known)
        except InputError:
            raise
        except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
            raise InputError(f"not an encoding ({type(error).__name__}: {error})") from None


def _column(values: Mapping[str, Any]) -> Column:
    entries = tuple(values["values"])
    if not (all(type(v) is str for v in entries) or all(type(v) is int and abs(v) < 2**63 for v in entries)):
        raise InputError(f"column {values['name']!r}: values must be all texts or all whole numbers")
    return Column(str(values["name"]), str(values["kind"]), int(values["size"]), entries)
