"""``gnas doctor``: what the installation has, and what is wrong with it."""

from __future__ import annotations

import pytest
from terminal import gnas


def test_doctor() -> None:
    ended = gnas("doctor", "--json")
    names = {finding["what"] for finding in ended.json["findings"]}
    assert {"python", "torch", "gnas", "threads", "aggregate", "fused", "trial", "data root", "disk", "extras"} <= names
    assert ended.code == (0 if ended.json["ok"] else 1)
    assert "a small network runs on" in gnas("doctor").out


def test_doctor_sees_a_gpu_that_torch_cannot_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("torch.version.cuda", None)
    monkeypatch.setattr("gnas.cli.doctor._nvidia", lambda: "NVIDIA H200")
    ended = gnas("doctor")
    assert ended.code == 1
    assert "NVIDIA H200, but torch" in ended.out
    assert "reinstall torch with CUDA" in ended.out
