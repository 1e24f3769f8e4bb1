"""Tables and figures from finished runs: the right network is taken, the difference is right, nothing is hidden."""

from __future__ import annotations

import csv
import json
import statistics
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from papers import TINY, done, files, load, wanted

from gnas.arch import gap
from gnas.arch.genotype import CellGenotype, Genotype, Link
from gnas.cost import Workload, machine
from gnas.errors import InputError
from gnas.paper import ITEMS, Changes, Request, Results, carry_out, draw_item, fill_page, write_page
from gnas.paper.archive import unpack_archive
from gnas.paper.catalogue import entries, plan_runs, train_job
from gnas.paper.estimate import Estimator
from gnas.paper.findings import check_findings, count_operations
from gnas.paper.lines import make_line
from gnas.paper.perform import Worker
from gnas.paper.tables import make_tables

KEPT = Path(__file__).parents[2] / "benchmarks" / "results"
ONE = gap.genotype("[sparse(sum(sparse)) | max]")
TWO = gap.genotype("[mean]")


def write_run(place: Path, name: str, genotype: Genotype, results: dict[int, dict[str, Any]], cells: int = 4) -> None:
    """A finished network as its folder would be."""
    folder = place / name
    search = {"seconds": 7.0, "strategy": "single-level", "formulas": ["[mean]"] * cells}
    for seed, result in results.items():
        one = folder / "trained" / "gnas" / f"seed-{seed}"
        one.mkdir(parents=True)
        (one / "config.yaml").write_text(yaml.safe_dump({"describe": f"genotype {genotype.id}, channels 8"}))
        told = {"seed": seed, "metric": "mae", "num_weights": 1000, "epochs": 3, "seconds": 1.5, "train": 0.1}
        (one / "result.json").write_text(json.dumps({**told, **result}))
    (folder / "config.yaml").write_text(yaml.safe_dump({"job": "search"}))
    (folder / "genotype.yaml").write_text(genotype.to_yaml())
    (folder / "result.json").write_text(json.dumps({"search": search}))


def write_depth(place: Path, genotype: Genotype, *cells: int) -> None:
    """Algorithm 1 from 16 cells as its folder would be, after searches with so many cells."""
    folder = place / "zinc/depth-from-16-seed0"
    folder.mkdir(parents=True, exist_ok=True)
    rounds = [{"initial": one, "genotype": genotype.id if one == cells[-1] else "0000000000"} for one in cells]
    (folder / "config.yaml").write_text(yaml.safe_dump({"job": "depth"}))
    (folder / "genotype.yaml").write_text(genotype.to_yaml())
    (folder / "result.json").write_text(json.dumps({"genotype": genotype.id, "rounds": rounds, "seconds": 20.0}))


def algorithm_1(changes: dict[str, Any] | None = None) -> tuple[Any, Request]:
    """The training behind the line of Algorithm 1, and what to ask for to have that line."""
    asked = Request(items=("table-zinc",), methods=("gnas",), depths=(16,), changes=Changes(changes or {}))
    return train_job(entry("algorithm-1", 16), asked), asked


def entry(model: str = "gnas", depth: int = 4, asked: Request | None = None) -> Any:
    asked = asked or Request()
    return next(e for e in entries("table-zinc", asked) if (e.model, e.depth) == (model, depth))


def seeds(test: float, val: float, **more: Any) -> dict[int, dict[str, Any]]:
    return {seed: {"test": test + place / 100, "val": val, **more} for place, seed in enumerate((41, 95, 12, 35))}


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
    (own,) = [e for e in entries("table-nodes", Request()) if (e.dataset, e.model) == ("pattern", "gnas")]
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


def test_algorithm_1_takes_the_trainings_of_its_last_search(tmp_path: Path) -> None:
    deep = gap.genotype(["[mean]"] * 12)
    write_run(tmp_path, "zinc/single-level-12-seed0", deep, seeds(0.24, 0.3), cells=12)
    write_depth(tmp_path, deep, 16, 14, 12)
    for folder, device in (("depth-from-16-seed0", "CPU"), ("single-level-12-seed0", "H200")):
        (tmp_path / "zinc" / folder / "versions.json").write_text(json.dumps({"device": device}))
    (job, asked), results = algorithm_1(), Results([tmp_path])
    before = files(tmp_path, "*.*")
    assert results.is_done(job)
    nothing = carry_out([job.of, job], tmp_path, results, load=lambda source: pytest.fail("nothing is left to do"))
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
    kept = {one.run: one for one in Results([KEPT]).list_networks(train_job(entry(), Request()))}
    assert kept["single-level-4-seed0"].num_weights == 404_657
    found = make_line(entry(), Request(), Results([KEPT]), {}).result
    assert found is not None
    assert found.val == min(one.val for one in kept.values() if one.val is not None)
    assert Results([KEPT]).find_search(plan_runs(Request(items=("figure-collapse",)))[1]) is not None  # type: ignore[arg-type]
    assert make_line(entry("gin"), Request(), Results([KEPT]), {}).result is not None


