"""Networks: what they compute, what they must not depend on, how many weights they have, where they can go."""

import copy
import dataclasses
import warnings
from collections import Counter
from itertools import pairwise

import numpy as np
import obvious
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from samples import OWN, assert_near, gradients, pad, random_edges, random_graph, shake
from strategies import genotypes
from torch import Tensor
from torch_geometric.data import Batch, Data
from torch_geometric.nn import SAGEConv

from gnas.arch import gap
from gnas.arch.genotype import Genotype
from gnas.arch.space import SearchSpace
from gnas.arch.stack import Stack
from gnas.errors import InputError
from gnas.graph import GraphBatch
from gnas.model import baselines
from gnas.model.network import GAPConv, GraphModule, Network, width_for
from gnas.model.supernet import Supernet
from gnas.model.task import Task

LEVELS = ("graph", "node", "edge")
FORMULAS = ["[identity | dense(sum(dense))]", "[max(sparse) | sparse(mean)]"]
TWO_CELLS = gap.genotype(FORMULAS)


def task(level: str = "graph", categories: bool = False, readout: str = "mean") -> Task:
    columns = {"categories": (5, 3)} if categories else {"in_channels": 4}
    return Task(level, "regression", 2, readout=readout, **columns)


def build(
    genotype: Genotype = TWO_CELLS, what: Task | None = None, channels: int = 8, seed: int = 0, **options
) -> Network:
    return shake(Network(genotype, what or task(), channels, **options).double(), seed)


def sampled(seed: int, num_cells: int = 2, kind: str = "paper") -> Genotype:
    return SearchSpace(2, 2, variant=kind).sample(np.random.default_rng(seed), num_cells)


def chosen(batch: Batch, categories: bool) -> Tensor:
    return batch.categories if categories else batch.x


# -- what is computed -----------------------------------------------------------------------------------------------


@given(genotype=genotypes(), level=st.sampled_from(LEVELS), categories=st.booleans(), training=st.booleans())
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_network_equals_the_obvious_evaluation(
    batch: Batch, genotype: Genotype, level: str, categories: bool, training: bool
) -> None:
    net = build(genotype, task(level, categories), operations=OWN).train(training)
    x, leaves = chosen(batch, categories), list(net.parameters())
    wanted = obvious.network(net, x, batch.edge_index, batch.batch)
    out = net(x, batch.edge_index, batch.batch)
    assert_near(out, wanted, 1e-10)
    assert_near(gradients(out, leaves), gradients(wanted, leaves), 1e-9)


@pytest.mark.parametrize("readout", ["mean", "sum", "max"])
def test_readouts(batch: Batch, readout: str) -> None:
    net = build(what=task(readout=readout)).eval()
    out = net(batch)
    assert out.shape == (3, 2)
    assert_near(out, obvious.network(net, batch.x, batch.edge_index, batch.batch), 1e-10)
    felt = [float(grad.abs().max()) > 1e-6 for grad in gradients(out, list(net.parameters()))]
    assert sum(felt) > 0.9 * len(felt), "a dead head would hide everything before it"


@pytest.mark.parametrize("fusion", ["concat", "sum", "mean", "max"])
def test_fusions(batch: Batch, fusion: str) -> None:
    net = build(fusion=fusion).train()
    out, wanted = net(batch), obvious.network(net, batch.x, batch.edge_index, batch.batch, fusion)
    assert_near(out, wanted, 1e-10)


@pytest.mark.parametrize(("level", "rows"), [("graph", 3), ("node", 16), ("edge", 31)])
def test_one_row_for_each_graph_node_or_edge(batch: Batch, level: str, rows: int) -> None:
    assert build(what=task(level))(batch).shape == (rows, 2)


def test_edge_outputs_come_back_in_the_callers_order(batch: Batch) -> None:
    net = build(what=task("edge")).eval()
    shuffled = torch.randperm(batch.edge_index.size(1), generator=torch.Generator().manual_seed(1))
    out = net(batch.x, batch.edge_index, batch.batch)
    assert_near(net(batch.x, batch.edge_index[:, shuffled], batch.batch), out[shuffled], 1e-12)
    order = GraphBatch.from_pyg(batch).edge_order
    assert_near(net(GraphBatch.from_pyg(batch)), out[order], 1e-12)


