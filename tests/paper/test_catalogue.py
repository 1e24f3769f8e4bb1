"""The tables and figures as data: the paper's numbers, the runs each needs, and that equal runs are one."""

from __future__ import annotations

import pytest
from papers import wanted

from gnas.errors import InputError
from gnas.paper import ITEMS, PAPER, QUICK, Changes, Request, plan_runs
from gnas.paper.catalogue import HAND_MADE, list_item_runs, read_published
from gnas.paper.runs import DepthRun, SearchRun, TrainRun

# The figures to reach, written down apart from published.csv: dataset, depth, weights, metric, hours of search and training.
TO_REACH = {
    ("zinc", 4): (410_000, 0.276, 0.35, 0.20),
    ("zinc", 8): (820_000, 0.266, 0.72, 0.39),
    ("zinc", 12): (1_200_000, 0.242, 1.10, 0.56),
    ("zinc", 16): (1_680_000, 0.260, 1.75, 0.82),
    ("pattern", 4): (350_000, 86.80, 2.45, 2.15),
    ("pattern", 16): (1_600_000, 86.85, None, 3.52),
    ("cluster", 4): (380_000, 62.21, 2.50, 1.20),
    ("cluster", 16): (1_600_000, 74.77, None, 3.21),
    ("mnist", 4): (390_000, 98.01, 6.00, 3.10),
    ("cifar10", 4): (430_000, 70.10, 7.20, 3.45),
}


def test_the_papers_own_lines_are_as_printed():
    found = {
        (e.dataset, e.depth): (e.budget, e.metric, e.search_hours, e.train_hours)
        for e in read_published()
        if e.model == "gnas"
    }
    assert found == TO_REACH


def test_every_table_has_the_papers_lines():
    counts = {
        table: sum(e.table == table for e in read_published())
        for table in ("table-zinc", "table-nodes", "table-graphs", "table-deep")
    }
    assert counts == {"table-zinc": 21, "table-nodes": 18, "table-graphs": 18, "table-deep": 14}
    assert len({(e.table, e.dataset, e.model, e.depth) for e in read_published()}) == len(read_published())
    assert {e.model for e in read_published()} == {*HAND_MADE, "graphnas", "gnas"}


def test_equal_runs_are_one():
    every = [job.key for item in ITEMS for job in list_item_runs(item, Request())]
    once = [job.key for job in plan_runs(Request())]
    assert len(once) == len(set(once)) < len(every)
    assert set(once) == set(every)
    for item in ("table-zinc", "figure-architectures", "figure-operations", "table-operations", "figure-collapse"):
        assert "zinc/single-level-4-seed0" in {job.key for job in list_item_runs(item, Request())}, item
    deep = {job.key for job in list_item_runs("figure-depth", Request())}
    assert {job.key for job in list_item_runs("table-zinc", Request()) if "gin" in job.key} <= deep


def test_what_a_run_needs_stands_before_it():
    seen = set()
    for job in plan_runs(Request(searches=2)):
        if isinstance(job, TrainRun) and job.of is not None:
            assert job.of.key in seen
        seen.add(job.key)


def test_networks_of_the_paper_come_first_and_searches_can_be_several():
    keys = [job.key for job in plan_runs(Request(items=("table-nodes",), datasets=("pattern",), searches=2))]
    first = "pattern/single-level-4-seed"
    assert [key.partition(" ")[0] for key in keys[:4]] == [f"{first}0", f"{first}0", f"{first}1", f"{first}1"]


def test_filters():
    only = Request(items=("table-zinc",), methods=("gnas",), depths=(4,), seeds=(41,))
    assert [job.key for job in plan_runs(only)] == ["zinc/single-level-4-seed0", "zinc/single-level-4-seed0 seeds 41"]
    assert plan_runs(Request(items=("table-zinc",), datasets=("mnist",))) == []
    assert {job.source.name for job in plan_runs(Request(items=("table-datasets",), datasets=("mnist",)))} == {"mnist"}


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"items": ("table-zink",)}, "unknown table or figure 'table-zink'.*did you mean 'table-zinc'"),
        ({"datasets": ("cora",)}, "unknown dataset of the paper 'cora'; choose one of: zinc"),
        ({"methods": ("sage",)}, "unknown method 'sage'"),
        ({"searches": 0}, "at least 1"),
        ({"seeds": (1, 1)}, "twice"),
    ],
)
def test_what_cannot_be_asked_for(asked, message):
    with pytest.raises(InputError, match=message):
        Request(**asked)


def test_changed_settings_are_part_of_the_folder():
    with pytest.raises(InputError, match="'cells' cannot be changed here"):
        Changes({"cells": 4})
    asked = Request(items=("table-nodes",), datasets=("pattern",), changes=Changes({"dropout": 0.2, "nodes": 4}))
    search, train, baseline = plan_runs(asked)[:3]
    assert search.folder == "pattern/single-level-4-seed0-nodes4"
    assert train.folder == "pattern/single-level-4-seed0-nodes4-dropout0.2"
    assert (train.settings().training.dropout, search.settings().space.nodes) == (0.2, 4)
    assert baseline.folder == "pattern/mlp-4"  # hand-made networks take no dropout


def test_measures_of_the_graph_are_part_of_every_folder():
    changes = Changes({"data": {"structure": ["size", "degree"]}, "strategy_settings": {"graphnas.trials": 1}})
    asked = Request(items=("table-nodes",), datasets=("pattern",), changes=changes)
    folders = {job.folder for job in plan_runs(asked)}
    assert "pattern/single-level-4-seed0-structuresize+degree" in folders
    assert "pattern/gin-4-structuresize+degree" in folders
    assert all("-structuresize+degree" in folder for folder in folders)
    assert all(job.settings().data == {"structure": ["size", "degree"]} for job in plan_runs(asked))


def test_lists_have_no_brackets_in_a_folders_name():
    changes = Changes({"aggregators": ("sum", "symmetric")})
    search, *_ = plan_runs(Request(items=("table-nodes",), datasets=("pattern",), changes=changes))
    assert search.folder == "pattern/single-level-4-seed0-aggregatorssum+symmetric"


def test_a_found_network_may_have_the_papers_weights_and_no_more():
    for job in plan_runs(Request(items=("table-zinc",), methods=("gnas",))):
        if isinstance(job, TrainRun) and isinstance(job.of, SearchRun):
            assert job.budget == TO_REACH["zinc", job.layers][0]
        elif isinstance(job, TrainRun):
            assert isinstance(job.of, DepthRun)
            assert job.budget == TO_REACH["zinc", 12][0]


def test_the_protocol_is_the_papers():
    search, train = plan_runs(Request(items=("table-nodes",), methods=("gnas",), datasets=("pattern",)))
    space, told = search.settings().space, search.settings().search
    assert (told.epochs, told.batch_size, space.nodes, space.variant, told.options) == (50, 64, 3, "paper", {})
    told = train.settings().training
    assert (told.epochs, told.batch_size, told.lr, told.seeds) == (1000, 128, 1e-3, (41, 95, 12, 35))


def test_a_small_scale_runs_the_same_kinds_of_runs():
    kinds = [{job.kind for job in plan_runs(Request(scale=scale))} for scale in (PAPER, QUICK)]
    assert kinds[0] == kinds[1] == {"data", "search", "train", "depth", "strategies"}
    assert {job.source.name for job in plan_runs(Request(scale=QUICK))} == {
        *("molecules-mini", "pattern-mini", "cluster-mini", "digits"),
    }
    assert all(
        job.key.startswith(("zinc", "pattern", "cluster", "mnist", "cifar10")) for job in plan_runs(wanted(*ITEMS))
    )
