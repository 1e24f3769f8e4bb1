"""Single and double bonds for aromatic rings, chosen the way the published ZINC graphs chose them.

A ring system has several such assignments. Current rdkit picks a canonical one; the published graphs hold what rdkit
picked until 2023: walk the ring system breadth-first from its first atom, give each atom that needs a double bond the
first neighbour that needs one too, and go back to the last choice when an atom is left over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class _State(NamedTuple):
    queue: tuple[int, ...]
    done: frozenset[int]
    needy: frozenset[int]  # atoms still without their double bond
    pairs: tuple[tuple[int, int], ...]


def double_bonds(neighbors: Mapping[int, Sequence[int]], needy: frozenset[int]) -> tuple[tuple[int, int], ...]:
    """Pair up the atoms in ``needy`` along aromatic bonds; ``neighbors`` lists those bonds for every aromatic atom."""
    state, choices = _State((), frozenset(), needy, ()), list[tuple[_State, int, tuple[int, ...]]]()
    while len(state.done) < len(neighbors):
        atom = state.queue[0] if state.queue else min(a for a in neighbors if a not in state.done)
        state = _visit(state, atom, neighbors)
        if atom not in state.needy:
            continue
        options = tuple(n for n in neighbors[atom] if n in state.needy)
        if not options:  # a wrong choice earlier
            if not choices:
                return ()
            state, atom, options = choices.pop()
        if options[1:]:
            choices.append((state, atom, options[1:]))
        pair = (atom, options[0])
        state = state._replace(needy=state.needy - set(pair), pairs=(*state.pairs, pair))
    return state.pairs


def _visit(state: _State, atom: int, neighbors: Mapping[int, Sequence[int]]) -> _State:
    done = state.done | {atom}
    queue = tuple(a for a in state.queue if a != atom)
    new = tuple(n for n in neighbors[atom] if n not in done and n not in queue)
    return state._replace(queue=queue + new, done=done)
