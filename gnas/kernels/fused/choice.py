"""The implementation of the fused functions for a device."""

from __future__ import annotations

import os

import torch
from torch import Tensor

from gnas.errors import choose

IMPLEMENTATIONS = ("torch", "triton")


def implementation(device: torch.device) -> str:
    """Name of the implementation for a device."""
    forced = os.environ.get("GNAS_FUSED")
    if forced:
        return choose(forced, IMPLEMENTATIONS, "GNAS_FUSED")
    if device.type == "cuda":
        try:
            import triton  # noqa: F401
        except ImportError:
            return "torch"
        return "triton"
    return "torch"


def uses_kernels(h: Tensor) -> bool:
    """Whether the Triton kernels serve this tensor. They compute in float32; float64 is for tests."""
    return implementation(h.device) == "triton" and h.dtype != torch.float64
