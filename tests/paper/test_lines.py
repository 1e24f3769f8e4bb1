"""Lines of the tables: the right network is taken, the difference is right, nothing is hidden."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest
from papers import ONE, TWO, entry, seeds, write_run

from gnas.paper import Request, Results
from gnas.paper.catalogue import list_entries
from gnas.paper.lines import make_line
from gnas.paper.tables import make_tables


def test_a_line_is_the_mean_and_the_spread_of_its_seeds(tmp_path: Path) -> None:
    write_run(tmp_path, "zinc/single-level-4-seed0", ONE, seeds(0.26, 0.3))
    found = make_line(entry(), Request(), Results([tmp_path]), {})
    tests = [0.26, 0.27, 0.28, 0.29]
    assert found.result is not None
    assert found.result.mean == pytest.approx(sum(tests) / 4)
    assert found.result.std == pytest.approx(statistics.pstdev(tests))
    assert found.difference == pytest.approx(0.275 - 0.276)
    assert (found.is_better, found.result.seeds, found.result.search_seconds, found.state) == (True, 4, 7.0, "")


def test_validation_chooses_among_networks_and_the_test_metric_does_not(tmp_path: Path) -> None:
    write_run(tmp_path, "zinc/single-level-4-seed0", ONE, seeds(0.20, 0.31))  # best by test
    write_run(tmp_path, "zinc/single-level-4-seed1", TWO, seeds(0.30, 0.25))  # best by validation
    write_run(tmp_path, "zinc/single-level-4-seed2-dropout0.2", ONE, seeds(0.25, 0.28))
    write_run(tmp_path, "zinc/single-level-4-seed3", ONE, seeds(0.1, 0.1, num_weights=410_001))  # more than the paper's
    write_run(tmp_path, "zinc/single-level-8-seed0", ONE, seeds(0.1, 0.1), cells=8)  # of another line
    found = make_line(entry(), Request(), Results([tmp_path]), {}).result
    assert found is not None
    assert (found.run, found.chosen_from) == ("single-level-4-seed1", 3)
    (table,) = make_tables(
        "table-zinc", Request(items=("table-zinc",), methods=("gnas",), depths=(4,)), Results([tmp_path]), {}
    )
    assert "best of 3 networks by validation: single-level-4-seed1" in table.table.texts()[0][-1]


def test_higher_is_better_for_accuracy(tmp_path: Path) -> None:
    for seed, (val, test) in enumerate(((80.0, 86.0), (81.0, 85.0))):
        write_run(tmp_path, f"pattern/single-level-4-seed{seed}", ONE, seeds(test, val, metric="class_accuracy"))
    (own,) = [e for e in list_entries("table-nodes", Request()) if (e.dataset, e.model) == ("pattern", "gnas")]
    found = make_line(own, Request(), Results([tmp_path]), {})
    assert found.result is not None
    assert found.result.run == "single-level-4-seed1"
    assert found.is_better is False


def test_missing_seeds_and_failures_are_said(tmp_path: Path) -> None:
    write_run(tmp_path, "zinc/single-level-4-seed0", ONE, {41: {"test": 0.3, "val": 0.3}})
    assert make_line(entry(), Request(), Results([tmp_path]), {}).state == "1 of 4 seeds"
    assert make_line(entry(depth=8), Request(), Results([tmp_path]), {}).state == "not run"
    failed = {"zinc/single-level-8-seed0": "out of memory"}
    assert make_line(entry(depth=8), Request(), Results([tmp_path]), failed).state == "failed: out of memory"
