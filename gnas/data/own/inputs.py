"""Which input columns are categories and which are numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from gnas.data.encoding import LARGEST_DEGREE, Array, Column, Place, counted, shown, some
from gnas.data.own.raw import RawGraphs
from gnas.errors import InputError, choose

MOST_CATEGORIES = 1000  # an integer column with more values is a measurement

Categorical = bool | Sequence[str] | None


def node_columns(raw: RawGraphs, categorical: Categorical) -> tuple[tuple[Column, ...], str]:
    """The node columns and a line that says what they are."""
    if not raw.nodes:
        column = Column("degree", "degree", LARGEST_DEGREE + 1)
        return (column,), f"input: no node features, so the in-degree is the category (up to {LARGEST_DEGREE})"
    wanted = _wanted(raw.nodes, categorical)
    columns = tuple(infer_column(n, v, wanted[n], raw.node_place) for n, v in raw.nodes.items())
    kinds = [c.categorical for c in columns]
    if all(kinds):
        return (
            columns,
            f"input: {counted(len(columns), 'categorical column')} of {some([c.size for c in columns])} values",
        )
    if not any(kinds):
        return columns, f"input: {counted(len(columns), 'continuous column')}"
    both = f"{counted(kinds.count(False), 'continuous column')} and {sum(kinds)} categorical, turned one-hot"
    return columns, f"input: {both}"


def _wanted(columns: Mapping[str, Array], categorical: Categorical) -> dict[str, bool | None]:
    """What the caller decided for each column; None: look at its values."""
    if categorical is None:
        # Many 0/1 columns are a bag of words or one-hot rows; a linear map reads them, embeddings would only cost.
        bits = len(columns) > 1 and all(v.dtype.kind == "i" and v.min() >= 0 and v.max() <= 1 for v in columns.values())
        return dict.fromkeys(columns, False if bits else None)
    if isinstance(categorical, bool):
        return dict.fromkeys(columns, categorical)
    names = [categorical] if isinstance(categorical, str) else list(categorical)
    for name in names:
        choose(name, columns, "categorical column")
    return {n: True if n in names else (None if v.dtype.kind == "S" else False) for n, v in columns.items()}


def infer_column(name: str, values: Array, categorical: bool | None, place: Place) -> Column:
    """Floats are continuous, integers and texts are categories, unless the caller says otherwise."""
    if values.dtype.kind == "S":
        if categorical is False:
            raise InputError(f"{place(0)}: column {name!r} holds texts ({shown(values[0])}) and cannot be continuous")
        texts = sorted(set(values.tolist()))
        if len(texts) > MOST_CATEGORIES:
            raise InputError(f"column {name!r} holds {len(texts)} different texts; remove it, or group them")
        return Column(name, "vocabulary", len(texts), tuple(t.decode(errors="replace") for t in texts))
    if categorical is False or (categorical is None and values.dtype.kind == "f"):
        return Column(name)
    whole = _whole(name, values, place)
    distinct = np.unique(whole)
    if len(distinct) > MOST_CATEGORIES:
        if categorical is None:
            return Column(name)
        raise InputError(f"column {name!r} has {len(distinct)} values; at most {MOST_CATEGORIES} can be categories")
    largest = int(distinct[-1]) if len(distinct) else 0
    if (len(distinct) and distinct[0] < 0) or largest >= max(2 * len(distinct), 64):
        return Column(name, "vocabulary", len(distinct), tuple(distinct.tolist()))
    return Column(name, "integer", largest + 1)


def _whole(name: str, values: Array, place: Place) -> Array:
    with np.errstate(invalid="ignore"):
        whole = values.astype(np.int64)
    if (whole != values).any():
        row = int((whole != values).argmax())
        raise InputError(f"{place(row)}: column {name!r} is {values[row]} and cannot be a category")
    return whole