@pytest.mark.parametrize("level", LEVELS)
def test_the_three_doors_agree(batch: Batch, level: str) -> None:
    net = build(what=task(level)).eval()
    out = net(batch.x, batch.edge_index, batch.batch)
    assert torch.equal(net(batch), out)
    inner = GraphBatch.from_pyg(batch)
    assert torch.equal(net(inner), out[inner.edge_order] if level == "edge" else out)


def test_a_tensor_alone_is_refused(batch: Batch) -> None:
    with pytest.raises(InputError, match=r"\(x, edge_index\)"):
        build()(batch.x)
    module = GraphModule()
    module.task = task()
    with pytest.raises(TypeError, match="must define run"):
        module(GraphBatch.from_pyg(batch))


# -- what it must not depend on -------------------------------------------------------------------------------------


@given(st.integers(0, 999), st.sampled_from(["paper", "reference"]), st.sampled_from(LEVELS), st.booleans())
@settings(max_examples=25, deadline=None)
def test_numbering_of_nodes_and_edges_does_not_matter(seed: int, kind: str, level: str, training: bool) -> None:
    data = random_graph(9, 25, seed)
    generator = torch.Generator().manual_seed(seed)
    perm, shuffled = torch.randperm(9, generator=generator), torch.randperm(25, generator=generator)
    renamed = torch.empty_like(data.x).index_copy(0, perm, data.x)
    net = build(sampled(seed, kind=kind), task(level), seed=seed).train(training)
    out, moved = net(data.x, data.edge_index), net(renamed, perm[data.edge_index][:, shuffled])
    wanted = {"graph": lambda: out, "node": lambda: out[perm.argsort()], "edge": lambda: out[shuffled]}[level]()
    assert_near(moved, wanted, 1e-9)


@given(st.integers(0, 999), st.sampled_from(["paper", "reference"]), st.sampled_from(LEVELS))
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_graph_gives_the_same_alone_and_in_a_batch(graphs: list[Data], seed: int, kind: str, level: str) -> None:
    net = build(sampled(seed, kind=kind), task(level), seed=seed).eval()
    alone = torch.cat([net(one.x, one.edge_index) for one in graphs])
    assert_near(net(Batch.from_data_list(graphs)), alone, 1e-10)


@pytest.mark.parametrize("kind", ["paper", "reference"])
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("categories", [True, False])
def test_padding_changes_nothing_in_training(batch: Batch, level: str, kind: str, categories: bool) -> None:
    plain = dataclasses.replace(GraphBatch.from_pyg(batch), x=chosen(batch, categories), y=None)
    results = []
    for inner in (plain, pad(plain), pad(plain, nodes=7, edges=1)):
        net = build(sampled(4, kind=kind), task(level, categories)).train()
        rows = {"graph": 3, "node": 16, "edge": 31}[level]
        out = net(inner)[:rows]
        grads = gradients(out, list(net.parameters()))
        results.append([out, *grads, *(value for name, value in net.named_buffers() if "running" in name)])
    assert_near(results[1], results[0], 1e-10)
    assert_near(results[2], results[0], 1e-10)


