"""Run a step eagerly, compiled, or recorded once per batch shape as a CUDA graph and replayed.

A step is a function of one or more planned batches (graph numbers in a tensor, and a shape). It changes tensors in place:
weights, optimiser state, statistics. On small graphs the host limits the speed, not the GPU: one replay replaces thousands of
kernel launches.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import sys
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
from gnas.training.store import Capacity, Planned, Store

WARMUP = 3
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of malloc.h
# Every cell of a network is compiled for training and for evaluation: more graphs than PyTorch allows by default.
LIMITS = {"recompile_limit": 256, "accumulated_recompile_limit": 4096}

Key = tuple[tuple[Capacity, int], ...]


@dataclass
class _Recorded:
    graph: torch.cuda.CUDAGraph
    inputs: tuple[Planned, ...]


class Engine:
    """Runs one step function. ``auto`` records CUDA graphs on a GPU and runs eagerly elsewhere.

    ``compiled`` also compiles the ``parts`` of the model that the step calls (seconds to minutes before the first step), on a
    GPU before the step is recorded. Optimisers are not compiled, so a new learning rate causes no compilation.
    The first steps of every shape run eagerly (they do real work and warm up libraries); then the step is recorded. The
    objects of a recorded step must outlive the engine: the caller holds the model and the optimisers.
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
        # Recorded steps with collectives are not tested: several processes run their steps eagerly.
        self.graphs = device.type == "cuda" and mode != "eager" and distributed.num_processes() == 1
        self.stream = stream
        if device.type == "cpu":
            keep_freed_memory()
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
                for one in planned:  # the caller may free them before the GPU has read them
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
        """A context in which work is queued on this engine's stream; reading a result waits for this engine only."""
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
            # After a failed recording the random generator still waits for its end: without a reset every later draw would fail.
            generator = torch.cuda.default_generators[self.stream.device.index]
            generator.graphsafe_set_state(generator.clone_state())
            return None
        self._recorded[key] = _Recorded(graph, inputs)
        return self._recorded[key]


class Compiled:
    """Compiles the ``forward`` of each part at its first use. Equal cells share the compiled code.

    If the compiler fails, the parts run eagerly after one warning. The model itself does not change: outside of
    :meth:`running` it runs eagerly.
    """

    def __init__(self, parts: Sequence[nn.Module], dynamic: bool) -> None:
        self.failed = False
        self.forwards = [(part, torch.compile(part.forward, backend=self._backend, dynamic=dynamic)) for part in parts]

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """A context in which the parts run compiled."""
        import torch._dynamo.config

        for part, forward in self.forwards:
            part.forward = forward  # type: ignore[method-assign]
        try:
            with torch._dynamo.config.patch(LIMITS):
                yield
        finally:
            for part, _ in self.forwards:
                del part.forward

    def run(self, step: Callable[..., None], *arguments: Any) -> None:
        """Run one step with compiled parts. If that fails, run it eagerly: an error of the step itself is then raised again."""
        if not self.failed:
            try:
                with self.running():
                    step(*arguments)
                return
            except Exception as error:
                if torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
                    raise  # the recording failed, not the compiler
                self._give_up(error)
        step(*arguments)

    def _backend(self, graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        """Inductor, or the traced operations if it fails (no C++ compiler, no Triton)."""
        from torch._dynamo import lookup_backend
        from torch._dynamo.exc import RestartAnalysis

        if not self.failed:
            try:
                return lookup_backend("inductor")(graph, inputs)  # type: ignore[no-any-return]
            except RestartAnalysis:  # not a failure: the compiler requests another pass
                raise
            except Exception as error:
                self._give_up(error)
        return graph.forward

    def _give_up(self, error: Exception) -> None:
        self.failed = True
        lines = [line.strip() for line in str(error).split("Set TORCHDYNAMO_VERBOSE")[0].splitlines() if line.strip()]
        reason = lines[0][:200] if lines else ""
        if reason == "from user code:":  # the tracer gives no reason: show the place
            reason = " ".join(lines[-2:])[:200]
        warnings.warn(f"this step cannot be compiled, so it runs eagerly (slower): {type(error).__name__}: {reason}")


@functools.cache
def keep_freed_memory() -> None:
    """Let the C library keep memory that a step frees: the next step takes it again.

    By default glibc returns large blocks to the system, and the system fills each page with zeros when it is used again.
    """
    library = ctypes.CDLL(None) if sys.platform == "linux" else None
    if library is not None and hasattr(library, "mallopt"):
        library.mallopt(M_TRIM_THRESHOLD, 2**30)
        library.mallopt(M_MMAP_THRESHOLD, 2**25)  # the largest that glibc accepts


def choose_mode(mode: str, *stores: Store) -> str:
    """The mode of a step that reads these stores: batches that are assembled on the host cannot be recorded."""
    return mode if all(store.static for store in stores) else "eager"


def use_deterministic() -> None:
    """Make results reproducible bit for bit. On a GPU, call it before the first use.

    The number of threads changes the order of PyTorch's long sums, and a search amplifies the last bit, so one thread is
    used. On a CPU that takes about 1.5 times as long as two threads.
    """
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)
    # Filling every new tensor costs a kernel each; no code here reads memory before it writes it.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    torch.set_num_threads(1)


def take_turns(runs: Iterable[Iterator[None]]) -> None:
    """Advance several runs in turn, one step each. On a GPU each run has its own stream, so their work overlaps."""
    active = list(runs)
    while active:
        active = [run for run in active if next(run, _DONE) is not _DONE]


_DONE = object()
