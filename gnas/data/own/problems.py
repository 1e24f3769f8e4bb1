"""What looks wrong in data that can be read: each problem is one line with numbers and what to do."""

from __future__ import annotations

from collections.abc import Iterator, Sized

import numpy as np

from gnas.data.benchmark import SPLIT_NAMES
from gnas.data.encoding import Array, format_list, is_descriptor
from gnas.data.own.duplicates import find_duplicates
from gnas.data.own.raw import RawGraphs, starts_of
from gnas.data.own.targets import find_known
from gnas.graph import GraphSet
from gnas.printed import format_count

FEW_ROWS = 3  # of a class in a split
FAR = 20  # robust standard deviations from the median
DERIVED = ("smiles",)  # sources whose node and edge columns are computed: a constant one is no mistake of the user


def find_problems(
    raw: RawGraphs,
    whole: GraphSet,
    y: Array,
    codes: Array,
    by_rows: bool,
    labels: tuple[str, ...] = (),
    stratified: bool = False,
) -> tuple[str, ...]:
    """Lines on constant columns, columns that give the target away, repeated graphs, rare classes and outliers.

    Args:
        raw: the graphs as they were read.
        whole: the same graphs as tensors.
        y: targets as class numbers, or floats [rows, targets].
        codes: the split of each graph, or of each target row if ``by_rows``.
        by_rows: whether the splits share their graphs.
        labels: names of the classes; empty for regression.
        stratified: whether the split already gives every class its share.
    """
    rows = codes if by_rows or raw.level == "link" else raw.spread(codes)
    lines = [*_leaks(raw), *_constants(raw)]
    if not by_rows and raw.level != "link":  # the splits of links have the same graph
        lines += _duplicates(raw, whole, y, codes, labels)
        lines += _isolated(raw)
    lines += _rare_classes(y, rows, labels, stratified) if labels and y.ndim == 1 else _outliers(raw, y)
    return tuple(lines)


# -- columns -------------------------------------------------------------------------------------------------------


def _constants(raw: RawGraphs) -> Iterator[str]:
    tables = {} if raw.source in DERIVED else raw.tables
    for what, table in {**tables, "graph": raw.graphs}.items():
        given = {name: values for name, values in table.items() if not is_descriptor(name)}
        names = [name for name, values in given.items() if len(values) and (values == values[0]).all()]
        if names and what == "node" and len(names) == len(given):
            yield f"node columns {format_list(names, 4)}: the same value everywhere, so networks see the edges alone"
        elif names:
            count = format_count(len(names), f"{what} column")
            yield f"{count} of {len(given)} with the same value everywhere ({format_list(names, 4)}): {_remove(names)}"


def _remove(what: Sized) -> str:
    return "remove it" if len(what) == 1 else "remove them"


def _leaks(raw: RawGraphs) -> Iterator[str]:
    """Columns from which the target can be read off."""
    for what, values, name in _columns_of_rows(raw):
        for target, wanted in raw.targets.items():
            filled = find_known(wanted) & (True if raw.labelled is None else raw.labelled)
            if _tells(values[filled], wanted[filled]):
                yield (
                    f"{what} column {name!r} tells the target {target!r} (a copy, or a line through it): the task is trivial; "
                    "remove the column if it is not known at prediction"
                )


def _columns_of_rows(raw: RawGraphs) -> Iterator[tuple[str, Array, str]]:
    """Columns with a value per target row. At graph level: columns that are the same on all nodes or edges of a graph."""
    if raw.level == "link":
        return
    own = raw.graphs if raw.level == "graph" else raw.tables[raw.level]
    yield from ((raw.level, values, name) for name, values in own.items())
    for what, table in raw.tables.items() if raw.level == "graph" else ():
        counts = raw.counts(what)
        if not counts.min():
            continue
        for name, values in table.items():
            first = values[starts_of(counts)]
            if len(np.unique(first)) > 1 and (np.repeat(first, counts) == values).all():
                yield what, first, name


def _tells(column: Array, target: Array) -> bool:
    """Whether the target is a linear function of the column, or each value of one stands for one value of the other."""
    if len(target) < 4 or (column == column[0]).all() or (target == target[0]).all():
        return False
    if column.dtype.kind in "if" and target.dtype.kind in "if":
        a, b = column.astype(np.float64), target.astype(np.float64)
        if not (np.isfinite(a).all() and np.isfinite(b).all()):
            return False
        a, b = a / np.abs(a).max(), b / np.abs(b).max()
        a, b = a - a.mean(), b - b.mean()
        norms = float(np.sqrt((a @ a) * (b @ b)))
        if norms > 0 and abs(float(a @ b)) > norms * (1 - 1e-9):
            return True
    if not _may_match(column, target):
        return False
    ours, theirs = (np.unique(values, return_inverse=True)[1].reshape(-1) for values in (column, target))
    kinds = int(ours.max()) + 1
    if kinds != int(theirs.max()) + 1 or kinds > len(target) // 2:
        return False
    return len(np.unique(ours * kinds + theirs)) == kinds


def _may_match(column: Array, target: Array) -> bool:
    """A fast test on the first rows: each value of one stands for one value of the other."""
    pairs = list(zip(column[:200].tolist(), target[:200].tolist(), strict=True))
    return len(set(pairs)) == len({a for a, _ in pairs}) == len({b for _, b in pairs})


