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
from gnas.training.store import Capacity, Planned, Store

WARMUP = 3
# Cells of a found network differ, and each is compiled for training and for evaluation: more than PyTorch allows by default.
LIMITS = {"recompile_limit": 256, "accumulated_recompile_limit": 4096}

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


class Compiled:
    """Compiles the ``forward`` of each part at its first use; cells that are alike share what was compiled.

    A part that the compiler cannot handle runs as it is, and a single warning says so. Nothing is left on the model: outside
    of :meth:`running`, and for shapes that no step has, it is the plain one.
    """

    def __init__(self, parts: Sequence[nn.Module], dynamic: bool) -> None:
        self.failed = False
        self.forwards = [(part, torch.compile(part.forward, backend=self._backend, dynamic=dynamic)) for part in parts]

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Inside, the parts run compiled."""
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
        """One step with compiled parts; if that fails, as it is: then the error, if it was the step's own, comes again."""
        if not self.failed:
            try:
                with self.running():
                    step(*arguments)
                return
            except Exception as error:
                if torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
                    raise  # it could not be recorded, which is not the compiler's fault
                self._give_up(error)
        step(*arguments)

    def _backend(self, graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        """Inductor, or the traced operations themselves where it fails (no C++ compiler, no Triton)."""
        from torch._dynamo import lookup_backend
        from torch._dynamo.exc import RestartAnalysis

        if not self.failed:
            try:
                return lookup_backend("inductor")(graph, inputs)  # type: ignore[no-any-return]
            except RestartAnalysis:  # no failure: the compiler asks for another pass
                raise
            except Exception as error:
                self._give_up(error)
        return graph.forward

    def _give_up(self, error: Exception) -> None:
        self.failed = True
        lines = [line.strip() for line in str(error).split("Set TORCHDYNAMO_VERBOSE")[0].splitlines() if line.strip()]
        reason = lines[0][:200] if lines else ""
        if reason == "from user code:":  # the tracer's own failure, which has no words: where it was
            reason = " ".join(lines[-2:])[:200]
        warnings.warn(f"this step cannot be compiled, so it runs eagerly (slower): {type(error).__name__}: {reason}")


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
