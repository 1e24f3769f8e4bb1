"""relations.py: found networks from run folders and files, rows that say how they are trained, tables made from rows."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import relations
import relations_report
import small
from rows import read

import gnas
from gnas.arch import gap
from gnas.arch.stack import Stack
from gnas.files import dump_config
from gnas.strategies.candidate import RaceCandidate

ROOT = Path(__file__).parents[2]
ROWS = ROOT / "benchmarks" / "results" / "relations.csv"
RACE = ROOT / "tests" / "kept" / "race"
FOUND = gap.genotype("[identity | sum(edge)]", 2, "bare")


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """The script on a small set of graphs with columns of edges."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(gnas, "load", lambda *_, **__: small.with_edge_columns())
    monkeypatch.setitem(relations.BUDGETS, "zinc", 4_000)
    few = ("--out", "rows.csv", "--seeds", "1", "2", "--epochs", "2", "--batch", "6", "--device", "cpu")

    def call(*words: str) -> list[dict[str, str]]:
        monkeypatch.setattr(sys, "argv", [relations.__file__, *words, *few])
        relations.main()
        return read(Path("rows.csv"))

    return call


def test_a_found_network_keeps_what_it_was_found_with(call, tmp_path: Path) -> None:
    genotype = gnas.Genotype(FOUND.cells, "bare", Stack(ffn=True, encodings=()))
    made = RaceCandidate(genotype, lr=0.003, dropout=0.1, readout="max", channels=8)
    (tmp_path / "mine.yaml").write_text(dump_config(made.to_dict()))
    (tmp_path / "plain.yaml").write_text(FOUND.to_yaml())
    own, plain, named = call("--genotypes", "mine.yaml", "plain.yaml", "--lr", "0.002") + call("--networks", "gin+")[2:]
    assert (own["kind"], own["network"]) == ("found", f"found {made.id}")
    assert (own["lr"], own["dropout"], own["readout"], own["encodings"]) == ("0.003", "0.1", "max", "")
    assert own["cell"] == "[identity | sum(edge)], a feed-forward layer after every cell"
    assert int(own["weights"]) == made.build(small.with_edge_columns().task).num_weights()
    assert (plain["kind"], plain["network"], plain["lr"], plain["readout"]) == ("found", "plain", "0.002", "mean")
    assert (named["kind"], named["network"], named["lr"]) == ("named", "gin+", "0.001")
    for row in (own, plain, named):
        assert int(row["weights"]) <= 4_000
        assert len(row["tests"].split()) == 2


def test_a_run_folder_hands_over_its_best_found_network(call, tmp_path: Path) -> None:
    (row,) = call("--genotypes", str(RACE))
    (kept,) = tmp_path.glob("relations_zinc_*.yaml")
    made = RaceCandidate.from_dict(relations.parse_yaml(kept.read_text(), "kept", typed=True))
    assert made.architecture == gnas.load_genotype(RACE / "genotype.yaml")
    assert (row["network"], row["lr"], row["readout"]) == (f"found {made.id}", "0.002", "mean")
    assert int(row["weights"]) <= 4_000, "it is narrower where it has too many weights"
    again = call("--genotypes", str(kept))[1]
    assert {**again, "command": "", "seconds": "", "load": ""} == {**row, "command": "", "seconds": "", "load": ""}


def test_a_run_without_a_found_network_gets_a_line(call, tmp_path: Path) -> None:
    (tmp_path / "run" / "search").mkdir(parents=True)
    (tmp_path / "run" / "search" / "config.yaml").write_text("job: search\n")
    with pytest.raises(gnas.InputError, match="no finished search that found a network"):
        call("--genotypes", "run")


def row(network: str, tests: str, val: float, kind: str = "named", **more: object) -> dict[str, str]:
    mean = sum(map(float, tests.split())) / len(tests.split())
    values = {"dataset": "zinc", "kind": kind, "network": network, "tests": tests, "test": mean, "val": val, **more}
    fixed = {"cell": "[sum(edge) | identity], words", "cells": 2, "epochs": 9, "lr": 0.001, "dropout": 0, "weights": 9}
    return {name: str(value) for name, value in {**fixed, **values}.items()}


def test_the_table_and_what_it_says() -> None:
    rows = [
        row("old", "9 9 9 9", 0.1),
        row("mine", ".10 .12 .10 .12", 0.2, "found"),
        row("other", ".01 .01 .01 .01", 0.3, "found"),  # better on test, but validation chooses
        row("good", ".05 .05 .05 .05", 0.1),
        row("near", ".11 .10 .11 .12", 0.4),
        row("bad", ".20 .20 .20 .20", 0.5),
        row("few", ".1 .1", 0.1),
    ]
    rows.append({**rows[0], "tests": ".3 .3 .3 .3", "test": ".3", "val": "0.6"})  # measured again
    section = relations_report.make_section("zinc", rows)
    names = [line.split(" | ")[0].strip("| ") for line in section.splitlines() if line.startswith("|")][2:]
    assert names == ["`good`", "**mine**", "**other**", "`near`", "`bad`", "`old`"]
    assert "| **mine** | `[sum(edge) \\| identity]`, words | 2 | 9 | 0.001, 0 | 9 | .2000 | .1100 ± .0100 |" in section
    assert "9 epochs, test: mine is worse than `good` (.0600 ± .0058), level with `near`" in section
    assert "better than `bad` (.0900 ± .0058), better than `old`" in section
    accuracy = [row("a", "70 72 70 72", 1, "found", dataset="cifar10"), row("b", "60 62 60 62", 1, dataset="cifar10")]
    assert "a is better than `b` (10.00 ± .82)" in relations_report.make_section("cifar10", accuracy)
    assert "No row of 4 seeds yet" in relations_report.make_section("cifar10", rows)


def test_the_page_has_the_tables_of_the_kept_rows() -> None:
    """``python benchmarks/relations.py --page docs/results.md`` writes them."""
    text = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    assert relations_report.fill(text, read(ROWS)) == text
    assert set(relations_report.METRICS) == set(relations.DATA)
    for dataset in relations.DATA:
        assert f"<!-- relations: {dataset} -->" in text
