"""The implementation of neighbour aggregation for a device."""

from __future__ import annotations

import importlib
import os
from types import ModuleType

import torch

from gnas.errors import choose
from gnas.kernels.aggregate import cpu, reference

IMPLEMENTATIONS = ("reference", "cpu", "triton")


def implementation(device: torch.device) -> str:
    """Name of the implementation for a device."""
    forced = os.environ.get("GNAS_AGGREGATE")
    if forced:
        return choose(forced, IMPLEMENTATIONS, "GNAS_AGGREGATE")
    if device.type == "cuda" and _has_triton():
        return "triton"
    return "cpu" if device.type == "cpu" else "reference"


def module(device: torch.device) -> ModuleType:
    """The module of the implementation. Triton is imported at its first use."""
    name = implementation(device)
    if name == "triton":
        return importlib.import_module("gnas.kernels.aggregate.triton_kernels")
    return {"reference": reference, "cpu": cpu}[name]


def _has_triton() -> bool:
    try:
        import triton  # noqa: F401
    except ImportError:
        return False
    return True