# -- graphs --------------------------------------------------------------------------------------------------------


def _isolated(raw: RawGraphs) -> Iterator[str]:
    alone = np.flatnonzero(raw.edge_counts == 0)
    if 0 < len(alone) < len(raw):
        yield (
            f"{format_count(len(alone), 'graph')} of {len(raw):,} without an edge (first: {raw.place('graph')(int(alone[0]))}): "
            f"no messages are passed there; {_remove(alone)} if {'it is' if len(alone) == 1 else 'they are'} not meant"
        )


def _duplicates(raw: RawGraphs, whole: GraphSet, y: Array, codes: Array, labels: tuple[str, ...]) -> Iterator[str]:
    groups = find_duplicates(whole, raw.smiles)
    yield from _across_splits(raw, groups, codes)
    if raw.level == "graph":
        yield from _conflicts(raw, groups, y, labels)


def _across_splits(raw: RawGraphs, groups: list[Array], codes: Array) -> Iterator[str]:
    """One line that counts the graphs of val and test that an earlier split has too."""
    number = np.full(len(raw), -1)  # the group of each graph
    for i, group in enumerate(groups):
        number[group] = i
    parts, example = [], ""
    for code, earlier in ((2, 0), (1, 0), (2, 1)):
        known = set(number[codes == earlier].tolist()) - {-1}
        again = np.flatnonzero((codes == code) & np.isin(number, list(known)))
        if len(again):
            total = int((codes == code).sum())
            parts.append(f"{len(again):,} of {total:,} {SPLIT_NAMES[code]} graphs in {SPLIT_NAMES[earlier]}")
            if not example:
                here = int(again[0])
                other = next(g for g in groups[number[here]].tolist() if codes[g] == earlier)
                example = " = ".join(map(raw.place("graph"), (here, other)))
    if parts:
        yield f"copies across splits: {', '.join(parts)} (first: {example}): scores there are too good; remove the copies"


def _conflicts(raw: RawGraphs, groups: list[Array], y: Array, labels: tuple[str, ...]) -> Iterator[str]:
    """One line on equal graphs whose targets differ. Blanks do not differ from anything."""
    values = y.astype(np.float64).reshape(len(y), -1)
    values = np.where(values < 0, np.nan, values) if y.ndim == 1 else values
    far = [group for group in groups if (_spread(values[group]) > 1e-6 * _scale(values[group])).any()]
    if not far:
        return
    first = far[0]
    column = int(_spread(values[first]).argmax())
    pair = (int(first[find(values[first, column])]) for find in (np.nanargmin, np.nanargmax))
    shown = ", ".join(
        f"{raw.place('graph')(g)}: {labels[int(y[g])] if y.ndim == 1 else f'{values[g, column]:.4g}'}" for g in pair
    )
    advice = "check them" if y.ndim == 1 else "check them, or keep one with their mean"
    count = format_count(len(far), "group")
    yield f"{count} of equal graphs with different targets ({shown}): no network can predict both; {advice}"


def _spread(values: Array) -> Array:
    """Largest minus smallest of each column; 0 where all is blank."""
    blank = np.isnan(values)
    known = np.where(blank.all(axis=0), 0.0, values)
    return np.asarray(np.nanmax(known, axis=0) - np.nanmin(known, axis=0))


def _scale(values: Array) -> float:
    return 1 + float(np.abs(np.nan_to_num(values)).max())


# -- targets -------------------------------------------------------------------------------------------------------


def _rare_classes(y: Array, codes: Array, labels: tuple[str, ...], stratified: bool) -> Iterator[str]:
    """Classes with so few rows in a split that their score there says little."""
    found = []
    for code, split in enumerate(SPLIT_NAMES):
        counts = np.bincount(y[(codes == code) & (y >= 0)], minlength=len(labels))
        found += [(int(n), f"{labels[c]!r} ({n} in {split})") for c, n in enumerate(counts) if n <= FEW_ROWS]
    if found:
        shown = format_list([text for _, text in sorted(found)], 4)
        advice = "add rows or merge classes" if stratified else "add rows, merge classes, or set split=stratified"
        yield f"few rows of a class: {shown}; its scores are mostly chance: {advice}"


def _outliers(raw: RawGraphs, y: Array) -> Iterator[str]:
    values = y.astype(np.float64).reshape(len(y), -1)
    for column, name in enumerate(raw.targets if values.shape[1] == len(raw.targets) else ()):
        filled = np.flatnonzero(~np.isnan(values[:, column]))
        if len(filled) < 20:
            continue
        v = values[filled, column]
        low, median, high = np.quantile(v, (0.25, 0.5, 0.75))
        spread = (high - low) / 1.349
        far = np.abs(v - median) > FAR * spread
        if spread > 0 and far.any():
            worst = int(np.abs(v - median).argmax())
            yield (
                f"target {name!r}: {format_count(int(far.sum()), 'row')} far from the rest (such as {v[worst]:.4g} at "
                f"{raw.target_place(int(filled[worst]))}; median {median:.4g}, spread {spread:.2g}): "
                "a wrong unit, or a code for a missing value? Correct or remove them"
            )
