"""The Triton kernels compile for a GPU that is not there: the interpreter runs code that the compiler refuses."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton.backends.nvidia", reason="needs Triton with its NVIDIA backend")
ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "gnas"


def kernels() -> set[str]:
    """Names of the functions that are started as kernels: those with ``@triton.jit`` that no other such function calls."""
    found, called = set(), set()
    for file in PACKAGE.rglob("triton_*.py"):
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.FunctionDef) and any("jit" in ast.unparse(one) for one in node.decorator_list):
                found.add(node.name)
                calls = (c.func.id for c in ast.walk(node) if isinstance(c, ast.Call) and isinstance(c.func, ast.Name))
                called |= set(calls)
    return found - called


def test_every_kernel_compiles_for_a_gpu(tmp_path: Path) -> None:
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", ROOT / "tests" / "helpers" / "compile_kernels.py"],
        env=environment | {"TRITON_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    compiled = {line.split()[0] for line in done.stdout.splitlines()}
    assert compiled == kernels()
