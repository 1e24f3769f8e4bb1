"""Finished runs are found in folders, archives and rows; those of another network do not count."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from papers import ONE, TWO, algorithm_1, entry, files, load, seeds, write_depth, write_run

from gnas.arch import gap
from gnas.arch.genotype import Genotype
from gnas.errors import InputError
from gnas.jobs import open_runner
from gnas.paper import Request, Results, perform_runs
from gnas.paper.archive import unpack_archive
from gnas.paper.catalogue import plan_runs, train_run
from gnas.paper.estimate import Estimator
from gnas.paper.lines import make_line
from gnas.paper.schedule import Worker
from gnas.paper.tables import make_tables

KEPT = Path(__file__).parents[2] / "benchmarks" / "results"


def test_algorithm_1_takes_the_trainings_of_its_last_search(tmp_path: Path) -> None:
    deep = gap.genotype(["[mean]"] * 12)
    write_run(tmp_path, "zinc/single-level-12-seed0", deep, seeds(0.24, 0.3), cells=12)
    write_depth(tmp_path, deep, 16, 14, 12)
    for folder, device in (("depth-from-16-seed0", "CPU"), ("single-level-12-seed0", "H200")):
        (tmp_path / "zinc" / folder / "versions.json").write_text(json.dumps({"device": device}))
    (job, asked), results = algorithm_1(), Results([tmp_path])
    before = files(tmp_path, "*.*")
    assert results.is_done(job)

    def refuse(source: object) -> Any:
        pytest.fail("nothing is left to do")

    nothing = perform_runs(
        [job.of, job], results, open_runner(tmp_path), load=lambda source: pytest.fail("nothing is left to do")
    )
    assert (nothing.done, nothing.failed) == ((), {})
    Worker(tmp_path, results).do(job, load(job.source))  # as if another process had trained it since
    assert files(tmp_path, "*.*") == before
    found = make_line(entry("algorithm-1", 16), asked, results, {})
    assert found.result is not None
    assert (found.result.run, found.result.seeds, found.result.search_seconds) == ("single-level-12-seed0", 4, 20.0)
    assert (found.result.mean, found.result.device, found.state) == (pytest.approx(0.255), "H200", "")
    row = make_tables("table-zinc", asked, results, {})[0].table.texts()[-1]
    assert (row[1], row[-1]) == ("from 16, found 12", "paper: its best network, 12 cells; single-level-12-seed0")
    for device in ("cpu", "cuda"):  # the folder of Algorithm 1 does not say where it was trained
        assert not Estimator(results, device, [job])(job).recorded


@pytest.mark.parametrize(("changes", "end"), [({}, ""), ({"dropout": 0.2}, "-dropout0.2")])
def test_seeds_of_algorithm_1_in_two_folders_are_of_one_network(
    changes: dict[str, Any], end: str, tmp_path: Path
) -> None:
    results = seeds(0.24, 0.3)
    for folder, own in (("single-level-12-seed0", (41, 95)), ("depth-from-16-seed0", (12, 35))):
        write_run(tmp_path, f"zinc/{folder}{end}", ONE, {seed: results[seed] for seed in own})
    write_depth(tmp_path, ONE, 16, 12)
    (job, asked), results = algorithm_1(changes), Results([tmp_path])
    found = make_line(entry("algorithm-1", 16), asked, results, {})
    assert results.is_done(job)
    assert found.result is not None
    assert (found.result.seeds, found.result.chosen_from, found.state) == (4, 1, "")


@pytest.mark.parametrize(
    ("cells", "trained", "changes"),
    [
        ((16,), ONE, {}),  # of 1.68M weights, and Algorithm 1 may have 1.20M
        ((16, 14), ONE, {}),  # no line of the paper has so many cells
        ((16, 12), TWO, {}),  # another search's network
        ((16, 12), ONE, {"dropout": 0.2}),  # asked for is another training
    ],
)
def test_algorithm_1_does_not_take_other_trainings(
    cells: tuple[int, ...], trained: Genotype, changes: dict[str, Any], tmp_path: Path
) -> None:
    write_run(tmp_path, f"zinc/single-level-{cells[-1]}-seed0", trained, seeds(0.24, 0.3), cells=cells[-1])
    write_depth(tmp_path, ONE, *cells)
    (job, asked), results = algorithm_1(changes), Results([tmp_path])
    assert results.find_trainings(job) == {}
    assert not results.is_done(job)
    assert make_line(entry("algorithm-1", 16), asked, results, {}).state == "not run"


def test_rows_without_folders_are_read(tmp_path: Path) -> None:
    (tmp_path / "baselines.csv").write_text(
        "date,hardware,dataset,model,layers,weights,metric,mean,std,tests,epochs,seconds\n"
        "2026-01-01,GPU,zinc,gin,4,1234,mae,0.25,0.1,0.1 0.2 0.3 0.4,5 6 7 8,9.5\n"
    )
    found = make_line(entry("gin"), Request(), Results([tmp_path]), {}).result
    assert found is not None
    assert (round(found.mean, 6), found.weights, found.epochs, found.device) == (0.25, 1234, 6.5, "GPU")
    assert make_line(entry("gin", 16), Request(), Results([tmp_path]), {}).result is None


def test_damaged_results_are_named(tmp_path: Path) -> None:
    write_run(tmp_path, "zinc/single-level-4-seed0", ONE, {41: {"test": None, "val": 0.3}})
    with pytest.raises(InputError, match=r"seed-41/result.json: has no test"):
        make_line(entry(), Request(), Results([tmp_path]), {})
    (tmp_path / "baselines.csv").write_text("dataset,model,layers\nzinc,gin,four\n")
    with pytest.raises(InputError, match=r"baselines.csv, line 2: not a row"):
        make_line(entry("gin"), Request(), Results([tmp_path]), {})


def test_what_was_kept_of_zinc_is_read() -> None:
    """The folder that ships with the repository gives the figures its histories were made with."""
    assert len(list((unpack_archive(KEPT, "zinc") or KEPT).glob("single-level-4-seed0/trained/gnas/seed-*"))) == 4
    kept = {one.run: one for one in Results([KEPT]).list_networks(train_run(entry(), Request()))}
    assert kept["single-level-4-seed0"].num_weights == 404_657
    found = make_line(entry(), Request(), Results([KEPT]), {}).result
    assert found is not None
    assert found.val == min(one.val for one in kept.values() if one.val is not None)
    assert Results([KEPT]).find_search(plan_runs(Request(items=("figure-collapse",)))[1]) is not None  # type: ignore[arg-type]
    assert make_line(entry("gin"), Request(), Results([KEPT]), {}).result is not None
