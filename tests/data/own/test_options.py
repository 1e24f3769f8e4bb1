"""Options of own data: what may be overridden, and what is refused."""

import ast
import re
from dataclasses import fields
from pathlib import Path

import pytest
import torch
from builders import SMILES, citation_graph, one_line, path_graphs, write_csv

from gnas.data import load
from gnas.data.own.load import load_own
from gnas.data.own.options import LoadOptions
from gnas.run.settings import Settings

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
        ({"level": "planet"}, "unknown level 'planet'"),
        ({"kind": "clustering"}, "unknown kind 'clustering'"),
        ({"metric": "auc"}, "metric 'auc'"),
        ({"loss": 3}, "loss is 3; it must be a text or null"),
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
        ({"name": 3}, "name is 3; it must be a text or null"),
        ({"name": ""}, "name and smiles cannot be empty"),
    ],
)
def test_options_that_are_none(options, words):
    with one_line(words):
        load_own(path_graphs(9), **options)


# -- the table of the page and the list of the docstring ------------------------------------------------------------

PAGE = Path(__file__).parents[3] / "docs" / "own-data.md"
ROWS = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \| .* \| `(--data .*)` \|$", PAGE.read_text(encoding="utf-8"), re.M)
LISTED = re.findall(r"^        (\w+=.*?)  +# ", load.__doc__, re.M)


def make_data(name, tmp_path):
    """Data that an option applies to, and what else must be set."""
    if name in ("level", "sample_neighbors"):
        return citation_graph(), {}
    if name == "pos":
        return [g.update({"pos": torch.rand(g.num_nodes, 2)}) for g in path_graphs(12)], {}
    pytest.importorskip("rdkit")
    rows = [(text, i / 2, 10 * i, (7 * i) % 11) for i, text in enumerate(SMILES)]
    path = write_csv(tmp_path / "m.csv", ("structure", "logP", "mw", "tpsa"), rows)
    return path, {} if name == "target" else {"target": "logP"}


def test_the_page_and_the_docstring_list_every_option():
    known = {f.name for f in fields(LoadOptions)} - {"seed"}
    assert {name for names, _ in ROWS for name in re.findall(r"\w+", names)} == known - {"name"}
    assert {name for line in LISTED for name in re.findall(r"(\w+)=", line)} == known


@pytest.mark.parametrize(("names", "example"), ROWS, ids=[re.findall(r"\w+", names)[0] for names, _ in ROWS])
def test_examples_of_the_page_are_true(names, example, tmp_path, monkeypatch):
    given = dict(re.findall(r"--data (\w+)=(\S+)", example))
    assert list(given) == re.findall(r"\w+", names)
    if "descriptors" in given:
        from rdkit.Chem import Descriptors

        monkeypatch.setattr(Descriptors, "descList", Descriptors.descList[:12])
    data, others = make_data(next(iter(given)), tmp_path)
    options = Settings().changed({"data": given}).data
    found = load_own(data, **others, **options)
    line = next(line for line in LISTED if line.startswith(f"{next(iter(given))}="))
    values = {k.arg: ast.literal_eval(k.value) for k in ast.parse(f"f({line})", mode="eval").body.keywords}
    assert load_own(data, **others, **values).fingerprint == found.fingerprint