@pytest.mark.filterwarnings("ignore:epoch")
def test_everything_is_drawn(tmp_path: Path) -> None:
    """Every table and figure of a very small paper, from runs to files; the CSV holds what the Markdown shows."""
    asked = wanted(*ITEMS, datasets=("zinc", "pattern"), methods=("gnas", "gin", "graphnas"), seeds=(41,))
    outcome, results = done(asked, tmp_path)
    assert outcome.failed == {}
    drawn = [draw_item(item, asked, results, outcome.failed, tmp_path) for item in asked.items]
    page = write_page(drawn, tmp_path, ["made by a test"], {"zinc/x": "out of memory"}).read_text()
    for one in drawn:
        assert one.tables or one.pictures or one.item == "table-graphs", one.item  # neither dataset is in that one
        for picture in one.pictures:
            assert picture.file.read_text().startswith(("<?xml", "<svg"))
            assert picture.file.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
            assert f"]({picture.file.relative_to(tmp_path)})" in page
    assert "- `zinc/x`: out of memory" in page
    assert "not run" not in page
    with open(tmp_path / "tables" / "table-zinc.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {(row["model"], row["depth"]) for row in rows} == {
        (e.model, str(e.depth)) for e in entries("table-zinc", asked)
    }
    for row in rows:
        assert float(row["difference"]) == pytest.approx(float(row["ours_metric"]) - float(row["paper_metric"]))
        if row["model"] in ("gnas", "algorithm-1"):
            assert int(row["weights"]) <= TINY.budget(int(row["paper_budget"]))


def test_a_page_is_filled_between_its_marks(tmp_path: Path) -> None:
    write_run(tmp_path / "runs", "zinc/single-level-4-seed0", ONE, seeds(0.26, 0.3))
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- gnas reproduce: table-zinc -->\nold\n<!-- end -->\nafter\n")
    asked, results = Request(items=("table-zinc",), methods=("gnas",), depths=(4,)), Results([tmp_path / "runs"])
    drawn = [draw_item("table-zinc", asked, results, {}, tmp_path / "out")]
    assert fill_page(page, drawn, asked, results) == 1
    text = page.read_text()
    assert text.startswith("before\n<!-- gnas reproduce: table-zinc -->\n")
    assert text.endswith("<!-- end -->\nafter\n")
    assert "old" not in text
    assert "0.2750 ± 0.0112" in text
    fill_page(page, drawn, asked, results)
    assert page.read_text() == text  # a second time changes nothing
    page.write_text("no marks")
    with pytest.raises(InputError, match="no marks to fill"):
        fill_page(page, drawn, asked, results)


def test_operations_are_counted_where_they_reach_the_output() -> None:
    assert count_operations(ONE) == {"sparse": 2, "sum": 1, "max": 1}
    links = ((0, 1, "dense"), (1, 2, "sparse"), (1, 3, "sum"), (2, 4, "identity"), (4, 5, "dense"))
    dead_sum = Genotype((CellGenotype(2, 1, tuple(Link(*link) for link in links)),))
    assert count_operations(dead_sum) == {"dense": 2, "sparse": 1, "no aggregation": 1}


def test_findings_hold_or_not_by_counts() -> None:
    sums, both = gap.genotype("[sum(sparse) | sum(dense) | max]"), gap.genotype("[sum(sparse) | max]")
    verdicts = {
        one.text: one.holds for one in check_findings({"pattern": sums, "zinc": both, "mnist": gap.genotype("[mean]")})
    }
    assert verdicts["sum is the aggregator chosen most often on PATTERN"] is True
    assert verdicts["dense filters are chosen less often than sparse ones on PATTERN"] is False
    assert verdicts["both sum and max are chosen on ZINC"] is True
    assert verdicts["max is the aggregator chosen most often on MNIST"] is False
    assert verdicts["mean is not chosen on MNIST"] is False
    assert verdicts["sum is the aggregator chosen most often on CLUSTER"] is None


def test_time_is_estimated_by_finished_runs_else_by_a_stated_figure(tmp_path: Path) -> None:
    asked = Request(items=("table-zinc",), methods=("gnas",))
    four = next(job for job in plan_runs(asked) if job.key == "zinc/single-level-4-seed0")
    eight = next(job for job in plan_runs(asked) if job.key == "zinc/single-level-8-seed0")
    plain = Estimator(Results([tmp_path]), "cpu", plan_runs(asked))
    model, _ = machine(torch.device("cpu"))
    work = Workload(10_000, 1_000, 277_864 / 12_000, 49.83)
    assert plain(four).seconds == pytest.approx(50 * model.epoch_seconds("search", work, 64, 4, 64))
    assert not plain(four).recorded
    more = plain(eight).seconds / plain(four).seconds
    assert 1.5 < more < 2.5
    folder = tmp_path / four.folder / "search"
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text("job: search\n")
    (folder / "genotype.yaml").write_text(ONE.to_yaml())
    (folder / "result.json").write_text(json.dumps({"genotype": ONE.id, "seconds": 30.0}))
    (folder.parent / "config.yaml").write_text("job: search\n")
    (folder.parent / "versions.json").write_text('{"device": "CPU"}')
    known = Estimator(Results([tmp_path]), "cpu", plan_runs(asked))
    assert known(four).seconds == pytest.approx(30.0)
    assert known(eight).seconds == pytest.approx(30.0 * more)
    assert known(eight).recorded
    assert not Estimator(Results([tmp_path]), "cuda", plan_runs(asked))(eight).recorded  # a GPU is another thing
