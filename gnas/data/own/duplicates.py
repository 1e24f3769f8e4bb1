"""Graphs that occur more than once: the same nodes and edges with the same columns, in any order of the nodes."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from gnas.data.atoms import parse_canonical
from gnas.data.encoding import Array
from gnas.data.own.raw import as_matrix
from gnas.data.smiles import import_rdkit
from gnas.graph import GraphSet

ROUNDS = 4  # of neighbourhood hashing
MOST_TIES = 32  # nodes of a graph that get different ranks before the order of the file decides


def find_duplicates(graphs: GraphSet, smiles: Sequence[str] = ()) -> list[Array]:
    """The numbers of equal graphs, group by group.

    Neighbourhood hashes select candidates. Molecules are then compared by their canonical SMILES: all copies are found, however
    alike their atoms are. Other graphs are compared node by node and edge by edge in an order that depends on the hashes: two
    graphs of a group are always equal, but two equal graphs are missed if many of their nodes have equal neighbourhoods.
    """
    content = _Colours(graphs).hash_graphs()
    candidates = np.concatenate([np.zeros(0, np.int64), *_group(content)])
    if not len(candidates):
        return []
    keys = _canonical_smiles(smiles, candidates) if smiles else _canonical_forms(graphs, candidates)
    pairs = [f"{key} {hashed}" for key, hashed in zip(keys, content[candidates].tolist(), strict=True)]
    _, codes = np.unique(pairs, return_inverse=True)
    return sorted((candidates[group] for group in _group(codes.reshape(-1))), key=lambda group: int(group[0]))


def _group(values: Array) -> list[Array]:
    """The positions of each value that occurs more than once, ascending."""
    order = np.argsort(values, kind="stable")
    same = values[order]
    starts = np.flatnonzero(np.concatenate([[True], same[1:] != same[:-1]])) if len(same) else np.zeros(0, np.int64)
    lengths = np.diff(np.append(starts, len(same)))
    return [order[a : a + n] for a, n in zip(starts[lengths > 1], lengths[lengths > 1], strict=True)]


class _Colours:
    """A number per node that equal nodes of equal graphs share (Weisfeiler and Leman's colours), for all graphs at once."""

    def __init__(self, graphs: GraphSet) -> None:
        self.graphs = graphs
        starts = np.repeat(graphs.node_ptr.numpy()[:-1], graphs.edge_counts.numpy())
        self.source, target = (ends.numpy().astype(np.int64) + starts for ends in graphs.edge_index)
        self.pointers = np.concatenate([[0], np.bincount(target, minlength=graphs.num_nodes).cumsum()])
        self.edges = _hash_rows(graphs.edge_attr, len(target))
        self.values = _hash_rows(graphs.x, graphs.num_nodes)
        self._refine()

    def _refine(self) -> None:
        """Add the colours of the neighbours, a few times."""
        for _ in range(ROUNDS):
            messages = _mix(self.values[self.source] + self.edges)
            self.values = _mix(self.values + _sum_ranges(messages, self.pointers))

    def hash_graphs(self) -> Array:
        """A number per graph that equal graphs share."""
        pointers = self.graphs.node_ptr.numpy()
        whole = _hash_rows(self.graphs.graph_attr, len(self.graphs))
        return _mix(_sum_ranges(_mix(self.values), pointers) + _mix(np.diff(pointers).astype(np.uint64)) + whole)

    def order_nodes(self) -> Array:
        """Nodes of each graph in the order of their colours; of nodes with one colour, one after another gets its own."""
        graph = np.repeat(np.arange(len(self.graphs)), self.graphs.node_counts.numpy())
        for _ in range(MOST_TIES):
            order = np.lexsort((self.values, graph))
            tied = (np.diff(self.values[order]) == 0) & (np.diff(graph[order]) == 0)
            if not tied.any():
                break
            at = np.flatnonzero(tied)
            _, first = np.unique(graph[order[at]], return_index=True)
            chosen = order[at[first]]
            self.values[chosen] = _mix(self.values[chosen] + np.uint64(1))
            self._refine()
        return np.lexsort((self.values, graph))


def _hash_rows(values: Tensor | None, rows: int) -> Array:
    found = np.zeros(rows, np.uint64)
    for column in () if values is None else as_matrix(values.numpy()).T:
        plain = np.ascontiguousarray(column)
        whole = plain.dtype.kind != "f"
        bits = plain.astype(np.int64).view(np.uint64) if whole else (plain + 0.0).view(f"u{plain.itemsize}")
        found = _mix(found + bits.astype(np.uint64))
    return found


def _sum_ranges(values: Array, pointers: Array) -> Array:
    """Sums between pointers, modulo 2^64."""
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(values, dtype=np.uint64)])
    return sums[pointers[1:]] - sums[pointers[:-1]]


def _mix(values: Array) -> Array:
    """The finaliser of splitmix64: every bit of the result depends on every bit of the value."""
    z = values + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


# -- exact forms of the candidates ---------------------------------------------------------------------------------


def _canonical_forms(graphs: GraphSet, candidates: Array) -> list[str]:
    """A digest of the nodes and edges of each candidate, in the order of the colours."""
    few = graphs.select(torch.from_numpy(candidates))
    x, edge_index = few.x.numpy(), few.edge_index.numpy().astype(np.int64)
    edge_attr = None if few.edge_attr is None else as_matrix(few.edge_attr.numpy())
    nodes, edges, ordered = few.node_ptr.tolist(), few.edge_ptr.tolist(), _Colours(few).order_nodes()
    forms = []
    for g in range(len(few)):
        order = ordered[nodes[g] : nodes[g + 1]]
        number = np.empty(len(order), np.int64)
        number[order - nodes[g]] = np.arange(len(order))
        source, target = number[edge_index[:, edges[g] : edges[g + 1]]]
        by_ends = np.lexsort((source, target))
        digest = hashlib.sha256(f"{len(order)} {len(source)} ".encode())
        for part in (x[order], source[by_ends], target[by_ends]):
            digest.update(np.ascontiguousarray(part).tobytes())
        if edge_attr is not None:
            digest.update(np.ascontiguousarray(edge_attr[edges[g] : edges[g + 1]][by_ends]).tobytes())
        forms.append(digest.hexdigest())
    return forms


def _canonical_smiles(smiles: Sequence[str], candidates: Array) -> list[str]:
    """rdkit's canonical SMILES, also of molecules with an unusual valence."""
    chem, written = import_rdkit(), []
    for text in (smiles[i] for i in candidates.tolist()):
        molecule = chem.MolFromSmiles(text)
        if molecule is None and (parsed := parse_canonical(text)) is not None:
            molecule = parsed[0]
        written.append(text if molecule is None else str(chem.MolToSmiles(molecule)))
    return written
