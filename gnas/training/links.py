"""A split of pairs of nodes on the device: the target is whether they are linked. Training draws new
negative pairs in every pass.
"""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor

from gnas.graph import GraphBatch, GraphSet
from gnas.training.store import Capacity, GraphStore, Layout, Places, Planned, round_up

TRIES = 4  # draws of a negative pair; if all of them are edges or loops, the stored pair stays
DRAWS = 2**31


class LinkStore(GraphStore):
    """All graphs of a split with the pairs of nodes to score.

    If the split says so, every pass of a training has other negative pairs: two nodes of the graph that no edge of this
    split joins. The number of the draw travels with the numbers of the graphs, ``draw * (len(store) + 1) + graph``, and a
    hash of it gives the pairs. So a draw needs no state: a resumed training repeats it, and trainings can share a store.
    An evaluation has draw 0, which is the pairs as stored.
    """

    def __init__(self, graphs: GraphSet, device: torch.device | str = "cpu", resident: bool | None = None) -> None:
        super().__init__(graphs, device, resident)
        assert graphs.pairs is not None
        assert graphs.pair_ptr is not None
        home, counts = self.x.device, graphs.pair_counts
        self.pair_counts = torch.cat([counts, counts.new_zeros(1)])
        self.pair_start, self.pair_size = graphs.pair_ptr.to(home), self.pair_counts.to(home)
        self.pairs = torch.cat([graphs.pairs.long(), graphs.pairs.new_zeros(2, 1).long()], dim=1).to(home)
        self.draws = graphs.draw_negatives
        self.known = _known_keys(graphs).to(home) if self.draws else self.pair_start

    def plan(
        self,
        batch_size: int,
        generator: torch.Generator | None = None,
        padded: bool | None = None,
        share: tuple[int, int] = (0, 1),
    ) -> list[Planned]:
        """Every graph once. With a generator, and if the split draws its negative pairs, ``ids`` carry the draw."""
        plan = super().plan(batch_size, generator, padded, share)
        counts = self.pair_counts[torch.stack([planned.ids for planned in plan]).cpu()].sum(1).tolist()
        most = round_up(int(self.pair_counts.sort(descending=True).values[: plan[0].ids.numel()].sum()) + 1)
        draw = 0
        if generator is not None and self.draws:
            draw = int(torch.randint(1, DRAWS, (1,), generator=generator))
        found = []
        for planned, count in zip(plan, counts, strict=True):
            pairs = count if planned.capacity.exact else most
            capacity = dataclasses.replace(planned.capacity, pairs=pairs)
            found.append(Planned(planned.ids + draw * (len(self) + 1), capacity))
        return found

    def _assemble(self, ids: Tensor, capacity: Capacity) -> GraphBatch:
        draw, ids = ids // (len(self) + 1), ids % (len(self) + 1)
        nodes = self.node_size[ids]
        places = Places(self.pair_size[ids], capacity.pairs)
        row = places.rows(self.pair_start, ids)
        pairs = self.pairs[:, row]
        if self.draws:
            pairs = self._redraw(pairs, row, draw[places.graph], ids[places.graph])
        shift = (nodes.cumsum(0) - nodes)[places.graph]
        rows = torch.where(places.real, row, self.num_rows)
        return dataclasses.replace(
            super()._assemble(ids, capacity),
            y=self.y[row],
            target_mask=self.mask[row] & places.real,
            target_rows=rows,
            pairs=torch.where(places.real, pairs + shift, capacity.nodes - 1),
        )

    def _targets(self, ids: Tensor, at: Layout) -> tuple[Tensor, Tensor, Tensor]:
        return self.y, self.mask, ids  # those of the pairs replace them

    def _redraw(self, pairs: Tensor, row: Tensor, draw: Tensor, graph: Tensor) -> Tensor:
        """The pairs, those with target 0 replaced by drawn ones; draw 0 replaces nothing."""
        size, start = self.node_size[graph].clamp_min(1), self.node_start[graph]
        undecided = (self.y[row].reshape(len(row)) < 0.5) & (draw > 0)
        seed = _mix(draw) + row
        for number in range(TRIES):
            first, second = (_mix(_mix(seed) + 2 * number + end).bitwise_and(2**62 - 1) % size for end in (0, 1))
            key = (start + first) * self.graphs.num_nodes + start + second
            at = torch.searchsorted(self.known, key).clamp_max(self.known.numel() - 1)
            take = undecided & (first != second) & (self.known[at] != key)
            pairs = torch.where(take, torch.stack([first, second]), pairs)
            undecided = undecided & ~take
        return pairs


def _known_keys(graphs: GraphSet) -> Tensor:
    """Edges and positive pairs as sorted numbers ``source * nodes + target``; both directions if all edges have both."""
    assert graphs.pairs is not None
    positive = graphs.y.reshape(len(graphs.y)) > 0.5
    starts = graphs.node_ptr[:-1]
    edges = graphs.edge_index.long() + torch.repeat_interleave(starts, graphs.edge_counts)
    pairs = (graphs.pairs.long() + torch.repeat_interleave(starts, graphs.pair_counts))[:, positive]

    def keys(ends: Tensor) -> Tensor:
        return ends[0] * graphs.num_nodes + ends[1]

    found = torch.cat([keys(edges), keys(pairs)])
    if torch.equal(keys(edges).unique(), keys(edges.flip(0)).unique()):
        found = torch.cat([found, keys(pairs.flip(0))])
    return torch.cat([found.unique(), found.new_full((1,), graphs.num_nodes**2)])


def _mix(value: Tensor) -> Tensor:
    """Whole numbers scattered over 64 bits: the finaliser of SplitMix64."""
    for shift, factor in ((30, -0x40A7B892E31B1A47), (27, -0x6B2FB644ECCEEE15)):
        value = (value ^ ((value >> shift) & (2 ** (64 - shift) - 1))) * factor
    return value ^ ((value >> 31) & (2**33 - 1))
