"""kill -9 at any moment, then --resume: the same genotype and history, bit for bit."""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from terminal import TINY, Nursery, fingerprint, nursery, write_graphs

KILLS = int(os.environ.get("GNAS_KILLS", "5"))
STRATEGY = os.environ.get("GNAS_KILL_STRATEGY", "single-level")
DEVICE = os.environ.get("GNAS_KILL_DEVICE", "cpu")  # on cuda it holds with the deterministic option
FRESH = DEVICE != "cpu" or bool(os.environ.get("GNAS_KILL_FRESH"))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kill")
    write_graphs(folder / "rings")
    return folder


@pytest.fixture(scope="module")
def starter(place: Path) -> Iterator[Nursery]:
    with nursery(place / "log", fresh=FRESH, warm=() if FRESH else [command(place, "warm")]) as one:
        one.start("--version")  # wait until it is ready
        assert one.wait() == 0
        yield one


@pytest.fixture(scope="module")
def whole(place: Path, starter: Nursery) -> tuple[Path, int, float]:
    """An uninterrupted run, the number of its writes, and how long it took."""
    started = time.monotonic()
    starter.start(*command(place, "whole"), pictures=False)
    assert starter.wait() == 0, starter.said()
    return place / "whole", starter.writes(), time.monotonic() - started


def command(place: Path, name: str) -> list[object]:
    trials = () if STRATEGY.startswith(("single", "darts")) else ("--set", "strategy_settings.trials=4")
    device = () if DEVICE == "cpu" else ("--device", DEVICE, "--deterministic")
    return ["search", place / "rings", *TINY, "--strategy", STRATEGY, *trials, *device, "--out", place / name]


def test_killed_at_random_moments_it_goes_on_to_the_same_result(
    place: Path, starter: Nursery, whole: tuple[Path, int, float]
) -> None:
    folder, count, seconds = whole
    wanted = fingerprint(folder)
    seed = random.randrange(10**6)
    rng = random.Random(seed)
    kills = attempts = 0
    while kills < KILLS:
        name = f"killed-{attempts}"
        attempts += 1
        done = False
        while not done:
            # So many kills are spread over the whole run; by turns at a write and at a moment.
            at_write = kills % 2 == 0
            share = 2 / max(min(KILLS, 5), 1)
            die_at = rng.randint(1, max(int(count * share), 1)) if at_write and kills < KILLS else 0
            pid = starter.start(*command(place, name), "--resume", die_at=die_at, pictures=False)
            if not at_write and kills < KILLS:
                time.sleep(rng.uniform(0.0, seconds * share))
                kill(pid)
            code = starter.wait()
            assert code in (0, -signal.SIGKILL), starter.said()
            kills += code != 0
            done = code == 0
        assert fingerprint(place / name) == wanted, f"seed {seed}, {kills} kills"
        assert not [file for file in (place / name).rglob(".*") if file.name != ".lock"]


def kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # it was quicker
        os.kill(pid, signal.SIGKILL)


def test_a_damaged_checkpoint_is_passed_over_and_said_so(
    place: Path, starter: Nursery, whole: tuple[Path, int, float]
) -> None:
    unfinished: list[Path] = []
    for share in (3, 4, 5, 6):  # a death between two parts leaves none unfinished
        starter.start(*command(place, f"damaged-{share}"), die_at=whole[1] // share, pictures=False)
        assert starter.wait() == -signal.SIGKILL
        folder = place / f"damaged-{share}"
        unfinished = [
            part.parent
            for part in folder.rglob("checkpoints")
            if any(part.glob("*.safetensors")) and not (part.parent / "result.json").exists()
        ]
        if unfinished:
            break
    newest = max((unfinished[0] / "checkpoints").glob("*.safetensors"))
    newest.write_bytes(newest.read_bytes()[:-100])
    starter.start(*command(place, folder.name), "--resume", pictures=False)
    assert starter.wait() == 0, starter.said()
    assert re.search(rf"^warning: .*{newest.name}: damaged checkpoint.* before it$", starter.said(), re.MULTILINE)
    assert fingerprint(folder) == fingerprint(whole[0])
