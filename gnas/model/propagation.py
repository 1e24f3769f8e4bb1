"""Outputs of nodes spread over the graph: predict, then propagate.

Gasteiger, Bojchevski and Günnemann, Predict then Propagate: Graph Neural Networks meet Personalized PageRank, ICLR 2019.
"""

from __future__ import annotations

from torch import Tensor

from gnas.graph import Neighbors
from gnas.kernels.aggregate import convolve

TELEPORT = 0.1  # share of a node's own output in every step


def propagate(out: Tensor, neighbors: Neighbors, steps: int) -> Tensor:
    r""":math:`Z \leftarrow (1 - t)\, \hat{A} Z + t H`, ``steps`` times from :math:`Z = H`: PyG's ``APPNP(steps, alpha=t)``."""
    spread = out
    for _ in range(steps):
        spread = (1 - TELEPORT) * convolve(spread, neighbors) + TELEPORT * out
    return spread
