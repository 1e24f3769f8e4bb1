"""The time of a run is estimated by the cost model and by finished runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from papers import ONE

from gnas.cost import Workload, find_machine
from gnas.paper import Request, Results
from gnas.paper.catalogue import plan_runs
from gnas.paper.estimate import Estimator


def test_time_is_estimated_by_finished_runs_else_by_a_stated_figure(tmp_path: Path) -> None:
    asked = Request(items=("table-zinc",), methods=("gnas",))
    four = next(job for job in plan_runs(asked) if job.key == "zinc/single-level-4-seed0")
    eight = next(job for job in plan_runs(asked) if job.key == "zinc/single-level-8-seed0")
    plain = Estimator(Results([tmp_path]), "cpu", plan_runs(asked))
    model, _ = find_machine(torch.device("cpu"))
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
