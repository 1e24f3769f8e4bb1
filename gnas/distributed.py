"""One search or training on several processes, started by ``torchrun``: each computes a share of every batch.

Every process has all the data and the same weights and alphas. Losses are divided by the counts of all shares, so that
gradients add up to those of the whole batch, and every process takes the same step. With a single process the functions here
do nothing. Collectives are those of torch.distributed: gloo between CPUs, NCCL between GPUs.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from gnas.errors import InputError, RunError

P = ParamSpec("P")
T = TypeVar("T")

_joined = False  # set by join_processes: only then is a process group used for runs
_norms_shared = False  # not a context variable: torch.compile cannot read one
_AT_FIRST: ContextVar[bool] = ContextVar("_AT_FIRST", default=False)  # only the first process works, the others wait


class Diverged(RunError):
    """Processes that must hold the same values do not."""


# -- processes ------------------------------------------------------------------------------------------------------------


def is_launched() -> bool:
    """Whether ``torchrun`` started this process as one of several."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1 and "RANK" in os.environ and "MASTER_ADDR" in os.environ


def local_device() -> torch.device:
    """The GPU of this process."""
    index = int(os.environ.get("LOCAL_RANK", "0"))
    if index >= torch.cuda.device_count():
        raise InputError(
            f"process {index} of this machine has no GPU: there are {torch.cuda.device_count()}; start one process per "
            "GPU (torchrun --nproc-per-node), or use --device cpu"
        )
    return torch.device("cuda", index)


def join_processes(device: torch.device | str = "cpu") -> None:
    """Join the other processes, if ``torchrun`` started several; alone it does nothing.

    A process group of the caller is used as it is.

    >>> from gnas import distributed
    >>> distributed.join_processes("cpu")
    >>> distributed.is_first()
    True
    """
    global _joined
    if not is_launched() and not dist.is_initialized():
        return
    device = torch.device(device)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    if not dist.is_initialized():
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
        atexit.register(leave_processes)
    _joined = True


def leave_processes() -> bool:
    """End the joint work. Returns whether this process is the first, which reports the result."""
    global _joined
    first, _joined = is_first(), False
    if dist.is_initialized():
        dist.destroy_process_group()
    return first


def num_processes() -> int:
    """Number of processes."""
    return dist.get_world_size() if _joined else 1


def get_rank() -> int:
    """Number of this process."""
    return dist.get_rank() if num_processes() > 1 else 0


def batch_share() -> tuple[int, int]:
    """The number of this process's share of a batch, and the number of shares."""
    return get_rank(), num_processes()


def is_first() -> bool:
    """Whether this process writes and prints."""
    return get_rank() == 0


def available_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# The current folder is not a place to import from: a yaml.py that lies there must not run. ``-P`` needs Python 3.11.
_START = (
    "import sys; sys.path[:] = [*(path for path in sys.path if path), sys.argv.pop()]; "
    "from {module} import {function}; {function}()"
)


def start_command(module: str, function: str = "main", *words: str) -> list[str]:
    """The words of a process that calls a function of this package, and imports nothing from the current folder.

    The function finds ``words`` in ``sys.argv[1:]``.
    """
    package = Path(__file__).resolve().parents[1]
    return [sys.executable, "-c", _START.format(module=module, function=function), *words, str(package)]


@contextlib.contextmanager
def at_root() -> Iterator[None]:
    """Inside, the current folder is the root: processes that libraries start import from the folder that they find."""
    before = os.getcwd()
    os.chdir("/")
    try:
        yield
    finally:
        os.chdir(before)


# -- numbers --------------------------------------------------------------------------------------------------------------


def sum_over_processes(value: Tensor) -> Tensor:
    """The sum over all processes, without a gradient."""
    if num_processes() == 1:
        return value
    value = value.detach().clone()
    dist.all_reduce(value)
    return value


def sum_each_over_processes(values: Sequence[Tensor]) -> list[Tensor]:
    """Sums over all processes, in one exchange."""
    if num_processes() == 1:
        return list(values)
    flat = sum_over_processes(torch.cat([v.detach().flatten() for v in values]))
    parts = flat.split([v.numel() for v in values])
    return [part.view_as(v) for part, v in zip(parts, values, strict=True)]


def sum_gradients(loss: Tensor, parameters: Sequence[nn.Parameter]) -> tuple[Tensor, list[Tensor]]:
    """The loss of the whole batch and its gradients, from this process's share of the loss."""
    found = torch.autograd.grad(loss, parameters)
    whole, *summed = sum_each_over_processes([loss, *found])
    return whole, summed


def reduce_gradients(loss: Tensor, parameters: Sequence[nn.Parameter]) -> Tensor:
    """Sum the gradients of ``backward`` over all processes. Returns the loss of the whole batch."""
    if num_processes() == 1:
        return loss
    held = [p for p in parameters if p.grad is not None]
    whole, *summed = sum_each_over_processes([loss, *(p.grad for p in held if p.grad is not None)])
    for parameter, gradient in zip(held, summed, strict=True):
        parameter.grad = gradient
    return whole


def any_of(flag: bool) -> bool:
    """Whether the condition is true in any process."""
    return flag if num_processes() == 1 else bool(sum_over_processes(torch.tensor(float(flag), device=_device())))


