"""The device decides which implementation serves it, unless a variable does."""

from __future__ import annotations

import pytest
import torch

from gnas.errors import InputError
from gnas.kernels.choice import choose_implementation, uses_kernels

CPU = torch.device("cpu")


def test_the_device_chooses_unless_forced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GNAS_AGGREGATE", raising=False)
    assert choose_implementation("GNAS_AGGREGATE", CPU) == "cpu"
    assert choose_implementation("GNAS_AGGREGATE", torch.device("cuda")) in ("triton", "reference")
    monkeypatch.setenv("GNAS_AGGREGATE", "reference")
    assert choose_implementation("GNAS_AGGREGATE", CPU) == "reference"


def test_the_fused_functions_have_a_variable_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GNAS_FUSED", raising=False)
    assert choose_implementation("GNAS_FUSED", CPU) == "torch"
    monkeypatch.setenv("GNAS_FUSED", "triton")
    assert uses_kernels(torch.ones(1))
    assert not uses_kernels(torch.ones(1, dtype=torch.float64))
    monkeypatch.setenv("GNAS_FUSED", "cuda")
    with pytest.raises(InputError, match="GNAS_FUSED 'cuda'; choose one of: torch, triton"):
        uses_kernels(torch.ones(1))
