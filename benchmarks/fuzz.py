"""Does every parser answer every input with a value or one line of error?

    python benchmarks/fuzz.py [--inputs 110000] [--minutes 60] [--parsers data ...]

Repeats the fuzz tests of the test suite in turn (Hypothesis; every call of a test draws new inputs), until they have seen
``--inputs`` inputs in all or the time is over. One row per test is added to results/fuzz.csv.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import logging
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from rows import RESULTS, append, read, today

ROOT = Path(__file__).parents[1]
COLUMNS = ("date", "machine", "parser", "test", "inputs", "failures", "seconds")
MODULES = {
    "genotypes": "test_genotype",
    "authors' genotype files": "test_authors",
    "formulas": "test_gap",
    "data": "test_fuzz",
    "checkpoints": "test_checkpoint",
    "run folders, models, settings, orders": "test_any_file",
}
# Tests whose inputs are not those of a parser.
OTHERS = {
    *(
        "test_files_come_back_exactly",
        "test_live_nodes_are_those_on_a_path_to_an_output",
        "test_exports_are_exact_or_refused",
    ),
    *(
        "test_whatever_a_search_finds_can_be_exported",
        "test_the_rewritten_cell_computes_the_tree",
        "test_there_and_back",
    ),
    *("test_the_rewritten_cell_is_three_levels_and_as_small_as_promised", "test_the_tree_of_any_cell_has_its_outputs"),
    *(
        "test_trees_are_equal_whatever_the_order_of_children",
        "test_one_aggregation_a_path",
        "test_round_trip_of_anything",
    ),
}


@dataclass
class Fuzzed:
    """One test and what it has seen."""

    parser: str
    name: str
    call: Callable[[], None]
    inputs: int = 0
    failures: int = 0
    seconds: float = 0.0

    def turn(self) -> None:
        """Draw and try as many inputs as the test does in CI."""
        started = time.monotonic()
        try:
            self.call()
        except Exception as error:
            self.failures += 1
            notes = "\n".join(getattr(error, "__notes__", ()))
            print(f"{self.name}: {type(error).__name__}: {error}\n{notes}", flush=True)
        self.seconds += time.monotonic() - started


def collect(place: Path, parsers: list[str]) -> list[Fuzzed]:
    """The tests of these parsers, each counting the inputs that reach its body."""
    fixtures: dict[str, Any] = {"place": None, "bundles": None, "written": None, "tmp_path": place}
    found = []
    for parser in parsers:
        module = importlib.import_module(MODULES[parser])
        for name, test in vars(module).items():
            if not name.startswith("test_") or not hasattr(test, "hypothesis") or name in OTHERS:
                continue
            given = {key: fixture(module, key, place) for key in fixtures if key in inspect.signature(test).parameters}
            one = Fuzzed(parser, name, lambda test=test, given=given: test(**given))
            test.hypothesis.inner_test = _counted(test.hypothesis.inner_test, one)
            found.append(one)
    return found


def fixture(module: Any, name: str, place: Path) -> Any:
    """What pytest would hand to the test."""
    own = place / f"{module.__name__}"
    if name in ("place", "tmp_path"):
        if not own.exists():
            own.mkdir()
            if module.__name__ == "test_any_file":
                module.sound(own)
        return own
    if name == "bundles":
        return module.bundles.__wrapped__(fixture(module, "place", place))
    return module.checkpoint.save(fixture(module, "place", place) / "written", module.STATE).read_bytes()


def _counted(inner: Callable[..., None], one: Fuzzed) -> Callable[..., None]:
    def counted(*args: Any, **more: Any) -> None:
        one.inputs += 1
        inner(*args, **more)

    return counted


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--inputs", type=int, default=110_000)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--parsers", nargs="*", default=list(MODULES), choices=list(MODULES))
    options = parser.parse_args()
    sys.path[:0] = [str(ROOT / "tests" / part) for part in ("helpers", "arch", "data", "faults", "run")]
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        tests, end = collect(Path(folder), options.parsers), time.monotonic() + 60 * options.minutes
        before = read(RESULTS / "fuzz.csv")
        while sum(test.inputs for test in tests) < options.inputs and time.monotonic() < end:
            # Each has its share of the time.
            min(tests, key=lambda test: test.seconds).turn()
            write(before, tests)
    for test in tests:
        print(f"{test.parser}: {test.name}: {test.inputs:,} inputs, {test.failures} failures")
    print(f"{sum(test.inputs for test in tests):,} inputs, {sum(test.failures for test in tests)} failures")


def write(before: list[dict[str, str]], tests: list[Fuzzed]) -> None:
    """The rows of earlier runs, and those of this one so far."""
    rows = [
        (*today().values(), test.parser, test.name, test.inputs, test.failures, round(test.seconds, 1))
        for test in tests
    ]
    (RESULTS / "fuzz.csv").unlink(missing_ok=True)
    append(RESULTS / "fuzz.csv", COLUMNS, [*before, *(dict(zip(COLUMNS, row, strict=True)) for row in rows)])


if __name__ == "__main__":
    main()
