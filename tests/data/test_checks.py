"""What a file holds must fit its task."""

import dataclasses

import pytest
import torch
from builders import citation_graph, one_line, path_graphs

from gnas.data.checks import check_encoding, check_graph_set, check_splits, check_task
from gnas.data.own.load import load_own
from gnas.model.task import Task


@pytest.fixture
def benchmark():
    return load_own(path_graphs(12, y=lambda i: torch.tensor([i % 2]), pos=None), split="stratified")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"x": torch.zeros(3, 1, dtype=torch.int16)}, "node_ptr does not run from 0 to 3"),
        ({"node_ptr": torch.tensor([0, 9, 3])}, "node_ptr does not run"),
        ({"edge_index": torch.zeros(3, 2)}, "edge_index has the shape [3, 2]; [2, 2] is needed"),
        ({"y": torch.zeros(3)}, "y has the shape"),
        ({"level": "node"}, "node level"),
        ({"mask": torch.ones(2, dtype=torch.bool)}, "mask has the shape"),
        ({"pos": torch.zeros(2, 3)}, "pos has the shape"),
    ],
)
def test_a_set_that_is_not_what_it_says(benchmark, change, words):
    with one_line("here", words):
        check_graph_set(dataclasses.replace(benchmark.train, **change), benchmark.task, "here")


def test_values_out_of_range(benchmark):
    train, task = benchmark.train, benchmark.task
    check_graph_set(train, task, "here")
    for field, value, words in (
        ("x", train.x + 5, "categories outside [3]"),
        ("x", train.x.float(), "categories are whole numbers"),
        ("edge_index", train.edge_index + 1, "a node that does not exist"),
        ("edge_index", train.edge_index.flip(0), "not sorted"),
        ("edge_index", train.edge_index.float(), "whole numbers"),
        ("y", train.y + 1, "classes 0..1"),
    ):
        with one_line(words):
            check_graph_set(dataclasses.replace(train, **{field: value}), task, "here")


def test_floats_must_be_finite():
    b = load_own(citation_graph())
    broken = b.train.x.clone()
    broken[3, 2] = torch.nan
    with one_line("x must hold finite floats"):
        check_graph_set(dataclasses.replace(b.train, x=broken), b.task, "here")


def test_empty_splits_and_classes_without_examples(benchmark):
    splits, task = benchmark.splits(), benchmark.task
    nothing = dataclasses.replace(benchmark.val, mask=torch.zeros(len(benchmark.val), dtype=torch.bool))
    with one_line("the val split is empty; so there"):
        check_splits({**splits, "val": nothing}, task, "; so there")
    one_class = dataclasses.replace(benchmark.train, y=torch.zeros_like(benchmark.train.y))
    with one_line("class '1' has no training example", "stratified"):
        check_splits({**splits, "train": one_class}, task)


def test_tasks_and_encodings_that_do_not_fit(benchmark):
    task = benchmark.task
    check_task(task, "here")
    for change in ({"num_outputs": 2**40}, {"labels": ("a",)}, {"scale": (0.0,)}, {"center": (float("nan"),)}):
        with one_line("here"):
            check_task(dataclasses.replace(task, **change), "here")
    with one_line("encoding"):
        check_encoding(benchmark.encoding, Task("graph", "classification", 2, in_channels=3), "here")
    with one_line("outputs"):
        check_encoding(dataclasses.replace(benchmark.encoding, labels=("a", "b", "c")), task, "here")
