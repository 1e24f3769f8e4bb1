"""How many kernels does a training step launch? Counted without a GPU: nothing is timed, and Triton's kernels do not run.

    python benchmarks/launches.py                    # the recipes of ZINC, 20 s on one core
    python benchmarks/launches.py --cases zinc-gin+ --top 40

Every operation of PyTorch that writes memory counts as one kernel, as most are on a GPU, and so does every launch of a kernel
of ours. What a kernel of ours would have written stays as it was allocated.
"""

from __future__ import annotations

import argparse
import collections
import os
import sys
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

os.environ["GNAS_FUSED"] = os.environ["GNAS_AGGREGATE"] = "triton"

import work
from recipes import RECIPES, recipe_step
from triton.runtime.jit import JITFunction

from gnas.training.store import GraphStore

PLAN = GraphStore.plan
FREE = (
    "empty",
    "promote_types",
    "profiler",
    "detach",
    "alias",
    "lift",
    "_local_scalar",
    "_to_cpu",
    "prim::",
)  # no kernel


class Launches(TorchDispatchMode):
    """Counts operations that write memory, by name."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: collections.Counter[str] = collections.Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, result = str(func), func(*args, **(kwargs or {}))
        nothing = isinstance(result, torch.Tensor) and not result.numel()
        views = any(one.alias_info is not None and not one.alias_info.is_write for one in func._schema.returns)
        if not views and not nothing and not any(word in name for word in FREE) and not name.startswith("gnas."):
            self.seen[name.removeprefix("aten.")] += 1
        return result


def count(case: str, seeds: int = 1) -> collections.Counter[str]:
    """The launches of one step of a recipe."""
    benchmark, options = recipe_step(RECIPES[case], 64)
    ready = work.training(benchmark, 0, "eager", torch.device("cpu"), replicas=seeds, **options)
    ready.step()
    with Launches() as launches:

        def launch(kernel: JITFunction, *args: object, grid: object, warmup: bool = False, **options: object) -> None:
            launches.seen[f"triton {kernel.fn.__qualname__}"] += 1
            skip(kernel, *args, grid=grid)

        JITFunction.run = launch
        try:
            ready.step()
        finally:
            JITFunction.run = skip
    return launches.seen


def skip(kernel: JITFunction, *args: object, grid: object, warmup: bool = False, **options: object) -> None:
    """Not a launch; tensors of row numbers that the kernel would have written are zeros, so that rows can be read."""
    for parameter, value in zip(kernel.params, args, strict=False):
        if parameter.name.endswith("_out") and isinstance(value, torch.Tensor):
            value.numpy().fill(0)


def planned(store: GraphStore, *args: Any, **options: Any) -> Any:
    """The padded plan of a GPU."""
    return PLAN(store, *args, **{**options, "padded": True})


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--cases", nargs="+", choices=RECIPES, default=["zinc-gin+", "zinc-gatedgcn+"])
    words.add_argument("--top", type=int, default=25)
    chosen = words.parse_args()
    JITFunction.run, GraphStore.plan = skip, planned
    for case in chosen.cases:
        seen = count(case)
        print(f"{case}: {sum(seen.values())} kernels in a step")
        for name, number in seen.most_common(chosen.top):
            print(f"  {number:5d}  {name}")


if __name__ == "__main__":
    sys.exit(main())
