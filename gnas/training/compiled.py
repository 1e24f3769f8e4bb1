"""Parts of a model compiled by ``torch.compile`` while a step runs, and as they were outside of it."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import nn

# Cells of a found network differ, and each is compiled for training and for evaluation: more than PyTorch allows by default.
LIMITS = {"recompile_limit": 256, "accumulated_recompile_limit": 4096}


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
