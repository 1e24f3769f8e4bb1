"""A stage: operations of a cell whose sources are known at the same moment, evaluated together."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gnas.arch.operation import PLAIN, split_operation
from gnas.errors import InputError, choose
from gnas.graph import GraphBatch, Neighbors
from gnas.kernels import fused
from gnas.model.edges import EdgeInputs, is_large, run_checkpointed
from gnas.model.operations import (
    MESSAGE_TYPES,
    OPERATIONS,
    DenseFilter,
    Filter,
    Identity,
    NeighborMean,
    NeighborSum,
    Operation,
    SparseFilter,
    Variant,
    reduce_together,
    with_input,
)
from gnas.model.operations.messages import Message
from gnas.model.operations.reduction import Wanted
from gnas.model.stacked import StackedBatchNorm, StackedLinear
from gnas.plugins import resolve_plugin

FUSIONS = ("concat", "sum", "mean", "max")
REDUCTIONS = ("sum", "mean", "max")
OperationTypes = Mapping[str, Callable[..., Operation]]
Stacks = dict[tuple[int, ...], Tensor]  # latent nodes as one tensor, by their numbers


@dataclass(frozen=True)
class CellConfig:
    """How a cell is built around its links.

    ``edge_state``: whether edges have a state that messages can read. ``ffn``: whether a feed-forward layer follows.
    ``mlp``: the number of linear layers that fuse the outputs.
    """

    variant: Variant
    norm: bool = True
    fusion: str = "concat"
    residual: bool = True
    dropout: float = 0.0
    slope: float = 0.0
    operations: OperationTypes | None = None
    edge_state: bool = False
    ffn: bool = False
    mlp: int = 1

    def __post_init__(self) -> None:
        choose(self.fusion, FUSIONS, "fusion")

    def message(self, name: str) -> str:
        """The message of an operation. Without a state of the edges the message ``edge`` is ``plain``."""
        message = split_operation(name)[1]
        return PLAIN if message == "edge" and not self.edge_state else message

    def operation(self, name: str, channels: int, count: int) -> nn.Module:
        """A stack of operations: of ``self.operations``, built in, or of an entry point of the group ``gnas.operations``."""
        name = split_operation(name)[0]
        make = resolve_plugin(name, {**OPERATIONS, **(self.operations or {})}, "gnas.operations", "operation")
        if hasattr(nn.ModuleDict, name):
            raise InputError(f"no operation can be called {name}: PyTorch's modules have a method of this name")
        try:
            made = make(channels, count, self.variant)
        except TypeError as error:
            raise InputError(f"operation {name} cannot be made with (channels, count, variant): {error}") from error
        if not isinstance(made, nn.Module):
            raise InputError(
                f"operation {name} is a {type(made).__name__}; it must be an Operation, see docs/extending.md"
            )
        return made


@dataclass(frozen=True)
class Slot:
    """One candidate operation on one link; ``index`` is its place in the cell's flat list of mixing weights."""

    source: int
    target: int
    operation: str
    index: int


class Transform(nn.Module):
    """What follows each operation: linear, batch norm, ReLU, for a whole stack of operations.

    The linear maps have no bias if a norm follows, which would subtract it.
    """

    def __init__(self, count: int, channels: int, norm: bool) -> None:
        super().__init__()
        self.linear = StackedLinear(count, channels, channels, bias=not norm)
        self.norm = StackedBatchNorm(count, channels) if norm else None

    def forward(self, h: Tensor, mask: Tensor | None) -> Tensor:
        h = self.linear(h)
        return F.relu(h if self.norm is None else self.norm(h, mask))

    def is_plain(self, x: Tensor, mask: Tensor | None) -> bool:
        """Whether :meth:`each` serves."""
        return self.norm is not None and self.norm.is_plain(x, mask)

    def each(self, raw: Sequence[Tensor]) -> list[Tensor]:
        """The same of one operation after the other, each ``[nodes, channels]``."""
        assert self.norm is not None
        maps = self.linear.weight.unbind()
        return [self.norm.plain(fused.map_rows(h, maps[k]), k) for k, h in enumerate(raw)]

    def mix(
        self,
        h: Tensor,
        mask: Tensor | None,
        weights: Tensor | None,
        targets: fused.Groups,
        before: Sequence[Tensor],
    ) -> Tensor:
        """The same, weighted and added into targets, as one function (see ``StackedBatchNorm.relu_mix``)."""
        assert self.norm is not None
        return self.norm.relu_mix(self.linear(h), mask, weights, targets, before)


