"""Which split each graph goes to, or each node or edge where the splits share graphs."""

from __future__ import annotations

import numpy as np

from gnas.data.encoding import Array, counted, some
from gnas.data.options import Options
from gnas.data.own.molecules import scaffolds
from gnas.data.own.raw import RawGraphs, flat_edges
from gnas.data.splits import random_split, scaffold_split, stratified_split
from gnas.errors import InputError

FEWEST_GRAPHS = 3  # with fewer, the nodes or edges of a graph are split instead


def assign(raw: RawGraphs, y: Array, rows: Array, options: Options) -> tuple[Array, bool, str]:
    """Codes for each graph or each target row, which of the two, and how they came about."""
    method = options.split
    if method in (None, "given"):
        if raw.row_split is not None:
            return raw.row_split, True, "split: as given, within graphs"
        if raw.graph_split is not None:
            return raw.graph_split, False, "split: as given"
        if method == "given":
            raise InputError("the data bring no split; choose split='random', 'stratified' or 'scaffold'")
    method = method or "random"
    by_rows = raw.level != "graph" and len(raw) < FEWEST_GRAPHS
    units = _units(raw, by_rows, rows)
    how = f"split: {method} {options.fractions} of {raw.level if by_rows else 'graph'}s by seed {options.seed}"
    return _codes(method, units, raw, y, by_rows, options), by_rows, how


def _units(raw: RawGraphs, by_rows: bool, rows: Array) -> Array:
    """A number for each graph or row; -1 leaves it out. The two directions of an edge are one unit."""
    if not by_rows:
        return np.arange(len(raw))
    units = np.arange(len(rows))
    if raw.level == "edge":
        ends = np.sort(flat_edges(raw.node_counts, raw.edge_counts, raw.edge_index), axis=0)
        units = ends[0] * int(raw.node_counts.sum()) + ends[1]
    return np.where(rows, units, -1)


def _codes(method: str, units: Array, raw: RawGraphs, y: Array, by_rows: bool, options: Options) -> Array:
    kept = np.flatnonzero(units >= 0)
    _, first, unit = np.unique(units[kept], return_index=True, return_inverse=True)
    if method == "scaffold":
        if not raw.smiles:
            raise InputError("a scaffold split needs molecules as SMILES; choose split='random' or 'stratified'")
        chosen = scaffold_split(scaffolds(raw.smiles), options.shares, options.seed)
    elif method == "stratified":
        if y.ndim != 1 or (raw.level != "graph" and not by_rows):
            raise InputError("a stratified split needs one class for each graph; choose split='random'")
        chosen = stratified_split(y[kept][first], options.shares, options.seed)
    else:
        chosen = random_split(len(first), options.shares, options.seed)
    codes = np.full(len(units), -1, np.int8)
    codes[kept] = chosen[unit.reshape(-1)]
    return codes


def only_labelled(raw: RawGraphs, codes: Array, rows: Array, by_rows: bool) -> tuple[Array, tuple[str, ...]]:
    """Rows without a target leave their split; a graph without one is an error."""
    notes = []
    if raw.level == "graph" and not rows.all():
        row = int((~rows).argmax())
        what = f"{raw.target_place(row)}: no target ({some(list(raw.targets))} is empty or nan)"
        raise InputError(f"{what}, {counted(int((~rows).sum()), 'graph')} in all; fill it in or remove them")
    if raw.level != "graph" and not rows.all():
        notes.append(f"{counted(int((~rows).sum()), raw.level)} without target or split: kept as context, not counted")
    if not by_rows and (codes < 0).any():
        notes.append(f"{counted(int((codes < 0).sum()), 'graph')} in no split, left out")
    return np.where(rows, codes, -1) if by_rows else codes, tuple(notes)


def advice(raw: RawGraphs, codes: Array, options: Options) -> str:
    """What to say after "the ... split is empty"."""
    if options.split in (None, "given") and (raw.row_split is not None or raw.graph_split is not None):
        return " (splits as given with the data)"
    return f" ({len(codes)} to split by fractions {options.fractions}); add data or change the fractions"
