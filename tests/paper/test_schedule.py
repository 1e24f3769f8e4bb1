"""Runs are done once, here or on workers, resume after a stop, and a failed one does not stop the others."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import small
import yaml
from papers import TINY, done, files, load, untimed, wanted

from gnas.data.benchmark import Benchmark
from gnas.errors import InputError
from gnas.jobs import Storage, open_runner
from gnas.jobs.codec import decode, encode
from gnas.paper import PAPER, QUICK, Changes, Request, Results, perform_runs, plan_runs
from gnas.paper.runs import DepthRun, Scale, SearchRun, Source, TrainRun
from gnas.paper.schedule import make_jobs
from gnas.run.folder import Run

LINE = {"methods": ("gnas",), "depths": (4,)}
RESULTS = ("result.json", "genotype.yaml")


@pytest.mark.filterwarnings("ignore:epoch")
def test_a_finished_run_is_not_repeated(tmp_path: Path) -> None:
    asked = wanted("table-zinc", **LINE)
    first, _ = done(asked, tmp_path)
    before = files(tmp_path, "*.json", "*.jsonl", "*.yaml")
    second, results = done(asked, tmp_path, load=lambda source: pytest.fail("nothing is left to load data for"))
    assert [key.partition(" ")[0] for key in first.done] == ["zinc/single-level-1-seed0"] * 2
    assert (second.done, second.failed, second.stopped) == ((), {}, False)
    assert files(tmp_path, "*.json", "*.jsonl", "*.yaml") == before
    assert all(map(results.is_done, plan_runs(asked)))


def test_the_folder_of_a_run_is_an_ordinary_one(tmp_path: Path) -> None:
    from gnas.run.models import load_model
    from gnas.run.record import read_run

    done(wanted("table-zinc", **LINE), tmp_path)
    folder = tmp_path / "zinc" / "single-level-1-seed0"
    job = read_run(folder)
    assert (job.state, job.config["job"], job.metric) == ("finished", "search", "mae")
    assert job.genotype is not None
    assert len(job.trainings) == 2
    assert load_model(folder)[0].num_weights() == job.leaderboard.rows[0].num_weights  # type: ignore[union-attr]


@pytest.mark.parametrize("steps", [1, 4, 9, 14])
def test_a_stopped_run_goes_on_to_the_same_result(steps: int, tmp_path: Path) -> None:
    asked = wanted("table-zinc", **LINE)
    whole, _ = done(asked, tmp_path / "whole")
    outcome, results = done(asked, tmp_path / "parts", should_stop=small.stop_after(steps))
    assert outcome.stopped
    assert not all(map(results.is_done, plan_runs(asked)))
    rest, results = done(asked, tmp_path / "parts")
    assert not rest.stopped
    assert {*outcome.done, *rest.done} == set(whole.done)
    assert untimed(tmp_path / "parts") == untimed(tmp_path / "whole")


def test_a_failed_run_is_listed_and_the_rest_is_done(tmp_path: Path) -> None:
    def broken(source: Source) -> Benchmark:
        if source.name == "cluster":
            raise InputError("no data for 'cluster'")
        return load(source)

    asked = wanted("table-nodes", methods=("mlp", "gnas"), seeds=(41,))
    outcome, _ = done(asked, tmp_path, load=broken)
    assert [key for key in outcome.done if key.startswith("cluster")] == []
    assert len(outcome.done) == 3
    assert outcome.failed["cluster/mlp-1 seeds 41"] == "no data for 'cluster'"
    assert outcome.failed["cluster/single-level-1-seed0 seeds 41"] == "its search failed (cluster/single-level-1-seed0)"
    assert json.loads((tmp_path / "failed.json").read_text()) == outcome.failed
    again, _ = done(asked, tmp_path)  # now there is data
    assert again.failed == {}
    assert len(again.done) == 3
    assert not (tmp_path / "failed.json").exists()


def test_a_run_that_breaks_midway_is_a_failed_one(tmp_path: Path) -> None:
    asked = wanted("table-zinc", methods=("gcn", "gin"), depths=(4,), seeds=(41,))
    first = plan_runs(asked)[0]
    with Run(tmp_path / first.folder / "trained" / "gcn" / "seed-41", {"model": "another"}):
        pass
    outcome, _ = done(asked, tmp_path)
    assert list(outcome.failed) == ["zinc/gcn-1 seeds 41"]
    assert "cannot resume with another" in outcome.failed[first.key]
    assert outcome.done == ("zinc/gin-1 seeds 41",)


def test_what_another_process_does_is_left_to_it(tmp_path: Path) -> None:
    asked = wanted("table-zinc", methods=("gnas", "gin"), depths=(4,), seeds=(41,))
    search, train, _ = plan_runs(asked)
    with Run(tmp_path / search.folder, {"job": "search"}):
        outcome, results = done(asked, tmp_path)
    assert outcome.done == ("zinc/gin-1 seeds 41",)
    assert (outcome.failed, results.is_done(search), results.is_done(train)) == ({}, False, False)


def test_more_seeds_are_added_to_a_run(tmp_path: Path) -> None:
    done(wanted("table-zinc", methods=("gin",), depths=(4,), seeds=(41,)), tmp_path)
    before = files(tmp_path, "seed-41/result.json")
    outcome, results = done(wanted("table-zinc", methods=("gin",), depths=(4,), seeds=(41, 95)), tmp_path)
    assert outcome.done == ("zinc/gin-1 seeds 41, 95",)
    assert files(tmp_path, "seed-41/result.json") == before
    (row,) = json.loads((tmp_path / "zinc/gin-1/leaderboard.json").read_text())["rows"]
    assert row["seeds"] == 2
    assert set(results.find_trainings(plan_runs(wanted("table-zinc", methods=("gin",), depths=(4,)))[0])) == {41, 95}  # type: ignore[arg-type]


def test_kept_files_are_small_ones_and_enough(tmp_path: Path) -> None:
    asked = wanted("table-zinc", "figure-depth", "table-strategies", methods=("gnas",), depths=(4, 16, 2), seeds=(41,))
    out, kept = tmp_path / "out", tmp_path / "kept"
    outcome, _ = done(asked, out, archive=kept)
    assert not outcome.failed
    assert {path.name for path in kept.iterdir()} == {"zinc.jsonl", "zinc-histories.jsonl.gz"}
    shutil.rmtree(out)
    outcome, results = done(asked, out, kept=(kept,), load=lambda source: pytest.fail("everything is kept"))
    assert outcome.done == ()
    assert all(map(results.is_done, plan_runs(asked)))


def test_a_network_is_trained_from_a_search_kept_elsewhere(tmp_path: Path) -> None:
    out, kept = tmp_path / "out", tmp_path / "kept"
    done(wanted("figure-architectures", datasets=("zinc",)), tmp_path / "first", archive=kept)
    outcome, _ = done(wanted("table-zinc", **LINE), out, kept=(kept,))
    assert outcome.done == ("zinc/single-level-1-seed0 seeds 41, 95",)
    here, there = (Run(place / "zinc" / "single-level-1-seed0").genotype() for place in (out, tmp_path / "first"))
    assert here is not None
    assert here == there


def test_a_network_is_trained_otherwise_beside_the_first(tmp_path: Path) -> None:
    done(wanted("table-zinc", **LINE), tmp_path)
    outcome, _ = done(wanted("table-zinc", changes=Changes({"dropout": 0.2}), **LINE), tmp_path)
    assert outcome.done == ("zinc/single-level-1-seed0-dropout0.2 seeds 41, 95",)  # the search was there
    config = Run(tmp_path / "zinc/single-level-1-seed0-dropout0.2/trained/gnas/seed-41").config
    assert config["architecture"]["dropout"] == 0.2
    here, there = (Run(tmp_path / f"zinc/single-level-1-seed0{end}").genotype() for end in ("", "-dropout0.2"))
    assert here is not None
    assert here == there


def test_a_network_is_built_otherwise_from_the_same_search(tmp_path: Path) -> None:
    asked = wanted("table-zinc", changes=Changes({"output": "leaves"}), **LINE)
    done(wanted("figure-architectures", datasets=("zinc",)), tmp_path)
    outcome, results = done(asked, tmp_path)
    assert outcome.done == ("zinc/single-level-1-seed0-outputleaves seeds 41, 95",)
    here, there = (Run(tmp_path / f"zinc/single-level-1-seed0{end}").genotype() for end in ("-outputleaves", ""))
    assert there is not None
    assert here == there.with_output("leaves")
    assert all(map(results.is_done, plan_runs(asked)))
    assert done(asked, tmp_path)[0].done == ()  # it is known again


def test_networks_read_measures_of_the_graph_where_that_is_asked_for(tmp_path: Path) -> None:
    changes = Changes({"data": {"structure": ["size"]}})
    outcome, _ = done(wanted("table-zinc", changes=changes, **LINE), tmp_path)
    ends = ("", " seeds 41, 95")
    assert outcome.done == tuple(f"zinc/single-level-1-seed0-structuresize{end}" for end in ends)
    plain, _ = done(wanted("table-zinc", **LINE), tmp_path)
    assert len(plain.done) == 2  # another run
    weights = []
    for end in ("", "-structuresize"):
        folder = tmp_path / f"zinc/single-level-1-seed0{end}"
        seed = Run(folder / "trained/gnas/seed-41")
        weights.append(
            (seed.read_json("model")["task"]["structure"], Run(folder).read_json("data")["task"]["structure"])
        )
    assert weights == [([], []), (["size"], ["size"])]


def test_graphnas_is_told_its_own_settings(tmp_path: Path) -> None:
    changes = Changes({"strategy_settings": {"graphnas.trials": 1, "graphnas.epochs": 2, "lr": 0.05}})
    search, train = plan_runs(wanted("table-zinc", methods=("graphnas",), depths=(4,), changes=changes))
    assert search.key == "zinc/graphnas-1-seed0-epochs2-trials1"
    assert search.settings().search.options == {"trials": 1, "max_weights": search.budget}
    ours, _ = plan_runs(wanted("table-zinc", changes=changes, **LINE))
    assert ours.key == "zinc/single-level-1-seed0-lr0.05"
    assert ours.settings().search.options["lr"] == 0.05
    assert train.of == search


def test_algorithm_1_shares_its_searches(tmp_path: Path) -> None:
    asked = wanted("figure-depth", methods=("gnas",), depths=(2,))
    outcome, results = done(asked, tmp_path)
    assert not outcome.failed
    (job,) = plan_runs(asked)
    rounds = results.find_search(job).result["rounds"]  # type: ignore[union-attr,arg-type]
    assert rounds[0]["initial"] == 2
    before = files(tmp_path / "zinc" / "single-level-2-seed0" / "search", "history.jsonl")
    assert before
    again, _ = done(wanted("table-zinc", methods=("gnas",), depths=(8,), seeds=(41,)), tmp_path)
    assert again.done == ("zinc/single-level-2-seed0 seeds 41",)  # its search was there
    assert files(tmp_path / "zinc" / "single-level-2-seed0" / "search", "history.jsonl") == before


def test_a_result_of_another_genotype_does_not_count(tmp_path: Path) -> None:
    asked = wanted("table-zinc", **LINE)
    done(asked, tmp_path)
    search, train = plan_runs(asked)
    architecture = Results([tmp_path]).find_search(search).architecture  # type: ignore[union-attr,arg-type]
    config = tmp_path / "zinc/single-level-1-seed0/trained/gnas/seed-41/config.yaml"
    values = yaml.safe_load(config.read_text())
    del values["architecture"]
    for text, seeds in ((f"{architecture.title}, channels 4, dropout 0.0", {41, 95}), ("genotype 0000000000", {95})):
        config.write_text(yaml.safe_dump({**values, "describe": text}))  # as version 0.1 wrote it
        assert set(Results([tmp_path]).find_trainings(train)) == seeds  # type: ignore[arg-type]
    config.write_text(yaml.safe_dump({**values, "architecture": {"kind": "found", "id": "0000000000"}}))
    assert set(Results([tmp_path]).find_trainings(train)) == {95}  # type: ignore[arg-type]


@pytest.mark.parametrize("scale", [PAPER, QUICK], ids=lambda one: one.name)
def test_every_run_can_be_sent_to_a_worker(scale: Scale) -> None:
    asked = plan_runs(Request(scale=scale))
    assert {run.kind for run in asked} >= {"search", "train", "depth"}
    for run in asked:
        again = decode(json.loads(json.dumps(encode(run))))
        assert (again, again.key, again.folder) == (run, run.key, run.folder)
        if hasattr(run, "settings"):
            assert again.settings() == run.settings()


def test_runs_that_use_the_same_folder_wait_for_each_other(tmp_path: Path) -> None:
    zinc = Source("zinc")
    depth, four, other = DepthRun(zinc, 4), SearchRun(zinc, 4), SearchRun(zinc, 4, seed=1)
    train = TrainRun(zinc, (41,), four, changes=Changes({"dropout": 0.2}))
    asked = [depth, four, SearchRun(zinc, 8), other, train]
    with open_runner(tmp_path) as runner:
        jobs = dict(zip(asked, make_jobs(asked, Results([tmp_path]), runner, load, {}), strict=True))
    assert jobs[depth].conflicts(jobs[four])
    assert jobs[train].conflicts(jobs[four])
    assert not jobs[four].conflicts(jobs[SearchRun(zinc, 8)])
    assert not jobs[depth].conflicts(jobs[other])


@pytest.mark.filterwarnings("ignore:epoch")
def test_runs_on_workers_are_the_same(tmp_path: Path) -> None:
    asked = wanted("table-zinc", methods=("gnas", "gcn"), depths=(4,))
    done(asked, tmp_path / "here")
    ended: list[str] = []
    apart = {"on": "local:2", "archive": tmp_path / "kept", "on_run": lambda run: ended.append(run.key)}
    outcome, _ = done(asked, tmp_path / "workers", **apart)
    assert sorted(outcome.done) == sorted(ended) == sorted(run.key for run in plan_runs(asked))
    assert not outcome.failed
    again, _ = done(asked, tmp_path / "workers", load=lambda source: pytest.fail("again"))
    assert again.done == ()
    assert untimed(tmp_path / "workers") == untimed(tmp_path / "here")
    assert all(map(Results([tmp_path / "kept"]).is_done, plan_runs(asked)))


@pytest.mark.filterwarnings("ignore:epoch")
def test_runs_at_a_url_resume_on_an_empty_machine(tmp_path: Path) -> None:
    """A search, what is trained of it, and Algorithm 1, whose searches are folders of their own."""
    asked = [*plan_runs(wanted("table-zinc", methods=("gnas",), depths=(4,))), DepthRun(Source("zinc"), 2, 0, TINY)]
    out, url = tmp_path / "alone", f"memory://{tmp_path.name}"
    with open_runner(out) as runner:
        perform_runs(asked, Results([out]), runner, load=load)
    left = [len(asked)]
    for number in range(20):  # machine after machine, each stopped after its first run
        out, storage = tmp_path / f"machine-{number}", Storage(url)
        storage.pull("", out)
        with open_runner(out, "here", sync=storage) as runner:
            ended: list[object] = []
            outcome = perform_runs(
                *(asked, Results([out]), runner),
                load=load,
                on_run=ended.append,
                should_stop=lambda ended=ended: bool(ended),
            )
            runner.push_own_files()
        assert not outcome.failed
        left.append(sum(not Results([out]).is_done(run) for run in asked))
        if not left[-1]:
            break
    assert left == sorted(left, reverse=True)
    assert len(left) > 2
    assert untimed(out) == untimed(tmp_path / "alone")
    Storage(url).pull("", tmp_path / "at-the-url")
    assert untimed(tmp_path / "at-the-url") == untimed(out)
    outside = out / asked[-1].search(2).folder  # type: ignore[union-attr]
    assert (outside / "search" / "result.json").exists()


@pytest.mark.filterwarnings("ignore:epoch")
def test_runs_of_other_places_reach_a_worker(tmp_path: Path) -> None:
    asked = wanted("table-zinc", methods=("gnas",), depths=(4,), seeds=(41,))
    before = wanted("table-zinc", methods=("gnas",), depths=(4,), seeds=(95,))
    done(before, tmp_path / "before", archive=tmp_path / "kept")
    outcome, _ = done(asked, tmp_path / "out", (tmp_path / "kept",), sync=f"memory://{tmp_path.name}")
    assert [key.partition(" ")[2] for key in outcome.done] == ["seeds 41"]
    assert untimed(tmp_path / "before").keys() <= untimed(tmp_path / "out").keys()


@pytest.mark.parametrize("on", ["here", "local:1"])
def test_data_that_cannot_be_loaded_fails_its_runs_only(on: str, tmp_path: Path) -> None:
    def broken(source: Source) -> Benchmark:
        raise OSError("the disk is gone")

    outcome, _ = done(wanted("table-zinc", methods=("gcn",), depths=(4,)), tmp_path, on=on, load=broken)
    assert outcome.done == ()
    (reason,) = outcome.failed.values()
    assert reason.startswith("OSError: the disk is gone")
