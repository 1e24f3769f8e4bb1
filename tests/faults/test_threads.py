"""What the number of threads may change: the last bits of a float, and nothing of that within the first steps that matters.

PyTorch splits long sums (a dot product, a matrix product over many rows) among its threads: the same numbers are added in
another order. benchmarks/threads.py measures what becomes of that.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tiny import untimed

import gnas
from gnas.runs import Run

STEPS = 3
AGAIN = """
import json, sys
sys.path[:0] = {paths!r}
import torch
torch.set_num_threads(1)
from test_contract import CASES, run
from tiny import untimed
for case in CASES:
    result = run(*case.values)
    print(json.dumps([case.id, result.genotype.to_yaml(), untimed(result.history)]))
"""


class _Enough(Exception):
    """So many steps are seen."""


def losses(threads: int, steps: int = STEPS) -> list[float]:
    """The losses of the first steps of a search on graphs large enough that PyTorch splits the work among threads."""
    from gnas.loop import Meter

    seen: list[float] = []
    add = Meter.add

    def noted(self, out, batch, loss):  # type: ignore[no-untyped-def]
        add(self, out, batch, loss)
        seen.append(float(loss.detach()))
        if len(seen) == steps:
            raise _Enough

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    Meter.add = noted  # type: ignore[method-assign]
    try:
        with pytest.raises(_Enough):
            gnas.search(
                gnas.load("cluster-mini"), strategy=gnas.SingleLevel(epochs=1, batch_size=16), channels=32, num_cells=3
            )
    finally:
        Meter.add = add  # type: ignore[method-assign]
        torch.set_num_threads(before)
    return seen


def test_threads_change_the_last_bits_only() -> None:
    one, two, again = losses(1), losses(2), losses(2)
    assert two == again  # the same number of threads: the same bits
    assert two == pytest.approx(one, rel=1e-5)


def test_the_deterministic_option_does_not_depend_on_threads(tmp_path: Path) -> None:
    """A whole search by the command, on machines that offer one thread and two."""
    command = [sys.executable, "-m", "gnas", "search", "cluster-mini", "--preset", "fast", "--search-epochs", "2"]
    command += [
        "--epochs",
        "1",
        "--seeds",
        "41",
        "--baselines",
        "none",
        "--deterministic",
        "--track",
        "none",
        "--quiet",
    ]
    found = []
    for threads in ("1", "2"):
        folder = tmp_path / threads
        environment = {**os.environ, "OMP_NUM_THREADS": threads}
        subprocess.run([*command, "--device", "cpu", "--out", str(folder)], env=environment, check=True)
        found.append((untimed(Run(folder / "search").history()), (folder / "genotype.yaml").read_bytes()))
    assert len(found[0][0]) == 2
    assert found[0] == found[1]


def test_the_same_search_in_another_process() -> None:
    """To the bit, for each strategy, whatever order Python's hashes come in."""
    here = Path(__file__).parents[1]
    code = AGAIN.format(paths=[str(here), str(here / "searching")])
    outputs = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert len(outputs[0].splitlines()) >= 7  # a line a strategy
    assert outputs[0] == outputs[1]
