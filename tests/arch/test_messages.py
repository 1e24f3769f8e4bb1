"""Messages in operations, formulas, cells and spaces."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnas.arch import gap
from gnas.arch.genotype import CellGenotype, Genotype, Link
from gnas.arch.operation import AGGREGATORS, MESSAGES, check_name, join_operation, split_operation
from gnas.arch.space import SearchSpace
from gnas.errors import InputError

FILTER = st.sampled_from(("identity", "sparse", "dense"))


@given(st.sampled_from(AGGREGATORS), st.sampled_from(MESSAGES))
def test_names_are_joined_and_split(aggregator: str, message: str) -> None:
    name = join_operation(aggregator, message)
    assert split_operation(name) == (aggregator, message)
    assert check_name(f"{aggregator}({message})") == name


@given(FILTER, st.sampled_from(AGGREGATORS), st.sampled_from(MESSAGES), FILTER)
def test_formulas_keep_their_messages(before: str, aggregator: str, message: str, after: str) -> None:
    text = f"{after}({aggregator}({message}({before})))"
    tree = gap.parse(text)
    assert str(tree) == text.replace("plain(", "").replace(")))", "))") if message == "plain" else str(tree) == text
    genotype = gap.genotype(text, 2, "bare")
    assert gap.parse(genotype.formulas()[0]) == tree
    assert Genotype.from_yaml(genotype.to_yaml()) == genotype
    assert genotype.messages() == {message}
    assert genotype.depth() == 2


def test_a_message_that_reaches_no_output_makes_a_newer_file() -> None:
    links = ((0, 1, "identity"), (0, 2, "identity"), (1, 3, "sum"), (2, 4, "mean(gated)"), (3, 5, "identity"))
    genotype = Genotype((CellGenotype(2, 1, links),))
    assert genotype.messages() == {"plain"}
    assert "version: 2" in genotype.to_yaml()
    assert Genotype.from_yaml(genotype.to_yaml()) == genotype


def test_branches_share_labelled_messages() -> None:
    text = "[dense(mean#1(gated)) | sparse(mean#1(gated))]"
    assert str(gap.parse(text)) == text


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("gated", "needs an aggregator"),
        ("dense(gated(sparse))", "needs an aggregator around it, such as sum.gated.; found dense"),
        ("sum(gated#1)", "label its aggregator"),
        ("sum(max(gated))", "aggregates twice"),
        ("sum(gated(edge))", "found gated"),
    ],
)
def test_wrong_formulas_get_a_line(text: str, part: str) -> None:
    with pytest.raises(InputError, match=part):
        gap.parse(text)


@pytest.mark.parametrize("name", ["mean(gated", "mean(soft)", "mine(gated)", "(gated)", "mean()", "mean(gated)(edge)"])
def test_wrong_operations_get_a_line(name: str) -> None:
    with pytest.raises(InputError):
        Link(1, 4, name)


def test_a_message_is_no_operation_of_its_own() -> None:
    with pytest.raises(InputError, match=r"write sum\(gated\)"):
        Link(1, 4, "gated")


def test_level_two_has_every_aggregator_with_every_message() -> None:
    space = SearchSpace(2, 2, aggregators=("identity", "sum", "mine"), messages=("plain", "edge"))
    assert space.second_level == ("identity", "sum", "sum(edge)", "mine")
    assert all(link.candidates == space.second_level for link in space.links() if space.level(link.target) == 2)
    with pytest.raises(InputError, match="message"):
        SearchSpace(messages=("loud",))
    with pytest.raises(InputError, match="each once"):
        SearchSpace(messages=())