@dataclass(frozen=True)
class _MessagePlan:
    """The links that have messages of one kind, and for each slot its link among them and its aggregator."""

    links: tuple[tuple[int, int], ...]
    wanted: tuple[Wanted, ...]

    @staticmethod
    def of(slots: Sequence[Slot]) -> _MessagePlan:
        links = tuple(dict.fromkeys((s.source, s.target) for s in slots))
        wanted = tuple((links.index((s.source, s.target)), split_operation(s.operation)[0]) for s in slots)
        return _MessagePlan(links, wanted)


class Stage(nn.Module):
    """Operations whose sources are known at the same moment, evaluated together.

    In training, the linear maps, norms and sums after the operations are fused functions. Evaluation, bare operations and
    networks without norm use plain PyTorch. Tests compare the two.
    """

    hits: Tensor

    def __init__(self, slots: Sequence[Slot], channels: int, config: CellConfig) -> None:
        super().__init__()
        bare = config.variant.bare
        kinds = list(dict.fromkeys(s.operation for s in slots))
        # Stable: operations with a transform come first, then plain ones, then one message after the other.
        messages = {kind: config.message(kind) for kind in kinds}
        rank = (PLAIN, *MESSAGE_TYPES)
        kinds.sort(key=lambda kind: (split_operation(kind)[0] in bare, rank.index(messages[kind])))
        self.slots = tuple(s for kind in kinds for s in slots if s.operation == kind)
        self.sources = {kind: [s.source for s in slots if s.operation == kind] for kind in kinds}
        self.targets = sorted({s.target for s in slots})
        plain = [kind for kind in kinds if messages[kind] == PLAIN]
        self.kinds = nn.ModuleDict({kind: config.operation(kind, channels, len(self.sources[kind])) for kind in plain})
        self.plans = {
            name: _MessagePlan.of([s for s in self.slots if messages[s.operation] == name])
            for name in MESSAGE_TYPES
            if name in messages.values()
        }
        self.messages = nn.ModuleDict(
            {name: MESSAGE_TYPES[name](channels, len(plan.links)) for name, plan in self.plans.items()}
        )
        self.blocks = list(dict.fromkeys(kind if kind in self.kinds else messages[kind] for kind in kinds))
        self.message_of = {kind: name for kind, name in messages.items() if name != PLAIN}
        self.transformed = sum(split_operation(s.operation)[0] not in bare for s in slots)
        self.transform = Transform(self.transformed, channels, config.norm) if self.transformed else None
        self.fusable = config.norm and self.transformed == len(self.slots)
        places = [self.targets.index(s.target) for s in self.slots]
        self.groups = fused.Groups(places)
        hits = torch.tensor([[place == t for place in places] for t in range(len(self.targets))])
        self.register_buffer("hits", hits.float(), persistent=False)
        self.gates = self._gate_plan()
        self.by_slots = self.fusable and not self.messages and all(map(self._is_known, self.kinds.items()))

    def forward(
        self,
        nodes: Mapping[int, Tensor],
        x: Tensor,
        batch: GraphBatch,
        weights: Tensor | None,
        related: EdgeInputs | None = None,
    ) -> Sequence[Tensor]:
        """The values of its targets after this stage; ``weights`` has one number for each of ``slots``."""
        if weights is None and self.by_slots and cast(Transform, self.transform).is_plain(x, batch.node_mask):
            return self._by_slots(nodes, x, batch)
        known = [target in nodes for target in self.targets]
        if fused.serves(self.training) and self.fusable and self.transform is not None:
            raw = self.raw(nodes, x, batch, related) if self.gates is None else self._gated(nodes, x, self.gates)
            before = [nodes[target] for target in self.targets] if all(known) else []
            mixed = _each(self.transform.mix(raw, batch.node_mask, weights, self.groups, before))
            return mixed if before or not any(known) else self._added(nodes, mixed)
        large = related is not None and is_large(related.edges, x)
        if weights is None and self.transform is None and not large:
            return self._added(nodes, self._unmixed(nodes, x, batch, related))
        mixing = self.hits if weights is None else self.hits * weights
        if self.transform is None and large:
            assert related is not None
            return self._added(nodes, _each(self._mixed_in_parts(nodes, x, batch, mixing, related)))
        return self._added(nodes, _each(_mix(mixing, self.evaluate(nodes, x, batch, related))))

    def _by_slots(self, nodes: Mapping[int, Tensor], x: Tensor, batch: GraphBatch) -> list[Tensor]:
        """The values of the targets, one operation after the other: on a CPU stacks are copies and gain nothing."""
        found: dict[str, Sequence[Tensor]] = {}
        aggregated = {k: _stack(nodes, self.sources[k], {}) for k in self.kinds if k in REDUCTIONS}
        reduced = self._aggregations(aggregated, batch.neighbors)
        for kind, operation in self.kinds.items():
            if kind in reduced:
                found[kind] = _each(reduced[kind])
            else:
                sources = [nodes[source] for source in self.sources[kind]]
                found[kind] = cast(Filter, operation).each(sources, x)
        raw = [one for kind in self.kinds for one in found[kind]]
        values = dict(nodes)
        for slot, value in zip(self.slots, cast(Transform, self.transform).each(raw), strict=True):
            values[slot.target] = values[slot.target] + value if slot.target in values else value
        return [values[target] for target in self.targets]

    def _unmixed(
        self, nodes: Mapping[int, Tensor], x: Tensor, batch: GraphBatch, related: EdgeInputs | None
    ) -> list[Tensor]:
        """The values of the targets if nothing follows the operations or weighs them: no stack is made of the results."""
        stacks: Stacks = {}
        simple = {kind for kind, operation in self.kinds.items() if type(operation) is Identity}
        found: dict[str, Sequence[Tensor] | Tensor] = {kind: [nodes[s] for s in self.sources[kind]] for kind in simple}
        found.update(self._plain(nodes, x, batch, stacks, simple))
        for name, message in self.messages.items():
            plan = self.plans[name]
            sent = _stack(nodes, [source for source, _ in plan.links], stacks)
            reduced = cast(Message, message).reduce(sent, cast(EdgeInputs, related), plan.wanted)
            found[name] = [reduced[one] for one in plan.wanted]
        values: dict[int, Tensor] = {}
        for slot, result in zip(self.slots, (one for block in self.blocks for one in found[block]), strict=True):
            values[slot.target] = values[slot.target] + result if slot.target in values else result
        return [values[target] for target in self.targets]

    def _mixed_in_parts(
        self, nodes: Mapping[int, Tensor], x: Tensor, batch: GraphBatch, mixing: Tensor, related: EdgeInputs
    ) -> Tensor:
        """The values of the targets, one part of the operations after another; the backward pass computes each part again."""

        def mix_plain(shares: Tensor) -> Tensor:
            found = self._plain(nodes, x, batch, {})
            return _mix(shares, torch.cat([found[block] for block in self.blocks if block in found]))

        def mix_message(shares: Tensor, name: str) -> Tensor:
            return _mix(shares, self._message(name, nodes, related))

        plain = sum(len(sources) for kind, sources in self.sources.items() if kind in self.kinds)
        shares = mixing.split([plain, *(len(self.plans[name].wanted) for name in self.messages)], dim=1)
        parts = [run_checkpointed(mix_plain, shares[0])] if plain else []
        parts += [
            run_checkpointed(mix_message, share, name) for share, name in zip(shares[1:], self.messages, strict=True)
        ]
        return functools.reduce(torch.add, parts)

    def _added(self, nodes: Mapping[int, Tensor], values: Sequence[Tensor]) -> list[Tensor]:
        """Values added to the present values of their targets."""
        pairs = zip(self.targets, values, strict=True)
        return [nodes[target] + value if target in nodes else value for target, value in pairs]

    def evaluate(
        self, nodes: Mapping[int, Tensor], x: Tensor, batch: GraphBatch, related: EdgeInputs | None = None
    ) -> Tensor:
        """Results of all operations, in the order of ``slots``: ``[slots, nodes, channels]``."""
        results = self.raw(nodes, x, batch, related)
        if self.transform is None:
            return results
        done = self.transform(results[: self.transformed], batch.node_mask)
        return done if self.transformed == len(self.slots) else torch.cat([done, results[self.transformed :]])

    def raw(
        self, nodes: Mapping[int, Tensor], x: Tensor, batch: GraphBatch, related: EdgeInputs | None = None
    ) -> Tensor:
        """Results of the operations alone, before any linear map."""
        stacks: Stacks = {}
        raw = self._plain(nodes, x, batch, stacks)
        for name in self.messages:
            assert related is not None
            if is_large(related.edges, x):
                raw[name] = run_checkpointed(self._message, name, nodes, related)
            else:
                raw[name] = self._message(name, nodes, related, stacks)
        return raw[self.blocks[0]] if len(raw) == 1 else torch.cat([raw[block] for block in self.blocks])

    def _plain(
        self,
        nodes: Mapping[int, Tensor],
        x: Tensor,
        batch: GraphBatch,
        stacks: Stacks,
        without: Collection[str] = (),
    ) -> dict[str, Tensor]:
        """Results of the operations that read no messages, by kind; ``without``: kinds to leave out."""
        inputs = {kind: _stack(nodes, self.sources[kind], stacks) for kind in self.kinds if kind not in without}
        raw = self._aggregations(inputs, batch.neighbors)
        for kind, values in inputs.items():
            if kind not in raw:
                raw[kind] = self.kinds[kind](values, x, batch.neighbors)
        return raw

    def _message(
        self, name: str, nodes: Mapping[int, Tensor], related: EdgeInputs, stacks: Stacks | None = None
    ) -> Tensor:
        """Results of the operations that read messages of one kind."""
        plan = self.plans[name]
        sent = _stack(nodes, [source for source, _ in plan.links], {} if stacks is None else stacks)
        return cast(Tensor, self.messages[name](sent, related, plan.wanted))

    def _is_known(self, item: tuple[str, nn.Module]) -> bool:
        """Whether this kind of operation is a filter or a reduction that is evaluated slot by slot."""
        kind, operation = item
        if kind in REDUCTIONS and isinstance(operation, NeighborSum | NeighborMean):
            return True
        return type(operation) in (Identity, SparseFilter, DenseFilter)

    def _gate_plan(self) -> fused.GatePlan | None:
        """The plan of the fused gates; None if an operation is not one of the three filters."""
        codes = {Identity: fused.IDENTITY, SparseFilter: fused.SPARSE, DenseFilter: fused.DENSE}
        if self.messages:
            return None
        for operation in self.kinds.values():
            if type(operation) not in codes or getattr(operation, "last", None) is not None:
                return None
        unique = sorted({s.source for s in self.slots})
        kinds = [codes[type(self.kinds[s.operation])] for s in self.slots]  # type: ignore[index]
        return fused.GatePlan([unique.index(s.source) for s in self.slots], kinds)

    def _gated(self, nodes: Mapping[int, Tensor], x: Tensor, plan: fused.GatePlan) -> Tensor:
        """The same as ``raw`` for the three filters."""
        unique = sorted({s.source for s in self.slots})
        h = nodes[unique[0]][None] if len(unique) == 1 else torch.stack([nodes[s] for s in unique])
        c = h.size(2)
        empty = h.new_empty
        weight, bias, dense, dense_bias = empty(0, 2 * c, 1), empty(0, 1, 1), empty(0, h.size(1), c), empty(0, 1, c)
        for kind, operation in self.kinds.items():
            if isinstance(operation, SparseFilter):
                weight, bias = operation.gate.weight, cast(Tensor, operation.gate.bias)
            if isinstance(operation, DenseFilter):
                rows = [unique.index(s) for s in self.sources[kind]]
                if h.device.type == "cpu":
                    dense = _dense_gates_apart(h, x, operation.gate.weight, rows, unique == [0])
                else:
                    dense = _dense_gates(with_input(h, x), operation.gate.weight, rows)
                dense_bias = cast(Tensor, operation.gate.bias)
        # A tuple that is never changed: torch.compile cannot trace `_replace`.
        return fused.gate(h, x, fused.Gates(weight, bias, dense, dense_bias), plan)

    def places(self) -> dict[tuple[int, int, str], list[tuple[nn.Module, int]]]:
        """Where each operation's parameters live: (module, row of its stack) pairs."""
        found: dict[tuple[int, int, str], list[tuple[nn.Module, int]]] = {}
        seen: dict[str, int] = {}
        for number, slot in enumerate(self.slots):
            row = seen.setdefault(slot.operation, 0)
            seen[slot.operation] += 1
            message = self.message_of.get(slot.operation)
            pairs: list[tuple[nn.Module, int]] = [(self.kinds[slot.operation], row)] if message is None else []
            if message is not None:
                pairs = [(self.messages[message], self.plans[message].links.index((slot.source, slot.target)))]
            if self.transform is not None and number < self.transformed:
                pairs.append((self.transform, number))
            found[slot.source, slot.target, slot.operation] = pairs
        return found

    def _aggregations(self, inputs: Mapping[str, Tensor], neighbors: Neighbors) -> dict[str, Tensor]:
        """Results of the built-in aggregators, in one pass over the edges."""
        messages = {}
        for kind, values in inputs.items():
            operation = self.kinds[kind]
            if kind in REDUCTIONS and isinstance(operation, NeighborSum | NeighborMean):
                messages[kind] = operation.messages(values)
        return reduce_together(messages, neighbors) if messages else {}


