"""Checkpoints: nested state of tensors and plain values in one safetensors file. Nothing in it can run code."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as parse_tensors
from safetensors.torch import save as tensor_bytes
from torch import Tensor

from gnas.errors import InputError
from gnas.files import write_atomic

FORMAT = "gnas-checkpoint-1"


def save(path: str | Path, state: Any) -> Path:
    """Write ``state`` (dicts, lists, tensors, numbers, strings, None) atomically, with a digest of its content."""
    tensors: dict[str, Tensor] = {}
    skeleton = json.dumps(_pack(state, tensors))
    meta = {"format": FORMAT, "state": skeleton, "digest": _digest(tensors, skeleton)}
    return write_atomic(path, tensor_bytes(tensors, meta))


def load(path: str | Path) -> Any:
    """Read what :func:`save` wrote; anything else is an :class:`InputError` that names the file."""
    path = Path(path)
    try:
        data = path.read_bytes()
        tensors = parse_tensors(data)
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        meta = header.get("__metadata__", {})
        if meta.get("format") != FORMAT:
            raise InputError(f"{path}: not a gnas checkpoint")
        if meta.get("digest") != _digest(tensors, meta["state"]):
            raise InputError(f"{path}: damaged checkpoint (its content does not match its digest)")
        return _unpack(json.loads(meta["state"]), tensors)
    except FileNotFoundError:
        raise InputError(f"{path}: no such checkpoint") from None
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError, RecursionError, OSError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: damaged checkpoint ({str(error).splitlines()[0][:120]})") from None


def digest(path: str | Path) -> str:
    """The digest that :func:`save` wrote: the same for the same content, which the bytes of the file are not."""
    with Path(path).open("rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    return str(header["__metadata__"]["digest"])


def _pack(value: Any, tensors: dict[str, Tensor]) -> Any:
    if isinstance(value, Tensor):
        name = str(len(tensors))
        tensors[name] = value.detach().to("cpu", copy=True).contiguous()
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


def _digest(tensors: dict[str, Tensor], skeleton: str) -> str:
    digest = hashlib.sha256(skeleton.encode())
    for name in sorted(tensors):
        tensor = tensors[name].contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b"")
    return digest.hexdigest()
