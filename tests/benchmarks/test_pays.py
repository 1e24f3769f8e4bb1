"""pays.py at a tiny size: data is packed and read, methods keep their time, rows are skipped, the page agrees with its rows."""

import csv
import json
import statistics
import time
from pathlib import Path

import numpy as np
import pays
import pays_data
import pays_methods
import pays_report
import pytest
import torch
from rows import RESULTS, read
from small import benchmark as small

import gnas
from gnas.data.benchmark import Benchmark

DOCS = Path(__file__).parents[2] / "docs"


def cut(benchmark: Benchmark, counts: tuple[int, int, int] = (24, 8, 8)) -> Benchmark:
    from dataclasses import replace

    parts = zip(benchmark.splits().items(), counts, strict=True)
    return replace(benchmark, **{name: graphs.select(range(count)) for (name, graphs), count in parts})


def test_a_pool_is_split_three_times_without_overlap(tmp_path: Path) -> None:
    pays_data.pack("molecules-mini", tmp_path, tmp_path)
    parts = [pays_data.read_part(tmp_path, "molecules-mini", split) for split in pays_data.SPLITS]
    whole = sum(map(len, gnas.load("molecules-mini").splits().values()))
    targets = []
    for one in parts:
        assert sum(map(len, one.splits().values())) == whole
        assert one.task.edge_categories
        targets.append(one.test.y)
        if one.task.scale != (1.0,):  # by the training part alone
            assert one.task.center[0] == pytest.approx(float(one.train.y.mean()), abs=1e-5)
    assert not torch.equal(targets[0], targets[1])


def test_molecules_are_standardised_by_their_training_rows(tmp_path: Path) -> None:
    pytest.importorskip("rdkit")
    (tmp_path / "molecules").mkdir()
    carbons = ["C" * (1 + k % 12) + "O" * (k % 3) for k in range(60)]
    lines = [f"{text},{len(text) + 0.1 * k}" for k, text in enumerate(carbons)]
    (tmp_path / "molecules" / "esol.csv").write_text("\n".join(["smiles,logS", *lines, "not a molecule,1.0"]))
    pays_data.pack("esol", tmp_path, tmp_path / "packed")
    found = pays_data.read_part(tmp_path / "packed", "esol", 1)
    assert [len(one) for one in found.splits().values()] == [48, 6, 6]
    assert found.task.center[0] == pytest.approx(float(found.train.y.mean()), rel=1e-4)
    assert found.task.graph_channels > 10
    assert found.train.graph_attr is not None
    assert float(found.train.graph_attr.mean(0).abs().max()) < 1e-3


@pytest.mark.parametrize("method", list(pays_methods.METHODS))
def test_every_method_keeps_its_time_and_names_what_it_chose(method: str) -> None:
    seconds = (
        12.0 if method == "single-level" else 3.0
    )  # it plans without the time of evaluation, which counts on small graphs
    started = time.monotonic()
    rows = pays_methods.run_method(method, small(), seconds, seed=1)
    assert time.monotonic() - started < 4 * seconds + 6  # on a busy machine
    assert [row["method"] for row in rows] == ([method, "race+ensemble"] if method == "race" else [method])
    for row in rows:
        assert np.isfinite([row["val"], row["test"]]).all()
        assert row["trainings"] >= 1
    best = min(one["val_metric"] for one in rows[0]["history"])
    assert rows[0]["val"] == pytest.approx(best, rel=1e-4)


def test_rows_that_are_there_are_not_run_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "rows.csv"
    words = ["run", "--data", str(tmp_path), "--seconds", "4", "--only", "pattern-mini", "--splits", "0"]
    words += ["--clock", "cpu", "--methods", "hand-made", "--out", str(out), "--histories", str(tmp_path / "h.jsonl")]
    for _ in range(2):
        chosen = pays.arguments(words)
        chosen.action(chosen)
    found = read(out)
    assert [(row["dataset"], row["method"], row["threads"]) for row in found] == [("pattern-mini", "hand-made", "1")]
    assert "0 runs of about" in capsys.readouterr().out
    (line,) = (tmp_path / "h.jsonl").read_text().splitlines()
    assert json.loads(line)["history"]