def _each(stack: Tensor) -> Sequence[Tensor]:
    """The slices of a stack. For a single slice this avoids the copy in the gradient of ``unbind``."""
    return (stack.squeeze(0),) if stack.size(0) == 1 else stack.unbind()


def _mix(mixing: Tensor, results: Tensor) -> Tensor:
    """Sums of results, one for each row of ``mixing``."""
    return (mixing.to(results.dtype) @ results.flatten(1)).view(-1, *results.shape[1:])


def _stack(nodes: Mapping[int, Tensor], sources: Sequence[int], known: Stacks) -> Tensor:
    """Latent nodes as one tensor, shared by all kinds of operation that read the same nodes."""
    key = tuple(sources)
    if key not in known:
        first, same = nodes[key[0]], len(set(key)) == 1
        if len(key) == 1:
            known[key] = first[None]  # the gradient of expand is a sum, even over a single slice
        else:
            known[key] = first.expand(len(key), -1, -1) if same else torch.stack([nodes[s] for s in key])
    return known[key]


def _dense_gates(pair: Tensor, weight: Tensor, rows: Sequence[int]) -> Tensor:
    """``pair[rows] @ weight``; from one source as a single wide product, whose gradient needs no sum over the filters."""
    if pair.size(0) > 1:
        return fused.product(_pick(pair, rows), weight)
    wide = weight.transpose(0, 1).flatten(1)
    # squeeze, not [0]: the gradient of a selection is a tensor of zeros and a copy.
    return fused.product(pair, wide[None]).squeeze(0).unflatten(1, (len(rows), -1)).transpose(0, 1)


def _dense_gates_apart(h: Tensor, x: Tensor, weight: Tensor, rows: Sequence[int], alone: bool) -> Tensor:
    """The same from both halves of the weights: on a CPU copies of the pairs take as long as a product.

    ``alone``: the cell's input is the only source.
    """
    own, given = weight.split(h.size(2), dim=1)
    if alone:
        return _dense_gates(h, own + given, rows)
    return _dense_gates(h, own, rows) + _dense_gates(x[None], given, [0] * len(rows))


def _pick(h: Tensor, rows: Sequence[int]) -> Tensor:
    """``h[rows]`` with a gradient that is summed in a fixed order; that of an indexed gather is not, on a GPU."""
    count = h.size(0)
    if count == 1:
        return h.expand(len(rows), -1, -1)
    if list(rows) == list(range(count)):
        return h
    if list(rows) == list(range(count)) * (len(rows) // count):
        return h.expand(len(rows) // count, -1, -1, -1).flatten(0, 1)
    return torch.stack([h[row] for row in rows])
