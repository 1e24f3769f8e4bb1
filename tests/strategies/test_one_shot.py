"""A supernet whose weights genotypes inherit: paths, and training by random paths."""

import torch
from samples import assert_near
from tiny import SPACE, tiny

from gnas.arch.genotype import Genotype
from gnas.graph import GraphBatch
from gnas.model.supernet import Supernet
from gnas.strategies import SearchProblem
from gnas.strategies.base import SearchContext
from gnas.strategies.one_shot import OneShotTraining, candidate_positions, run_path
from gnas.training.store import GraphStore


def problem(kind: str = "regression") -> SearchProblem:
    benchmark = tiny(kind)
    return SearchProblem(benchmark.train, benchmark.val, benchmark.task, SPACE, 8, 2)


def test_a_path_is_the_network_that_inherits() -> None:
    torch.manual_seed(0)
    benchmark = tiny()
    supernet = Supernet(SPACE, benchmark.task, 8, 2).double()
    positions = candidate_positions(SPACE)
    candidates = [(k.source, k.target, o) for k in SPACE.links() for o in k.candidates]
    path = [p[k % len(p)] for k, p in enumerate(positions)] + [p[-1] for p in positions]
    links = [[candidates[p] for p in path[:5]], [candidates[p] for p in path[5:]]]
    genotype = Genotype(tuple(SPACE._cell([*cell]) for cell in links))  # type: ignore[list-item]
    assert genotype in SPACE
    graphs: GraphBatch = benchmark.val.batch()
    found = run_path(supernet, graphs, torch.tensor(path[:5] + [p + len(candidates) for p in path[5:]]))
    assert_near(found, supernet.inherit_weights(genotype)(graphs), 1e-10)


def test_training_draws_all_candidates_and_moves_weights_only() -> None:
    posed = problem()
    training = OneShotTraining(posed, SearchContext(), GraphStore(posed.train), 30, 12, 1e-2)
    drawn = torch.stack([training.draw() for _ in range(300)])
    assert set(drawn.flatten().tolist()) == {
        p + cell * training.width for cell in range(2) for options in candidate_positions(SPACE) for p in options
    }
    alphas = [a.clone() for a in training.supernet.alphas()]
    training.train()
    assert all(torch.equal(a, b) for a, b in zip(alphas, training.supernet.alphas(), strict=True))
    losses = [record["train_loss"] for record in training.history]
    assert sum(losses[-5:]) < sum(losses[:5])