def test_no_run_starts_that_would_end_too_late(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["run", "--data", str(tmp_path), "--out", str(tmp_path / "rows.csv"), "--stop-after", "100"]
    chosen = pays.arguments(words)
    chosen.action(chosen)
    assert "204 runs left" in capsys.readouterr().out


def test_the_methods_of_a_split_follow_each_other() -> None:
    cases = pays.list_cases(pays.arguments(["run", "--data", "x"]))
    assert [case.method for case in cases[:4]] == list(pays.METHODS)
    assert {case.split for case in cases[: len(cases) // 3]} == {0}
    assert not {case.dataset for case in cases} & set(pays_data.ASIDE)
    aside = pays.list_cases(pays.arguments(["run", "--data", "x", "--aside"]))
    assert {case.dataset for case in aside} == set(pays_data.ASIDE)


def rows_of(values: dict[str, dict[str, list[float]]], metric: str = "mae") -> list[dict[str, str]]:
    common = {"metric": metric, "seconds": "120", "hardware": "CPU", "torch": "2"}
    return [
        {"dataset": dataset, "method": method, "split": str(split), "test": str(test), **common}
        for dataset, methods in values.items()
        for method, tests in methods.items()
        for split, test in enumerate(tests)
    ]


VALUES = {
    "esol": {"race": [1.0, 2.0], "random": [2.0, 3.1], "hand-made": [1.0, 2.1], "single-level": [3.0, 4.0]},
    "zinc": {"race": [1.0, 1.2], "random": [0.9, 1.5], "hand-made": [0.5, 0.6], "single-level": [2.0, 2.0]},
    "qm7": {"race": [1.0], "random": [2.0], "hand-made": [3.0], "single-level": [4.0]},
}


def test_ranks_and_verdicts() -> None:
    results = pays_report.Results(rows_of(VALUES))
    assert results.complete() == ["esol", "zinc"]
    ranks = pays_report.rank_methods(results)
    assert ranks == {"race": [1, 2], "random": [3, 3], "hand-made": [2, 1], "single-level": [4, 4]}
    assert pays_report.judge(results, "esol", "race", "random") == "better"
    assert pays_report.judge(results, "esol", "race", "hand-made") == "level"
    assert pays_report.judge(results, "zinc", "race", "random") == "level"
    assert pays_report.judge(results, "zinc", "race", "hand-made") == "worse"
    higher = pays_report.Results(rows_of(VALUES, "accuracy"))
    assert pays_report.rank_methods(higher)["race"] == [4, 3]


def test_the_critical_difference_is_that_of_demsar() -> None:
    assert pays_report.critical_difference(4, 14) == pytest.approx(1.25, abs=0.01)  # the example of the article
    stats = pytest.importorskip("scipy.stats")
    ranks = {"a": [1, 1, 2, 1], "b": [2, 3, 1, 2], "c": [3, 2, 3, 3]}
    assert pays_report.friedman(ranks) == pytest.approx(stats.friedmanchisquare(*ranks.values()).statistic)


def test_the_page_is_filled(tmp_path: Path) -> None:
    page = tmp_path / "pays.md"
    page.write_text("# Title\n<!-- pays: table -->\nold\n<!-- end -->\nrest\n")
    pays_report.write(rows_of(VALUES), [], page, tmp_path / "images" / "pays.svg")
    text = page.read_text()
    assert "old" not in text
    assert text.endswith("rest\n")
    assert "| esol | mae | 2 | **1.500 ± 0.707** |" in text
    assert "Kept aside" in text
    assert "critical difference" in (tmp_path / "images" / "pays.svg").read_text()


def test_the_kept_page_agrees_with_the_kept_rows() -> None:
    rows = read(RESULTS / "pays.csv")
    assert rows, "no rows are kept"
    text = (DOCS / "pays.md").read_text(encoding="utf-8")
    wanted = pays_report.fill(text, rows, read(RESULTS / "rates.csv"), "images/pays.svg")
    assert text == wanted, "run: python benchmarks/pays.py report"
    with open(RESULTS / "pays.csv", newline="") as file:
        assert tuple(next(csv.reader(file)))[6:] == pays.COLUMNS
    timed = [row for row in rows if row["method"] in pays.METHODS]
    assert statistics.fmean(float(row["spent"]) <= 1.2 * float(row["seconds"]) + 5 for row in timed) > 0.8
