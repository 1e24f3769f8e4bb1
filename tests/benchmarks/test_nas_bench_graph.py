"""The proposers on a small table that is made here, and the unpickler that makes numbers only."""

import pickle
from itertools import product
from pathlib import Path

import nas_bench_graph as script
import numpy as np
import pytest


def small_table() -> dict[int, dict[str, object]]:
    """Accuracy grows with the number of gcn layers and drops with fc; one chain of links."""
    kinds = [script.OPERATIONS.index(name) for name in ("gcn", "gin", "sage", "fc")]
    found: dict[int, dict[str, object]] = {}
    for links, *operations in product(range(3), *[kinds] * 4):
        key = script.TableCandidate(links, tuple(operations)).key
        good = sum({1: 0.1, 7: -0.2}.get(kind, 0.0) for kind in operations)
        found[key] = {"valid_perf": np.float64(0.5 + good + 0.01 * links), "para": np.float64(1)}
    return found


@pytest.fixture
def table(tmp_path: Path) -> script.Table:
    (tmp_path / "cora.bench").write_bytes(pickle.dumps(small_table()))
    return script.read_table("cora", tmp_path)


def test_tables_are_read_as_numbers(table: script.Table) -> None:
    assert len(table.keys) == 768
    best = table.accuracies[script.TableCandidate(2, (1, 1, 1, 1)).key]
    assert best == pytest.approx(0.92)
    assert table.rank(best) == 0
    assert table.rank(-1.0) == 768


def test_a_pickle_that_names_anything_else_is_refused(tmp_path: Path) -> None:
    class Attack:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return print, ("this must not run",)

    (tmp_path / "cora.bench").write_bytes(pickle.dumps({0: {"valid_perf": Attack()}}))
    with pytest.raises(pickle.UnpicklingError, match="is not a number"):
        script.read_table("cora", tmp_path)


@pytest.mark.parametrize("name", list(script.METHODS))
def test_every_method_stays_in_the_table_and_repeats(name: str, table: script.Table) -> None:
    one, two = (list(script.run_method(table, script.METHODS[name], 25, seed=3)) for _ in range(2))
    assert one == two
    assert one == sorted(one)


def test_the_race_finds_what_random_search_does_not(table: script.Table) -> None:
    ends = {
        name: [list(script.run_method(table, script.METHODS[name], 60, seed))[-1] for seed in range(4)]
        for name in ("race", "random")
    }
    assert np.mean(ends["race"]) > np.mean(ends["random"])
