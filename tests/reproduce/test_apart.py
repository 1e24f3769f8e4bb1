"""The runs of a reproduction on workers give what they give one after another."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from papers import done, load, wanted
from test_carry_out import untimed

from gnas.jobs import open_runner
from gnas.reproduce import PAPER, QUICK, Shelf, Wanted, jobs
from gnas.reproduce.apart import carry_out_apart, clash, from_values, next_wave, to_values
from gnas.reproduce.jobs import DepthJob, SearchJob
from gnas.reproduce.scale import Source


@pytest.mark.parametrize("scale", [PAPER, QUICK], ids=lambda one: one.name)
def test_every_run_comes_out_of_its_values(scale) -> None:
    asked = jobs(Wanted(scale=scale))
    assert {job.kind for job in asked} >= {"search", "train", "depth"}
    for job in asked:
        again = from_values(json.loads(json.dumps(to_values(job))))
        assert (again, again.key, again.folder) == (job, job.key, job.folder)
        if hasattr(job, "settings"):
            assert again.settings() == job.settings()  # type: ignore[union-attr]


def test_a_wave_holds_nothing_that_needs_or_disturbs_another(tmp_path: Path) -> None:
    left, waves = list(jobs(Wanted(scale=QUICK))), []
    while left:
        wave, left = next_wave(left, Shelf([tmp_path]))
        if not wave:
            break  # nothing is done here: trainings wait for their searches
        waves.append(wave)
        assert not any(clash(one, other) for one in wave for other in wave if one is not other)
        assert not [job for job in wave if job.kind == "train" and job.of in wave]
    assert len(waves[0]) > 10
    zinc = Source("zinc")
    assert clash(DepthJob(zinc, 4), SearchJob(zinc, 4))
    assert not clash(SearchJob(zinc, 8), SearchJob(zinc, 4))
    assert not clash(DepthJob(zinc, 4), SearchJob(zinc, 4, seed=1))


@pytest.mark.filterwarnings("ignore:epoch")
def test_runs_on_workers_are_the_same(tmp_path: Path) -> None:
    asked = wanted("table-zinc", methods=("gnas", "gcn"), depths=(4,))
    done(asked, tmp_path / "alone")
    heard: list[dict] = []
    shelf = Shelf([tmp_path / "apart"])
    with open_runner(tmp_path / "apart") as runner:
        outcome = carry_out_apart(
            jobs(asked), tmp_path / "apart", shelf, runner, load=load, on_epoch=heard.append, keep=tmp_path / "kept"
        )
        assert sorted(outcome.done) == sorted(job.key for job in jobs(asked))
        assert not outcome.failed
        again = carry_out_apart(
            jobs(asked), tmp_path / "apart", shelf, runner, load=lambda source: pytest.fail("again")
        )
    assert again.done == ()
    assert [record["epoch"] for record in heard] == list(range(1, len(outcome.done) + 1))
    assert untimed(tmp_path / "apart") == untimed(tmp_path / "alone")
    assert list((tmp_path / "kept").rglob("result.json"))


def test_what_cannot_be_loaded_fails_alone(tmp_path: Path) -> None:
    asked = wanted("table-zinc", methods=("gcn",), depths=(4,))

    def broken(source: Source):
        raise OSError("the disk is gone")

    with open_runner(tmp_path) as runner:
        outcome = carry_out_apart(jobs(asked), tmp_path, Shelf([tmp_path]), runner, load=broken)
    assert outcome.done == ()
    assert set(outcome.failed.values()) == {"OSError: the disk is gone"}
