"""Diameters of many graphs at once, against a plain search."""

import math

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import as_set

from gnas.errors import InputError
from gnas.strategies import depth as depth_module
from gnas.strategies import diameter as diameter_module
from gnas.strategies.depth import average_diameter
from gnas.strategies.diameter import measure_diameters


def slow_diameter(graph: nx.Graph) -> int:
    """The widest of the largest components."""
    parts = [graph.subgraph(c) for c in nx.connected_components(graph.to_undirected(as_view=True))]
    largest = max(map(len, parts), default=0)
    return max((nx.diameter(p.to_undirected()) for p in parts if len(p) == largest), default=0)


@st.composite
def any_graph(draw: st.DrawFn) -> nx.Graph:
    n = draw(st.integers(1, 12))
    kind = draw(st.sampled_from([nx.Graph, nx.DiGraph]))
    graph = kind()
    graph.add_nodes_from(range(n))
    graph.add_edges_from(draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=20)))
    return graph


@settings(max_examples=60, deadline=None)
@given(st.lists(any_graph(), min_size=1, max_size=5))
def test_against_a_plain_search(graphs: list[nx.Graph]) -> None:
    found, bounded = measure_diameters(as_set(graphs), np.random.default_rng(0))
    assert found.tolist() == [slow_diameter(g) for g in graphs]
    assert bounded == 0


def test_sizes_around_a_word_and_several_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diameter_module, "MEMORY", 300)
    graphs = [nx.path_graph(n) for n in (1, 2, 63, 64, 65, 127, 128, 129, 200)] + [nx.cycle_graph(130)]
    assert measure_diameters(as_set(graphs), np.random.default_rng(0))[0].tolist() == [
        0,
        1,
        62,
        63,
        64,
        126,
        127,
        128,
        199,
        65,
    ]


def test_the_largest_component_counts() -> None:
    apart = nx.disjoint_union_all([nx.path_graph(5), nx.complete_graph(6), nx.empty_graph(3)])
    equal = nx.disjoint_union(nx.complete_graph(4), nx.path_graph(4))
    assert measure_diameters(as_set([apart, equal]), np.random.default_rng(0))[0].tolist() == [1, 3]
    assert average_diameter(as_set([apart, equal])) == depth_module.Diameter(2.0, True, None, 2)


def test_graphs_without_edges_or_nodes() -> None:
    assert average_diameter(as_set([nx.empty_graph(3), nx.empty_graph(1), nx.empty_graph(0)])).value == 0
    with pytest.raises(InputError, match="needs graphs"):
        average_diameter(as_set([nx.path_graph(2)]).select([]))
    with pytest.raises(InputError, match="the sample is 0"):
        average_diameter(as_set([nx.path_graph(2)]), sample=0)


def test_a_sample_states_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    graphs = as_set([nx.path_graph(2 + k % 9) for k in range(300)])
    exact = average_diameter(graphs)
    assert (exact.exact, exact.error, exact.graphs_used) == (True, None, 300)
    drawn = average_diameter(graphs, sample=100, seed=3)
    assert drawn == average_diameter(graphs, sample=100, seed=3)
    assert (drawn.exact, drawn.graphs_used) == (False, 100)
    assert drawn.error == pytest.approx(math.sqrt(20 / 3 * (1 - 1 / 3) / 100), rel=0.2)
    assert abs(drawn.value - exact.value) < 3 * drawn.error
    assert str(exact) == f"{exact.value:.2f}"
    assert "100 graphs drawn" in str(drawn)
    monkeypatch.setattr(diameter_module, "EDGES", graphs.num_edges // 2)
    assert average_diameter(graphs).graphs_used in (149, 150)


def test_large_graphs_are_bounded_from_below(monkeypatch: pytest.MonkeyPatch) -> None:
    graphs = [nx.random_geometric_graph(400, 0.08, seed=1), nx.path_graph(90), nx.random_regular_graph(3, 300, seed=2)]
    wanted = [slow_diameter(g) for g in graphs]
    monkeypatch.setattr(diameter_module, "LARGE", 100)
    found = average_diameter(as_set(graphs))
    assert (found.exact, found.error, found.bounded) == (False, None, 2)
    assert str(found).startswith("at least ")
    values, _ = measure_diameters(as_set(graphs), np.random.default_rng(0))
    assert all(w - 2 <= v <= w for v, w in zip(values.tolist(), wanted, strict=True))
    assert values[1] == 89
