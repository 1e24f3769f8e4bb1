"""GAP: formulas, trees and three-level cells say the same, checked with a symbolic evaluator."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import cells, read_or_refused, trees

from gnas.arch.formula import Tree
from gnas.arch.gap import ZOO, approximate, genotype, parse, rewrite, to_cell
from gnas.arch.genotype import CellGenotype
from gnas.arch.operation import is_aggregator
from gnas.errors import InputError


def tree_values(tree: Tree) -> list[str]:
    """What each tree node computes, written out."""
    values = ["x"]
    for node in range(1, len(tree)):
        values.append(f"{tree.operations[node].removeprefix('@')}({values[tree.parents[node]]})")
    return values


def cell_values(cell: CellGenotype) -> dict[int, str]:
    """What each cell node computes, written out; a skip hands its value on."""
    values = {0: "x"}
    for link in cell.links:
        value = values[link.source]
        values[link.target] = value if link.operation == "skip" else f"{link.operation}({value})"
    return values


@settings(max_examples=150, deadline=None)
@given(trees())
def test_the_rewritten_cell_computes_the_tree(tree: Tree) -> None:
    cell, places = rewrite(tree)
    in_tree, in_cell = tree_values(tree), cell_values(cell)
    assert [in_cell[place] for place in places] == in_tree
    assert [in_cell[node] for node in cell.output_nodes()] == [in_tree[node] for node in tree.outputs]


@settings(max_examples=150, deadline=None)
@given(trees())
def test_the_rewritten_cell_is_three_levels_and_as_small_as_promised(tree: Tree) -> None:
    cell, places = rewrite(tree)
    assert len(set(places)) == len(tree)
    assert all(cell.level(node) == 3 for node in cell.output_nodes())
    assert all(sum(cell.level(link.target) == 2 for link in cell.path(node)) == 1 for node in cell.output_nodes())
    operations = Counter(name.removeprefix("@") for name in tree.operations[1:])
    assert cell.operations() - Counter(skip=len(cell.links)) == operations
    assert cell.live() == set(cell.present())


@settings(max_examples=150, deadline=None)
@given(trees())
def test_there_and_back(tree: Tree) -> None:
    assert to_cell(tree).tree() == tree
    assert hash(to_cell(tree).tree()) == hash(tree)
    assert parse(str(tree)) == tree
    assert str(parse(str(tree))) == str(tree)


@settings(max_examples=100, deadline=None)
@given(cells())
def test_the_tree_of_any_cell_has_its_outputs(cell: CellGenotype) -> None:
    tree, values = cell.tree(), cell_values(cell)
    assert {tree_values(tree)[node] for node in tree.outputs} == {values[node] for node in cell.output_nodes()}
    assert parse(str(tree)) == tree
    assert to_cell(tree).tree() == tree


@settings(max_examples=100, deadline=None)
@given(trees(), st.randoms(use_true_random=False))
def test_trees_are_equal_whatever_the_order_of_children(tree: Tree, random: object) -> None:
    order, waiting = [], [0]
    while waiting:
        node = waiting.pop(random.randrange(len(waiting)))  # type: ignore[attr-defined]
        order.append(node)
        waiting.extend(tree.children(node))
    number = {old: new for new, old in enumerate(order)}
    parents = tuple(number.get(tree.parents[old], -1) for old in order)
    shuffled = Tree(parents, tuple(tree.operations[old] for old in order), tuple(number[old] for old in tree.outputs))
    assert shuffled == tree


@settings(max_examples=100, deadline=None)
@given(trees())
def test_one_aggregation_a_path(tree: Tree) -> None:
    for node in range(1, len(tree)):
        path = []
        while node:
            path.append(is_aggregator(tree.operations[node]))
            node = tree.parents[node]
        assert sum(path) <= 1


@pytest.mark.parametrize(
    ("name", "nodes", "outputs"), [("gcn", 1, 1), ("gin", 3, 3), ("graphsage", 2, 2), ("gat", 1, 1), ("gatedgcn", 2, 2)]
)
def test_the_zoo_is_the_papers_table(name: str, nodes: int, outputs: int) -> None:
    network = approximate(name)
    assert network.formulas() == (ZOO[name],) * 4
    assert network.depth() == 4
    assert {(cell.nodes, cell.outputs, cell.output) for cell in network} == {(nodes, outputs, "third")}


def test_zoo_names_its_choices() -> None:
    with pytest.raises(InputError, match=r"choose one of: gcn, gin, graphsage, gat, gatedgcn; did you mean 'gat'"):
        approximate("gats")


def test_gcn_gets_a_first_level_node_and_an_output() -> None:
    assert [str(link) for link in to_cell(parse("mean")).links] == ["1 <- 0: skip", "2 <- 1: mean", "3 <- 2: skip"]


def test_a_node_with_several_aggregations_gets_a_node_for_each_but_one() -> None:
    """The paper's figure: e aggregations leave one node, so e - 1 nodes are added behind identities."""
    cell, places = rewrite(parse("[max(dense#1) | mean(dense#1) | sparse(sum(dense#1))]"))
    assert [str(link) for link in cell.links if link.target <= 3] == ["1 <- 0: dense", "2 <- 1: skip", "3 <- 1: skip"]
    assert (cell.nodes, cell.outputs, cell.output) == (3, 3, "third")
    assert cell.aggregations() == Counter(max=1, mean=1, sum=1)
    assert sorted(places) == [0, 1, 4, 5, 6, 9]


