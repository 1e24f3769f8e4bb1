"""What the number of threads may change: the last bits of a float, and nothing of that within the first steps that matters.

PyTorch splits long sums (a dot product, a matrix product over many rows) among its threads: the same numbers are added in
another order. benchmarks/threads.py measures what becomes of that.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from searches import CASES, run
from terminal import gnas as command
from tiny import untimed

import gnas
from gnas.run.folder import Run

STEPS = 2
AGAIN = """
import sys
sys.path[:0] = {paths!r}
from test_threads import searched
print(searched())
"""


class _Enough(Exception):
    """So many steps are seen."""


def losses(threads: int, steps: int = STEPS) -> list[float]:
    """The losses of the first steps of a search on graphs large enough that PyTorch splits the work among threads."""
    from gnas.training.meter import Meter

    seen: list[float] = []
    add = Meter.add

    def noted(self, out, batch, loss):  # type: ignore[no-untyped-def]
        add(self, out, batch, loss)
        seen.append(float(loss.detach()))
        if len(seen) == steps:
            raise _Enough

    before, benchmark = torch.get_num_threads(), gnas.load("cluster-mini")
    chosen = gnas.SingleLevel(epochs=1, batch_size=64)
    torch.set_num_threads(threads)
    Meter.add = noted  # type: ignore[method-assign]
    try:
        with pytest.raises(_Enough):
            gnas.search(benchmark, gnas.SearchSpace(1, 1), chosen, channels=32, num_cells=1)
    finally:
        Meter.add = add  # type: ignore[method-assign]
        torch.set_num_threads(before)
    return seen


def test_threads_change_the_last_bits_only() -> None:
    one, two, again = losses(1), losses(2), losses(2)
    assert two == again  # the same number of threads: the same bits
    assert two == pytest.approx(one, rel=1e-5)


def test_the_deterministic_option_does_not_depend_on_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A whole search by the command, where one thread is offered and where two are."""
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    words = ["search", "cluster-mini", "--preset", "fast", "--search-epochs", "1", "--cells", "1", "--channels", "16"]
    words += ["--epochs", "1", "--seeds", "41", "--baselines", "none", "--track", "none", "--quiet", "--device", "cpu"]
    found, before = [], torch.get_num_threads()
    for threads in (1, 2):
        torch.set_num_threads(threads)
        try:
            ended = command(*words, "--deterministic", "--out", tmp_path / str(threads))
        finally:
            torch.set_num_threads(before)
            torch.use_deterministic_algorithms(False)
        assert ended.code == 0, ended
        run = Run(tmp_path / str(threads))
        found.append((untimed(Run(run.path / "search").history()), run.genotype()))
    assert len(found[0][0]) == 1  # without the option its loss differs already
    assert found[0] == found[1]


def searched() -> str:
    """What each strategy finds with one thread, a line each."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        found = [(case.id, run(*case.values)) for case in CASES]
    finally:
        torch.set_num_threads(before)
    return "\n".join(json.dumps([name, one.genotype.to_yaml(), untimed(one.history)]) for name, one in found)


def test_the_same_search_in_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """To the bit, for each strategy, whatever order Python's hashes come in: here they are another process's."""
    tests = Path(__file__).parents[1]
    code = AGAIN.format(paths=[str(tests / "helpers"), str(tests / "faults")])
    there = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONHASHSEED": str(hash("seed") % 1000 + 1), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert len(there.splitlines()) >= 7  # a line a strategy
    assert there.strip() == searched()
