"""Algorithm 1: diameters against a plain search, and the loop over depths with scripted and real strategies."""

import json
import math
from dataclasses import dataclass
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import SPACE, tiny

from gnas.arch.gap import genotype as from_formula
from gnas.arch.genotype import Genotype
from gnas.errors import InputError, Interrupted
from gnas.graph import GraphSet
from gnas.run.folder import Run
from gnas.strategies import GraphNAS, RandomSearch, SearchProblem, SearchResult, SingleLevel
from gnas.strategies import depth as depth_module
from gnas.strategies import diameter as diameter_module
from gnas.strategies.base import SearchContext
from gnas.strategies.depth import REASONS, DepthResult, average_diameter, search_depth
from gnas.strategies.diameter import diameters

# -- diameters ------------------------------------------------------------------------------------------------------


def as_set(graphs: list[nx.Graph]) -> GraphSet:
    """Each graph's edges in one direction if it is directed, else in both."""
    nodes = np.cumsum([0, *(len(g) for g in graphs)])
    lists = [list(g.edges) if g.is_directed() else [p for a, b in g.edges for p in ((a, b), (b, a))] for g in graphs]
    edges = np.cumsum([0, *map(len, lists)])
    flat = torch.tensor([pair for pairs in lists for pair in pairs], dtype=torch.long).reshape(-1, 2).T
    x = torch.zeros(int(nodes[-1]), 1, dtype=torch.long)
    return GraphSet.build(x, flat, torch.from_numpy(nodes), torch.from_numpy(edges), torch.zeros(len(graphs)))


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
    found, bounded = diameters(as_set(graphs), np.random.default_rng(0))
    assert found.tolist() == [slow_diameter(g) for g in graphs]
    assert bounded == 0


def test_sizes_around_a_word_and_several_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diameter_module, "MEMORY", 300)
    graphs = [nx.path_graph(n) for n in (1, 2, 63, 64, 65, 127, 128, 129, 200)] + [nx.cycle_graph(130)]
    assert diameters(as_set(graphs), np.random.default_rng(0))[0].tolist() == [0, 1, 62, 63, 64, 126, 127, 128, 199, 65]


def test_the_largest_component_counts() -> None:
    apart = nx.disjoint_union_all([nx.path_graph(5), nx.complete_graph(6), nx.empty_graph(3)])
    equal = nx.disjoint_union(nx.complete_graph(4), nx.path_graph(4))
    assert diameters(as_set([apart, equal]), np.random.default_rng(0))[0].tolist() == [1, 3]
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
    values, _ = diameters(as_set(graphs), np.random.default_rng(0))
    assert all(w - 2 <= v <= w for v, w in zip(values.tolist(), wanted, strict=True))
    assert values[1] == 89


# -- the loop -------------------------------------------------------------------------------------------------------


def with_depth(depth: int, cells: int) -> Genotype:
    """A genotype of ``cells`` cells of which ``depth`` aggregate."""
    return Genotype(tuple(from_formula("sum" if k < depth else "dense")[0] for k in range(max(cells, 1))))


@dataclass(frozen=True)
class Scripted:
    """Finds the depth that ``answers`` has for a number of cells; ``metrics`` are its validation metrics."""

    answers: dict[int, int]
    metrics: dict[int, float]
    name: str = "scripted"

    def search(self, problem: SearchProblem, context: SearchContext) -> SearchResult:
        cells = problem.num_cells
        found = with_depth(self.answers[cells], max(cells, self.answers[cells]))
        record = {"epoch": 1, "val_metric": self.metrics.get(cells, 0.0), "seconds": 0.5}
        return SearchResult(found, [record], 0.5, self.name)


def settle(answers: dict[int, int], kind: str = "regression", **how: object) -> DepthResult:
    metrics = how.pop("metrics", {})
    return search_depth(tiny(kind), SPACE, Scripted(answers, metrics), **how)  # type: ignore[arg-type]


def test_it_stops_when_the_depth_no_longer_changes() -> None:
    found = settle({8: 6, 6: 5, 5: 5}, start=8)
    assert (found.trajectory, found.depth, found.reason, found.notes) == ((8, 6, 5, 5), 5, "unchanged", ())
    assert [(r.initial, r.searched) for r in found.rounds] == [(8, 6), (6, 5), (5, 5)]
    assert found.genotype == with_depth(5, 5)


def test_how_far_it_is_is_told() -> None:
    told: list[tuple[str, int, int]] = []
    graphs = as_set([nx.path_graph(2), nx.path_graph(200), nx.path_graph(diameter_module.LARGE + 1)])
    average_diameter(graphs, on_progress=lambda what, done, total: told.append((what, done, total)))
    assert [done for _, done, _ in told] == [1, 2, 3]
    assert {(what, total) for what, _, total in told} == {("diameters", 3)}


def test_a_diameter_that_is_known_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(depth_module, "average_diameter", None)
    known = depth_module.Diameter(4.0, True, None, 1)
    result = settle({2: 2}, diameter=known)
    assert result.diameter == known
    assert result.trajectory == (2, 2)


