"""Values from Python objects as numpy rows and columns, with an error line where they do not fit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from gnas.data.encoding import Array, Place
from gnas.data.own.raw import matrix_columns
from gnas.errors import InputError


def to_array(value: Any, name: str, where: str) -> Array:
    """A tensor, array, number or nested list on the host: int64, float32, float64 or UTF-8 bytes."""
    try:
        if isinstance(value, torch.Tensor):
            value = value.detach().cpu()
            value = value.to_dense() if value.layout != torch.strided else value
            value = value.float() if value.dtype in (torch.bfloat16, torch.float16) else value
            array = value.resolve_conj().numpy()
        else:
            array = np.asarray(value)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise InputError(f"{where}: {name} cannot be read as numbers ({str(error).splitlines()[0]})") from None
    if array.dtype.kind in "bui":
        return array.astype(np.int64)
    if array.dtype.kind == "U":
        return np.char.encode(array, "utf-8", "replace")
    if array.dtype.kind != "f":
        raise InputError(f"{where}: {name} holds {array.dtype.name} values; numbers or texts are needed")
    return array if array.dtype == np.float32 else array.astype(np.float64)


def as_matrix(array: Array) -> Array:
    """One row for each entry along the first axis."""
    return array.reshape(len(array), math.prod(array.shape[1:])) if array.ndim else array.reshape(1, 1)


def gather(
    graphs: Sequence[Any], name: str, place: Place, rows: Array | None = None, any_shape: bool = False
) -> list[Array] | None:
    """One attribute of every graph, or None where no graph has it. Graphs with no ``rows`` may leave it out."""
    values = [g.get(name) for g in graphs]
    have = [v is not None for v in values]
    if not any(have):
        return None
    first = have.index(True)
    like = to_array(values[first], name, place(first))
    arrays = []
    for i, value in enumerate(values):
        if value is None and (rows is None or rows[i]):
            raise InputError(f"{place(i)}: no {name}, which {place(first)} has")
        array = like[:0] if value is None else to_array(value, name, place(i))
        if array.ndim > 2 and not any_shape:
            raise InputError(f"{place(i)}: {name} has {array.ndim} dimensions; [rows, columns] is needed")
        arrays.append(array)
    return arrays


def stack(name: str, arrays: Sequence[Array], place: Place) -> Array:
    """The rows of all graphs one after another; every graph must have as many columns as the first."""
    matrices = [as_matrix(a) for a in arrays]
    width = matrices[0].shape[1]
    for i, matrix in enumerate(matrices):
        if matrix.shape[1] != width:
            raise InputError(f"{place(i)}: {name} has {matrix.shape[1]} columns, but {place(0)} has {width}")
        if (matrix.dtype.kind == "S") != (matrices[0].dtype.kind == "S"):
            raise InputError(f"{place(i)}: {name} holds {matrix.dtype.name}, unlike {place(0)}")
    return np.concatenate(matrices)


def columns(name: str, arrays: Sequence[Array] | None, place: Place) -> dict[str, Array]:
    """The stacked rows by column name."""
    if arrays is None:
        return {}
    matrix = stack(name, arrays, place)
    return matrix_columns(name, matrix) if matrix.shape[1] else {}


def same_length(arrays: Sequence[Array] | None, counts: Array, name: str, what: str, place: Place) -> None:
    """An error unless every graph has one row for each of its nodes or edges."""
    for i, array in enumerate(arrays or ()):
        rows = len(array) if array.ndim else 1
        if rows != counts[i]:
            raise InputError(f"{place(i)}: {name} has {rows} rows, but the graph has {counts[i]} {what}s")
