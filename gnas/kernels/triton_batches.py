"""Where each node and each edge of a batch comes from, as two Triton kernels: in PyTorch it is 60 small ones."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

PLACES = 128  # of one program


@triton.jit
def _pointers(
    ids, node_size, edge_size, node_ptr_out, edge_ptr_out, row_out, count, empty, BLOCK: tl.constexpr,
):  # fmt: skip
    """Where the nodes and edges of each graph begin, and the rows of the graphs and of the dummy graph behind them."""
    place = tl.arange(0, BLOCK)
    here = place < count
    graph = tl.load(ids + place, mask=here, other=0)
    nodes = tl.load(node_size + graph, mask=here, other=0).to(tl.int32)
    edges = tl.load(edge_size + graph, mask=here, other=0).to(tl.int32)
    tl.store(node_ptr_out + place + 1, tl.cumsum(nodes, 0), mask=here)
    tl.store(edge_ptr_out + place + 1, tl.cumsum(edges, 0), mask=here)
    tl.store(node_ptr_out, 0)
    tl.store(edge_ptr_out, 0)
    tl.store(node_ptr_out + count + 1, tl.sum(nodes, 0))
    tl.store(row_out + place, graph, mask=here)
    tl.store(row_out + count, empty)


@triton.jit
def _graph_of(place, ptr, count, STEPS: tl.constexpr):
    """The graph that each place belongs to, by bisection; the last one for places behind all graphs."""
    low = place * 0
    high = low + count - 1
    for _ in tl.static_range(STEPS):
        middle = (low + high) // 2
        behind = (tl.load(ptr + middle + 1) <= place) & (low < high)
        low = tl.where(behind, middle + 1, low)
        high = tl.where(behind, high, tl.minimum(high, middle))
    return low


@triton.jit
def _places(
    ids, node_ptr, edge_ptr, node_start, edge_start, source, target, back, row_start, back_start,
    node_out, node_real_out, graph_out, place_out, member_out, ptr_out, back_ptr_out,
    edge_out, edge_real_out, source_out, target_out, back_out, count, nodes, edges,
    STEPS: tl.constexpr, PLACES: tl.constexpr,
):  # fmt: skip
    """The row in the store of each node and edge, and who sends to whom."""
    place = tl.program_id(0) * PLACES + tl.arange(0, PLACES)
    all_nodes, all_edges = tl.load(node_ptr + count), tl.load(edge_ptr + count)

    here, real = place < nodes, place < all_nodes
    graph = _graph_of(place, node_ptr, count, STEPS)
    start = tl.load(node_start + tl.load(ids + graph))
    row = tl.where(real, start + place - tl.load(node_ptr + graph), 0)
    first = tl.load(edge_ptr + graph)
    begins = tl.where(real, first + tl.load(row_start + row), all_edges)
    begins_back = tl.where(real, first + tl.load(back_start + row), all_edges)
    tl.store(node_out + place, row, mask=here)
    tl.store(node_real_out + place, real, mask=here)
    tl.store(graph_out + place, tl.where(real, graph, count), mask=here)
    tl.store(place_out + place, place, mask=here)
    tl.store(member_out + place, tl.minimum(place, all_nodes), mask=place <= nodes)
    tl.store(ptr_out + place, tl.where(here, begins, all_edges), mask=place <= nodes)
    tl.store(back_ptr_out + place, tl.where(here, begins_back, all_edges), mask=place <= nodes)

    here, real = place < edges, place < all_edges
    graph = _graph_of(place, edge_ptr, count, STEPS)
    first = tl.load(edge_ptr + graph)
    row = tl.where(real, tl.load(edge_start + tl.load(ids + graph)) + place - first, 0)
    shift = tl.load(node_ptr + graph)
    tl.store(edge_out + place, row, mask=here)
    tl.store(edge_real_out + place, real, mask=here)
    tl.store(source_out + place, tl.where(real, tl.load(source + row) + shift, nodes - 1), mask=here)
    tl.store(target_out + place, tl.where(real, tl.load(target + row) + shift, nodes - 1), mask=here)
    tl.store(back_out + place, tl.where(real, tl.load(back + row) + first, place), mask=here)


def build_layout(
    ids: Tensor,
    node_size: Tensor,
    edge_size: Tensor,
    node_start: Tensor,
    edge_start: Tensor,
    flat: tuple[Tensor, ...],
    nodes: int,
    edges: int,
) -> dict[str, Tensor]:
    """The tensors of ``gnas.training.store.Layout`` by name.

    ``flat``: source, target and back of the edges, the first incoming and the first outgoing edge of the nodes.
    """
    count, device = ids.numel(), ids.device

    def new(size: int, dtype: torch.dtype = torch.int32) -> Tensor:
        return torch.empty(size, dtype=dtype, device=device)

    node_ptr, edge_ptr, rows = new(count + 2), new(count + 1), new(count + 1, torch.long)
    _pointers[(1,)](
        ids, node_size, edge_size, node_ptr, edge_ptr, rows, count, node_size.numel() - 1,
        BLOCK=triton.next_power_of_2(count),
    )  # fmt: skip
    found = {
        "node": new(nodes, torch.long),
        "node_real": new(nodes, torch.bool),
        "graph": new(nodes),
        "place": new(nodes),
        "member": new(nodes + 1),
        "ptr": new(nodes + 1),
        "back_ptr": new(nodes + 1),
        "edge": new(edges, torch.long),
        "edge_real": new(edges, torch.bool),
        "source": new(edges),
        "target": new(edges),
        "back": new(edges),
    }
    _places[(triton.cdiv(max(nodes + 1, edges), PLACES),)](
        ids, node_ptr, edge_ptr, node_start, edge_start, *flat, *found.values(), count, nodes, edges,
        STEPS=count.bit_length(), PLACES=PLACES,
    )  # fmt: skip
    return {**found, "graph_ptr": node_ptr, "rows": rows}
