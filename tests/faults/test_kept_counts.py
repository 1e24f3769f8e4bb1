"""The counts on docs/reliability.md are those of the kept files of the long runs."""

from __future__ import annotations

import csv
import importlib.util
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
BAD = ("lost", "different", "unclear", "hung", "left")
ASKED = {  # of issue and page: at least 1,000 faults of these kinds
    *("KILL", "TERM", "HUP", "STOP, CONT", "KILL of the process group", "KILL of a worker", "KILL of a Ray worker"),
    *(
        "STOP of a Ray worker",
        "KILL of a Ray node",
        "full disk",
        "no inodes",
        "read-only file system",
        "error on write",
    ),
    *("error on rename", "error on fsync", "clock jumps", "eight processes", "folder removed", "limit on memory"),
}


@pytest.fixture(scope="module")
def page() -> str:
    return " ".join((ROOT / "docs" / "reliability.md").read_text().split())


def rows(name: str) -> list[dict[str, str]]:
    with open(RESULTS / f"{name}.csv") as file:
        return list(csv.DictReader(file))


def total(kept: list[dict[str, str]], *names: str) -> int:
    return sum(int(row[name]) for row in kept for name in names)


@pytest.fixture(scope="module")
def faults() -> ModuleType:
    """benchmarks/faults.py."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        spec = importlib.util.spec_from_file_location("faults", ROOT / "benchmarks" / "faults.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(ROOT / "benchmarks"))
    return module


def test_the_table_of_faults(page: str, faults: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    faults.print_table(rows("faults"))
    for line in filter(None, capsys.readouterr().out.splitlines()):
        if set(line) != {"|", "-"}:
            assert " ".join(line.split()) in page


def test_a_thousand_faults_and_none_did_harm(page: str) -> None:
    kept = rows("faults")
    kinds = Counter[str]()
    for row in kept:
        kinds[row["fault"]] += int(row["faults"])
    assert sum(kinds.values()) >= 1000
    assert all(kinds[name] >= 15 for name in ASKED), kinds
    assert total(kept, *BAD) == 0
    assert (
        f"In {total(kept, 'trials'):,} trials, {sum(kinds.values()):,} faults of {len(kinds)} kinds took effect" in page
    )


@pytest.mark.parametrize("name", ["guided", "fuzz"])
def test_inputs_of_readers(page: str, name: str) -> None:
    kept = rows(name)
    assert total(kept, "failures") == 0
    assert f"{total(kept, 'inputs'):,} inputs, no failure" in page


def test_a_million_inputs() -> None:
    assert total([*rows("guided"), *rows("fuzz")], "inputs") >= 1_000_000


def test_every_file_has_met_every_command(page: str) -> None:
    kept = rows("mutations")
    for kind in {row["folder"] for row in kept}:
        for command in {row["command"] for row in kept if row["folder"] == kind}:
            met = [row for row in kept if (row["folder"], row["command"]) == (kind, command)]
            assert any(int(row["inputs"]) >= int(row["files"]) for row in met), (kind, command)
    inputs, results, refused, failures = (total(kept, name) for name in ("inputs", "results", "refused", "failures"))
    assert results + refused + failures == inputs
    assert f"{inputs:,} times: {results:,} results, {refused:,} refusals in one line, {failures} failures" in page


def test_a_live_view_does_not_grow(page: str) -> None:
    kept = rows("soak_watch")
    first, last, late = kept[1], kept[-1], kept[len(kept) // 2 :]  # the first answer loads what draws
    assert float(last["seconds"]) > 5400
    assert float(last["megabytes"]) < 1.1 * float(first["megabytes"])
    for name in ("files", "threads"):  # an open connection has one of each
        assert min(int(row[name]) for row in late) <= int(first[name])
    assert f"It answered {int(last['number']):,} times in {float(last['seconds']) / 60:.0f} minutes" in page
    assert all(f"{row['megabytes']} MB" in page for row in (first, last))