def test_inner_nodes_after_the_aggregation_are_no_outputs() -> None:
    chain = to_cell(parse("dense(sparse(sum))"))
    assert (chain.output, chain.output_nodes()) == ("leaves", (4,))
    listed = to_cell(parse("[sparse#1(sum) | dense(sparse#1(sum))]"))
    assert (listed.output, listed.output_nodes()) == ("third", (3, 4))


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        (" [ mean ] ", "mean"),
        ("[dense ( sum(dense) )|identity]", "[identity | dense(sum(dense))]"),
        ("[sum(dense#7) | max(dense#7)]", "[max(dense#1) | sum(dense#1)]"),
        ("[sum(dense) | max(dense)]", "[max(dense) | sum(dense)]"),
        ("sum(dense#3)", "sum(dense)"),
        ("[sum(sparse#2(dense#1)) | max(dense#1)]", "[max(dense#1) | sum(sparse(dense#1))]"),
        ("[skip | sum]", "[skip | sum]"),
        ("skip", "skip"),
        ("gate(@median(dense))", "gate(@median(dense))"),
    ],
)
def test_formulas(text: str, canonical: str) -> None:
    assert str(parse(text)) == canonical


def test_labels_tell_one_node_from_two() -> None:
    assert len(parse("[sum(dense#1) | max(dense#1)]")) == 4
    assert len(parse("[sum(dense) | max(dense)]")) == 5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "position 1: found the end, expected an operation"),
        ("[mean", r"position 6: found the end, expected \(, \| or \]"),
        ("mean | sum", r"position 6: found '\|', expected the end; several branches need brackets"),
        ("mean)", "position 5"),
        ("dense(sum", "position 10: found the end, expected ( or )".replace("(", r"\(").replace(")", r"\)")),
        ("dense()", r"position 7: found '\)', expected an operation"),
        ("[mean | Sum]", "position 9: found 'S', expected an operation"),
        ("[dense#1 | sum(sparse#1)]", "position 12: label #1 marks two different expressions"),
        ("dense#1(dense#1)", "position 1: label #1 marks two different expressions"),
        ("[dense#1 | dense#1]", "position 12: this branch is an output already"),
        ("[skip | skip]", "position 9: this branch is an output already"),
        ("sum(skip)", "position 1: skip changes nothing inside a branch; leave it out"),
        ("zero", "position 1: operation zero is a candidate of the search only"),
        ("@sum", "position 1: @sum: @ marks user-defined aggregators only; write sum"),
        ("sum(dense(mean))", r"path sum\(dense\(mean\)\) aggregates twice"),
        ("(" * 9_000, "position 1"),
        ("a(" * 4_000, "position 8001: found the end"),
        ("a" * 10_001, "at most 10,000"),
    ],
)
def test_bad_formulas_say_where(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse(text)


def test_deep_formulas_are_read_without_recursion() -> None:
    text = "a(" * 3_000 + "b" + ")" * 3_000
    assert str(parse(text)) == text


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=30) | st.lists(st.sampled_from([*"[]|()#1", "#2", "sum", "dense", "skip", "@a"])).map("".join))
def test_any_text_is_read_or_refused(text: str) -> None:
    tree = read_or_refused(parse, text)
    assert tree is None or parse(str(tree)) == tree


@pytest.mark.parametrize(
    ("parents", "operations", "outputs", "message"),
    [
        ((-1, -1), ("", "sum"), (0, 1), "node 1 of the tree has parent -1"),
        ((0,), ("",), (0,), "a tree has one root"),
        ((-1, 0), ("", "sum"), (), "outputs are empty"),
        ((-1, 0), ("", "sum"), (1, 2), r"outputs \[2\]"),
        ((-1, 0, 0), ("", "sum", "dense"), (1,), "branch dense ends in no output"),
        ((-1, 0), ("", "skip"), (1,), "skip"),
        ((-1, 0, 1), ("", "sum", "@own"), (2,), r"path @own\(sum\) aggregates twice"),
    ],
)
def test_bad_trees(parents: tuple, operations: tuple, outputs: tuple, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Tree(parents, operations, outputs)


def test_genotype_from_formulas() -> None:
    assert genotype("mean", 3) == approximate("gcn", 3)
    assert genotype("mean") == genotype(["mean"])
    mixed = genotype([ZOO["gat"], "[identity | dense]"], variant="bare")
    assert (len(mixed), mixed.depth(), mixed.variant) == (2, 1, "bare")
    for formulas, num_cells in ((["mean", "sum"], 3), ([], None), ("mean", 0)):
        with pytest.raises(InputError, match="formulas for"):
            genotype(formulas, num_cells)
