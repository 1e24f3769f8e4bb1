"""The implementation of neighbour aggregation and of the fused functions for a device; environment variables force one."""

from __future__ import annotations

import importlib
import os
from functools import cache
from types import ModuleType

import torch
from torch import Tensor

from gnas.errors import choose

# By the variable that forces one. Where there is no Triton, a CPU has `cpu` if it is among them, every other case the first.
IMPLEMENTATIONS = {"GNAS_AGGREGATE": ("reference", "cpu", "triton"), "GNAS_FUSED": ("torch", "triton")}


def choose_implementation(variable: str, device: torch.device) -> str:
    """Name of the implementation for a device."""
    names, forced = IMPLEMENTATIONS[variable], os.environ.get(variable)
    if forced:
        return choose(forced, names, variable)
    if device.type == "cuda" and has_triton():
        return "triton"
    return "cpu" if device.type == "cpu" and "cpu" in names else names[0]


def import_aggregate(device: torch.device) -> ModuleType:
    """The module that aggregates on a device. Triton is imported at its first use."""
    name = choose_implementation("GNAS_AGGREGATE", device)
    return importlib.import_module(f"gnas.kernels.aggregate.{'triton_kernels' if name == 'triton' else name}")


def uses_kernels(h: Tensor) -> bool:
    """Whether the fused Triton kernels serve this tensor. They compute in float32; float64 is for tests."""
    return choose_implementation("GNAS_FUSED", h.device) == "triton" and h.dtype != torch.float64


@cache
def has_triton() -> bool:
    """Whether Triton can be imported."""
    try:
        import triton  # noqa: F401
    except ImportError:
        return False
    return True
