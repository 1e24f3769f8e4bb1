"""Exported networks with messages, edge states, encodings and features of whole graphs compute what ours compute."""

import copy
import dataclasses
import json
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file
from samples import assert_near, random_edges, random_graph, shake
from strategies import genotypes
from torch import Tensor, nn
from torch_geometric.data import Batch, Data
from trained import GENOTYPE, keep, network

import gnas
from gnas.arch import gap
from gnas.arch.genotype import Genotype
from gnas.arch.operation import AGGREGATORS, MESSAGES
from gnas.arch.recipes import RECIPES, expand_recipe
from gnas.arch.stack import Stack
from gnas.graph import GraphBatch
from gnas.model.baselines import HAND_MADE
from gnas.model.encodings import FlatGraphs, compute_eigenvectors, compute_walks
from gnas.model.export_code import write_module
from gnas.model.network import Network
from gnas.model.task import Task
from gnas.use.export import collect_weights, export_run
from gnas.use.predict import predict

BONDS = Task("graph", "regression", 2, categories=(5, 3), edge_categories=(4, 2), center=(1.0, 2.0), scale=(3.0, 4.0))
ENCODED = dataclasses.replace(BONDS, walks=5, laplacian=3, edge_walks=4)
MOLECULES = ["CCO", "c1ccccc1O", "[Na+].[Cl-]", "C", "CC(=O)N[C@@H](C)C(=O)O", "C1CC1C#N"]


def make_graph(nodes: int, edges: int, seed: int, isolated: int = 1) -> Data:
    graph, generator = random_graph(nodes, edges, seed, isolated), torch.Generator().manual_seed(seed)
    bonds = torch.randint(0, 8, (edges, 1), generator=generator) % torch.tensor([4, 2])
    whole = torch.randn(1, 3, generator=generator)
    return Data(x=graph.categories, edge_index=graph.edge_index, edge_attr=bonds, graph_attr=whole)


GRAPHS = [make_graph(9, 20, 1), make_graph(1, 0, 2), make_graph(6, 11, 3, isolated=2)]
BATCH = Batch.from_data_list(GRAPHS)


def make_module(source: str) -> types.ModuleType:
    module = types.ModuleType("model")
    module.__file__ = "model.py"
    exec(compile(source, "model.py", "exec"), module.__dict__)
    return module


def run_exported(net: Network, data: Data) -> tuple[Tensor, Tensor]:
    """What the exported module gives for the arguments that its first lines name, and what its head reads."""
    source = write_module(net, "a test")
    assert "gnas" not in source
    model = make_module(source).Model().eval()
    model.load_state_dict(collect_weights(net), strict=True)
    model = model.to(net.head.layers[0].weight.dtype)
    call = source.split("out = model(")[1].split(")")[0]
    arguments = [getattr(data, part.removeprefix("data.")) for part in call.split(", ")]
    return with_head_input(model, model.head[0], *arguments)


def with_head_input(model: nn.Module, layer: nn.Module, *arguments) -> tuple[Tensor, Tensor]:
    """The output of a network and the input of its head: the head itself may hide differences."""
    found = []
    hook = layer.register_forward_pre_hook(lambda _, given: found.append(given[0]))
    out = model(*arguments)
    hook.remove()
    return out.detach(), found[0].detach()


def assert_exported(net: Network, data: Data = BATCH) -> None:
    """In single precision, and in double, where only encodings are rounded."""
    task, exact = net.task, not (net.task.walks or net.task.laplacian or net.task.edge_walks)
    for one, tolerance in ((net, 1e-5), (copy.deepcopy(net).double(), 1e-11 if exact else 1e-6)):
        out, read = with_head_input(one, one.head.layers[0], data)
        found, found_read = run_exported(one, data)
        if task.level == "edge":  # ours reads edges in sorted order
            found_read = found_read[GraphBatch.from_pyg(data).edge_order]
        assert_near(found, task.prediction(out), tolerance)
        assert_near(found_read, read, tolerance)
        assert float(read.std(0).max()) > 1e-2, "a constant would hide mistakes"


# -- messages, relations, edge states ---------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", ["bare", "paper", "reference"])
@pytest.mark.parametrize("message", MESSAGES)
@pytest.mark.parametrize("aggregator", AGGREGATORS)
def test_every_message_under_every_aggregator_is_written_out_truly(aggregator: str, message: str, variant: str) -> None:
    formula = f"[identity | dense({aggregator}({message}(sparse)))]"
    for edges in ("kept", "updated"):
        made = dataclasses.replace(gap.genotype(formula, 2, variant), stack=Stack(edges=edges))
        assert_exported(network(BONDS, made))


