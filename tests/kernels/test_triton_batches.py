"""Batches assembled by Triton's kernels equal those assembled by PyTorch."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from samples import INTERPRETED

import gnas
from gnas.training.store import GraphStore

DEVICE = "cpu" if INTERPRETED else "cuda"
pytestmark = [] if INTERPRETED else [pytest.mark.gpu]  # test_aggregate.py runs this file in Triton's interpreter


@pytest.mark.parametrize("data", ["molecules-mini", "cluster-mini"])
@pytest.mark.parametrize("size", [1, 5, 64])
def test_layout(data: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    store = GraphStore(gnas.load(data).train.select(range(12)), DEVICE)
    for planned in store.plan(size, torch.Generator().manual_seed(1), padded=True):
        found = []
        for name in ("torch", "triton"):
            monkeypatch.setenv("GNAS_FUSED", name)
            found.append(dataclasses.asdict(store._layout(planned.ids, planned.capacity)))
        for name, value in found[0].items():
            assert torch.equal(value, found[1][name]), name
            assert value.dtype == found[1][name].dtype, name
