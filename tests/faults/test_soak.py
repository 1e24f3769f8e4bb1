"""Many searches in one process: neither memory nor open files nor tensors grow. benchmarks/soak.py does it at length."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

FILE = Path(__file__).parents[2] / "benchmarks" / "soak.py"


def test_searches_leave_nothing_behind() -> None:
    spec = importlib.util.spec_from_file_location("soak", FILE)
    assert spec is not None
    assert spec.loader is not None
    soak = importlib.util.module_from_spec(spec)
    sys.modules["soak"] = soak  # dataclasses look their module up
    spec.loader.exec_module(soak)
    seen = list(soak.soak(15))
    warm, last = seen[9], seen[-1]  # by then every strategy has run twice
    assert last.files <= warm.files
    assert last.threads <= warm.threads
    assert last.tensors <= warm.tensors + 50, "tensors of earlier searches are still alive"
    assert last.megabytes < warm.megabytes + 30  # a search holds several megabytes