@pytest.mark.parametrize("name", RECIPES)
def test_hand_made_networks_of_today_are_exported(name: str) -> None:
    for what in (BONDS, ENCODED):
        assert_exported(network(what, expand_recipe(name, 3)))


@given(genotype=genotypes(), norm=st.booleans(), seed=st.integers(0, 99))
@settings(max_examples=20, deadline=None)
def test_any_genotype_of_messages_is_written_out_truly(genotype: Genotype, norm: bool, seed: int) -> None:
    text = genotype.to_yaml().replace("own_filter", "dense").replace("own_median", "sum")
    text = text.replace(": sum\n", ": sum(gated)\n").replace(": max\n", ": max(attention)\n")
    messages = Genotype.from_yaml(text.replace(": mean\n", ": mean(edge)\n").replace("version: 1", "version: 2"))
    assert_exported(network(ENCODED, messages, seed, norm=norm))


@pytest.mark.filterwarnings("ignore:the data has no edge features")
@pytest.mark.parametrize("level", ["graph", "node", "edge"])
def test_edges_may_have_numbers_walks_or_nothing(level: str) -> None:
    plain = Task(level, "classification", 3, categories=(5, 3))
    numbers = Batch.from_data_list([Data(x=g.x, edge_index=g.edge_index, edge_attr=g.edge_attr / 3) for g in GRAPHS])
    for name in ("gin+", "gatedgcn+", "gatv2", "pna"):
        assert_exported(network(plain, expand_recipe(name, 2)))
        assert_exported(network(dataclasses.replace(plain, edge_walks=3), expand_recipe(name, 2)))
        assert_exported(network(dataclasses.replace(plain, edge_channels=2), expand_recipe(name, 2)), numbers)


def test_cells_that_differ_in_the_edge_state_are_different_classes() -> None:
    mixed = gap.genotype(["[identity | sum]", "[max(pair) | mean(gated)]", "[max(pair) | mean(gated)]", "[identity]"])
    net = network(BONDS, dataclasses.replace(mixed, stack=Stack(edges="updated")))
    assert_exported(net)
    source = write_module(net, "a test")
    assert "h, e = self.cell_2(h, edge_index, e)" in source
    assert "h = self.cell_3(h, edge_index, e)" in source
    assert "h = self.cell_4(h, edge_index)" in source


# -- encodings and features of whole graphs ---------------------------------------------------------------------------


@pytest.mark.parametrize("encodings", [(), ("walks",), ("laplacian",), ("structure", "edge_walks"), None])
def test_a_network_computes_the_encodings_that_it_reads(encodings: tuple[str, ...] | None) -> None:
    measures = {"structure": ("size", "degree"), "structure_center": (1.5, 0.25), "structure_scale": (0.5, 2.0)}
    what = dataclasses.replace(ENCODED, **measures, graph_channels=3)
    made = expand_recipe("gatedgcn+", 2)
    stack = dataclasses.replace(made.stack, encodings=encodings, readout="mean_max")
    assert_exported(network(what, dataclasses.replace(made, stack=stack)))


def test_plain_networks_keep_their_arguments() -> None:
    what = dataclasses.replace(ENCODED, graph_channels=3)
    source = write_module(network(what), "a test")
    assert "model(data.x, data.edge_index, data.batch, data.graph_attr)" in source
    assert "edge_attr" not in source
    assert_exported(network(what, GENOTYPE))


def test_walks_and_eigenvectors_have_our_figures() -> None:
    large = Data(edge_index=random_edges(90, 300, seed=5), num_nodes=90)
    ring = torch.arange(12)
    ends = torch.stack([torch.cat([ring, (ring + 1) % 12]), torch.cat([(ring + 1) % 12, ring])])
    small = [Data(edge_index=g.edge_index, num_nodes=g.num_nodes) for g in GRAPHS]
    data = Batch.from_data_list([large, Data(edge_index=ends, num_nodes=12), *small])
    ends, nodes = data.edge_index, torch.arange(data.num_nodes)
    starts = data.ptr[data.batch[ends[0]]]
    flat = FlatGraphs(ends[0] - starts, ends[1] - starts, data.ptr, torch.searchsorted(starts, data.ptr))
    source = write_module(network(ENCODED, expand_recipe("gin+", 1)), "a test")
    for text in (source, source.replace("2**22", "1")):  # in one block, and in blocks of eight columns
        module = make_module(text)
        at_nodes, at_edges = compute_walks(flat, 6, 4)
        assert_near(module.walks(ends, data.batch, nodes, nodes, 6), at_nodes, 1e-7)
        assert_near(module.walks(ends, data.batch, ends[0], ends[1], 4), at_edges, 1e-7)
    assert_near(module.eigenvectors(ends, data.batch, 4), compute_eigenvectors(flat, 4), 1e-6)


