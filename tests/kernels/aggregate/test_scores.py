"""Scores of edges from their two ends: every implementation against gathered rows, forward and backward."""

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from samples import INTERPRETED, assert_near, gradients, padded_edges, random_edges
from torch import Tensor

from gnas.graph import Neighbors
from gnas.kernels.aggregate import edge_scores

TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12}


def plain(receiver: Tensor, sender: Tensor, neighbors: Neighbors, vector: Tensor | None) -> Tensor:
    """Both ends copied to the edges; those behind the last pointer are padding."""
    count = int(neighbors.ptr[-1])
    i, j = receiver[neighbors.target[:count].long()], sender[neighbors.source[:count].long()]
    score = (i * j).sum(-1) if vector is None else torch.einsum("ehd,d->eh", torch.tanh(i + j), vector)
    return torch.cat([score, score.new_zeros(neighbors.source.numel() - count, score.size(1))])


def check(neighbors: Neighbors, heads: int, width: int, dtype: torch.dtype, tanh: bool, device: str = "cpu") -> None:
    generator = torch.Generator().manual_seed(0)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=dtype).to(device).requires_grad_()

    receiver, sender = draw(neighbors.num_receivers, heads, width), draw(neighbors.num_senders, heads, width)
    vector, neighbors = draw(width) if tanh else None, neighbors.to(device)
    found, wanted = edge_scores(receiver, sender, neighbors, vector), plain(receiver, sender, neighbors, vector)
    assert found.dtype == dtype
    assert_near([found], [wanted], TOLERANCE[dtype])
    used = [receiver, sender] if vector is None else [receiver, sender, vector]
    assert_near(gradients(found, used), gradients(wanted, used), TOLERANCE[dtype])


@pytest.mark.parametrize("tanh", [False, True])
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(("heads", "width"), [(1, 1), (1, 5), (3, 4), (6, 64), (70, 1), (2, 70)])
def test_heads(forced: str, heads: int, width: int, dtype: torch.dtype, tanh: bool) -> None:
    neighbors, _ = Neighbors.from_edges(random_edges(9, 25, seed=heads, isolated=2), 9, 9)
    check(neighbors, heads, width, dtype, tanh)


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 6)), max_size=30),
    st.integers(1, 3),
    st.integers(1, 3),
    st.booleans(),
)
@settings(
    max_examples=10 if INTERPRETED else 50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_random_bipartite_multigraphs(
    forced: str, pairs: list[tuple[int, int]], heads: int, width: int, tanh: bool
) -> None:
    neighbors, _ = Neighbors.from_edges(torch.tensor(pairs).view(-1, 2).long().T, 5, 7)
    check(neighbors, heads, width, torch.float64, tanh)


@pytest.mark.parametrize("tanh", [False, True])
def test_padding_edges_score_nothing(forced: str, tanh: bool) -> None:
    padded = padded_edges()
    check(padded, 2, 3, torch.float64, tanh)


@pytest.mark.parametrize("tanh", [False, True])
def test_many_blocks_of_edges_are_as_good_as_one(monkeypatch: pytest.MonkeyPatch, tanh: bool) -> None:
    if INTERPRETED:
        pytest.skip("of the CPU implementation")
    neighbors, _ = Neighbors.from_edges(random_edges(40, 300, seed=2, isolated=7), 40, 40)
    for edges in (1, 7, 64, 300, 301):  # fewer than a receiver has, and more than there are
        monkeypatch.setattr("gnas.kernels.aggregate.cpu.EDGES", edges)
        check(neighbors, 3, 2, torch.float64, tanh)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device; this machine has none")
@pytest.mark.parametrize("tanh", [False, True])
@pytest.mark.parametrize(("heads", "width"), [(1, 144), (6, 64), (16, 4), (6, 256), (70, 1)])
def test_on_a_gpu(heads: int, width: int, tanh: bool) -> None:
    neighbors, _ = Neighbors.from_edges(random_edges(300, 4000, seed=3, isolated=20), 300, 300)
    for dtype in TOLERANCE:
        check(neighbors, heads, width, dtype, tanh, "cuda")