@pytest.mark.parametrize("kind", ["paper", "reference"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_isolated_nodes_and_empty_graphs_never_give_nan(kind: str, dtype: torch.dtype) -> None:
    formula = "[max | mean | sum | dense(max(sparse)) | sparse(mean(dense))]"
    net = Network(gap.genotype(formula, 3, kind), task("node"), 8).to(dtype)
    for edges in (torch.zeros(2, 0, dtype=torch.long), random_edges(6, 5, seed=0, isolated=3)):
        out = net(torch.randn(6, 4, dtype=dtype), edges)
        assert bool(out.isfinite().all())
        assert all(bool(grad.isfinite().all()) for grad in gradients(out, list(net.parameters())))


# -- the hand-made networks -----------------------------------------------------------------------------------------


def test_graphsage_of_the_zoo_is_pygs_sageconv() -> None:
    ours = GAPConv(
        16, gap.approximate("graphsage", num_cells=1, variant="bare")[0], variant="bare", norm=False, residual=False
    )
    theirs = SAGEConv(16, 16, aggr="mean")
    parts = {("identity",): theirs.lin_r.weight, ("mean",): theirs.lin_l.weight}
    with torch.no_grad():
        ours.cell.fuse.weight[0] = torch.cat([parts[path].T for path in ours.genotype.paths()])
        ours.cell.fuse.bias[0, 0] = theirs.lin_l.bias
    x, edge_index = torch.randn(9, 16, requires_grad=True), random_edges(9, 30, seed=1)
    out, wanted = ours(x, edge_index), theirs(x, edge_index).relu()
    assert_near(out, wanted, 1e-6)
    assert_near(gradients(out, [x]), gradients(wanted, [x]), 1e-6)


@pytest.mark.parametrize("name", gap.ZOO)
def test_zoo_networks_train(name: str) -> None:
    torch.manual_seed(0)
    data = Batch.from_data_list([random_graph(8, 20, seed) for seed in range(12)])
    data.x, data.y = data.x.float(), torch.randn(12, 2)
    what = task()
    net, batch = Network(gap.approximate(name, num_cells=2), what, 16), GraphBatch.from_pyg(data)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    losses = []
    for _ in range(25):
        loss = what.loss_value(net(batch), batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.7 * losses[0]


def test_gapconv_is_called_like_a_pyg_layer() -> None:
    conv = GAPConv(16, "[identity | dense(sum(dense))]")
    x, edge_index = torch.randn(9, 16), random_edges(9, 30, seed=1)
    out = conv(x, edge_index)
    assert out.shape == (9, 16)
    nodes = obvious.latent_nodes(
        conv.cell,
        [(k.source, k.target, k.operation, 1.0) for k in conv.genotype.links],
        x,
        obvious.dense_adjacency(edge_index, 9),
        "paper",
    )
    assert_near(out, x + obvious.fused(conv.cell, [nodes[j] for j in conv.genotype.output_nodes()]), 1e-5)


# -- size -----------------------------------------------------------------------------------------------------------


def operation_weights(name: str, c: int, kind: str, norm: bool) -> int:
    """Closed form: the operation itself, and linear with a norm (or a bias) behind it unless it stays bare."""
    reference = kind == "reference"
    own = {
        "sparse": 2 * c * c + c + c if reference else 2 * c + 1,
        "dense": 2 * c * c + c,
        "mean": (c * c + c) * reference,
        "max": (c * c + c) * reference,
    }
    bare = name in obvious.BARE[kind]
    return own.get(name, 0) + (0 if bare else c * c + (2 * c if norm else c))


def closed_form(genotype: Genotype, what: Task, c: int, norm: bool) -> int:
    total = c * sum(what.categories) if what.categories else (what.in_channels + 1) * c
    for cell in genotype:
        live = cell.live()
        names = Counter(link.operation for link in cell.links if link.target in live)
        total += sum(count * operation_weights(name, c, genotype.variant, norm) for name, count in names.items())
        total += len(cell.output_nodes()) * c * c + (2 * c if norm else c)
    into = 2 * c if what.level == "edge" else c
    hidden = [c, c, c] if genotype.variant == "reference" else [c // 2, c // 4]
    sizes = [into, *hidden, what.num_outputs]
    return total + sum((a + 1) * b for a, b in pairwise(sizes))


@given(genotypes(), st.sampled_from(LEVELS), st.booleans(), st.booleans(), st.integers(1, 6))
@settings(max_examples=40, deadline=None)
def test_number_of_weights_is_what_the_formula_gives(
    genotype: Genotype, level: str, categories: bool, norm: bool, quarter: int
) -> None:
    what, channels = task(level, categories), 4 * quarter
    net = Network(genotype, what, channels, norm=norm, operations=OWN)
    assert net.num_weights() == closed_form(genotype, what, channels, norm)


@pytest.mark.parametrize("kind", ["network", "reference", "supernet", "gatedgcn", "gin"])
def test_evaluation_is_the_same_with_and_without_gradients(kind: str) -> None:
    """Without gradients the norms are fused; with them they are plain operations."""
    what = task("node")
    if kind == "supernet":
        net: GraphModule = Supernet(SearchSpace(), what, 8, 2)
    elif kind in ("network", "reference"):
        space = SearchSpace(variant="paper" if kind == "network" else kind)
        net = Network(space.sample(np.random.default_rng(0), 3), what, 8)
    else:
        net = baselines.build_baseline(kind, what, num_layers=2)
    net = shake(net).double().eval()
    graphs = Batch.from_data_list([random_graph(9, 20, seed=1), random_graph(6, 11, seed=3, isolated=2)])
    batch = pad(GraphBatch.from_pyg(graphs))
    with torch.no_grad():
        fused = net(batch)
    assert_near(fused, net(batch).detach(), 1e-11)


def test_width_for_is_the_largest_under_the_budget() -> None:
    what = Task("graph", "regression", 1, categories=(28,))

    def net(channels: int) -> Network:
        return Network(TWO_CELLS, what, channels)

    for budget, multiple in [(20_000, 1), (20_000, 8), (100_000, 4), (net(13).num_weights(), 1)]:
        width = width_for(budget, net, multiple)
        assert width % multiple == 0
        assert net(width).num_weights() <= budget < net(width + multiple).num_weights()
    assert width_for(10**9, net, multiple=8, limit=36) == 32
    with pytest.raises(InputError, match="no width fits 10 weights"):
        width_for(10, net)


# -- where it can go ------------------------------------------------------------------------------------------------


def test_deepcopy_and_state_dict_give_the_same_network(batch: Batch) -> None:
    net = build()
    net(batch)  # moves the running statistics
    net.eval()
    twin, other = copy.deepcopy(net), build(seed=1).eval()
    assert not torch.allclose(other(batch), net(batch))
    other.load_state_dict(net.state_dict())
    for same in (twin, other):
        assert torch.equal(same(batch), net(batch))
    with torch.no_grad():
        next(twin.parameters()).add_(1)
    assert torch.equal(other(batch), net(batch)), "a copy shares no memory"


def test_state_dict_holds_weights_and_statistics_only() -> None:
    net = build()
    wanted = {name for name, _ in net.named_parameters()} | {n for n, _ in net.named_buffers() if "running" in n}
    assert set(net.state_dict()) == wanted


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_dtype_is_the_networks(batch: Batch, dtype: torch.dtype) -> None:
    net = build().to(dtype)
    assert net(batch.x.float(), batch.edge_index, batch.batch).dtype == dtype
    cats = build(what=task(categories=True)).to(dtype)
    assert cats(batch.categories, batch.edge_index, batch.batch).dtype == dtype


@pytest.mark.parametrize(("level", "kind"), [("graph", "paper"), ("edge", "reference")])
def test_compiled(batch: Batch, level: str, kind: str) -> None:
    net = build(sampled(3, num_cells=1, kind=kind), task(level))
    inner = GraphBatch.from_pyg(batch)
    torch.compiler.reset()
    compiled = torch.compile(copy.deepcopy(net), backend="aot_eager", fullgraph=True)
    out, wanted = compiled(inner), net(inner)
    assert_near(out, wanted, 1e-10)
    leaves = list(net.parameters())
    assert_near(gradients(out, list(compiled.parameters())), gradients(wanted, leaves), 1e-9)
    assert_near(list(compiled.buffers()), list(net.buffers()), 1e-10)


def test_compiled_through_pygs_door(batch: Batch) -> None:
    net = build(gap.genotype(FORMULAS[0])).eval()
    torch.compiler.reset()
    compiled = torch.compile(net, backend="aot_eager")
    assert_near(compiled(batch.x, batch.edge_index, batch.batch), net(batch), 1e-10)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_evaluation_modes(batch: Batch, mode) -> None:
    net = build(gap.genotype("[max | sum | mean]", 2)).eval()
    wanted = net(batch)
    with mode():
        assert torch.equal(net(batch), wanted)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device; this machine has none")
@pytest.mark.parametrize("kind", ["paper", "reference"])
@pytest.mark.parametrize("level", LEVELS)
def test_cpu_and_cuda_agree(batch: Batch, level: str, kind: str) -> None:
    net = build(sampled(3, kind=kind), task(level))
    there = copy.deepcopy(net).to("cuda")
    out, moved = net(batch), there(batch.clone().to("cuda"))
    assert moved.device.type == "cuda"
    assert_near(moved.cpu(), out, 1e-9)
    found = [grad.cpu() for grad in gradients(moved, list(there.parameters()))]
    assert_near(found, gradients(out, list(net.parameters())), 1e-8)


def test_it_says_what_it_is() -> None:
    assert TWO_CELLS.id in repr(build())
    assert "depth=2" in repr(build())


# -- edges and what is around the cells -----------------------------------------------------------------------------

RELATIONAL = gap.genotype(
    ["[identity | mean(gated) | sum(edge)]", "[max(pair(dense)) | sum(attention)]"], variant="bare"
)


def with_stack(**choices) -> Genotype:
    return dataclasses.replace(RELATIONAL, stack=Stack(**choices))


def bonds(batch: Batch, categories: bool) -> tuple[Tensor, dict[str, object]]:
    generator = torch.Generator().manual_seed(5)
    rows = batch.edge_index.size(1)
    if categories:
        columns = torch.randint(0, 6, (rows, 2), generator=generator) % torch.tensor([3, 2])
        return columns, {"edge_categories": (3, 2)}
    return torch.randn(rows, 3, generator=generator, dtype=torch.float64), {"edge_channels": 3}


@pytest.mark.parametrize("categories", [True, False])
@pytest.mark.parametrize("edges", ["kept", "updated"])
def test_networks_read_edge_attr_in_any_order(batch: Batch, edges: str, categories: bool) -> None:
    attr, columns = bonds(batch, categories)
    net = build(with_stack(edges=edges, ffn=True), dataclasses.replace(task(), **columns)).eval()
    out = net(batch.x, batch.edge_index, attr, batch.batch)
    shuffled = torch.randperm(len(attr), generator=torch.Generator().manual_seed(1))
    assert_near(net(batch.x, batch.edge_index[:, shuffled], attr[shuffled], batch.batch), out, 1e-12)
    data = batch.clone()
    data.edge_attr = attr
    assert_near(net(data), out, 1e-12)
    assert not torch.allclose(net(batch.x, batch.edge_index, attr.flip(0), batch.batch), out)
    with pytest.raises(InputError, match=r"reads edge_attr: \[edges, \d\]"):
        net(batch)
    with pytest.raises(InputError, match="edge_attr has 16 rows; edge_index has 31 edges"):
        net(batch.x, batch.edge_index, batch.batch)


@pytest.mark.parametrize("edges", ["kept", "updated"])
@pytest.mark.parametrize("reads", [True, False])
def test_padding_changes_nothing_with_edges(batch: Batch, edges: str, reads: bool) -> None:
    attr, columns = bonds(batch, True)
    batch.edge_attr = attr
    plain = dataclasses.replace(GraphBatch.from_pyg(batch), y=None)
    results = []
    for padded in (False, True):
        inner = plain
        if padded:
            inner = dataclasses.replace(pad(plain), edge_attr=torch.cat([plain.edge_attr, plain.edge_attr[:4]]))
        what = dataclasses.replace(task(), **columns) if reads else task()
        net = build(with_stack(edges=edges, ffn=True, mlp=2), what).train()
        out = net(inner)[:3]
        statistics = [value for name, value in net.named_buffers() if "running" in name]
        results.append([out, *gradients(out, list(net.parameters())), *statistics])
    assert_near(results[1], results[0], 1e-10)


def test_every_weight_of_a_stack_is_used(batch: Batch) -> None:
    batch.edge_attr, columns = bonds(batch, True)
    net = build(
        with_stack(edges="updated", ffn=True, mlp=2, readout="mean_max"), dataclasses.replace(task(), **columns)
    )
    net(batch).sum().backward()
    unused = {name for name, weight in net.named_parameters() if weight.grad is None}
    gate = "cells.1.stages.0.kinds.dense.gate"  # a filter before the message pair, which does not read it
    assert unused == {f"{gate}.weight", f"{gate}.bias"}
    assert net.cells[0].edge_norm is not None
    assert net.cells[1].edge_norm is None, "nothing reads the state of the edges after the last cell"


def test_edge_messages_are_plain_without_edge_features(batch: Batch) -> None:
    plain = gap.genotype("[identity | sum]", variant="bare")
    with pytest.warns(UserWarning, match="no edge features"):
        net = build(gap.genotype("[identity | sum(edge)]", variant="bare"))
    assert_near(net(batch), build(plain)(batch), 1e-12)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert width_for(20_000, lambda width: Network(net.genotype, task(), width)) > 8


def test_a_stack_overrules_dropout_and_readout(batch: Batch) -> None:
    net = build(with_stack(dropout=0.3, readout="sum"), dropout=0.1)
    assert {cell.config.dropout for cell in net.cells} == {0.3}
    assert (net.head.readout, build(with_stack()).head.readout) == ("sum", "mean")


def test_a_layer_reads_edge_attr(batch: Batch) -> None:
    attr, _ = bonds(batch, False)
    conv = GAPConv(4, "[identity | mean(gated) | sum(edge)]", variant="bare", edge_dim=3).double()
    out = conv(batch.x, batch.edge_index, attr)
    shuffled = torch.randperm(len(attr), generator=torch.Generator().manual_seed(1))
    assert_near(conv(batch.x, batch.edge_index[:, shuffled], attr[shuffled]), out, 1e-12)
    with pytest.raises(InputError, match=r"reads edge_attr: \[edges, 3\]"):
        conv(batch.x, batch.edge_index)
