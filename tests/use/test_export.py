"""Exported folders: they predict the same without this package, they read well, and nothing is overwritten."""

import copy
import dataclasses
import functools
import json
import subprocess
import sys
import types
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from samples import OWN, assert_near, random_graph
from strategies import genotypes
from torch import Tensor
from torch_geometric.data import Batch
from trained import CLASSES, GENOTYPE, TASK, hand_made, keep, network

from gnas.arch import gap
from gnas.arch.genotype import Genotype
from gnas.arch.operation import Code
from gnas.arch.space import SearchSpace
from gnas.arch.stack import Stack
from gnas.data.encoding import Column, Encoding
from gnas.errors import InputError
from gnas.graph import Neighbors
from gnas.model.baselines import BASELINES
from gnas.model.baselines.base import Baseline
from gnas.model.baselines.gcn import GCN
from gnas.model.class_code import LayersCode
from gnas.model.export_code import escape_text, quote_text, write_module
from gnas.model.network import GraphModule
from gnas.model.operations import Operation, Variant
from gnas.model.task import Task
from gnas.run.models import load_model
from gnas.use.export import collect_weights, export_run

FILES = ["README.md", "genotype.yaml", "model.json", "model.py", "serve.py", "weights.safetensors"]
GRAPHS = [random_graph(9, 20, seed=1), random_graph(1, 0, seed=2), random_graph(6, 11, seed=3, isolated=2)]
BATCH = Batch.from_data_list(GRAPHS)
RULES = ["--isolated", "--line-length=120", "--target-version=py310"]


def task(
    level: str = "graph", kind: str = "regression", categories: tuple[int, ...] = (), readout: str = "mean"
) -> Task:
    columns = {"categories": categories} if categories else {"in_channels": 4}
    unit = {"center": (1.5, -3.0), "scale": (0.25, 7.0)} if kind == "regression" else {}
    return Task(level, kind, 2, readout=readout, **columns, **unit)


def inputs(what: Task) -> tuple[Tensor, ...]:
    x = BATCH.categories[:, : len(what.categories)] if what.categories else BATCH.x.float()
    return (x, BATCH.edge_index, BATCH.batch) if what.needs_batch else (x, BATCH.edge_index)


def expected(net: GraphModule, double: bool) -> Tensor:
    x, *rest = inputs(net.task)
    net = copy.deepcopy(net).double() if double else net
    return net.task.prediction(net(x.to(torch.float64) if double and x.is_floating_point() else x, *rest)).detach()


def sampled(seed: int, kind: str) -> Genotype:
    return SearchSpace(1 + seed % 3, 1 + seed % 2, variant=kind).sample(np.random.default_rng(seed), 1 + seed % 3)


