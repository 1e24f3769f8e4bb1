"""Trees of operations with their one-line formulas: ``[identity | dense(sum(dense))]``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

from gnas.arch.operation import AGGREGATORS, FILTERS, PLAIN, check_name, is_aggregator, split_operation
from gnas.errors import InputError


@dataclass(frozen=True)
class Tree:
    """A cell as GAP sees it: latent nodes, each computed from its parent by one operation.

    Nodes are renumbered in one canonical order (preorder, lower subtrees first, then by name), so trees that differ only in the
    order of children are equal.

    Args:
        parents: The parent of each node. Node 0 is the input, with parent -1.
        operations: The operation of each node; ``""`` for the input.
        outputs: The nodes the cell's output is made of: every leaf, and inner nodes too if a cell of a search has them as
            outputs.

    >>> gnas.gap.parse("[sum | max]") == gnas.gap.parse("[max | sum]")
    True
    """

    parents: tuple[int, ...]
    operations: tuple[str, ...]
    outputs: tuple[int, ...]

    def __post_init__(self) -> None:
        parents, operations, outputs = tuple(self.parents), tuple(self.operations), frozenset(self.outputs)
        _check_shape(parents, operations, outputs)
        _check_paths(parents, operations)
        order = _canonical_order(parents, operations, outputs)
        number = {old: new for new, old in enumerate(order)}
        object.__setattr__(self, "parents", tuple(number.get(parents[old], -1) for old in order))
        object.__setattr__(self, "operations", tuple(operations[old] for old in order))
        object.__setattr__(self, "outputs", tuple(sorted(number[old] for old in outputs)))

    @classmethod
    def from_links(cls, links: Iterable[tuple[int, int, str]], outputs: Iterable[int]) -> Tree:
        """The tree of (source, target, operation) links, sources first; skips and dead branches are dropped."""
        stands_for, incoming = {0: 0}, {}
        for source, target, operation in links:
            stands_for[target] = stands_for[source] if operation == "skip" else target
            incoming[target] = (stands_for[source], operation)
        ends = {stands_for[node] for node in outputs}
        live = {0}
        for end in ends:
            while end not in live:
                live.add(end)
                end = incoming[end][0]
        number = {old: new for new, old in enumerate(sorted(live))}
        kept = [incoming[old] for old in sorted(live - {0})]
        parents = (-1, *(number[source] for source, _ in kept))
        return cls(parents, ("", *(operation for _, operation in kept)), tuple(number[end] for end in ends))

    def __len__(self) -> int:
        return len(self.parents)

    def children(self, node: int) -> tuple[int, ...]:
        return tuple(child for child, parent in enumerate(self.parents) if parent == node)

    def __str__(self) -> str:
        uses = Counter((*self.parents, *self.outputs))
        shared = [node for node in range(1, len(self)) if uses[node] > 1]
        labels = {node: f"#{number}" for number, node in enumerate(shared, start=1)}
        branches = [_expression(self.parents, self.operations, node, labels) for node in self.outputs]
        return branches[0] if len(branches) == 1 else f"[{' | '.join(branches)}]"


def _expression(
    parents: tuple[int, ...], operations: tuple[str, ...], node: int, labels: dict[int, str] | None = None
) -> str:
    """One branch, the innermost operation applied first; the bare input itself is written ``skip``."""
    steps = []
    while node:
        aggregator, message = split_operation(operations[node])
        steps.append(aggregator + (labels or {}).get(node, ""))
        steps += [message] if message != PLAIN else []
        node = parents[node]
    return "(".join(steps) + ")" * (len(steps) - 1) if steps else "skip"


def _check_shape(parents: tuple[int, ...], operations: tuple[str, ...], outputs: frozenset[int]) -> None:
    if len(parents) != len(operations) or not parents or parents[0] != -1 or operations[0] != "":
        raise InputError("a tree has one root, node 0 with parent -1 and operation '', and one operation per node")
    for node, parent in enumerate(parents[1:], start=1):
        if not 0 <= parent < node:
            raise InputError(f"node {node} of the tree has parent {parent}; allowed: 0 to {node - 1}")
    for operation in operations[1:]:
        check_token(operation)
    wrong = sorted(outputs - set(range(len(parents))))
    if wrong or not outputs:
        raise InputError(
            f"tree outputs {wrong or 'are empty'}; choose at least one of the nodes 0 to {len(parents) - 1}"
        )
    dead = set(range(len(parents))) - set(parents) - outputs
    if dead:
        raise InputError(f"branch {_expression(parents, operations, min(dead))} ends in no output; every leaf is one")


def check_token(token: str) -> None:
    """Raise an error for a token that cannot be part of a tree."""
    name = token[1:] if token.startswith("@") else token
    check_name(name)
    if name == "skip":
        raise InputError("skip changes nothing inside a branch; leave it out")
    if name != token and name in (*FILTERS, *AGGREGATORS):
        raise InputError(f"{token}: @ marks user-defined aggregators only; write {name}")


def _check_paths(parents: tuple[int, ...], operations: tuple[str, ...]) -> None:
    aggregations = [0]
    for node in range(1, len(parents)):
        aggregations.append(aggregations[parents[node]] + is_aggregator(operations[node]))
        if aggregations[node] > 1:
            path = _expression(parents, operations, node)
            raise InputError(
                f"path {path} aggregates twice; at most one of {', '.join(AGGREGATORS)} on a path from the input"
            )


def _canonical_order(parents: tuple[int, ...], operations: tuple[str, ...], outputs: frozenset[int]) -> list[int]:
    children = _ranked_children(parents, operations, outputs)
    order, waiting = [], [0]
    while waiting:
        order.append(waiting.pop())
        waiting.extend(reversed(children[order[-1]]))
    return order


def _ranked_children(parents: tuple[int, ...], operations: tuple[str, ...], outputs: frozenset[int]) -> list[list[int]]:
    """Children in canonical order. Equal subtrees share a rank, computed height by height without recursion."""
    children: list[list[int]] = [[] for _ in parents]
    height = [0] * len(parents)
    for node in range(len(parents) - 1, 0, -1):
        children[parents[node]].append(node)
        height[parents[node]] = max(height[parents[node]], height[node] + 1)
    rank = [(0, 0)] * len(parents)
    for level, group in groupby(sorted(range(len(parents)), key=height.__getitem__), key=height.__getitem__):
        keys = {}
        for node in group:
            children[node].sort(key=rank.__getitem__)
            keys[node] = (operations[node], node not in outputs, tuple(rank[child] for child in children[node]))
        position = {key: place for place, key in enumerate(sorted(set(keys.values())))}
        for node, key in keys.items():
            rank[node] = (level, position[key])
    return children
