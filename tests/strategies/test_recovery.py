"""On labels made by a known teacher the search chooses the teacher's aggregation."""

import importlib.util
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "recovery.py"


@pytest.mark.parametrize("teacher", ["sum", "mean", "max"])
@pytest.mark.filterwarnings("ignore:epoch")
def test_the_teachers_aggregation_is_found(teacher):
    spec = importlib.util.spec_from_file_location("recovery", SCRIPT)
    recovery = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(recovery)
    counts, _, _ = recovery.chosen_aggregations(teacher, seed=0)
    assert set(counts) == {teacher}
