"""Algorithm 1: diameters against a plain search, and the loop over depths with scripted and real strategies."""

import json
from dataclasses import dataclass
from pathlib import Path

import networkx as nx
import pytest
from samples import as_set
from tiny import SPACE, tiny

from gnas.arch.gap import genotype as from_formula
from gnas.arch.genotype import Genotype
from gnas.errors import InputError, Interrupted
from gnas.run.folder import Run
from gnas.strategies import GraphNAS, RandomSearch, SearchProblem, SearchResult, SingleLevel
from gnas.strategies import depth as depth_module
from gnas.strategies import diameter as diameter_module
from gnas.strategies.base import SearchContext
from gnas.strategies.depth import REASONS, DepthResult, average_diameter, search_depth

# -- diameters ------------------------------------------------------------------------------------------------------


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
