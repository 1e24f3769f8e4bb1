"""The implementation of neighbour aggregation and of the fused functions for a device; environment variables force one."""

from __future__ import annotations

import importlib
import os
import platform
from functools import cache
from pathlib import Path
from types import ModuleType

import torch
from torch import Tensor

from gnas.errors import choose

# By the variable that forces one. Where there is no Triton, a CPU has `cpu` if it is among them, every other case the first.
IMPLEMENTATIONS = {
    "GNAS_AGGREGATE": ("reference", "cpu", "triton"),
    "GNAS_FUSED": ("torch", "triton"),
    "GNAS_PRODUCTS": ("torch", "onednn"),
}


def choose_implementation(variable: str, device: torch.device) -> str:
    """Name of the implementation for a device."""
    names, forced = IMPLEMENTATIONS[variable], os.environ.get(variable)
    if forced:
        return choose(forced, names, variable)
    if variable == "GNAS_PRODUCTS":
        return "onednn" if device.type == "cpu" and is_onednn_faster() else "torch"
    if device.type == "cuda" and has_triton():
        return "triton"
    return "cpu" if device.type == "cpu" and "cpu" in names else names[0]


def import_aggregate(device: torch.device) -> ModuleType:
    """The module that aggregates on a device. Triton is imported at its first use."""
    name = choose_implementation("GNAS_AGGREGATE", device)
    return importlib.import_module(f"gnas.kernels.aggregate.{'triton_kernels' if name == 'triton' else name}")


def calls_directly(x: Tensor) -> bool:
    """Whether functions of this tensor are called without PyTorch's dispatcher: on a CPU, if no compiler has to see them."""
    return x.device.type == "cpu" and not torch.compiler.is_compiling()


def uses_kernels(h: Tensor) -> bool:
    """Whether the fused Triton kernels serve this tensor. They compute in float32; float64 is for tests."""
    return choose_implementation("GNAS_FUSED", h.device) == "triton" and h.dtype != torch.float64


def uses_onednn(*tensors: Tensor) -> bool:
    """Whether products of these tensors are oneDNN's. A compiler and mixed precision choose by themselves."""
    if tensors[0].device.type != "cpu" or any(t.dtype != torch.float32 for t in tensors):
        return False
    if torch.compiler.is_compiling() or torch.is_autocast_enabled("cpu"):
        return False
    return choose_implementation("GNAS_PRODUCTS", tensors[0].device) == "onednn" and has_onednn()


@cache
def has_onednn() -> bool:
    """Whether this build of PyTorch has oneDNN's linear map."""
    return torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


@cache
def is_onednn_faster() -> bool:
    """Whether oneDNN's products are faster than MKL's, which are PyTorch's own: on AMD's CPUs with AVX-512, which MKL ignores."""
    if not torch.backends.mkl.is_available() or torch.backends.cpu.get_cpu_capability() != "AVX512":
        return False
    about = Path("/proc/cpuinfo")
    return "AuthenticAMD" in (about.read_text(errors="replace") if about.exists() else platform.processor())


@cache
def has_triton() -> bool:
    """Whether Triton can be imported."""
    try:
        import triton  # noqa: F401
    except ImportError:
        return False
    return True
