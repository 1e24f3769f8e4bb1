"""Pairs of nodes on the device: new negative pairs in every pass of a training, the stored ones in evaluation."""

import pytest
import torch
from torch_geometric.data import Data

import gnas
from gnas.graph import GraphBatch, GraphSet
from gnas.training.links import LinkStore


def graphs(seed: int = 0, count: int = 3) -> GraphSet:
    made = []
    for number in range(count):
        random = torch.Generator().manual_seed(100 * seed + number)
        upper = torch.triu(torch.rand(14 + number, 14 + number, generator=random) < 0.25, 1)
        made.append(Data(x=torch.ones(len(upper), 1), edge_index=(upper | upper.T).nonzero().T))
    return gnas.load(made, level="link").train


def pass_over(store: LinkStore, seed: int | None, batch_size: int = 2) -> list[GraphBatch]:
    generator = None if seed is None else torch.Generator().manual_seed(seed)
    return [store.batch(one.ids, one.capacity) for one in store.plan(batch_size, generator)]


def negatives(batches: list[GraphBatch]) -> set[tuple[int, int, int]]:
    """Negative pairs as (batch, first, second)."""
    found = set()
    for number, batch in enumerate(batches):
        rows = batch.target_mask & (batch.y.reshape(-1) < 0.5)
        assert batch.pairs is not None
        found |= {(number, *pair) for pair in batch.pairs.T[rows].tolist()}
    return found


def test_evaluation_has_the_stored_pairs() -> None:
    split = graphs()
    (batch,) = pass_over(LinkStore(split), None, batch_size=len(split))
    shift = torch.repeat_interleave(split.node_ptr[:-1], split.pair_counts)
    assert batch.pairs is not None
    assert torch.equal(batch.pairs[:, batch.target_mask], split.pairs + shift)  # type: ignore[operator]
    assert torch.equal(batch.y[batch.target_mask], split.y)


def test_every_pass_of_a_training_has_other_negative_pairs_and_repeats_them_from_its_seed() -> None:
    store = LinkStore(graphs())
    first, again, other = (negatives(pass_over(store, seed)) for seed in (1, 1, 2))
    assert first == again
    assert len(first & other) < len(first) / 2


@pytest.mark.parametrize("seed", range(5))
def test_a_drawn_pair_joins_two_nodes_of_one_graph_without_an_edge(seed: int) -> None:
    split = graphs(seed)
    for batch in pass_over(LinkStore(split), seed):
        near, owner = batch.neighbors, batch.batch
        edges = set(zip(near.source.tolist(), near.target.tolist(), strict=True))
        assert batch.pairs is not None
        for first, second in batch.pairs.T[batch.target_mask & (batch.y.reshape(-1) < 0.5)].tolist():
            assert first != second
            assert owner[first] == owner[second]
            assert (first, second) not in edges


def test_positive_pairs_and_targets_are_those_of_the_split() -> None:
    split = graphs()
    batches = pass_over(LinkStore(split), 3, batch_size=1)
    assert sum(int((one.y[one.target_mask] > 0.5).sum()) for one in batches) == int((split.y > 0.5).sum())
    assert sum(int(one.target_mask.sum()) for one in batches) == len(split.y)
