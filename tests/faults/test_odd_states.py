"""A checkpoint with a right digest that is not one of this run: it is refused in one line when the run is resumed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tiny import SPACE, tiny

from gnas.errors import InputError
from gnas.run import checkpoint
from gnas.run.folder import Run
from gnas.strategies import make_strategy, search

STRATEGIES: dict[str, dict[str, Any]] = {
    "single-level": {"epochs": 2, "batch_size": 6},
    "random": {"epochs": 1, "batch_size": 6, "trials": 2},
    "race": {"epochs": 2, "batch_size": 6, "trials": 3, "finals": 1, "round_size": 3, "supernets": 0},
}
NEEDED = {  # values without which a search cannot be resumed
    "single-level": ("position", "random", "own"),
    "random": ("trials", "rng", "seconds"),
    "race": ("records", "round", "epochs", "elapsed", "speed"),
}


def resume(name: str, folder: Path) -> None:
    (folder / "result.json").unlink(missing_ok=True)
    chosen = make_strategy(name, **STRATEGIES[name])
    with Run(folder, {"search": name}, resume=True) as run:
        search(tiny(), SPACE, chosen, channels=4, num_cells=1, seed=1, run=run)  # type: ignore[arg-type]


def newest(folder: Path) -> Path:
    return max((folder / "checkpoints").iterdir())


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_state_that_is_not_of_this_run_is_one_line(tmp_path: Path, name: str) -> None:
    resume(name, tmp_path)
    file = newest(tmp_path)
    whole = file.read_bytes()
    state = checkpoint.load(file)
    odd = [{key: value for key, value in state.items() if key != one} for one in NEEDED[name]]
    odd += [{**state, one: value} for one in NEEDED[name] for value in ("x", {"a": None}, torch.zeros(3))]
    for one in odd:
        checkpoint.save(file, one)
        with pytest.raises(InputError, match="its checkpoint is not one of this run") as caught:
            resume(name, tmp_path)
        assert "\n" not in str(caught.value)
        assert str(tmp_path) in str(caught.value)
    file.write_bytes(whole)
    resume(name, tmp_path)


def test_weights_of_another_network_are_one_line(tmp_path: Path) -> None:
    resume("single-level", tmp_path)
    file = newest(tmp_path)
    state = checkpoint.load(file)
    own = {key: {} if isinstance(value, dict) else value for key, value in state["own"].items()}
    checkpoint.save(file, {**state, "own": own})
    with pytest.raises(InputError, match=r"its checkpoint is not one of this run \(.*start again with --force"):
        resume("single-level", tmp_path)


def test_a_lack_of_memory_is_no_odd_state(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="alloc"), checkpoint.explain_state(tmp_path):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 10 bytes")