def test_missing_input_is_named() -> None:
    model = make_module(
        write_module(network(dataclasses.replace(BONDS, graph_channels=3), expand_recipe("gin+", 1)), "a")
    )
    net = model.Model().eval()
    with pytest.raises(ValueError, match=r"reads edge_attr: \[edges, 2\]"):
        net(BATCH.x, BATCH.edge_index)
    with pytest.raises(ValueError, match=r"reads graph_attr: \[graphs, 3\]"):
        net(BATCH.x, BATCH.edge_index, BATCH.edge_attr, BATCH.batch)


# -- molecules, from the folder of an export --------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["gin+", "gatedgcn+", "gatv2", "pna"])
def test_molecules_with_bonds_and_walks(tmp_path: Path, name: str) -> None:
    pytest.importorskip("rdkit")
    data = gnas.load(MOLECULES * 5, y=np.arange(30) / 7, encodings="walks,edge_walks,laplacian")
    assert data.task.edge_categories
    assert data.task.walks
    batch = Batch.from_data_list([data.train[k] for k in range(len(data.train))])
    net = network(data.task, expand_recipe(name, 2))
    keep(tmp_path / "run", net, encoding=data.encoding)
    folder = export_run(tmp_path / "run", tmp_path / "out")
    model = make_module((folder / "model.py").read_text()).load(folder)
    out = model(batch.x, batch.edge_index, batch.edge_attr, batch.batch)
    assert_near(out.detach(), net.task.prediction(net(batch)).detach(), 1e-5)
    values = predict(folder, MOLECULES).values
    np.testing.assert_allclose(values, predict(tmp_path / "run", MOLECULES).values, rtol=1e-6)
    assert "batch.x, batch.edge_index, batch.edge_attr, batch.batch)" in (folder / "README.md").read_text()
    assert "edge_walk_norm.running_var" in load_file(folder / "weights.safetensors")


def test_a_hand_made_network_is_exported_if_it_is_the_best(tmp_path: Path) -> None:
    keep(tmp_path / "run", network(BONDS, expand_recipe("gatv2", 1)), val=0.5)
    keep(tmp_path / "run", shake(HAND_MADE["gin+"](BONDS, 6, 2)).eval(), val=0.4, name="gin+")
    folder = export_run(tmp_path / "run", tmp_path / "best")
    assert json.loads((folder / "model.json").read_text())["exported"]["name"] == "gin+"
    assert "The hand-made network gin+, trained and exported by gnas" in (folder / "README.md").read_text()
    np.testing.assert_allclose(
        predict(folder, GRAPHS).values, predict(tmp_path / "run", GRAPHS, network="gin+").values, rtol=1e-6
    )
    named = export_run(tmp_path / "run", tmp_path / "named", network="gnas")
    assert "Found by architecture search" in (named / "README.md").read_text()


def test_the_code_passes_the_linter_and_needs_no_formatting(tmp_path: Path) -> None:
    whole = dataclasses.replace(ENCODED, graph_channels=3)
    every = [f"[identity | {' | '.join(f'{a}({m})' for a in AGGREGATORS)}]" for m in MESSAGES]
    nets = [network(what, expand_recipe(name, 2)) for name in RECIPES for what in (BONDS, whole)]
    nets += [network(BONDS, gap.genotype(every, None, variant)) for variant in ("bare", "paper", "reference")]
    nets += [network(dataclasses.replace(whole, level="node"), expand_recipe("gatv2", 1))]
    for number, net in enumerate(nets):
        (tmp_path / f"model_{number}.py").write_text(write_module(net, "A network."))
    rules = ["--isolated", "--line-length=120", "--target-version=py310"]
    select = ["--select=E,F,W,I,UP,B,SIM,RUF,PT,C4,PIE,RET,D2,N", "--ignore=N812,D203,D212,D213"]
    for command in (["check", *rules, *select], ["format", *rules, "--diff"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, str(tmp_path)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout
