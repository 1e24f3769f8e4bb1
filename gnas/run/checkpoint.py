"""Checkpoints: nested state of tensors and plain values in one safetensors file. Nothing in it can run code."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from torch import Tensor

from gnas.errors import InputError, RunError, is_out_of_memory
from gnas.tensors import read_tensors, write_tensors

FORMAT = "gnas-checkpoint-1"


def save(path: str | Path, state: Any) -> Path:
    """Write ``state`` (dicts, lists, tensors, numbers, strings, None) atomically, with a digest of its content."""
    tensors: dict[str, Tensor] = {}
    skeleton = json.dumps(_pack(state, tensors))
    return write_tensors(path, FORMAT, skeleton, tensors)


def load(path: str | Path) -> Any:
    """Read what :func:`save` wrote; anything else is an :class:`InputError` that names the file."""
    text, tensors = read_tensors(path, FORMAT, "checkpoint")
    try:
        return _unpack(json.loads(text), tensors)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(f"{path}: damaged checkpoint ({str(error).splitlines()[0][:120]})") from None


def _pack(value: Any, tensors: dict[str, Tensor]) -> Any:
    if isinstance(value, Tensor):
        name = str(len(tensors))
        tensors[name] = value
        return {"tensor": name}
    if isinstance(value, dict):
        return {"dict": [[key, _pack(item, tensors)] for key, item in value.items()]}
    if isinstance(value, list | tuple):
        return {"tuple" if isinstance(value, tuple) else "list": [_pack(item, tensors) for item in value]}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"a checkpoint cannot hold a {type(value).__name__}")


def _unpack(value: Any, tensors: dict[str, Tensor]) -> Any:
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "tensor":
        return tensors[content]
    if kind == "dict":
        return {key: _unpack(item, tensors) for key, item in content}
    items = [_unpack(item, tensors) for item in content]
    return tuple(items) if kind == "tuple" else items


@contextlib.contextmanager
def explain_state(folder: Path) -> Iterator[None]:
    """Inside, a state that is read from a checkpoint is put back; one that does not fit is an error of one line.

    Its digest is right, so somebody has written it: gnas for another network, or another program.
    """
    try:
        yield
    except (RunError, OSError):
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RuntimeError) as error:
        if is_out_of_memory(error) or (isinstance(error, InputError) and str(folder) in str(error)):
            raise
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:160]
        raise InputError(
            f"{folder}: its checkpoint is not one of this run ({reason}); start again with --force"
        ) from error
