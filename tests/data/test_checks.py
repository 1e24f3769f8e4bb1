"""Structure errors say where; loops, repeats and one-way edges are counted as a slow count counts them."""

import dataclasses

import numpy as np
import pytest
import torch
from builders import citation_graph, one_line, path_graphs
from hypothesis import given, settings
from hypothesis import strategies as st

from gnas.data.checks import check_encoding, check_graph_set, check_raw_graphs, check_splits, check_task, note_odd_edges
from gnas.data.own.load import load_own
from gnas.data.own.raw import RawGraphs
from gnas.model.task import Task


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


@pytest.fixture
def benchmark():
    return load_own(path_graphs(12, y=lambda i: torch.tensor([i % 2]), pos=None), split="stratified")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"x": torch.zeros(3, 1, dtype=torch.int16)}, "node_ptr does not run from 0 to 3"),
        ({"node_ptr": torch.tensor([0, 9, 3])}, "node_ptr does not run"),
        ({"edge_index": torch.zeros(3, 2)}, "edge_index has the shape [3, 2]; [2, 2] is needed"),
        ({"y": torch.zeros(3)}, "y has the shape"),
        ({"level": "node"}, "node level"),
        ({"mask": torch.ones(2, dtype=torch.bool)}, "mask has the shape"),
        ({"pos": torch.zeros(2, 3)}, "pos has the shape"),
    ],
)
def test_a_set_that_is_not_what_it_says(benchmark, change, words):
    with one_line("here", words):
        check_graph_set(dataclasses.replace(benchmark.train, **change), benchmark.task, "here")


def test_values_out_of_range(benchmark):
    train, task = benchmark.train, benchmark.task
    check_graph_set(train, task, "here")
    for field, value, words in (
        ("x", train.x + 5, "categories outside [3]"),
        ("x", train.x.float(), "categories are whole numbers"),
        ("edge_index", train.edge_index + 1, "a node that does not exist"),
        ("edge_index", train.edge_index.flip(0), "not sorted"),
        ("edge_index", train.edge_index.float(), "whole numbers"),
        ("y", train.y + 1, "classes 0..1"),
    ):
        with one_line(words):
            check_graph_set(dataclasses.replace(train, **{field: value}), task, "here")


def test_floats_must_be_finite():
    b = load_own(citation_graph())
    broken = b.train.x.clone()
    broken[3, 2] = torch.nan
    with one_line("x must hold finite floats"):
        check_graph_set(dataclasses.replace(b.train, x=broken), b.task, "here")


def test_empty_splits_and_classes_without_examples(benchmark):
    splits, task = benchmark.splits(), benchmark.task
    nothing = dataclasses.replace(benchmark.val, mask=torch.zeros(len(benchmark.val), dtype=torch.bool))
    with one_line("the val split is empty; so there"):
        check_splits({**splits, "val": nothing}, task, "; so there")
    one_class = dataclasses.replace(benchmark.train, y=torch.zeros_like(benchmark.train.y))
    with one_line("class '1' has no training example", "stratified"):
        check_splits({**splits, "train": one_class}, task)


def test_tasks_and_encodings_that_do_not_fit(benchmark):
    task = benchmark.task
    check_task(task, "here")
    for change in ({"num_outputs": 2**40}, {"labels": ("a",)}, {"scale": (0.0,)}, {"center": (float("nan"),)}):
        with one_line("here"):
            check_task(dataclasses.replace(task, **change), "here")
    with one_line("encoding"):
        check_encoding(benchmark.encoding, Task("graph", "classification", 2, in_channels=3), "here")
    with one_line("outputs"):
        check_encoding(dataclasses.replace(benchmark.encoding, labels=("a", "b", "c")), task, "here")
