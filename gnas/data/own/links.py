"""Link prediction: edges become positive pairs of train, val and test, negative pairs are drawn, and messages run over the
edges of train alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gnas.data.benchmark import SPLIT_NAMES
from gnas.data.encoding import Array
from gnas.data.own.options import LoadOptions
from gnas.data.own.raw import RawGraphs, starts_of
from gnas.data.own.split import split_units
from gnas.errors import InputError
from gnas.printed import format_count

TARGET = "link"
ROUNDS = 100  # of drawing: in a graph that is almost complete, some negative pairs are not found
NO_PAIRS = (
    "link prediction scores pairs of nodes, and none are given: set data.edge_label_index of PyG objects, or put pairs.csv "
    "with the columns source and target into the folder of tables"
)


def prepare_links(raw: RawGraphs, options: LoadOptions) -> RawGraphs:
    """Graphs at level ``link`` with labelled pairs and their split; messages never run over positive pairs of val and test.

    Pairs with their own splits and graphs, as PyG's ``RandomLinkSplit`` makes them, stay as they are.
    """
    if options.kind not in (None, "multilabel") or options.target or raw.graph_groups is not None:
        raise InputError("level=link predicts the edges themselves: leave out the data options kind, target and group")
    if options.split_rule is not None and options.split_rule.method in ("stratified", "scaffold", "group"):
        raise InputError(f"level=link cannot be split by {options.split_rule.method}; set split=random or split=given")
    undirected = is_undirected(raw)
    if raw.pairs is None:
        raw = _pairs_of_edges(raw, options, undirected)
    elif not raw.pairs.size:
        raise InputError("edge_label_index, or pairs.csv, holds no pairs; leave it out, and all edges are pairs")
    elif not raw.targets:
        raise InputError(
            "pairs have no labels: set data.edge_label, or the column y of pairs.csv, to 1 (link) or 0 (none)"
        )
    else:
        raw = _split_pairs(raw, options, undirected)
    return _add_negatives(raw, options.seed, undirected)


def is_undirected(raw: RawGraphs) -> bool:
    """Whether every edge has its reverse; then pairs have no order."""
    ends = raw.flat_edges()
    there, back = (np.unique(_keys(raw, both, False)) for both in (ends, ends[::-1]))
    return bool(np.array_equal(there, back))


def _pairs_of_edges(raw: RawGraphs, options: LoadOptions, undirected: bool) -> RawGraphs:
    """Every edge as a positive pair, split at random or as its column ``split`` says."""
    if options.reads_split and raw.graph_split is not None:
        raise InputError(
            "level=link splits the edges within each graph, but the data splits whole graphs: set split=random, or give "
            "labelled pairs with each graph (edge_label_index and edge_label of PyG's RandomLinkSplit)"
        )
    ends = raw.flat_edges()
    edges = np.flatnonzero(ends[0] != ends[1])
    _, first, unit = np.unique(_keys(raw, ends[:, edges], undirected), return_index=True, return_inverse=True)
    given = raw.row_split if options.reads_split else None
    chosen = edges[first]
    codes = split_units(len(first), options, options.fold) if given is None else given[chosen]
    of_edges = np.zeros(ends.shape[1], np.int8)
    of_edges[edges] = codes[unit.reshape(-1)]
    graph = _graphs(raw, "edge")[chosen]
    order = np.argsort(graph, kind="stable")
    pairs = raw.edge_index[:, chosen][:, order]
    how = "as given by edges.csv" if given is not None else _describe_split(options)
    return replace(
        _keep_edges(raw, of_edges == 0),
        pairs=np.sort(pairs, axis=0) if undirected else pairs,
        pair_counts=np.bincount(graph, minlength=len(raw)),
        targets={TARGET: np.ones(len(pairs[0]), np.int64)},
        row_split=codes[order],
        graph_split=None,
        reasons=(*raw.reasons, "link level as requested", f"split of edges: {how}; messages run over edges of train"),
    )


def _describe_split(options: LoadOptions) -> str:
    if options.folds is not None:
        return f"fold {options.fold} of {options.folds} is the test split, by seed {options.seed}"
    return f"random {options.fractions} by seed {options.seed}"


def _split_pairs(raw: RawGraphs, options: LoadOptions, undirected: bool) -> RawGraphs:
    """The split of given pairs: that of their graphs, that of the rows, or a random one."""
    if options.reads_split and raw.graph_split is not None:
        leaks = _find_held_out(raw, _codes_of_pairs(replace(raw, row_split=None)), undirected)
        raw = replace(raw, row_split=None, reasons=(*raw.reasons, "pairs and split as given"))
        why = "messages run over the links to predict, so scores are too good"
        note = f"{format_count(int(leaks.sum()), 'edge')} of val or test graphs are positive pairs of the same graph: {why}"
        return replace(raw, notes=(*raw.notes, note)) if leaks.any() else raw
    if options.reads_split and raw.row_split is not None:
        codes, how = raw.row_split, "as given"
    else:
        _, unit = np.unique(_keys(raw, raw.flat_pairs(), undirected), return_inverse=True)
        codes, how = split_units(int(unit.max()) + 1, options, options.fold)[unit.reshape(-1)], _describe_split(options)
    reason = f"split of pairs: {how}; messages run over no positive pair of val and test"
    raw = replace(raw, row_split=codes, graph_split=None, reasons=(*raw.reasons, reason))
    return _leave_out(raw, codes, undirected, "pairs of val and test")


def hide_positive_pairs(raw: RawGraphs, undirected: bool) -> RawGraphs:
    """Labelled pairs for an evaluation: messages run over none of the links to predict."""
    if not raw.targets or raw.pairs is None:
        return raw
    return _leave_out(raw, np.ones(raw.pairs.shape[1], np.int8), undirected, "they are pairs to predict")


def _leave_out(raw: RawGraphs, codes: Array, undirected: bool, why: str) -> RawGraphs:
    """Graphs without the edges that are positive pairs of val or test; a note counts them."""
    held_out = _find_held_out(raw, codes, undirected)
    if not held_out.any():
        return raw
    note = f"{format_count(int(held_out.sum()), 'edge')} left out of the messages: {why}"
    return replace(_keep_edges(raw, ~held_out), notes=(*raw.notes, note))


def _codes_of_pairs(raw: RawGraphs) -> Array:
    """The split of each pair: its own, or that of its graph."""
    if raw.row_split is not None:
        return raw.row_split
    assert raw.graph_split is not None
    return np.repeat(raw.graph_split, raw.counts("link"))


def _find_held_out(raw: RawGraphs, codes: Array, undirected: bool) -> Array:
    """Edges that are positive pairs of val or test."""
    held_out = (codes > 0) & (raw.targets[TARGET] == 1)
    keys = _keys(raw, raw.flat_pairs()[:, held_out], undirected)
    return np.isin(_keys(raw, raw.flat_edges(), undirected), keys)


def _keep_edges(raw: RawGraphs, keep: Array) -> RawGraphs:
    rows, place = np.flatnonzero(keep), raw.place("edge")
    return replace(
        raw,
        edge_index=raw.edge_index[:, keep],
        edge_counts=np.bincount(_graphs(raw, "edge")[keep], minlength=len(raw)),
        edges={name: values[keep] for name, values in raw.edges.items()},
        places={**raw.places, "edge": lambda row: place(int(rows[row]))},
    )


def _graphs(raw: RawGraphs, level: str) -> Array:
    """The graph of each row of a level."""
    return np.repeat(np.arange(len(raw)), raw.counts(level))


def _keys(raw: RawGraphs, ends: Array, undirected: bool) -> Array:
    """A number for each pair of nodes; in undirected graphs the same for both directions."""
    ends = np.sort(ends, axis=0) if undirected else ends
    return np.asarray(ends[0] * int(raw.node_counts.sum()) + ends[1])


# -- negative pairs ------------------------------------------------------------------------------------------------


def _add_negatives(raw: RawGraphs, seed: int, undirected: bool) -> RawGraphs:
    """As many negative pairs as positive ones for every split that has none: nodes of a graph that no edge joins."""
    assert raw.pairs is not None
    graph, codes, label = _graphs(raw, "link"), _codes_of_pairs(raw), raw.targets[TARGET]
    lacking = [code for code in range(3) if (codes == code).any() and not (label[codes == code] == 0).any()]
    if not lacking:
        return raw
    needs = np.isin(codes, lacking)
    taken = np.concatenate([_keys(raw, ends, undirected) for ends in (raw.flat_edges(), raw.flat_pairs())])
    pairs, of = _draw_pairs(raw, graph[needs], taken, seed, undirected)
    new_codes = codes[needs][of]
    short = [SPLIT_NAMES[code] for code in lacking if not (new_codes == code).any()]
    if short:
        raise InputError(f"no negative pairs for {short[0]}: almost every two nodes of a graph are joined by an edge")
    every = np.concatenate([graph, graph[needs][of]])
    order = np.argsort(every, kind="stable")
    drawn = f"as many negative pairs as positive ones drawn by seed {seed}"
    return replace(
        raw,
        pairs=np.concatenate([raw.pairs, pairs], axis=1)[:, order],
        pair_counts=np.bincount(every, minlength=len(raw)),
        targets={TARGET: np.concatenate([label, np.zeros(len(of), np.int64)])[order]},
        row_split=None if raw.row_split is None else np.concatenate([codes, new_codes])[order],
        draw_negatives=0 in lacking,
        reasons=(*raw.reasons, f"{drawn}{', in training anew for every pass' if 0 in lacking else ''}"),
    )


def _draw_pairs(raw: RawGraphs, graph: Array, taken: Array, seed: int, undirected: bool) -> tuple[Array, Array]:
    """A distinct pair of two nodes for each entry of ``graph`` that is not ``taken``; also the entries that got one."""
    random = np.random.default_rng([seed, 1])
    starts = starts_of(raw.node_counts)
    pairs, open_rows = np.full((2, len(graph)), -1), np.arange(len(graph))
    taken = np.unique(taken)
    for _ in range(ROUNDS):
        of = graph[open_rows]
        drawn = (random.random((2, len(of))) * raw.node_counts[of]).astype(np.int64)
        drawn = np.sort(drawn, axis=0) if undirected else drawn
        keys = _keys(raw, drawn + starts[of], undirected)
        _, first = np.unique(keys, return_index=True)
        fine = np.zeros(len(of), bool)
        fine[first] = True
        fine &= (drawn[0] != drawn[1]) & ~np.isin(keys, taken)
        pairs[:, open_rows[fine]] = drawn[:, fine]
        taken = np.union1d(taken, keys[fine])
        open_rows = open_rows[~fine]
        if not len(open_rows):
            break
    found = np.flatnonzero(pairs[0] >= 0)
    return pairs[:, found], found
