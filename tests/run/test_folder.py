"""Run folders: new, resumed or forced; histories and checkpoints that survive damage; one process at a time."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from gnas.arch import gap
from gnas.errors import InputError
from gnas.run.folder import Run, stop_on_interrupt

CONFIG = {"job": "search", "cells": 4, "seeds": [1, 2], "name": "ü"}


@pytest.fixture
def run(tmp_path: Path):
    with Run(tmp_path / "run", CONFIG) as one:
        yield one


def number(value: float) -> dict:
    return {"value": torch.tensor(value)}


# -- new, resume, force -----------------------------------------------------------------------------------------------


def test_a_run_is_not_overwritten(run: Run) -> None:
    run.append({"epoch": 1})
    run.close()
    with pytest.raises(InputError, match="already holds a run; resume=True resumes it, force=True"):
        Run(run.path, CONFIG)
    with Run(run.path, CONFIG, resume=True) as again:
        assert (again.config, again.history()) == (CONFIG, [{"epoch": 1}])


def test_resume_of_nothing_is_a_new_run(tmp_path: Path) -> None:
    with Run(tmp_path / "a" / "b", CONFIG, resume=True) as run:
        assert (run.history(), run.load_state(), run.genotype(), run.read_json("result")) == ([], None, None, None)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cells": 5}, r"cannot resume with another cells \(5; the run has 4\)"),
        ({"seeds": [1]}, r"another seeds \(\[1\]; the run has \[1, 2\]\)"),
        ({"extra": 1}, r"another extra \(1; the run has None\)"),
    ],
)
def test_other_settings_are_named(run: Run, change: dict, message: str) -> None:
    run.close()
    with pytest.raises(InputError, match=message):
        Run(run.path, {**CONFIG, **change}, resume=True)
    with Run(run.path, CONFIG, resume=True) as again:
        assert again.config == CONFIG


def test_a_refused_run_does_not_keep_the_lock(run: Run) -> None:
    """Even while somebody holds the error, as a notebook does."""
    run.close()
    with pytest.raises(InputError) as held:
        Run(run.path, {**CONFIG, "cells": 5}, resume=True)
    assert held.traceback
    Run(run.path, CONFIG, resume=True).close()


def test_force_starts_over(run: Run) -> None:
    run.append({"epoch": 1})
    run.save_state(number(1.0))
    run.write_json("result", 1)
    run.write_genotype(gap.genotype("[dense(sum)]"))
    for inner in ("search", "round-1", "trained/gcn/seed-41"):
        run.part(inner, {"job": inner}).close()
    keep = run.path / "notes" / "mine.txt"
    keep.parent.mkdir()
    keep.write_text("mine")
    run.close()
    with Run(run.path, {"cells": 5}, force=True) as again:
        assert (again.history(), again.load_state(), again.genotype(), again.read_json("result")) == (
            [],
            None,
            None,
            None,
        )
        assert Run(run.path).config == {"cells": 5}
        assert [path.parent.name for path in run.path.rglob("config.yaml")] == ["run"]
    assert keep.read_text() == "mine"


def test_looking_at_a_run(run: Run, tmp_path: Path) -> None:
    assert Run(run.path).config == CONFIG  # no lock needed
    with pytest.raises(InputError, match="not a run folder"):
        Run(tmp_path / "elsewhere")


@pytest.mark.parametrize("text", ["a: [", "- 1\n", "", "\x00", "[" * 5000])
def test_a_damaged_config_is_one_line(run: Run, text: str) -> None:
    (run.path / "config.yaml").write_text(text)
    with pytest.raises(InputError, match=r"config\.yaml") as error:
        Run(run.path)
    assert "\n" not in str(error.value)


def test_parts_go_on_or_are_replaced(run: Run) -> None:
    def part(config: dict, **how: bool) -> list[dict]:
        with run.continue_run("part", config, **how) as one:
            before = one.history()
            one.append({"was": len(before)})
            return before

    assert part({"a": 1}) == []
    assert part({"a": 1}) == [{"was": 0}]
    assert part({"a": 2}) == []  # other settings
    assert part({"a": 2}) == [{"was": 0}]
    assert part({"a": 2}, force=True) == []
    with pytest.raises(InputError, match="already holds a run"):
        run.part("part", {"a": 2})


# -- history and results ----------------------------------------------------------------------------------------------


def test_history(run: Run) -> None:
    records = [{"epoch": k, "loss": 0.1 * k, "who": "ü", "none": None} for k in range(5)]
    for record in records:
        run.append(record)
        run.append(record, "other")
    with open(run.path / "history.jsonl", "a") as file:
        file.write('{"epoch": 5, "lo')
    assert run.history() == run.history("other") == records
    run.truncate(3)
    run.append({"epoch": 9})
    assert run.history() == [*records[:3], {"epoch": 9}]
    with pytest.raises(InputError, match="holds 4 records, its checkpoint knows 5; start again with force"):
        run.truncate(5)


def test_results(run: Run) -> None:
    found = gap.genotype("[identity | dense(sum(dense))]")
    run.write_genotype(found)
    run.write_json("result", {"a": [1, None]})
    assert (Run(run.path).genotype(), Run(run.path).read_json("result")) == (found, {"a": [1, None]})
    (run.path / "result.json").write_text('{"a"')
    with pytest.raises(InputError, match=r"result\.json: not valid JSON; remove it and resume"):
        run.read_json("result")


# -- checkpoints ------------------------------------------------------------------------------------------------------


def checkpoints(run: Run) -> list[Path]:
    return sorted((run.path / "checkpoints").iterdir())


def test_two_checkpoints_are_kept(run: Run) -> None:
    for k in range(5):
        run.save_state(number(float(k)))
        run.save_state(number(10.0 + k), "other")
        assert len(checkpoints(run)) == 2 * min(k + 1, 2)
    assert run.load_state()["value"] == 4
    assert run.load_state("other")["value"] == 14


@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: b"", lambda data: data[:-1] + b"!"])
def test_a_damaged_checkpoint_falls_back(run: Run, damage) -> None:
    for k in range(3):
        run.save_state(number(float(k)))
    newest = checkpoints(run)[-1]
    newest.write_bytes(damage(newest.read_bytes()))
    with pytest.warns(UserWarning, match=rf"{newest.name}: damaged checkpoint.*going back to the checkpoint before it"):
        assert run.load_state()["value"] == 1
    run.save_state(number(3.0))
    assert run.load_state()["value"] == 3
    for file in checkpoints(run):
        file.write_bytes(b"nothing")
    with pytest.warns(UserWarning, match="damaged checkpoint"):
        assert run.load_state() is None


def test_a_failed_write_keeps_the_checkpoint(run: Run, monkeypatch) -> None:
    run.save_state(number(0.0))
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError("No space left on device")))
    with pytest.raises(OSError, match="No space"):
        run.save_state(number(1.0))
    assert run.load_state()["value"] == 0
    assert len(checkpoints(run)) == 1


# -- one process at a time --------------------------------------------------------------------------------------------

SECOND = """
import sys
from gnas.run.folder import Run
try:
    Run(sys.argv[1], {"a": 1}, resume=True)
except Exception as error:
    print(type(error).__name__, error)
else:
    print("open")
"""


def test_another_process_is_kept_out(tmp_path: Path) -> None:
    def second() -> str:
        words = [sys.executable, "-c", SECOND, str(tmp_path)]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()

    with Run(tmp_path, {"a": 1}):
        assert second() == f"Locked {tmp_path}: another process is working in this run folder"
    assert second() == "open"


def test_a_second_run_in_this_process_is_kept_out(run: Run) -> None:
    for how in ("resume", "force"):
        with pytest.raises(InputError, match="another process is working in this run folder"):
            Run(run.path, CONFIG, **{how: True})
    run.append({"epoch": 1})
    assert len(run.history()) == 1  # nobody cleared it


# -- Ctrl-C -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_interrupt_sets_a_flag_the_second_raises(number: signal.Signals) -> None:
    before = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)]
    with stop_on_interrupt() as flag:
        assert not flag
        os.kill(os.getpid(), number)
        assert flag == [True]
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)] == before
