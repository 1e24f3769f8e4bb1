"""Tensors and a text in one safetensors file with a digest of its content. Nothing in it can run code."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load as parse_tensors
from safetensors.torch import save as tensor_bytes
from torch import Tensor

from gnas.errors import InputError
from gnas.files import check_version, open_regular, read_bytes, write_atomic


def write_tensors(path: str | Path, form: str, text: str, tensors: Mapping[str, Tensor]) -> Path:
    """Write tensors and a text atomically. ``form`` names the kind of file and its version."""
    content = {name: _on_host(tensor) for name, tensor in tensors.items()}
    meta = {"format": form, "state": text, "digest": _digest(content, text)}
    return write_atomic(path, tensor_bytes(content, meta))


def read_tensors(path: str | Path, form: str, noun: str) -> tuple[str, dict[str, Tensor]]:
    """The text and the tensors of a file of this form; anything else is an InputError that names the file.

    ``noun`` is what the file is called in that error.
    """
    path = Path(path)
    try:
        data = read_bytes(path)
        tensors = parse_tensors(data)
        meta = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")]).get("__metadata__", {})
        if meta.get("format") != form:
            _check_newer(str(meta.get("format")), form, str(path))
            raise InputError(f"{path}: not a gnas {noun}")
        if meta.get("digest") != _digest(tensors, meta["state"]):
            raise InputError(f"{path}: damaged {noun} (its content does not match its digest)")
        return meta["state"], tensors
    except FileNotFoundError:
        raise InputError(f"{path}: no such {noun}") from None
    except InputError:
        raise
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError, RecursionError, OSError) as error:
        raise InputError(f"{path}: damaged {noun} ({str(error).splitlines()[0][:120]})") from None


def _check_newer(found: str, form: str, where: str) -> None:
    """An error that names the cause if the file has the same form in a later version."""
    (name, _, newest), (other, _, version) = form.rpartition("-"), found.rpartition("-")
    if other == name and version.isdecimal():
        check_version(name.removeprefix("gnas-"), int(version), int(newest), where)


def read_digest(path: str | Path) -> str:
    """The digest in the file: the same for the same content, unlike the bytes of the file."""
    with os.fdopen(open_regular(path), "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    return str(header["__metadata__"]["digest"])


def _on_host(tensor: Tensor) -> Tensor:
    """A copy of its own, because safetensors refuses tensors that share memory."""
    return tensor.detach().to("cpu", copy=True).contiguous()


def _digest(tensors: Mapping[str, Tensor], text: str) -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        tensor = tensors[name].contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        if tensor.numel():
            digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
