"""Every strategy over messages and stacks, on graphs with edge features and on graphs without."""

from __future__ import annotations

import warnings
from dataclasses import replace

import pytest
import small
import torch

import gnas
from gnas.arch.genotype import Genotype
from gnas.arch.space import SearchSpace
from gnas.arch.stack import StackSpace
from gnas.data.benchmark import Benchmark
from gnas.graph import GraphSet
from gnas.model.build import build_network
from gnas.strategies import Darts, Evolution, RandomSearch, SearchProblem, SingleLevel
from gnas.strategies.base import SearchContext
from gnas.strategies.gradient import DECIDED
from gnas.strategies.race_supernets import train_supernets
from gnas.strategies.single_level import SingleLevelSearch

SPACE = SearchSpace(
    1,
    1,
    aggregators=("mean", "sum", "max", "std"),
    variant="bare",
    messages=("plain", "edge", "gated", "attention", "pair"),
    stack=StackSpace(ffn=(True, False), edges=("updated", "kept"), readout=(None, "mean_max")),
)


def with_bonds() -> Benchmark:
    """The small benchmark with one column of three kinds of edges."""
    base = small.benchmark()

    def add(graphs: GraphSet) -> GraphSet:
        return replace(graphs, edge_attr=(torch.arange(graphs.num_edges) % 3)[:, None])

    task = replace(base.task, edge_categories=(3,))
    return replace(base, train=add(base.train), val=add(base.val), test=add(base.test), task=task)


STRATEGIES = {
    "single_level": lambda: SingleLevel(epochs=1, batch_size=6),
    "darts1": lambda: Darts(order=1, epochs=1, batch_size=6),
    "darts2": lambda: Darts(order=2, epochs=1, batch_size=6),
    "random": lambda: RandomSearch(trials=2, epochs=1, batch_size=6),
    "evolution": lambda: Evolution(trials=3, population=2, sample=1, epochs=1, batch_size=6),
}


@pytest.mark.parametrize("bonds", [True, False])
@pytest.mark.parametrize("name", STRATEGIES)
def test_strategies_search_over_messages(name: str, bonds: bool) -> None:
    bench = with_bonds() if bonds else small.benchmark()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = gnas.search(bench, SPACE, STRATEGIES[name](), channels=4, num_cells=2).genotype
    assert isinstance(found, Genotype)
    assert found in SPACE


def test_the_depth_search_over_messages() -> None:
    """Algorithm 1 begins with more cells than it ends with or as many; the last genotype is of the space."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = gnas.search_depth(with_bonds(), SPACE, SingleLevel(epochs=1, batch_size=6), channels=4, start=3)
    assert found.genotype in SPACE
    assert found.trajectory[0] == 3
    assert found.depth == found.genotype.depth()


def test_a_race_goes_on_without_a_supernet_that_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: SingleLevelSearch, *_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(SingleLevelSearch, "_step", fail)
    bench = with_bonds()
    problem = SearchProblem(bench.train, bench.val, bench.task, SPACE, 4, 2)
    assert train_supernets(problem, SearchContext(), gnas.TrainConfig(batch_size=6), 1, 5).genotypes == ()


class Collapsing(SingleLevelSearch):
    """Identity wins on the second level."""

    def finish_epoch(self):
        with torch.no_grad():
            self.supernet.aggregator_alphas[..., self.problem.space.second_level.index("identity")] = 5.0
        return super().finish_epoch()


def test_a_collapse_among_messages_is_warned_of() -> None:
    bench, space = with_bonds(), replace(SPACE, aggregators=("identity", *SPACE.aggregators))
    problem = SearchProblem(bench.train, bench.val, bench.task, space, 4, 2)
    with pytest.warns(UserWarning, match="identity holds 100% of the aggregation places"):
        result = Collapsing(SingleLevel(epochs=DECIDED, batch_size=12), problem, SearchContext()).search("single-level")
    assert result.genotype.messages() == frozenset()


@pytest.mark.parametrize("stack", [None, {"ffn": False, "edges": "kept", "readout": "sum"}])
def test_a_file_alone_builds_the_network_of_a_search(stack: dict[str, object] | None) -> None:
    bench = with_bonds()
    supernet = gnas.Supernet(SPACE, bench.task, 4, 2)
    found = supernet.genotype()
    if stack is not None:
        found = replace(found, stack=replace(found.stack, **stack))
    again = gnas.Genotype.from_yaml(found.to_yaml())
    network, inherited = build_network(again, bench.task, channels=4), supernet.inherit_weights(found)
    network.load_state_dict(inherited.state_dict())
    batch = bench.val.batch()
    torch.testing.assert_close(network.eval()(batch), inherited.eval()(batch))