def same_start(*modules: nn.Module) -> None:
    """Copy weights, alphas and statistics of the first process to every process."""
    if num_processes() > 1:
        for module in modules:
            for value in module.state_dict().values():
                dist.broadcast(value, 0)


@torch.no_grad()
def end_epoch(*modules: nn.Module) -> None:
    """End an epoch: average running statistics over the processes and check that parameters are equal.

    Raises :class:`Diverged` in every process if they are not: different networks would give different genotypes.
    """
    if num_processes() == 1:
        return
    for module in modules:
        mine = dict(module.named_parameters())
        running = [v for name, v in module.state_dict().items() if name not in mine and v.is_floating_point()]
        for value, summed in zip(running, sum_each_over_processes(running) if running else [], strict=True):
            value.copy_(summed / num_processes())
        check_same(mine, type(module).__name__)


def check_same(values: Mapping[str, Tensor], what: str) -> None:
    """Check that all processes have the same bits."""
    code = 0
    for value in values.values():
        code = zlib.crc32(value.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes(), code)
    codes = _gathered(torch.tensor([code], device=_device())).flatten().tolist()
    if len(set(codes)) > 1:
        shown = ", ".join(f"{number:08x}" for number in codes)
        raise Diverged(
            f"the {what} differs between the {num_processes()} processes (checksums by rank: {shown}); the run stops here; "
            "resume it from its last checkpoint"
        )


def _gathered(value: Tensor) -> Tensor:
    """The values of all processes, ``[processes, ...]``."""
    parts = [torch.empty_like(value) for _ in range(num_processes())]
    dist.all_gather(parts, value.contiguous())
    return torch.stack(parts)


def _device() -> torch.device:
    return torch.device("cuda", torch.cuda.current_device()) if dist.get_backend() == "nccl" else torch.device("cpu")


# -- files and output -----------------------------------------------------------------------------------------------------


def from_first(work: Callable[[], T]) -> T:
    """Run ``work`` in the first process and return its result, or raise its error, in every process."""
    if num_processes() == 1 or _AT_FIRST.get():
        return work()
    answer: list[Any] = [None, None]
    if is_first():
        inside = _AT_FIRST.set(True)
        try:
            answer[0] = work()
        except Exception as error:
            answer[1] = error
        finally:
            _AT_FIRST.reset(inside)
    dist.broadcast_object_list(answer, 0)
    if answer[1] is not None:
        raise answer[1]
    return answer[0]  # type: ignore[no-any-return]


def by_first(method: Callable[P, T]) -> Callable[P, T]:
    """Make a method run in the first process alone, which writes the files; the others receive its result."""

    @functools.wraps(method)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> T:
        return from_first(lambda: method(*args, **kwargs))

    return wrapped


# -- batch norm -----------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def shared_norms(on: bool) -> Iterator[None]:
    """A context in which, if ``on``, batch norms compute statistics over the real nodes of all processes."""
    global _norms_shared
    before, _norms_shared = _norms_shared, on and num_processes() > 1
    try:
        yield
    finally:
        _norms_shared = before


def norms_are_shared() -> bool:
    return _norms_shared


def normalise_over_processes(h: Tensor, mask: Tensor | None, eps: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Standardise ``h`` (``[count, nodes, channels]``) by mean and deviation over the nodes in ``mask`` of all processes.

    Also returns the mean, the biased variance and the number of nodes.
    """
    return _Normalise.apply(h, mask, eps)  # type: ignore[no-untyped-call]


class _Normalise(torch.autograd.Function):
    """Two exchanges: counts, means and squares forward; the two sums of the gradient backward."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, mask: Tensor | None, eps: float) -> tuple[Tensor, ...]:  # type: ignore[override]
        keep = h.new_ones(h.size(1), 1) if mask is None else mask.to(h.dtype)[:, None]
        count = keep.sum()
        mean = (h * keep).sum(1, keepdim=True) / count.clamp_min(1)
        squares = ((h - mean).square() * keep).sum(1, keepdim=True)
        known = _gathered(torch.cat([count[None], mean.flatten(), squares.flatten()]))
        counts = known[:, 0].view(-1, 1, 1, 1)
        means, sums = (part.reshape(-1, *mean.shape) for part in known[:, 1:].chunk(2, dim=1))
        count = counts.sum().clamp_min(1)
        mean = (counts * means).sum(0) / count
        # Squares around the mean of each share, then moved to the common mean: no difference of large numbers.
        var = (sums + counts * (means - mean).square()).sum(0) / count
        rstd = torch.rsqrt(var + eps)
        out = (h - mean) * rstd
        ctx.save_for_backward(out, rstd, count, mask)
        ctx.mark_non_differentiable(mean, var, count)
        return out, mean, var, count

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, *_: Tensor) -> Any:  # type: ignore[override]
        out, rstd, count, mask = ctx.saved_tensors
        shift, slope = sum_each_over_processes([grad.sum(1, keepdim=True), (grad * out).sum(1, keepdim=True)])
        through = (shift + out * slope) / count
        # Rows of padding are not in the statistics.
        through = through if mask is None else through * mask[:, None]
        return (grad - through) * rstd, None, None
