"""How a step is run: eagerly, compiled, or recorded once for each batch shape as a CUDA graph and replayed.

A step is a function of one or more planned batches (graph numbers in a tensor, and a shape); it leaves its effects
(weights, optimiser state, statistics) in tensors. On small graphs the host, not the GPU, sets the pace: one replay stands for
thousands of kernel launches.
"""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn

from gnas import distributed
from gnas.errors import InputError, choose
from gnas.run.protocol import ENGINES
from gnas.training.compiled import Compiled
from gnas.training.store import Capacity, Planned, Store

WARMUP = 3


Key = tuple[tuple[Capacity, int], ...]


@dataclass
class _Recorded:
    graph: torch.cuda.CUDAGraph
    inputs: tuple[Planned, ...]


class Engine:
    """Runs one step function. ``auto`` records CUDA graphs on a GPU and runs eagerly elsewhere.

    ``compiled`` also compiles the ``parts`` of the model that the step calls (seconds to minutes before the first step), on a
    GPU before the step is recorded. Optimisers and evaluation stay outside: a new learning rate compiles nothing again.
    The first steps of every shape run eagerly (they do real work and warm up libraries); then the step is recorded. The
    objects a recorded step touches must outlive the engine: whoever builds the step keeps model and optimisers.
    """

    def __init__(
        self,
        step: Callable[..., None],
        device: torch.device,
        mode: str = "auto",
        stream: Any = None,
        parts: Sequence[nn.Module] = (),
    ) -> None:
        choose(mode, ENGINES, "engine mode")
        if mode == "graph" and device.type != "cuda":
            raise InputError("engine mode 'graph' needs a CUDA device; use 'eager' or 'auto'")
        self.step, self.device = step, device
        if mode == "compiled" and parts:
            # Shapes are static on a GPU; on a CPU they change from batch to batch.
            self.step = partial(Compiled(parts, dynamic=device.type == "cpu").run, step)
        # A collective inside a recorded step is beyond what was tested: several processes run their steps eagerly.
        self.graphs = device.type == "cuda" and mode != "eager" and distributed.size() == 1
        self.stream = stream
        if device.type == "cuda":
            self.stream = stream or torch.cuda.Stream(device)
            # Weights, data and plans were made on another stream.
            self.stream.wait_stream(torch.cuda.current_stream(device))
        self._runs: dict[Key, int] = {}
        self._recorded: dict[Key, _Recorded] = {}

    def __call__(self, *planned: Planned) -> None:
        """Run one step on the engine's own stream."""
        with self.on_stream():
            key = tuple((p.capacity, p.ids.numel()) for p in planned)
            if self.stream is not None:
                for one in planned:  # whoever made them may let them go before the GPU has read them
                    one.ids.record_stream(self.stream)
            recorded = self._recorded.get(key)
            if recorded is None and self.graphs and self._runs.get(key, 0) >= WARMUP:
                recorded = self._record(key, planned)
            if recorded is None:
                self._runs[key] = self._runs.get(key, 0) + 1
                self.step(*planned)
                return
            for fixed, new in zip(recorded.inputs, planned, strict=True):
                fixed.ids.copy_(new.ids, non_blocking=True)
            recorded.graph.replay()

    def on_stream(self) -> contextlib.AbstractContextManager[object]:
        """Inside, work is queued on this engine's stream; reading a result waits for this engine alone."""
        return contextlib.nullcontext() if self.stream is None else torch.cuda.stream(self.stream)

    def _record(self, key: Key, planned: tuple[Planned, ...]) -> _Recorded | None:
        inputs = tuple(Planned(p.ids.clone(), p.capacity) for p in planned)
        graph = torch.cuda.CUDAGraph()
        try:
            torch.cuda.current_stream().synchronize()
            with torch.cuda.graph(graph, stream=self.stream, capture_error_mode="thread_local"):
                self.step(*inputs)
        except RuntimeError as error:
            reason = str(error).strip().splitlines()[0]
            warnings.warn(f"this step cannot be recorded as a CUDA graph, so it runs eagerly (slower): {reason}")
            self.graphs = False
            # A broken recording leaves the random generator waiting for its end, and every later draw would fail.
            generator = torch.cuda.default_generators[self.stream.device.index]
            generator.graphsafe_set_state(generator.clone_state())
            return None
        self._recorded[key] = _Recorded(graph, inputs)
        return self._recorded[key]


def mode_for(mode: str, *stores: Store) -> str:
    """The mode of a step that reads these stores: one whose batches are assembled on the host cannot be recorded."""
    return mode if all(store.static for store in stores) else "eager"


def use_deterministic() -> None:
    """From here on the same result bit for bit: on a GPU, if called before its first use, and with any number of threads.

    PyTorch adds long sums up in another order with another number of threads, and a search amplifies the last bit: one
    thread costs about half as much again as two on a CPU.
    """
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)
    # Else a kernel for every new tensor; nothing here reads what it has not written.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    torch.set_num_threads(1)


def take_turns(runs: Iterable[Iterator[None]]) -> None:
    """Advance several runs step by step in turn: on a GPU each has a stream of its own, so their work overlaps."""
    active = list(runs)
    while active:
        active = [run for run in active if next(run, _DONE) is not _DONE]


_DONE = object()
