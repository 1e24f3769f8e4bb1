"""Parts of another package through the command line: it is a folder with a dist-info, which is all that pip leaves."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from terminal import TINY, gnas, one_line

MODULE = '''
import numpy as np
import torch
from gnas.model.network import GraphModule
from gnas.model.operations import Operation
from gnas.strategies.base import SearchResult
from gnas.model.encoder import Encoder
from gnas.model.head import Head


class Shift(Operation):
    """A filter: H + b."""

    def __init__(self, channels, count, variant):
        super().__init__(channels, count, variant)
        self.offset = torch.nn.Parameter(torch.zeros(count, 1, channels))

    def forward(self, h, x, neighbors):
        return h + self.offset


class Half(Operation):
    """An aggregator: half of the sum over the neighbours."""

    def forward(self, h, x, neighbors):
        from gnas.model.operations import reduce_together
        return 0.5 * reduce_together({"sum": h}, neighbors)["sum"]


class Plain(GraphModule):
    def __init__(self, task, channels, num_layers, dropout=0.0):
        super().__init__()
        self.task, self.encoder, self.head = task, Encoder(task, channels), Head(task, channels)
        self.layers = torch.nn.ModuleList(torch.nn.Linear(channels, channels) for _ in range(num_layers))

    def run(self, batch):
        h = self.encoder(batch)
        for layer in self.layers:
            h = h + layer(h).relu()
        return self.head(h, batch)


class FirstDraw:
    def __init__(self, epochs=1, batch_size=1):
        self.name = "first-draw"

    def search(self, problem, context):
        genotype = problem.space.sample(np.random.default_rng(context.seed), problem.num_cells)
        return SearchResult(genotype, [], 0.0, self.name)


def wrong(*arguments):
    return "not a module"
'''
ENTRY_POINTS = """
[gnas.strategies]
first-draw = outside_parts:FirstDraw
[gnas.operations]
shift = outside_parts:Shift
halved = outside_parts:Half
half = outside_parts:Half
wrong_operation = outside_parts:wrong
[gnas.baselines]
plain = outside_parts:Plain
wrong_baseline = outside_parts:wrong
"""
SMALL = ("--preset", "fast", "--epochs", "2", "--batch", "8", "--cells", "2", "--device", "cpu", "--track", "none")


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The package, installed until the test ends."""
    folder = tmp_path / "site-packages"
    about = folder / "outside_parts-1.0.dist-info"
    about.mkdir(parents=True)
    (folder / "outside_parts.py").write_text(MODULE)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: outside-parts\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(ENTRY_POINTS)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "outside_parts", raising=False)
    return folder


def test_a_baseline(rings: Path, installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("compare", rings, *SMALL, "--baselines", "plain,gcn", "--seeds", "1", "--budget", "3000", "--out", "board")
    ended = gnas(*words, "--json")
    assert ended.code == 0, ended
    rows = {row["name"]: row for row in ended.json["rows"]}
    assert set(rows) == {"plain", "gcn"}
    assert 2000 < rows["plain"]["num_weights"] <= 3000  # as wide as the others
    ended = gnas("predict", "board", rings, "--network", "plain", "-o", "predictions.csv", "--device", "cpu")
    assert ended.code == 0, ended
    said = "a network of the class Plain cannot be exported; predict with gnas"
    one_line(gnas("export", "board", "--network", "plain"), 2, said)
    assert gnas("train", rings, *SMALL, "--baseline", "plain", "--seed", "1", "--out", "alone").code == 0
    one_line(
        gnas("compare", rings, *SMALL, "--baselines", "plan"), 2, "unknown baseline 'plan'", "did you mean 'plain'"
    )
    one_line(
        gnas("train", rings, *SMALL, "--baseline", "wrong_baseline"), 2, "baseline wrong_baseline is a str; it must be"
    )
    monkeypatch.syspath_prepend(installed.parent)  # only a new look at the path
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry != str(installed)])
    ended = gnas("predict", "board", rings, "--network", "plain", "-o", "again.csv", "--device", "cpu")
    one_line(ended, 2, "model.json", "unknown baseline 'plain'")


def test_operations(rings: Path, installed: Path) -> None:
    own = ("--set", "filters=zero,shift", "--set", "aggregators=halved")
    ended = gnas("search", rings, *TINY, *own, "--out", "run", "--json")
    assert ended.code == 0, ended
    text = Path("run/genotype.yaml").read_text()
    assert {line.rpartition(": ")[2] for line in text.splitlines() if "<-" in line} == {"shift", "halved"}
    assert ended.json["depth"] == 2  # an aggregator of one's own passes messages
    assert "@halved" in ended.json["formulas"][0]
    assert gnas("search", rings, "--out", "run", "--resume").code == 0
    assert gnas("predict", "run", rings, "-o", "predictions.csv", "--device", "cpu").code == 0
    assert gnas("train", rings, "--genotype", "run", *SMALL, "--seed", "1", "--out", "trained").code == 0
    assert gnas("draw", "run").code == 0
    assert "shift" in Path("run/report.html").read_text()
    one_line(gnas("export", "run"), 2, "operations without export_code cannot be exported: halved, shift; declare it")
    one_line(
        gnas("search", rings, *TINY, "--set", "filters=zero,shifd"), 2, "unknown operation", "did you mean 'shift'"
    )
    wrong = gnas("search", rings, *TINY, "--set", "filters=wrong_operation", "--out", "wrong")
    one_line(wrong, 2, "operation wrong_operation is a str; it must be an Operation")
    taken = gnas("search", rings, *TINY, "--set", "aggregators=half", "--out", "taken")
    one_line(taken, 2, "no operation can be called half")
    one_line(gnas("search", rings, *TINY, "--set", "aggregators=dense"), 2, "dense cannot be one of the aggregators")


def test_a_strategy(rings: Path, installed: Path) -> None:
    assert gnas("search", rings, *TINY, "--strategy", "first-draw", "--out", "run").code == 0
    words = ("--strategies", "first-draw,random", "--budget-epochs", "6", "--trial-epochs", "2", "--derivations", "1")
    small = ("--preset", "fast", "--cells", "1", "--channels", "4", "--set", "nodes=2", "--device", "cpu")
    ended = gnas("compare", rings, *words, *small, "--seeds", "0", "--out", "compared", "--json")
    assert ended.code == 0, ended
    points = [(p["strategy"], p["epochs"]) for p in ended.json["points"]]
    assert points == [("first-draw", 2), ("random", 2), ("random", 4), ("random", 6)]
