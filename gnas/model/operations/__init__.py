"""The atomic operations of GAP: one class per operation, with its formula and its exported code.

To add one, write its class in ``filters.py`` or ``aggregators.py`` and one line in ``gnas/arch/operation.py``.
"""

from __future__ import annotations

from collections.abc import Mapping

from gnas.model.operations.aggregators import (
    AGGREGATOR_TYPES,
    NeighborMax,
    NeighborMean,
    NeighborSum,
    NeighborSymmetric,
    reduce_together,
)
from gnas.model.operations.base import VARIANTS, Operation, Variant, find_variant
from gnas.model.operations.filters import FILTER_TYPES, DenseFilter, Filter, Identity, SparseFilter, with_input
from gnas.model.operations.messages import MESSAGE_TYPES, Message

__all__ = [
    "MESSAGE_TYPES",
    "OPERATIONS",
    "VARIANTS",
    "DenseFilter",
    "Filter",
    "Identity",
    "Message",
    "NeighborMax",
    "NeighborMean",
    "NeighborSum",
    "NeighborSymmetric",
    "Operation",
    "SparseFilter",
    "Variant",
    "find_variant",
    "reduce_together",
    "with_input",
]

OPERATIONS: Mapping[str, type[Operation]] = {**FILTER_TYPES, **AGGREGATOR_TYPES}
