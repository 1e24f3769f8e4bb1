"""When a training of a race must end, whether a round fills the workers, and where rungs end."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from gnas.strategies import race_clock
from gnas.strategies.race_clock import EndInTime, fills_workers, rung_ends


def count_steps(monkeypatch: pytest.MonkeyPatch, device: str, seconds: list[float], deadline: float) -> int:
    """The steps of a training that take so long, the last of them over and over, until it must end."""
    now = 0.0
    monkeypatch.setattr(race_clock.time, "perf_counter", lambda: now)
    monkeypatch.setattr(race_clock, "_count_evaluation", lambda _: 30.0)
    trainer: Any = SimpleNamespace(engine=SimpleNamespace(device=torch.device(device)))
    ends, steps = EndInTime(trainer, deadline), 0
    while True:
        now += seconds[min(steps, len(seconds) - 1)]
        steps += 1
        if ends():
            return steps


def test_a_training_ends_early_enough_to_be_evaluated(monkeypatch: pytest.MonkeyPatch) -> None:
    assert count_steps(monkeypatch, "cpu", [0.125], 10.0) == 50  # 6.25 seconds, and 3.75 for the evaluation


def test_the_first_steps_on_a_gpu_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    assert count_steps(monkeypatch, "cuda", [12.0, 3.0, 2.0, 0.01], 100.0) > 8000


def test_a_slow_first_step_does_not_end_a_training(monkeypatch: pytest.MonkeyPatch) -> None:
    assert count_steps(monkeypatch, "cpu", [5.0, 0.125], 20.0) == 91


def test_a_round_keeps_all_workers_busy() -> None:
    """With a limit of time, new candidates are tried beside a long training, more than ``round_size`` of them."""
    assert not fills_workers([1.0], 2)
    assert not fills_workers([8.0, *[1.0] * 7], 2)
    assert fills_workers([8.0, *[1.0] * 8], 2)
    assert fills_workers([1000.0, *[1.0] * 15], 2)  # one round is not the whole race


def test_rungs_grow_by_three_and_end_with_the_training() -> None:
    for epochs in range(1, 100):
        ends = rung_ends(epochs, 3)
        assert ends[-1] == epochs
        assert list(ends) == sorted(ends)
        assert ends[0] >= 1
    assert rung_ends(81, 4) == (3, 9, 27, 81)
