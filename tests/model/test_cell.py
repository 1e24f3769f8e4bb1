"""A cell against the walk written out link by link, and GAP trees against the cells they are rewritten to."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from obvious import TRAIN_SLOPE, dense_adjacency, fused, latent_nodes, places, tensors, tree_nodes
from samples import OWN, assert_near, gradients, pad, random_edges, shake
from strategies import cells, trees

from gnas.arch import gap
from gnas.arch.genotype import CellGenotype, Link
from gnas.arch.space import SpaceLink
from gnas.errors import InputError
from gnas.graph import GraphBatch
from gnas.model.cell import Cell
from gnas.model.operations import OPERATIONS, find_variant
from gnas.model.stage import CellConfig, Transform

NODES, CHANNELS = 7, 4
EDGES = random_edges(NODES, 15, seed=21)
ADJACENCY = dense_adjacency(EDGES, NODES)
GATED = gap.parse("[identity | dense(sum(dense))]")


def node_input(seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(NODES, CHANNELS, generator=generator, dtype=torch.float64).requires_grad_()


def config(kind: str = "paper", **options) -> CellConfig:
    return CellConfig(find_variant(kind), slope=TRAIN_SLOPE[kind], operations=OWN, **options)


def build(cell: CellGenotype, kind: str = "paper", seed: int = 0, **options) -> Cell:
    return shake(Cell.from_genotype(cell, CHANNELS, config(kind, **options)).double(), seed)


def links_of(cell: CellGenotype) -> list[tuple[int, int, str, float]]:
    live = cell.live()
    return [(k.source, k.target, k.operation, 1.0) for k in cell.links if k.target in live]


@given(cells(), st.sampled_from(["paper", "reference", "bare"]), st.booleans(), st.booleans(), st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_any_cell_equals_its_links_one_by_one(
    cell: CellGenotype, kind: str, norm: bool, training: bool, seed: int
) -> None:
    module = build(cell, kind, seed, norm=norm).train(training)
    x, leaves = node_input(seed), list(module.parameters())
    nodes = latent_nodes(module, links_of(cell), x, ADJACENCY, kind)
    wanted = x + fused(module, [nodes[j] for j in cell.output_nodes()], slope=TRAIN_SLOPE[kind])
    out = module(x, GraphBatch.from_edges(x, EDGES))[0]
    assert_near(out, wanted, 1e-10)
    assert_near(gradients(out, [x, *leaves]), gradients(wanted, [x, *leaves]), 1e-9)


@pytest.mark.parametrize("residual", [True, False])
@pytest.mark.parametrize("fusion", ["concat", "sum", "mean", "max"])
def test_fusion_and_residual(fusion: str, residual: bool) -> None:
    cell = gap.to_cell(GATED)
    module, x = build(cell, fusion=fusion, residual=residual), node_input()
    nodes = latent_nodes(module, links_of(cell), x, ADJACENCY, "paper")
    wanted = fused(module, [nodes[j] for j in cell.output_nodes()], fusion)
    out = module(x, GraphBatch.from_edges(x, EDGES))[0]
    assert_near(out, wanted + x if residual else wanted, 1e-10)
    assert module.fuse.weight.size(1) == CHANNELS * (2 if fusion == "concat" else 1)


def test_skip_is_bare_and_identity_is_followed_by_a_transform() -> None:
    x = node_input()
    for name, kind, bare in [("skip", "paper", True), ("identity", "paper", False), ("identity", "reference", True)]:
        cell = CellGenotype(1, 1, (Link(0, 1, name), Link(1, 2, "skip"), Link(2, 3, "skip")))
        module = build(cell, kind).train()
        assert torch.equal(module.walk(x, GraphBatch.from_edges(x, EDGES))[3], x) == bare
        assert len(places(module)[0, 1, name]) == (1 if bare else 2)


def test_dropout_acts_in_training_only() -> None:
    x = node_input().detach()
    module, batch = build(gap.to_cell(GATED), dropout=0.5, residual=False, norm=False), GraphBatch.from_edges(x, EDGES)
    torch.manual_seed(0)
    kept = module(x, batch)[0]
    whole = module.eval()(x, batch)[0]
    live = whole > 0
    ratio = kept[live] / whole[live]
    assert bool(((ratio == 0) | ((ratio - 2).abs() < 1e-9)).all())
    assert 0 < int((ratio == 0).sum()) < len(ratio)


def test_dead_branches_are_not_built() -> None:
    links = (Link(0, 1, "dense"), Link(0, 2, "dense"), Link(1, 3, "sum"), Link(2, 4, "max"), Link(3, 5, "sparse"))
    cell = CellGenotype(2, 1, links)
    assert set(places(build(cell))) == {(0, 1, "dense"), (1, 3, "sum"), (3, 5, "sparse")}


def test_aggregations_of_a_cell_share_one_stage() -> None:
    links = (Link(0, 1, "dense"), Link(1, 2, "sparse"), Link(1, 3, "max"), Link(2, 4, "sum"))
    module = build(CellGenotype(2, 2, (*links, Link(3, 5, "skip"), Link(4, 6, "skip"))))
    holding = [stage for stage in module.stages if {"sum", "max"} & set(stage.kinds)]
    assert [set(stage.kinds) for stage in holding] == [{"sum", "max"}]


def test_weights_mix_the_candidates_of_a_link() -> None:
    candidates = ("zero", "dense", "identity", "sparse")
    links = [SpaceLink(0, 1, candidates), SpaceLink(1, 2, ("sum", "max")), SpaceLink(2, 3, ("dense", "skip"))]
    module = shake(Cell(links, (3,), CHANNELS, config(), lambda node: node).double())
    x, weights = node_input(), torch.rand(8, dtype=torch.float64, requires_grad=True)
    flat = [(k.source, k.target, name) for k in links for name in k.candidates]
    mixed = [(*key, share) for key, share in zip(flat, weights, strict=True)]
    wanted = latent_nodes(module, mixed, x, ADJACENCY, "paper")[3]
    out = module.walk(x, GraphBatch.from_edges(x, EDGES), weights)[3]
    assert_near(out, wanted, 1e-10)
    assert_near(gradients(out, [x, weights]), gradients(wanted, [x, weights]), 1e-10)


def test_padding_leaves_real_rows_statistics_and_gradients_alone() -> None:
    cell = gap.to_cell(gap.parse("[dense(max(sparse)) | mean | sum(dense)]"))
    results = []
    for padded in (False, True):
        module, x = build(cell), node_input()
        batch = GraphBatch.from_edges(x, EDGES)
        batch = pad(batch) if padded else batch
        out = module(batch.x, batch)[0][:NODES]
        statistics = [value for name, value in module.named_buffers() if "running" in name]
        results.append([out, *gradients(out, [x, *module.parameters()]), *statistics])
    assert_near(results[1], results[0], 1e-12)
    assert len(results[0]) > 10


def test_a_link_from_nowhere_is_refused() -> None:
    with pytest.raises(InputError, match="starts at a node that nothing reaches"):
        Cell([SpaceLink(1, 2, ("sum",))], (2,), CHANNELS, config(), lambda node: node)


def test_unknown_names_list_the_choices() -> None:
    with pytest.raises(InputError, match="concat, sum, mean, max"):
        config(fusion="cat")
    cell = CellGenotype(1, 1, (Link(0, 1, "median"), Link(1, 2, "sum"), Link(2, 3, "skip")))
    with pytest.raises(InputError, match="unknown operation 'median'"):
        build(cell)


# -- GAP trees ------------------------------------------------------------------------------------------------------


def weights_of(name: str, seed: int) -> list[dict[str, torch.Tensor]]:
    """Weights of one operation by itself: its own, then those of the linear-norm-ReLU behind it."""
    kind = {**OPERATIONS, **OWN}[name](CHANNELS, 1, find_variant("paper"))
    return [tensors(shake(part.double(), seed), 0) for part in (kind, Transform(1, CHANNELS, True))]


Tensors = list[torch.Tensor]


def evaluated(tree, training: bool, seed: int, shift: int = 0) -> tuple[Tensors, Tensors, Cell, torch.Tensor]:
    """The outputs of a tree, node by node with weights of its own; and of its cell, with those weights copied in.

    ``shift`` gives the cell other weights than the tree's.
    """
    cell, mapping = gap.rewrite(tree)
    module, x = build(cell, seed=seed).train(training), node_input(seed)
    slots = places(module)
    names = [name.removeprefix("@") for name in tree.operations]
    with torch.no_grad():
        for node in range(1, len(tree)):
            link = cell.incoming(mapping[node])
            assert link.operation == names[node]
            parts = slots[link.source, link.target, link.operation]
            for mine, theirs in zip(parts, weights_of(names[node], seed + node + shift), strict=True):
                for name, value in theirs.items():
                    mine[name].copy_(value)
    weights = {node: weights_of(names[node], seed + node) for node in range(1, len(tree))}
    values = tree_nodes(tree, x, ADJACENCY, weights, training)
    walked = module.walk(x, GraphBatch.from_edges(x, EDGES))
    return [values[node] for node in tree.outputs], [walked[node] for node in cell.output_nodes()], module, x


@given(trees(), st.booleans(), st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_the_rewritten_cell_computes_the_trees_function(tree, training: bool, seed: int) -> None:
    wanted, found, module, x = evaluated(tree, training, seed)
    assert_near(found, wanted, 1e-10)
    out = module(x, GraphBatch.from_edges(x, EDGES))[0]
    whole = x + fused(module, wanted)
    assert_near(out, whole, 1e-10)
    assert_near(gradients(out, [x]), gradients(whole, [x]), 1e-9)


@pytest.mark.parametrize("name", gap.ZOO)
def test_the_rewritten_zoo_computes_its_formulas(name: str) -> None:
    wanted, found, _, _ = evaluated(gap.parse(gap.ZOO[name]), True, 5)
    assert_near(found, wanted, 1e-10)


def test_a_rewriting_with_other_weights_would_be_noticed() -> None:
    wanted, found, _, _ = evaluated(gap.parse("[dense(sum(sparse)) | max]"), True, 5, shift=1)
    assert not any(torch.allclose(one, other) for one, other in zip(found, wanted, strict=True))


@pytest.mark.parametrize("norm", [True, False])
@pytest.mark.parametrize("fusion", ["concat", "sum"])
def test_inherit_copies_every_operation_from_a_larger_cell(fusion: str, norm: bool) -> None:
    names = ("sparse", "dense")
    links = [SpaceLink(0, 1, names), SpaceLink(0, 2, names), SpaceLink(1, 2, names)]
    links += [SpaceLink(1, 3, ("sum", "max")), SpaceLink(2, 4, ("sum", "max"))]
    links += [SpaceLink(s, t, names) for t in (5, 6) for s in range(3, t)]
    small = CellGenotype(2, 2, (Link(0, 1, "dense"), Link(1, 2, "sparse"), Link(2, 4, "max"), Link(4, 6, "dense")))
    chosen = config(fusion=fusion, norm=norm)
    large = shake(Cell(links, (5, 6), CHANNELS, chosen, small.level).double(), seed=1)
    mine = Cell.from_genotype(small, CHANNELS, chosen).double()
    mine.inherit(large)
    theirs = places(large)
    for key, parts in places(mine).items():
        for own, other in zip(parts, theirs[key], strict=True):
            assert all(torch.equal(own[name], other[name]) for name in other)
    columns = slice(CHANNELS, None) if fusion == "concat" else slice(None)
    assert torch.equal(mine.fuse.weight, large.fuse.weight[:, columns])
    if norm:
        assert all(torch.equal(value, mine.norm.state_dict()[name]) for name, value in large.norm.state_dict().items())
    else:
        assert torch.equal(mine.fuse.bias, large.fuse.bias)
