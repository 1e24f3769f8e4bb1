"""The split of each graph, or of each node or edge if the splits share graphs.

The rule: a split that comes with the data is used. Otherwise graphs are split at random by the seed. With fewer than three
graphs, their nodes or edges are split instead. With ``folds``, classes are stratified unless a rule is named.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gnas.data.encoding import Array, format_list
from gnas.data.own.molecules import find_scaffolds
from gnas.data.own.options import LoadOptions
from gnas.data.own.raw import RawGraphs
from gnas.data.splits import (
    SplitRule,
    find_quantile_bins,
    fold_split,
    group_split,
    random_split,
    stratified_split,
)
from gnas.errors import InputError
from gnas.printed import format_count

FEWEST_GRAPHS = 3  # with fewer graphs, their nodes or edges are split instead
ONE_CLASS = "a stratified split needs one target for each graph; set the data option split=random"
OTHERS = "set the data option split to random, stratified or group:COLUMN"


@dataclass(frozen=True)
class SplitAssignment:
    """A code for each graph, or for each target row if ``by_rows``: 0 train, 1 val, 2 test, -1 none.

    ``how`` are notes on the rule. ``of_folds`` are the codes of every fold; empty if there are no folds. ``stratified`` says
    whether every class has its share.
    """

    codes: Array
    by_rows: bool
    how: tuple[str, ...] = ()
    of_folds: tuple[Array, ...] = ()
    stratified: bool = False


def assign_splits(raw: RawGraphs, y: Array, rows: Array, options: LoadOptions) -> SplitAssignment:
    """Split the graphs; or the target rows, if there are too few graphs or the data brings a split of rows."""
    rule = options.split_rule
    links = raw.level == "link"  # gnas.data.own.links has split the pairs
    if links or options.reads_split:
        given = "as given" if rule is None or not rule.column else f"as given by the column {rule.column!r}"
        if raw.row_split is not None:
            return SplitAssignment(raw.row_split, True, () if links else (f"split: {given}, within graphs",))
        if raw.graph_split is not None:
            return SplitAssignment(raw.graph_split, False, () if links else (f"split: {given}",))
        if rule is not None:
            what = f"no column {rule.column!r} that names" if rule.column else "no split of its own: nothing names"
            raise InputError(f"the data has {what} train, val and test; {OTHERS}")
    by_rows = raw.level != "graph" and len(raw) < FEWEST_GRAPHS
    if rule is None:
        stratify = options.folds is not None and y.ndim == 1 and (raw.level == "graph" or by_rows)
        rule = SplitRule("stratified" if stratify else "random")
    used, first, unit = _number_units(raw, by_rows, rows)
    strata = _find_strata(rule, raw, y, by_rows)
    groups = _find_groups(rule, raw, by_rows)
    at = used[first]
    of_units = [None if values is None else values[at] for values in (strata, groups)]
    found = []
    for fold in range(1, options.folds + 1) if options.folds is not None else (options.fold,):
        codes = np.full(len(rows) if by_rows else len(raw), -1, np.int8)
        codes[used] = split_units(len(first), options, fold, *of_units)[unit.reshape(-1)]
        found.append(codes)
    how = _describe_rule(rule, strata, raw.level if by_rows else "graph", options)
    of_folds = () if options.folds is None else tuple(found)
    return SplitAssignment(found[options.fold - 1], by_rows, how, of_folds, stratified=strata is not None)


def _number_units(raw: RawGraphs, by_rows: bool, rows: Array) -> tuple[Array, Array, Array]:
    """The graphs or rows to split, the first of each unit among them, and the unit of each.

    The two directions of an edge are one unit. Rows without a target are left out.
    """
    if not by_rows:
        units = np.where(rows, np.arange(len(raw)), -1) if raw.level == "graph" else np.arange(len(raw))
    elif raw.level == "edge":
        ends = np.sort(raw.flat_edges(), axis=0)
        units = np.where(rows, ends[0] * int(raw.node_counts.sum()) + ends[1], -1)
    else:
        units = np.where(rows, np.arange(len(rows)), -1)
    used = np.flatnonzero(units >= 0)
    _, first, unit = np.unique(units[used], return_index=True, return_inverse=True)
    return used, first, unit


def _find_strata(rule: SplitRule, raw: RawGraphs, y: Array, by_rows: bool) -> Array | None:
    """The class of each row, or the quantile bin of its number; None if rows are not stratified."""
    if rule.method != "stratified":
        return None
    if raw.level != "graph" and not by_rows:
        raise InputError(ONE_CLASS)
    if y.ndim == 1:
        return y
    return find_quantile_bins(y[:, 0]) if y.shape[1] == 1 else None


def _find_groups(rule: SplitRule, raw: RawGraphs, by_rows: bool) -> Array | None:
    """The group of each graph or row; None if rows are not grouped."""
    if rule.method == "scaffold":
        if not raw.smiles:
            raise InputError(f"a scaffold split needs molecules as SMILES; {OTHERS}")
        return np.array(find_scaffolds(raw.smiles), dtype=np.str_)
    if rule.method != "group":
        return None
    groups = raw.row_groups if by_rows else raw.graph_groups
    if groups is None:
        level = raw.level if by_rows else "graph"
        raise InputError(f"no {level} has a column {rule.column!r}, by which the splits should be grouped; {OTHERS}")
    return groups


def split_units(
    count: int, options: LoadOptions, fold: int, strata: Array | None = None, groups: Array | None = None
) -> Array:
    """The split of each of ``count`` units; ``fold`` counts where the options ask for folds."""
    shares, seed = options.shares, options.seed
    if options.folds is not None:
        return fold_split(count, options.folds, fold, shares, seed, strata=strata, groups=groups)
    if groups is not None:
        return group_split(groups, shares, seed)
    return random_split(count, shares, seed) if strata is None else stratified_split(strata, shares, seed)


def _describe_rule(rule: SplitRule, strata: Array | None, what: str, options: LoadOptions) -> tuple[str, ...]:
    method = f"by group {rule.column!r}" if rule.method == "group" else rule.method
    several = rule.method == "stratified" and strata is None
    method = "random" if several else method
    how = f"split: {method} {options.fractions} of {what}s by seed {options.seed}"
    if options.folds is not None:
        train, val, _ = options.shares
        how = (
            f"split: fold {options.fold} of {options.folds} is the test split, validation is {val / (train + val):.3g} of "
            f"the other folds; folds of {what}s, {method}, by seed {options.seed}"
        )
    return ("several targets cannot be stratified: the split is random", how) if several else (how,)


def drop_unlabelled(raw: RawGraphs, codes: Array, rows: Array, by_rows: bool) -> tuple[Array, tuple[str, ...]]:
    """Take rows without a target out of their split, and graphs without a target out of the data."""
    notes, missing = [], np.flatnonzero(~rows)
    if len(missing) and raw.level == "graph":
        places = ", ".join([*map(raw.target_place, missing[:3].tolist()), *(["..."] if len(missing) > 3 else [])])
        what = f"{format_count(len(missing), 'graph')} without a target ({format_list(list(raw.targets))})"
        notes.append(f"{what}: left out ({places})")
    elif len(missing):
        notes.append(
            f"{format_count(len(missing), raw.level)} without target or split: they are context and do not count"
        )
    codes = np.where(rows, codes, -1) if by_rows or raw.level == "graph" else codes
    unassigned = int((codes[rows] < 0).sum() if raw.level == "graph" else (codes < 0).sum())
    if not by_rows and unassigned:
        notes.append(f"{format_count(unassigned, 'graph')} in no split: left out")
    return codes, tuple(notes)


def describe_split_rule(raw: RawGraphs, codes: Array, options: LoadOptions) -> str:
    """The end of the error line "the ... split is empty"."""
    if options.reads_split and (raw.row_split is not None or raw.graph_split is not None):
        return " (the splits come with the data)"
    return f" ({len(codes)} to split by fractions {options.fractions}); add data or change the fractions"
