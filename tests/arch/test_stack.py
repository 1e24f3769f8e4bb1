"""What is chosen for a whole network: values, files, spaces."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnas.arch import gap
from gnas.arch.genotype import Genotype
from gnas.arch.space import SearchSpace
from gnas.arch.stack import EDGE_STATES, ENCODINGS, READOUTS, Stack, StackSpace
from gnas.errors import InputError

STACKS = st.builds(
    Stack,
    st.booleans(),
    st.sampled_from((1, 2)),
    st.none() | st.sampled_from((0.0, 0.05, 0.5)),
    st.none() | st.sampled_from(READOUTS),
    st.sampled_from(EDGE_STATES),
    st.none() | st.lists(st.sampled_from(ENCODINGS), unique=True).map(tuple),
    st.integers(0, 10),
)
SPACE = StackSpace((True, False), (1, 2), (None, 0.1), ("sum", "mean"), ("kept", "updated"), (None, ("walks",)))


@given(STACKS)
def test_a_file_alone_gives_the_stack_again(stack: Stack) -> None:
    genotype = Genotype(gap.genotype("dense(mean(gated(sparse)))", 2).cells, "bare", stack)
    assert Genotype.from_yaml(genotype.to_yaml()) == genotype
    assert Stack.from_dict(stack.to_dict()) == stack


def test_the_default_stack_changes_neither_file_nor_id() -> None:
    genotype = gap.genotype("[identity | dense(sum(dense))]", 2)
    assert "version: 1" in genotype.to_yaml()
    assert "stack" not in genotype.to_yaml()
    other = Genotype(genotype.cells, genotype.variant, Stack(ffn=True))
    assert other.id != genotype.id
    assert "version: 2" in other.to_yaml()
    assert other.with_output("all").stack == other.stack


@pytest.mark.parametrize(
    ("values", "part"),
    [
        ({"ffn": "perhaps"}, "stack.ffn"),
        ({"dropout": 1.5}, "stack.dropout"),
        ({"readout": "median"}, "choose one of|did you mean|mean_max"),
        ({"edges": "lost"}, "stack.edges"),
        ({"encodings": ["walks", "walks"]}, "each once"),
        ({"propagation": -1}, "stack.propagation"),
        ({"height": 3}, "part of a stack"),
    ],
)
def test_wrong_stacks_get_a_line(values: dict[str, object], part: str) -> None:
    with pytest.raises(InputError, match=part):
        Stack.from_dict(values)


def test_a_file_with_a_wrong_stack_names_the_file() -> None:
    text = gap.genotype("sum", 1).to_yaml().replace("version: 1", "version: 2").replace("cells:", "stack: 3\ncells:")
    with pytest.raises(InputError, match=r"mine.yaml: stack is '3'"):
        Genotype.from_yaml(text, "mine.yaml")


def test_samples_and_mutations_stay_in_the_space() -> None:
    space = SearchSpace(2, 2, variant="bare", messages=("plain", "gated"), stack=SPACE)
    rng = np.random.default_rng(0)
    seen = set()
    genotype = space.sample(rng, 3)
    for _ in range(200):
        assert genotype in space
        other = space.mutate(genotype, rng)
        cells = sum(a != b for a, b in zip(genotype, other, strict=True))
        parts = sum(getattr(genotype.stack, name) != getattr(other.stack, name) for name in SPACE.open())
        assert cells + parts == 1
        seen.add("stack" if parts else "cell")
        genotype = other
    assert seen == {"stack", "cell"}
    assert space.size() == SearchSpace(2, 2, variant="bare", messages=("plain", "gated")).size() * 64
    assert Genotype(genotype.cells, "bare", Stack(dropout=0.7)) not in space


def test_a_space_without_stack_choices_draws_as_before() -> None:
    one, two = np.random.default_rng(3), np.random.default_rng(3)
    StackSpace().sample(one)
    assert one.random() == two.random()


def test_choices_are_checked() -> None:
    with pytest.raises(InputError, match=r"stack choices ffn are True; give a tuple of choices, such as \(True,\)"):
        StackSpace(ffn=True)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="stack choices readout are 'sum'; give a tuple"):
        StackSpace(readout="sum")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="it must be a StackSpace"):
        SearchSpace(stack=Stack())  # type: ignore[arg-type]
    with pytest.raises(InputError, match="messages is 'gated'; give a tuple of names"):
        SearchSpace(messages="gated")  # type: ignore[arg-type]
    assert hash(StackSpace(ffn=[True, False])) == hash(StackSpace(ffn=(True, False)))  # type: ignore[arg-type]
    with pytest.raises(InputError, match="each once"):
        StackSpace(ffn=(True, True))
    with pytest.raises(InputError, match=r"stack\.edges"):
        StackSpace(edges=("lost",))