@functools.cache
def cases() -> dict[str, GraphModule]:
    """Found networks of every kind: variants, levels, inputs, readouts, skips, fusions; and the hand-made ones."""
    found = {}
    for seed in range(24):
        kind = ("paper", "reference", "bare")[seed % 3]
        level, what = ("graph", "node", "edge")[seed // 3 % 3], ("regression", "classification")[seed % 2]
        columns = ((), (5,), (5, 3))[seed // 2 % 3]
        asked = task(level, what, columns, ("mean", "sum", "max")[seed // 4 % 3])
        found[f"{kind}-{level}-{seed}"] = network(asked, sampled(seed, kind), seed)
    for readout in ("sum", "max", "mean_max"):
        stack = Stack(ffn=True, mlp=2, readout=readout)
        found[f"stack-{readout}"] = network(task(), dataclasses.replace(sampled(4, "bare"), stack=stack))
    std = dataclasses.replace(gap.genotype("[identity | std | symmetric]"), stack=Stack(ffn=True, dropout=0.1))
    found["stack-std"] = network(task("node"), std)
    for name in gap.ZOO:
        found[f"zoo-{name}"] = network(task("node"), gap.approximate(name, 2))
        found[f"zoo-{name}-bare"] = network(task(), gap.approximate(name, 2, "bare"))
    leaves = gap.genotype(["[dense(sum#1(dense)) | sparse(sum#1(dense))]", "[sparse#1 | max(sparse#1)]"])
    for fusion in ("sum", "mean", "max"):
        found[f"fusion-{fusion}"] = network(task(), leaves, fusion=fusion, norm=fusion == "sum", residual=False)
    found["dropout"] = network(task(), leaves, dropout=0.5)
    for level, measures in (("graph", ("size", "degree")), ("node", ("size",)), ("edge", ("degree",))):
        around = {"structure_center": (1.5, 0.25)[: len(measures)], "structure_scale": (0.5, 2.0)[: len(measures)]}
        asked = dataclasses.replace(task(level), structure=measures, **around)
        found[f"structure-{level}"] = network(asked, leaves)
    for name in BASELINES:
        for level in ("graph", "node", "edge"):
            found[f"{name}-{level}"] = hand_made(name, task(level, categories=(5, 3) if level == "edge" else ()))
    measured = {"structure": ("size", "degree"), "structure_center": (1.5, 0.25), "structure_scale": (0.5, 2.0)}
    found["gin-measured"] = hand_made("gin", dataclasses.replace(task(), **measured))
    found["gcn-mean"] = hand_made("gcn", task(), normalization="mean")
    for layers in (1, 2, 4):
        linear = dataclasses.replace(task("node"), head="linear")
        found[f"gcn-original-{layers}"] = hand_made("gcn", linear, layers, original=True)
    found["gat-dropout"] = hand_made("gat", task(), dropout=0.5)
    found["own-unit"] = network(TASK)
    found["labels"] = network(CLASSES)
    return found


# -- the same predictions without this package ------------------------------------------------------------------------

OUTSIDE = """
import importlib.util, json, sys
from pathlib import Path

class Nothing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("gnas", "torch_geometric"):
            raise ImportError(f"{name} is not here")

sys.meta_path.insert(0, Nothing())
try:
    import gnas
except ImportError:
    pass
else:
    raise SystemExit("gnas must not be importable")
import torch
from safetensors.torch import load_file, save_file

torch.set_num_threads(1)
for folder in json.loads(Path("folders.json").read_text()):
    spec = importlib.util.spec_from_file_location("model", Path(folder) / "model.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    given = load_file(Path(folder + ".inputs"))
    given = [given[name] for name in ("x", "edge_index", "batch") if name in given]
    model = module.load()
    out = {"single": model(*given)}
    given = [value.double() if value.is_floating_point() else value for value in given]
    out["double"] = module.load(folder).double()(*given)
    save_file({name: value.detach() for name, value in out.items()}, folder + ".outputs")
assert not [name for name in sys.modules if name.split(".")[0] in ("gnas", "torch_geometric")]
"""


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All cases exported, and what they predict in a process that cannot import this package."""
    root = tmp_path_factory.mktemp("outside")
    for name, net in cases().items():
        keep(root / f"run-{name}", net)
        export_run(root / f"run-{name}", root / name)
        save_file(
            dict(zip(("x", "edge_index", "batch"), map(torch.Tensor.contiguous, inputs(net.task)), strict=False)),
            root / f"{name}.inputs",
        )
    (root / "folders.json").write_text(json.dumps([str(root / name) for name in cases()]))
    done = subprocess.run([sys.executable, "-I", "-c", OUTSIDE], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return root


@pytest.mark.parametrize("name", cases())
def test_an_exported_network_predicts_the_same_without_this_package(outside: Path, name: str) -> None:
    found, net = load_file(outside / f"{name}.outputs"), cases()[name]
    wanted = expected(net, double=False)
    assert found["single"].shape == wanted.shape
    assert_near(found["single"], wanted, 1e-6)
    assert_near(found["double"], expected(net, double=True), 1e-12)
    assert float(wanted.std(0).max()) > 1e-4, "a constant would hide mistakes"


def test_the_code_passes_the_linter_and_needs_no_formatting(outside: Path) -> None:
    files = [str(outside / name / "model.py") for name in cases()]
    rules = "--select=E,F,W,I,UP,B,SIM,RUF,PT,C4,PIE,RET,D2,N"
    for command in (["check", *RULES, rules, "--ignore=N812,D203,D212,D213"], ["format", *RULES, "--check"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, *files], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout


@given(
    genotype=genotypes(), level=st.sampled_from(["graph", "node", "edge"]), norm=st.booleans(), seed=st.integers(0, 99)
)
@settings(max_examples=60, deadline=None)
def test_any_genotype_is_written_out_truly(genotype: Genotype, level: str, norm: bool, seed: int) -> None:
    plain = Genotype.from_yaml(genotype.to_yaml().replace("own_filter", "dense").replace("own_median", "sum"))
    net = network(task(level, categories=(5, 3)), plain, seed, norm=norm)
    wanted = expected(net, double=True)
    module = types.ModuleType("model")
    module.__file__ = "model.py"
    exec(compile(write_module(net, "a test"), "model.py", "exec"), module.__dict__)
    model = module.Model().double().eval()
    model.load_state_dict(collect_weights(net), strict=True)
    assert_near(model(*inputs(net.task)), wanted, 1e-11)


# -- what is written ------------------------------------------------------------------------------------------------


def test_the_folder_holds_what_it_should(tmp_path: Path) -> None:
    for seed, val in {41: 0.5, 95: 0.3}.items():
        keep(tmp_path, network(seed=seed), seed, val, test=2 * val)
    out = export_run(tmp_path, tmp_path / "deep" / "out")
    assert sorted(path.name for path in out.iterdir()) == FILES
    assert Genotype.from_yaml((out / "genotype.yaml").read_text()) == GENOTYPE
    told = json.loads((out / "model.json").read_text())
    assert told["exported"]["seed"] == 95
    assert [one["seed"] for one in told["exported"]["results"]] == [41, 95]
    names = set(load_file(out / "weights.safetensors"))
    assert {"encoder.weight", "cell_1.dense_2.gate.bias", "cell_2.fuse.weight", "head.4.bias"} <= names
    assert (
        json.loads((export_run(tmp_path, tmp_path / "b", seed=41) / "model.json").read_text())["exported"]["seed"] == 41
    )


def test_the_best_network_is_exported_and_read_again(tmp_path: Path) -> None:
    """A hand-made network that is the best on validation; its folder has its code, its card, and no genotype."""
    keep(tmp_path, network(), 41, 0.5)
    best = hand_made("gin", TASK)
    keep(tmp_path, best, 41, 0.3, name="gin")
    out = export_run(tmp_path, tmp_path / "out")
    assert sorted(path.name for path in out.iterdir()) == sorted({*FILES} - {"genotype.yaml"})
    card = (out / "README.md").read_text()
    for line in (
        "The hand-made network gin, trained and exported by gnas",
        "| layers | 2 |",
        "Graph isomorphism network",
    ):
        assert line in card
    again, info = load_model(out)
    assert info.name == "gin"
    assert_near(again(*inputs(TASK)), best(*inputs(TASK)), 1e-6)


def test_the_card_tells_what_people_ask(tmp_path: Path) -> None:
    columns = (Column("atom", "vocabulary", 5, ("C", "N", "O", "F", "S|l")), Column("ring", "integer", 3))
    encoding = Encoding("tables", "node", "classification", columns, targets=("y",), labels=CLASSES.labels)
    for seed, test in {1: 80.0, 2: 90.0}.items():
        keep(tmp_path, network(CLASSES, seed=seed), seed, test, test, encoding=encoding)
    card = (export_run(tmp_path, tmp_path / "out") / "README.md").read_text()
    for line in (
        "| test accuracy % | 85.00 ± 5.00 over 2 seeds (higher is better) |",
        "| these weights | seed 2 (best on validation): validation 90.00, test 90.00 |",
        "| message-passing depth | 2 of 2 cells aggregate |",
        "cell 1: [identity | dense(sum(dense))]",
        "| 0 | atom | 5 categories: C = 0, N = 1, O = 2, F = 3, S l = 4 |",
        "model(batch.x, batch.edge_index)",
        f"| torch | {version('torch')} |",
    ):
        assert line in card
    assert 'LABELS = ["low", "mid", "high"]' in (tmp_path / "out" / "model.py").read_text()


@pytest.mark.parametrize(
    "name", ['a""" + open("x") + """', "b\\", "c\n\nimport os", "d' \ud800 \u2028 é", "e\x00" * 200]
)
def test_no_name_gets_into_the_code(tmp_path: Path, name: str) -> None:
    labelled = Task("graph", "classification", 2, in_channels=4, labels=(name, "{{ 1 }}"))
    net = network(labelled)
    keep(tmp_path, net, dataset=name)
    source = (export_run(tmp_path, tmp_path / "out") / "model.py").read_text()
    module: dict = {"__file__": "model.py"}
    exec(compile(source, "model.py", "exec"), module)
    assert module["LABELS"] == [name, "{{ 1 }}"]
    assert len(source.splitlines()) < 300


def test_names_and_texts_are_written_safely() -> None:
    assert escape_text('a\n"b"\\ `c|d`') == "a b c d"
    assert [quote_text(text) for text in ("a", "it's", 'say "x"', "\n")] == ['"a"', '"it\'s"', "'say \"x\"'", '"\\n"']


def test_equal_cells_are_one_class() -> None:
    source = write_module(network(genotype=gap.approximate("gatedgcn", 4)), "a test")
    assert source.count("(nn.Module):") == 6
    assert "self.cell_4 = Cell(6)" in source
    assert "h4 = self.sum_4(h2, edge_index)" in source


class Shift(Operation):
    """H + b, with the code of it."""

    def __init__(self, channels: int, count: int, variant: Variant) -> None:
        super().__init__(channels, count, variant)
        self.offset = torch.nn.Parameter(torch.randn(count, 1, channels))

    def forward(self, h: Tensor, x: Tensor, neighbors: Neighbors) -> Tensor:
        return h + self.offset

    @classmethod
    def export_code(cls, variant: Variant) -> Code:
        return Code("H + b.", ("self.offset = nn.Parameter(torch.zeros(1, channels))",), value="h + self.offset")


class Halved(Shift):
    def forward(self, h: Tensor, x: Tensor, neighbors: Neighbors) -> Tensor:
        return h / 2


def test_an_operation_of_your_own_is_exported_by_its_code() -> None:
    own = Genotype.from_yaml(GENOTYPE.to_yaml().replace("dense", "shift"))
    net = network(task("node"), own, operations={"shift": Shift})
    module: dict = {"__file__": "model.py"}
    exec(compile(write_module(net, "a test"), "model.py", "exec"), module)
    exported = module["Model"]()
    exported.load_state_dict(collect_weights(net))
    assert_near(exported.eval()(*inputs(net.task)), expected(net, double=False), 1e-5)
    with pytest.raises(InputError, match="operations without export_code cannot be exported: shift"):
        write_module(network(genotype=own, operations={"shift": Halved}), "a test")  # its code is its parent's


# -- what is refused ------------------------------------------------------------------------------------------------


def test_nothing_is_overwritten_without_force(tmp_path: Path) -> None:
    keep(tmp_path / "run", network())
    (tmp_path / "empty").mkdir()
    out = export_run(tmp_path / "run", tmp_path / "empty")
    (out / "notes.txt").write_text("mine")
    before = (out / "model.py").read_text()
    (out / "model.py").write_text("changed")
    with pytest.raises(InputError, match="exists and is not empty; use force"):
        export_run(tmp_path / "run", out)
    assert (out / "model.py").read_text() == "changed"
    export_run(tmp_path / "run", out, force=True)
    assert (out / "model.py").read_text() == before
    assert sorted(path.name for path in out.iterdir()) == sorted([*FILES, "notes.txt"])
    with pytest.raises(InputError, match="this is a file"):
        export_run(tmp_path / "run", out / "notes.txt", force=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "run"]


def test_only_found_networks_of_known_operations_are_exported(tmp_path: Path) -> None:
    class Mine(GCN):
        def export_code(self) -> LayersCode:
            return Baseline.export_code(self)

    with pytest.raises(InputError, match="Mine does not declare export_code; predict with gnas"):
        write_module(Mine(TASK, 4, 2), "a test")
    own = Genotype.from_yaml(GENOTYPE.to_yaml().replace("dense", "own_filter"))
    with pytest.raises(InputError, match="operations without export_code cannot be exported: own_filter"):
        write_module(network(genotype=own, operations=OWN), "a test")
    with pytest.raises(InputError, match="cannot be exported: dense"):
        write_module(network(operations={"dense": OWN["own_filter"]}), "a test")
    assert not (tmp_path / "out").exists()
