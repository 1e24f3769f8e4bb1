"""Fixtures of the tests of benchmarks."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders import change_facts


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nothing is written outside the test's folder, nothing is downloaded."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("GNAS_OFFLINE", "1")
    return tmp_path / "cache/gnas/data"


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """PATTERN and CLUSTER of a few graphs."""
    for name in ("pattern", "cluster"):
        change_facts(monkeypatch, name, graphs=(20, 10, 10), nodes=40 * 118, tolerance=0.2, slack=60)
