"""Options of own data: what may be overridden, and what is refused."""

import pytest
import torch
from builders import one_line, path_graphs

from gnas.data.own.load import load_own

CLASSES = {"y": lambda i: torch.tensor([i % 3])}


def test_every_part_can_be_overridden():
    graphs = path_graphs(30, **CLASSES)
    b = load_own(graphs, kind="regression", loss="mse", metric="rmse", name="mine", categorical=False)
    assert (b.name, b.task.kind, b.task.loss, b.task.metric, b.task.in_channels) == (
        "mine",
        "regression",
        "mse",
        "rmse",
        1,
    )
    assert b.train.x.dtype == torch.float32
    b = load_own(graphs, metric="class_accuracy", loss="weighted_cross_entropy", split="stratified")
    assert (b.task.metric, b.task.loss) == ("class_accuracy", "weighted_cross_entropy")
    assert "classification" in b.describe()
    floats = path_graphs(9)
    for g in floats:
        g.x = g.x.float()
    assert load_own(floats).task.in_channels == 1
    assert load_own(floats, categorical=True).task.categories == (3,)
    assert (load_own(floats).task.readout, load_own(floats, readout="sum").task.readout) == ("mean", "sum")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"levl": "node"}, "unknown option 'levl'; choose one of: seed"),
        ({"levl": "node"}, "did you mean 'level'?"),
        ({"level": "planet"}, "task level 'planet'"),
        ({"kind": "clustering"}, "task kind"),
        ({"metric": "auc"}, "metric 'auc'"),
        ({"loss": 3}, "loss 3"),
        ({"readout": "median"}, "readout 'median'"),
        ({"metric": "accuracy"}, "regression metric 'accuracy'"),
        ({"split": "time"}, "split 'time'"),
        ({"split": "given"}, "no split of its own"),
        ({"split": "group:"}, "split 'group:'"),
        ({"split": "random:y"}, "split 'random:y'"),
        ({"split": "group:site"}, "no graph has a column 'site'"),
        ({"split": "column:part"}, "no column 'part' that names train"),
        ({"folds": 1}, "folds is 1; it must be"),
        ({"folds": 3, "fold": 4}, "fold is 4; it must be a whole number from 1 to 3"),
        ({"fold": 2}, "folds is None"),
        ({"folds": 3, "split": "given"}, "cannot be used with split=given"),
        ({"folds": 10}, "10 folds need at least 10 rows; there are 9"),
        ({"split": "scaffold"}, "SMILES"),
        ({"fractions": (1, 2)}, "fractions"),
        ({"seed": "x"}, "seed"),
        ({"target": 3}, "target must be a name"),
        ({"categorical": 1.5}, "categorical must be a name"),
        ({"categorical": "z"}, "categorical column 'z'"),
        ({"name": 3}, "name must be a text"),
    ],
)
def test_options_that_are_none(options, words):
    with one_line(words):
        load_own(path_graphs(9), **options)
