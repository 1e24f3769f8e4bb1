"""Trees of operations: one form for all orders of the children, and errors that name the place."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import trees

from gnas.arch.formula import Tree, check_token
from gnas.errors import InputError


@given(tree=trees(), seed=st.integers(0, 1000))
def test_the_numbers_of_the_nodes_do_not_matter(tree: Tree, seed: int) -> None:
    """The nodes are numbered anew, in any order in which parents come before their children."""
    rng, waiting, order = random.Random(seed), [0], list[int]()
    while waiting:
        order.append(waiting.pop(rng.randrange(len(waiting))))
        waiting += tree.children(order[-1])
    number = {old: new for new, old in enumerate(order)}
    other = Tree(
        tuple(number.get(tree.parents[old], -1) for old in order),
        tuple(tree.operations[old] for old in order),
        tuple(number[old] for old in tree.outputs),
    )
    assert other == tree
    assert str(other) == str(tree)


@pytest.mark.parametrize(
    ("parents", "operations", "outputs", "message"),
    [
        ((), (), (), "a tree has one root"),
        ((-1, 0), ("", "sum", "max"), (1,), "a tree has one root"),
        ((0, 0), ("", "sum"), (1,), "a tree has one root"),
        ((-1, 1), ("", "sum"), (1,), "node 1 of the tree has parent 1; allowed: 0 to 0"),
        ((-1, 0), ("", "sum"), (2,), r"tree outputs \[2\]; choose at least one of the nodes 0 to 1"),
        ((-1, 0), ("", "sum"), (), "tree outputs are empty"),
        ((-1, 0, 0), ("", "sum", "max"), (1,), "branch max ends in no output"),
        ((-1, 0, 1), ("", "sum", "max"), (2,), r"path max\(sum\) aggregates twice"),
    ],
)
def test_what_is_no_tree_is_refused(parents: tuple, operations: tuple, outputs: tuple, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Tree(parents, operations, outputs)


def test_links_without_an_end_are_dropped_and_skips_are_their_source() -> None:
    links = [(0, 1, "dense"), (1, 2, "skip"), (0, 3, "sparse"), (2, 4, "sum"), (4, 5, "skip")]
    assert str(Tree.from_links(links, [5])) == "sum(dense)"
    assert str(Tree.from_links(links, [1, 5])) == "[dense#1 | sum(dense#1)]"


@pytest.mark.parametrize("token", ["skip", "@sum", "@dense"])
def test_tokens_that_cannot_be_part_of_a_tree(token: str) -> None:
    with pytest.raises(InputError):
        check_token(token)
