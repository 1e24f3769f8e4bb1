"""Structure errors say where; loops, repeats and one-way edges are counted as a slow count counts them."""

import numpy as np
from builders import one_line
from hypothesis import given, settings
from hypothesis import strategies as st

from gnas.data.own.raw import RawGraphs, check_raw_graphs, note_odd_edges


def raw_graphs(nodes, edges) -> RawGraphs:
    """``edges`` lists (source, target) pairs of each graph."""
    flat = np.array([e for graph in edges for e in graph], np.int64).reshape(-1, 2).T
    counts = np.array([len(graph) for graph in edges])
    return RawGraphs("pyg", "test", np.array(nodes), counts, flat, {}, {}, {}, "graph")


def test_an_edge_to_a_missing_node_is_named():
    with one_line("graph 1, edge 2: target 3 is not a node", "3 nodes"):
        check_raw_graphs(raw_graphs([2, 3], [[(0, 1)], [(0, 1), (1, 2), (0, 3)]]))
    with one_line("graph 0, edge 0: source -1"):
        check_raw_graphs(raw_graphs([2], [[(-1, 0)]]))


def test_no_graphs_and_no_nodes():
    with one_line("no graphs"):
        check_raw_graphs(raw_graphs([], []))
    with one_line("graph 1: no nodes"):
        check_raw_graphs(raw_graphs([2, 0], [[], []]))


@given(st.lists(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=8), min_size=1, max_size=4))
@settings(max_examples=100, deadline=None)
def test_odd_edges_are_counted_exactly(edges):
    notes = " | ".join(note_odd_edges(raw_graphs([4] * len(edges), edges)))
    loops = sum(a == b for graph in edges for a, b in graph)
    repeats = sum(len(graph) - len(set(graph)) for graph in edges)
    between = [(graph, e) for graph in edges for e in set(graph) if e[0] != e[1]]
    alone = sum((b, a) not in graph for graph, (a, b) in between)
    assert (f"{loops} self-loop" in notes) == (loops > 0)
    assert (f"{repeats} repeated edge" in notes) == (repeats > 0)
    assert ("reverse edge" in notes) == (alone > 0)
    if 0 < alone < len(between):
        assert f"{alone} of {len(between)} edges" in notes
    assert ("no graph has an edge" in notes) == (not any(edges))
