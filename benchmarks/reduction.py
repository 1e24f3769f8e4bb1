"""How fast is the neighbour reduction? Sum, mean and max over senders, forward and backward, in bytes per second.

    python benchmarks/reduction.py                 # a GPU if there is one, about 40 s
    python benchmarks/reduction.py --device cpu

Ours (``gnas.kernels.aggregate``: all three in one pass over sorted edges) against ``index_add`` and ``scatter_reduce`` (as PyG's
MessagePassing), and against ``torch.sparse`` CSR products. Those have no max: they are compared on sum and mean alone.
On a GPU calls are recorded in a CUDA graph where possible (column ``recorded``): kernels are timed, not the host.

Bytes are counted alike for all (float32, C channels, N nodes, E edges, 4-byte indices), whatever an implementation moves:
each sender's row is read once for each edge, each result is written once.
  forward   E * C * 4 (rows) + E * 4 + N * 4 (indices) + N * C * 4 for each result
  backward  E * C * 4 for the gradients of sum and mean (added first: one row per edge), N * C * 8 for that of max and its
            argument, E * 4 + N * 4 (indices), N * C * 4 (the result)
``of_copy`` is bytes per second over those of a plain copy of 1 GiB (256 MiB on a CPU), read and written, measured in the same
run. It can exceed 1: rows are read again from the cache. ``ours_faster`` is the time of each over ours.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable

import torch
from rows import Rows, parser
from shapes import SHAPES, regular, synthetic
from torch import Tensor

from gnas.graph import GraphSet, Neighbors
from gnas.kernels.aggregate import inverse_degree, reduce
from gnas.kernels.choice import choose_implementation

COLUMNS = (
    *("shape", "nodes", "edges", "channels", "what", "direction", "results", "recorded", "microseconds"),
    *("gigabytes_per_s", "of_copy", "copy_gigabytes_per_s", "ours_faster"),
)
Results = tuple[Tensor, ...]


def main() -> None:
    words = parser(__doc__, "reduction.csv")
    words.add_argument("--shapes", nargs="+", default=["zinc", "mnist", "pattern", "large"], choices=[*SHAPES, "large"])
    words.add_argument("--channels", type=int, nargs="+", default=[192], help="3 latent nodes of width 64 by default")
    words.add_argument("--batch", type=int, default=64)
    words.add_argument("--large", type=int, nargs=2, default=None, help="nodes and senders of each, of the shape large")
    words.add_argument("--threads", type=int, default=0)
    chosen = words.parse_args()
    if chosen.threads:
        torch.set_num_threads(chosen.threads)
    device = torch.device(chosen.device)
    rows = Rows(chosen.out, device, COLUMNS)
    warnings.filterwarnings("ignore", message="Sparse")
    if device.type == "cuda":
        # Backward passes run on the stream of their forward pass: recording needs one that is not the default.
        torch.cuda.set_stream(torch.cuda.Stream())
    copy = copy_speed(device)
    for shape in chosen.shapes:
        large = chosen.large or ((200_000, 16) if device.type == "cuda" else (20_000, 16))
        graphs = regular(1, *large).train if shape == "large" else synthetic(shape, (chosen.batch, 2, 2)).train
        for channels in chosen.channels:
            bench(rows, shape, graphs, channels, device, copy)


def bench(rows: Rows, shape: str, graphs: GraphSet, channels: int, device: torch.device, copy: float) -> None:
    near = graphs.batch().neighbors.to(device)
    nodes, edges = graphs.num_nodes, graphs.num_edges
    x = torch.randn(nodes, channels, device=device, requires_grad=True)
    found = f"{shape} (random graphs of this size)" if shape != "large" else "large (one random graph)"
    for results in (3, 2):
        best: dict[str, float] = {}
        for what, run in contestants(near, nodes, results, device).items():
            with torch.no_grad():
                check(run(x), reference(x.detach(), near, results), what)
            grads = tuple(torch.randn(nodes, channels, device=device) for _ in range(results))
            for direction, call in calls(run, x, grads).items():
                seconds, recorded = clock(call, device)
                best.setdefault(direction, seconds)  # ours comes first
                moved = count(direction, nodes, edges, channels, results)
                rows.add(
                    shape=found,
                    nodes=nodes,
                    edges=edges,
                    channels=channels,
                    what=what,
                    direction=direction,
                    results="sum, mean, max" if results == 3 else "sum, mean",
                    recorded=recorded,
                    microseconds=seconds * 1e6,
                    gigabytes_per_s=moved / seconds / 1e9,
                    of_copy=moved / seconds / copy,
                    copy_gigabytes_per_s=copy / 1e9,
                    ours_faster=seconds / best[direction],
                )


def contestants(
    near: Neighbors, nodes: int, results: int, device: torch.device
) -> dict[str, Callable[[Tensor], Results]]:
    """What is compared, ours first."""
    inverse = inverse_degree(near, torch.float32)
    source, target = near.source.long(), near.target.long()

    def ours(x: Tensor) -> Results:
        total, largest = reduce(x, near, x.size(1), 0 if results == 3 else x.size(1))
        return (total, total * inverse, largest)[:results]

    def scatter(x: Tensor) -> Results:
        message = x.index_select(0, source)
        zeros = x.new_zeros(nodes, x.size(1))
        total = zeros.index_add(0, target, message)
        if results == 2:
            return total, total * inverse
        index = target[:, None].expand_as(message)
        return total, total * inverse, zeros.scatter_reduce(0, index, message, "amax", include_self=False)

    ones = torch.ones(source.numel(), device=device)
    matrix = torch.sparse_csr_tensor(near.ptr.long(), source, ones, (nodes, nodes))

    def sparse(x: Tensor) -> Results:
        total = _Product.apply(matrix, transposed, x)
        return total, total * inverse

    order = near.back.long()
    transposed = torch.sparse_csr_tensor(near.back_ptr.long(), target[order], ones, (nodes, nodes))
    names = {f"gnas ({choose_implementation('GNAS_AGGREGATE', device)})": ours, "index_add, scatter_reduce": scatter}
    return {**names, "torch.sparse": sparse} if results == 2 else names


class _Product(torch.autograd.Function):
    """A CSR product; its gradient by the transposed matrix, ready beforehand: stock autograd would transpose at every step."""

    @staticmethod
    def forward(ctx, matrix: Tensor, transposed: Tensor, x: Tensor) -> Tensor:  # type: ignore[no-untyped-def, override]
        ctx.transposed = transposed
        return matrix @ x

    @staticmethod
    def backward(ctx, grad: Tensor):  # type: ignore[no-untyped-def, override]
        return None, None, ctx.transposed @ grad


def calls(run: Callable[[Tensor], Results], x: Tensor, grads: Results) -> dict[str, Callable[[], object]]:
    """One call of each direction; backward passes go through a graph that is kept."""

    def forward() -> object:
        with torch.no_grad():
            return run(x)

    out = run(x)
    return {"forward": forward, "backward": lambda: torch.autograd.grad(out, x, grads, retain_graph=True)}


def count(direction: str, nodes: int, edges: int, channels: int, results: int) -> float:
    """Bytes, as the first lines of this file say."""
    row, indices = 4 * channels, 4 * (nodes + edges)
    if direction == "forward":
        return edges * row + indices + results * nodes * row
    return edges * row + indices + nodes * row + (2 * nodes * row if results == 3 else 0)


def reference(x: Tensor, near: Neighbors, results: int) -> Results:
    """Slow and obvious, for the check."""
    message, target = x[near.source.long()], near.target.long()
    total = torch.zeros_like(x).index_add_(0, target, message)
    largest = torch.zeros_like(x).scatter_reduce_(
        0, target[:, None].expand_as(message), message, "amax", include_self=False
    )
    return (total, total * inverse_degree(near, x.dtype), largest)[:results]


def check(found: Results, wanted: Results, what: str) -> None:
    for one, other in zip(found, wanted, strict=True):
        if not torch.allclose(one, other, rtol=1e-3, atol=1e-3):
            raise SystemExit(f"{what} is wrong by {float((one - other).abs().max())}")


def clock(call: Callable[[], object], device: torch.device, budget: float = 0.3) -> tuple[float, str]:
    """Seconds of one call, and whether it ran recorded."""
    if device.type != "cuda":
        return _timed(call, budget, lambda: None), "no"
    each = 10
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph, stream=torch.cuda.current_stream(), capture_error_mode="thread_local"):
            for _ in range(each):
                call()
    except RuntimeError:
        torch.cuda.synchronize()
        return _timed(call, budget, torch.cuda.synchronize), "no"
    return _timed(graph.replay, budget, torch.cuda.synchronize) / each, "yes"


def _timed(call: Callable[[], object], budget: float, synchronize: Callable[[], object]) -> float:
    """The best of five parts."""
    call()
    synchronize()
    started = time.perf_counter()
    call()
    synchronize()
    each = max(1, min(200, int(budget / 5 / max(time.perf_counter() - started, 1e-7))))
    best = float("inf")
    for _ in range(5):
        started = time.perf_counter()
        for _ in range(each):
            call()
        synchronize()
        best = min(best, (time.perf_counter() - started) / each)
    return best


def copy_speed(device: torch.device) -> float:
    """Bytes per second of a plain copy: read and written."""
    one = torch.empty((2**30 if device.type == "cuda" else 2**28) // 4, device=device).normal_()
    other = torch.empty_like(one)
    seconds, _ = clock(lambda: other.copy_(one), device)
    return 2 * one.numel() * 4 / seconds


if __name__ == "__main__":
    main()
