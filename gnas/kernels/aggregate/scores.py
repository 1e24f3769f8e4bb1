"""A number for each edge and head from its two ends: attention scores. Neither end is ever copied to the edges."""

from __future__ import annotations

import torch
from torch import Tensor

from gnas.graph import Neighbors
from gnas.kernels.choice import import_aggregate


def edge_scores(receiver: Tensor, sender: Tensor, neighbors: Neighbors, vector: Tensor | None = None) -> Tensor:
    r"""Scores of the edges j -> i: ``[receivers, H, D]`` and ``[senders, H, D]`` to ``[edges, H]``.

    .. math:: s_{ji,h} = \sum_d r_{ihd}\, x_{jhd} \qquad\text{or, with a vector v,}\qquad \sum_d v_d \tanh(r_{ihd} + x_{jhd})

    Padding edges score 0.
    """
    n, heads = neighbors, receiver.size(1)
    ends = receiver.flatten(1).contiguous(), sender.flatten(1).contiguous()
    out: Tensor = torch.ops.gnas.scores(*ends, vector, heads, n.source, n.target, n.ptr, n.back, n.back_ptr)
    return out


torch.library.define(
    "gnas::scores",
    "(Tensor receiver, Tensor sender, Tensor? vector, SymInt heads, Tensor source, Tensor target, Tensor ptr, Tensor back,"
    " Tensor back_ptr) -> Tensor",
)
torch.library.define(
    "gnas::scores_backward",
    "(Tensor grad, Tensor receiver, Tensor sender, Tensor? vector, Tensor source, Tensor target, Tensor ptr, Tensor back,"
    " Tensor back_ptr) -> (Tensor, Tensor, Tensor)",
)


@torch.library.impl("gnas::scores", "CompositeExplicitAutograd")
def _scores(
    receiver: Tensor,
    sender: Tensor,
    vector: Tensor | None,
    heads: int,
    source: Tensor,
    target: Tensor,
    ptr: Tensor,
    back: Tensor,
    back_ptr: Tensor,
) -> Tensor:
    like = receiver.new_empty(source.numel(), heads)
    out: Tensor = import_aggregate(receiver.device).multiply_ends(receiver, sender, source, target, ptr, like, vector)
    return out


@torch.library.impl("gnas::scores_backward", "CompositeExplicitAutograd")
def _scores_backward(
    grad: Tensor,
    receiver: Tensor,
    sender: Tensor,
    vector: Tensor | None,
    source: Tensor,
    target: Tensor,
    ptr: Tensor,
    back: Tensor,
    back_ptr: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    use, heads = import_aggregate(receiver.device), grad.size(1)
    if vector is None:
        at_receiver, at_sender = (
            use.sum_weighted(sender, grad, source, ptr, None),
            use.sum_weighted(receiver, grad, target, back_ptr, back),
        )
        return at_receiver, at_sender, grad.new_empty(0)
    at_receiver, bent = use.sum_slopes(receiver, sender, grad, source, ptr, None)
    at_sender, _ = use.sum_slopes(sender, receiver, grad, target, back_ptr, back)
    each = vector.repeat(heads)
    return at_receiver * each, at_sender * each, bent.sum(0).view(heads, -1).sum(0)


@torch.library.register_fake("gnas::scores")
def _(receiver, sender, vector, heads, source, target, ptr, back, back_ptr):  # type: ignore[no-untyped-def]
    return receiver.new_empty(source.numel(), heads)


@torch.library.register_fake("gnas::scores_backward")
def _(grad, receiver, sender, vector, source, target, ptr, back, back_ptr):  # type: ignore[no-untyped-def]
    of_vector = grad.new_empty(0) if vector is None else torch.empty_like(vector)
    return torch.empty_like(receiver), torch.empty_like(sender), of_vector


def _setup(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]
    receiver, sender, vector, _, *edges = inputs
    ctx.save_for_backward(receiver, sender, vector, *edges)


def _backward(ctx, grad):  # type: ignore[no-untyped-def]
    saved = ctx.saved_tensors
    of_receiver, of_sender, of_vector = torch.ops.gnas.scores_backward(grad.contiguous(), *saved)
    return of_receiver, of_sender, None if saved[2] is None else of_vector, None, None, None, None, None, None


torch.library.register_autograd("gnas::scores", _backward, setup_context=_setup)
