"""The runs of a reproduction on workers give what they give one after another."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from papers import TINY, done, load, untimed, wanted

from gnas.jobs import Storage, open_runner
from gnas.paper import PAPER, QUICK, Request, Results, carry_out, plan_runs
from gnas.paper.apart import carry_out_apart, from_values, others, to_values
from gnas.paper.jobs import DepthJob
from gnas.paper.scale import Source


@pytest.mark.parametrize("scale", [PAPER, QUICK], ids=lambda one: one.name)
def test_every_run_comes_out_of_its_values(scale) -> None:
    asked = plan_runs(Request(scale=scale))
    assert {job.kind for job in asked} >= {"search", "train", "depth"}
    for job in asked:
        again = from_values(json.loads(json.dumps(to_values(job))))
        assert (again, again.key, again.folder) == (job, job.key, job.folder)
        if hasattr(job, "settings"):
            assert again.settings() == job.settings()  # type: ignore[union-attr]


@pytest.mark.filterwarnings("ignore:epoch")
def test_runs_on_workers_are_the_same(tmp_path: Path) -> None:
    asked = wanted("table-zinc", methods=("gnas", "gcn"), depths=(4,))
    done(asked, tmp_path / "alone")
    heard: list[dict] = []
    results = Results([tmp_path / "apart"])
    with open_runner(tmp_path / "apart") as runner:
        outcome = carry_out_apart(
            plan_runs(asked),
            tmp_path / "apart",
            results,
            runner,
            load=load,
            on_epoch=heard.append,
            keep=tmp_path / "kept",
        )
        assert sorted(outcome.done) == sorted(job.key for job in plan_runs(asked))
        assert not outcome.failed
        again = carry_out_apart(
            plan_runs(asked), tmp_path / "apart", results, runner, load=lambda source: pytest.fail("again")
        )
    assert again.done == ()
    assert [record["epoch"] for record in heard] == list(range(1, len(outcome.done) + 1))
    assert untimed(tmp_path / "apart") == untimed(tmp_path / "alone")
    assert all(map(Results([tmp_path / "kept"]).is_done, plan_runs(asked)))


@pytest.mark.filterwarnings("ignore:epoch")
def test_runs_at_a_url_go_on_from_an_empty_machine(tmp_path: Path) -> None:
    """A search, what is trained of it, and Algorithm 1, whose searches are folders of their own."""
    asked = [*plan_runs(wanted("table-zinc", methods=("gnas",), depths=(4,))), DepthJob(Source("zinc"), 2, 0, TINY)]
    out, url = tmp_path / "alone", f"memory://{tmp_path.name}"
    carry_out(asked, out, Results([out]), load=load)
    left = [len(asked)]
    for number in range(20):  # machine after machine, each stopped after its first run
        out, storage = tmp_path / f"machine-{number}", Storage(url)
        storage.pull("", out)
        with open_runner(out, "here", sync=storage) as runner:
            heard: list[dict] = []
            outcome = carry_out_apart(
                *(asked, out, Results([out]), runner),
                load=load,
                on_epoch=heard.append,
                should_stop=lambda heard=heard: bool(heard),
            )
            runner.push_own_files()
        assert not outcome.failed
        left.append(sum(not Results([out]).is_done(job) for job in asked))
        if not left[-1]:
            break
    assert left == sorted(left, reverse=True)
    assert len(left) > 2
    assert untimed(out) == untimed(tmp_path / "alone")
    Storage(url).pull("", tmp_path / "at-the-url")
    assert untimed(tmp_path / "at-the-url") == untimed(out)
    outside = out / asked[-1].search(2).folder  # type: ignore[union-attr]
    assert (outside / "search" / "result.json").exists()
    assert asked[-1].search(2).folder in others(asked[-1])  # type: ignore[union-attr]


@pytest.mark.filterwarnings("ignore:epoch")
def test_what_was_kept_elsewhere_reaches_a_worker(tmp_path: Path) -> None:
    asked = wanted("table-zinc", methods=("gnas",), depths=(4,), seeds=(41,))
    done(wanted("table-zinc", methods=("gnas",), depths=(4,), seeds=(95,)), tmp_path / "before", keep=tmp_path / "kept")
    results, url = Results([tmp_path / "out", tmp_path / "kept"]), f"memory://{tmp_path.name}"
    with open_runner(tmp_path / "out", "here", sync=url) as runner:
        outcome = carry_out_apart(plan_runs(asked), tmp_path / "out", results, runner, load=load)
    assert [key.partition(" ")[2] for key in outcome.done] == ["seeds 41"]
    assert untimed(tmp_path / "before").keys() <= untimed(tmp_path / "out").keys()


def test_what_cannot_be_loaded_fails_alone(tmp_path: Path) -> None:
    asked = wanted("table-zinc", methods=("gcn",), depths=(4,))

    def broken(source: Source):
        raise OSError("the disk is gone")

    with open_runner(tmp_path) as runner:
        outcome = carry_out_apart(plan_runs(asked), tmp_path, Results([tmp_path]), runner, load=broken)
    assert outcome.done == ()
    assert set(outcome.failed.values()) == {"OSError: the disk is gone"}
