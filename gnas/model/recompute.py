"""Computing again in the backward pass what would fill the memory: rows of edges, of which there are many."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from gnas.model.edges import Edges

LARGE = 2**26  # bytes of one row for each edge: 260,000 edges with 64 channels


def is_large(edges: Edges, like: Tensor) -> bool:
    """Whether one row for each edge, as wide as the rows of ``like``, takes so much that it is not kept.

    A compiler chooses by itself what to compute again.
    """
    if not torch.is_grad_enabled() or torch.compiler.is_compiling():
        return False
    return edges.neighbors.source.numel() * like.size(-1) * like.element_size() >= LARGE


def run_checkpointed(function: Callable[..., Tensor], *arguments: Any) -> Tensor:
    """``function(*arguments)``, of which only the arguments are kept: the backward pass calls it again.

    The results are the same bits. The function must not draw random numbers or change buffers.
    """
    return cast(Tensor, checkpoint(function, *arguments, use_reentrant=False, preserve_rng_state=False))