def test_it_begins_at_half_the_average_diameter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        depth_module, "average_diameter", lambda graphs, seed: depth_module.Diameter(6.8, True, None, 1)
    )
    found = settle({3: 3})
    assert found.trajectory == (3, 3)
    assert found.diameter.value == 6.8
    monkeypatch.setattr(
        depth_module, "average_diameter", lambda graphs, seed: depth_module.Diameter(0.0, True, None, 1)
    )
    assert settle({1: 1}).trajectory == (1, 1)


@pytest.mark.parametrize(("kind", "taken"), [("regression", 3), ("classification", 5)])
def test_a_cycle_ends_with_its_best_round(kind: str, taken: int) -> None:
    metrics = {7: 0.0 if kind == "regression" else 9.0, 4: 2.0, 3: 1.5, 5: 3.0}
    found = settle({7: 4, 4: 5, 5: 3, 3: 4}, kind, start=7, metrics=metrics)
    assert found.reason == "cycle"
    assert found.trajectory == (7, 4, 5, 3, 4)
    initial = next(r.initial for r in found.rounds if r.genotype == found.genotype and r.searched == found.depth)
    assert initial == taken


def test_limits_are_reported() -> None:
    found = settle({4: 9, 9: 4}, start=30, limit=4)
    assert (found.trajectory, found.reason) == ((4, 9), "unchanged")
    assert found.notes == ("the start asks for 30 cells; the limit is 4", "round 1 asks for 9 cells; the limit is 4")
    shrinking = settle({k: k - 1 for k in range(2, 9)}, start=8, max_rounds=3)
    assert (shrinking.reason, shrinking.depth, len(shrinking.rounds)) == ("rounds", 5, 3)
    with pytest.raises(InputError, match="at least 1"):
        settle({}, start=0)


def test_no_aggregation_falls_back_to_one_cell() -> None:
    found = settle({3: 0, 1: 1}, start=3)
    assert (found.trajectory, found.reason, found.depth) == ((3, 0, 1), "unchanged", 1)
    assert found.notes == ("round 1 found a network in which no cell aggregates; 1 cell is taken",)
    stuck = settle({1: 0}, start=1)
    assert (stuck.reason, stuck.depth, len(stuck.rounds)) == ("unchanged", 0, 1)


def test_the_result_is_plain() -> None:
    found = settle({4: 3, 3: 3}, start=4, metrics={3: 0.25})
    plain = json.loads(json.dumps(found.to_dict()))
    assert plain["trajectory"] == [4, 3, 3]
    assert plain["rounds"][1] == {
        "initial": 3,
        "searched": 3,
        "genotype": with_depth(3, 3).id,
        "val_metric": 0.25,
        "seconds": 0.5,
    }
    assert plain["explanation"] == REASONS["unchanged"]
    assert plain["seconds"] == 1.0


def test_a_strategy_without_genotypes_is_refused() -> None:
    with pytest.raises(InputError, match="needs a strategy that finds genotypes; every layer of graphnas aggregates"):
        search_depth(tiny(), SPACE, GraphNAS(), start=1)  # type: ignore[arg-type]


def test_rounds_of_an_earlier_job_are_replaced(tmp_path: Path) -> None:
    settle({4: 3, 3: 3}, start=4, folder=tmp_path)
    assert settle({4: 2, 2: 2}, start=4, folder=tmp_path, force=True).trajectory == (4, 2, 2)
    Run(tmp_path / "round-2", {"job": "another"}, force=True).close()
    assert settle({4: 2, 2: 2}, start=4, folder=tmp_path, resume=True).trajectory == (4, 2, 2)


@pytest.mark.parametrize("chosen", [SingleLevel(epochs=2, batch_size=4), RandomSearch(2, 1, 4)])
def test_rounds_are_runs_that_go_on(chosen: object, tmp_path: Path) -> None:
    asked: list[int] = []
    heard: list[dict] = []

    def stop() -> bool:
        asked.append(1)
        return len(asked) == 3

    def run(**how: object) -> DepthResult:
        return search_depth(tiny(), SPACE, chosen, start=2, channels=8, folder=tmp_path, **how)  # type: ignore[arg-type]

    wanted = search_depth(tiny(), SPACE, chosen, start=2, channels=8)  # type: ignore[arg-type]
    with pytest.raises(Interrupted):
        run(should_stop=stop)
    found = run(resume=True, on_epoch=heard.append)
    assert (found.trajectory, found.genotype) == (wanted.trajectory, wanted.genotype)
    assert heard[0]["stage"] == "round-1"
    assert Run(tmp_path).read_json("result")["trajectory"] == list(found.trajectory)
    assert Run(tmp_path).genotype() == found.genotype
    heard.clear()
    assert run(resume=True, on_epoch=heard.append).genotype == found.genotype
    assert heard == []
    with pytest.raises(InputError, match="another limit"):
        run(resume=True, limit=5)
