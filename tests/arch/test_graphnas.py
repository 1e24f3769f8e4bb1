"""GraphNAS's architectures as values: files, formulas, the space."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnas.arch.architecture import read_architecture
from gnas.arch.graphnas import (
    ACTIVATIONS,
    AGGREGATORS,
    ATTENTIONS,
    GraphNASArchitecture,
    GraphNASSpace,
    LayerChoice,
)
from gnas.errors import InputError

layers = st.builds(
    LayerChoice,
    st.sampled_from(ATTENTIONS),
    st.sampled_from(AGGREGATORS),
    st.sampled_from(ACTIVATIONS),
    st.integers(1, 16),
    st.integers(1, 256),
)


@given(st.builds(GraphNASArchitecture, st.lists(layers, min_size=1, max_size=4).map(tuple), st.integers(1, 64)))
def test_yaml_round_trip(architecture: GraphNASArchitecture) -> None:
    again = GraphNASArchitecture.from_yaml(architecture.to_yaml())
    assert again == architecture
    assert again.id == architecture.id
    assert again.depth() == len(again.formulas()) == len(architecture.layers)


def test_files_and_formulas(tmp_path: Path) -> None:
    architecture = GraphNASArchitecture((LayerChoice("sym-gat", "max-pooling", "relu6", 4, 16),))
    assert read_architecture(architecture.save(tmp_path / "found.yaml")) == architecture
    assert architecture.formulas() == ("relu6(max-pooling(sym-gat, 4 x 16))",)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("gnas-graphnas", "gnas-genotype", "<string>: unknown file format 'gnas-genotype'"),
        ("heads: 4", "heads: four", "layer 1: heads is 'four'; it must be a whole number"),
        (": gat", ": gta", "layer 1: unknown attention 'gta'.*did you mean 'gat'"),
        ("  width: 16\n", "", "layer 1: key width is missing"),
        ("heads: 4", "heads: 0", "0 heads of 16 channels"),
    ],
)
def test_bad_files_are_named(old: str, new: str, message: str) -> None:
    text = GraphNASArchitecture((LayerChoice("gat", "sum", "elu", 4, 16),)).to_yaml()
    assert old in text
    with pytest.raises(InputError, match=message):
        GraphNASArchitecture.from_yaml(text.replace(old, new))


def test_the_space_is_graphnas() -> None:
    assert GraphNASSpace().sizes() == (7, 4, 8, 6, 7)
    with pytest.raises(InputError, match="at least one LayerChoice"):
        GraphNASArchitecture(())
