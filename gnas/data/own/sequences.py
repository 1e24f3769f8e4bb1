"""Collections of graph objects: one graph, a list, a dataset, or three of them as train, val and test."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor
from torch_geometric.data import Batch
from torch_geometric.data.data import BaseData

from gnas.data.encoding import Array, Place
from gnas.data.own.nx import is_networkx
from gnas.data.own.raw import SPLIT_CODES, SPLIT_NAMES, RawGraphs
from gnas.data.own.rows import to_array
from gnas.errors import InputError


@dataclass(frozen=True)
class Parts:
    """Graph objects in one list, with what the collection says of their splits."""

    graphs: list[Any]
    place: Place = lambda i: f"graph {i}"
    name: str = ""
    split: Array | None = None
    indices: Mapping[str, Any] | None = None  # rows or graphs of each split, as OGB datasets give them


def parts_of(data: Any) -> Parts | None:
    """The graphs in ``data``; None if it holds none."""
    if isinstance(data, Batch):
        return Parts(_unbatched(data))
    if _is_graph(data):
        return Parts([data])
    if not _is_collection(data):
        return None
    if len(data) == 3 and all(_is_collection(part) for part in data):
        return _three(data)
    name = getattr(data, "name", "")
    indices = getattr(data, "get_idx_split", None)
    return Parts(
        [data[i] for i in range(len(data))],
        name=name if isinstance(name, str) else "",
        indices=indices() if callable(indices) else None,
    )


def _unbatched(batch: Batch) -> list[Any]:
    try:
        return batch.to_data_list()
    except RuntimeError:
        raise InputError(
            "this Batch does not know its graphs; make it with Batch.from_data_list, or give a list"
        ) from None


def _is_graph(value: Any) -> bool:
    return isinstance(value, BaseData) or is_networkx(value)


def _is_collection(value: Any) -> bool:
    sized = callable(getattr(value, "__len__", None)) and callable(getattr(value, "__getitem__", None))
    return sized and not _is_graph(value) and not isinstance(value, str | bytes | dict | np.ndarray | Tensor)


def _three(data: Any) -> Parts:
    sizes = [len(part) for part in data]
    starts = np.cumsum([0, *sizes])

    def place(i: int) -> str:
        part = int(np.searchsorted(starts, i, side="right")) - 1
        return f"{SPLIT_NAMES[part]} graph {i - int(starts[part])}"

    graphs = [part[i] for part in data for i in range(len(part))]
    name = getattr(data[0], "name", "")
    return Parts(graphs, place, name if isinstance(name, str) else "", np.repeat(np.arange(3, dtype=np.int8), sizes))


def given_indices(raw: RawGraphs, indices: Mapping[str, Any]) -> RawGraphs:
    """Splits from index lists under the names train, valid and test: graphs, or the rows of a single graph."""
    by_rows = len(raw) == 1 and raw.level != "graph"
    codes = np.full(raw.num_rows if by_rows else len(raw), -1, np.int8)
    for name, rows in indices.items():
        if name not in SPLIT_CODES:
            raise InputError(f"get_idx_split() names a split {name!r}; train, valid and test are known")
        at = to_array(rows, f"get_idx_split()[{name!r}]", raw.name).reshape(-1)
        if at.dtype.kind != "i" or (len(at) and not 0 <= at.min() <= at.max() < len(codes)):
            raise InputError(f"get_idx_split()[{name!r}] holds numbers outside 0..{len(codes) - 1}")
        codes[at] = SPLIT_CODES[name]
    return dataclasses.replace(raw, row_split=codes) if by_rows else dataclasses.replace(raw, graph_split=codes)
