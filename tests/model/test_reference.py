"""The variant ``reference`` reproduces outputs of the authors' released code, kept with its weights in two files.

Each file holds graphs (``x``, ``edge_index``, ``batch``), a supernet (``supernet.alpha.*``, ``supernet.weight.*``), the
genotype it derives (``genotype_yaml``), a network of it (``network.weight.*``), and the outputs of both in eval and in
train mode.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from torch import Tensor, nn

from gnas.arch.genotype import CellGenotype, Genotype, Link
from gnas.arch.space import SearchSpace
from gnas.model.cell import Cell
from gnas.model.network import GraphModule, Network
from gnas.model.supernet import Supernet
from gnas.model.task import Task

pytestmark = pytest.mark.data

AUTHORS = {
    "V_I": "identity",
    "V_Sparse": "sparse",
    "V_Dense": "dense",
    "V_Sum": "sum",
    "V_Mean": "mean",
    "V_Max": "max",
}
THEIRS = {ours: theirs for theirs, ours in AUTHORS.items()}


class Case:
    """One file, and the models of its size."""

    def __init__(self, path: Path, nodes: int, num_cells: int, channels: int, task: Task) -> None:
        with np.load(path) as file:
            self.values = {name: torch.tensor(file[name]) for name in file.files if name != "genotype_yaml"}
            self.yaml = yaml.safe_load(str(file["genotype_yaml"]))
        self.space = SearchSpace(nodes, nodes, variant="reference")
        self.num_cells, self.channels, self.task = num_cells, channels, task

    def supernet(self) -> Supernet:
        net = Supernet(self.space, self.task, self.channels, self.num_cells)
        flat = [alpha for cell in range(self.num_cells) for alpha in net.link_alphas(cell)]
        for number, alpha in enumerate(flat):
            alpha.data.copy_(self.values[f"supernet.alpha.{number:02d}"])
        assert f"supernet.alpha.{len(flat):02d}" not in self.values
        self.fill(net, "supernet.weight.", lambda s, t, name: f"link_para.({s}, {t}).candidates.{THEIRS[name]}.")
        return net

    def network(self, genotype: Genotype) -> Network:
        net = Network(genotype, self.task, self.channels)
        self.fill(net, "network.weight.", lambda s, t, name: f"module_dict.{t}.0.")
        return net

    def genotype(self) -> Genotype:
        n = self.space.nodes
        cells = []
        for entry in self.yaml["Genotype"]:
            links = tuple(Link(k["src"], k["dst"], AUTHORS[k["ops"]]) for k in entry["topology"])
            cells.append(CellGenotype(n, n, links, "all"))
        return Genotype(tuple(cells), "reference")

    @torch.no_grad()
    def fill(self, net: GraphModule, prefix: str, name: Callable[[int, int, str], str]) -> None:
        """Copy the authors' weights into our stacks; ``name`` tells where they keep an operation."""
        values = {key.removeprefix(prefix): value for key, value in self.values.items() if key.startswith(prefix)}
        net.encoder.weight.copy_(values["trans_input.trans.weight"])
        for number, layer in enumerate(net.head.layers):
            layer.weight.copy_(values[f"trans_output.trans.seq.fc{number}.weight"])
            layer.bias.copy_(values[f"trans_output.trans.seq.fc{number}.bias"])
        for number, cell in enumerate(net.cells):
            fill_cell(cell, lambda key, number=number: values[f"cells.{number}.{key}"], name)


def fill_cell(cell: Cell, values: Callable[[str], Tensor], name: Callable[[int, int, str], str]) -> None:
    cell.fuse.weight[0] = values("trans_concat_V.weight").T
    fill_norm(cell.norm, 0, values, "batchnorm_V.", bias=values("trans_concat_V.bias"))
    for stage in cell.stages:
        for (source, target, operation), places in stage.places().items():
            key = name(source, target, operation)
            module, row = places[0]
            if operation in ("sparse", "dense"):
                module.gate.weight[row] = values(key + "operation.W.weight").T
                module.gate.bias[row, 0] = values(key + "operation.W.bias")
            if operation == "sparse":
                module.last.weight[row] = values(key + "operation.a.weight").T
            if operation in ("mean", "max"):
                module.message.weight[row] = values(key + "operation.pooling.A.weight").T
                module.message.bias[row, 0] = values(key + "operation.pooling.A.bias")
            for transform, place in places[1:]:
                transform.linear.weight[place] = values(key + "seq.fc_bn.weight").T
                fill_norm(transform.norm, place, values, key + "seq.bn.", bias=values(key + "seq.fc_bn.bias"))


def fill_norm(norm: nn.Module, row: int, values: Callable[[str], Tensor], prefix: str, bias: Tensor) -> None:
    """The authors' linear maps have a bias before the norm; ours have none, so the running mean is less by it."""
    for name in ("weight", "bias", "running_mean", "running_var"):
        getattr(norm, name)[row, 0] = values(prefix + name)
    norm.running_mean[row, 0] -= bias


@pytest.fixture(params=["graph_level", "node_level"])
def case(request: pytest.FixtureRequest, data_root: Path) -> Case:
    path = data_root / "reference" / f"{request.param}.npz"
    if request.param == "graph_level":
        return Case(path, 3, 2, 12, Task("graph", "regression", 1, categories=(28,)))
    return Case(path, 2, 3, 10, Task("node", "classification", 6, categories=(7,)))


def assert_reproduces(case: Case, model: GraphModule, key: str) -> None:
    out = model(case.values["x"], case.values["edge_index"], case.values["batch"])
    torch.testing.assert_close(out, case.values[key], rtol=0, atol=1e-5)


def test_links_come_in_the_authors_order(case: Case) -> None:
    assert [[link.source, link.target] for link in case.space.links()] == case.values["links"].tolist()


@pytest.mark.parametrize("mode", ["eval", "train"])
def test_supernet(case: Case, mode: str) -> None:
    assert_reproduces(case, case.supernet().train(mode == "train"), f"supernet.output.{mode}")


@pytest.mark.parametrize("mode", ["eval", "train"])
def test_network(case: Case, mode: str) -> None:
    assert_reproduces(case, case.network(case.genotype()).train(mode == "train"), f"network.output.{mode}")


def test_the_supernet_derives_the_authors_genotype(case: Case) -> None:
    assert case.supernet().genotype() == case.genotype()
    assert case.genotype() in case.space
