"""Values of jobs as JSON and back; what is read can name nothing but values of gnas."""

import json
import math
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small import GENOTYPE, benchmark
from strategies import genotypes
from tiny import SPACE

from gnas.arch.genotype import Genotype
from gnas.arch.hand_made import HandMade
from gnas.arch.stack import Stack
from gnas.data.storage import write_graphs
from gnas.errors import InputError
from gnas.graph import GraphSet
from gnas.jobs.codec import Files, decode, encode
from gnas.model.network import GraphModule, Network
from gnas.run import checkpoint
from gnas.run.protocol import TrainConfig
from gnas.strategies import RandomSearch
from gnas.strategies.candidate import RaceCandidate

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(value=PLAIN)
def test_plain_values_come_back_as_they_were(value: object) -> None:
    found = decode(json.loads(json.dumps(encode(value), allow_nan=False)))
    assert found == value
    assert type(found) is type(value)


def test_not_a_number_comes_back() -> None:
    assert math.isnan(decode(encode(math.nan)))


@given(genotype=genotypes())
def test_genotypes_come_back(genotype: Genotype) -> None:
    assert decode(json.loads(json.dumps(encode(genotype)))) == genotype


@pytest.mark.parametrize(
    "value",
    [
        SPACE,
        TrainConfig(lr=0.5, ends=(3, 9)),
        RandomSearch(trials=3),
        RaceCandidate(HandMade("gat", options={"heads": 2}), 0.1),
    ],
    ids=lambda one: type(one).__name__,
)
def test_dataclasses_of_gnas_come_back(value: object) -> None:
    assert decode(json.loads(json.dumps(encode(value)))) == value


def test_graphs_and_networks_lie_in_files(tmp_path: Path) -> None:
    def graphs(value: GraphSet) -> str:
        return write_graphs(value, tmp_path).name

    def weights(value: GraphModule) -> str:
        checkpoint.save(tmp_path / "weights", value.state_dict())
        return "weights"

    data, files = benchmark(), Files(graphs, weights)
    network = Network(GENOTYPE, data.task, 4)
    text = json.dumps(encode({"graphs": data.train, "network": network}, files))
    found = decode(json.loads(text), lambda name: tmp_path / name)
    assert torch.equal(found["graphs"].x, data.train.x)
    assert torch.equal(found["graphs"].edge_index, data.train.edge_index)
    wanted = network.state_dict()
    assert all(torch.equal(value, wanted[name]) for name, value in found["network"].state_dict().items())


@dataclass(frozen=True)
class Own:
    """A class that no worker knows."""

    a: int = 1


@pytest.mark.parametrize("value", [Own(), Own, print, {1, 2}, Stack(), b"bytes", torch.zeros(2)])
def test_what_cannot_be_sent_is_an_error_that_says_what_to_do(value: object) -> None:
    with pytest.raises(InputError, match="cannot be sent to workers; use --on here"):
        encode({"deep": [value]})


@pytest.mark.parametrize(
    "value",
    [
        {"$class": ["os.system", {}]},
        {"$class": ["Runner", {}]},
        {"$class": ["TrainConfig", {"epochs": 0}]},
        {"$class": ["TrainConfig", {"unknown": 1}]},
        {"$class": 3},
        {"$eval": "1"},
        {"$tuple": 3},
        {"$tuple": [], "more": 1},
        {"$float": "x"},
        {"$graphs": "../../etc/passwd"},
        {"$network": {"weights": "w"}},
        {"$architecture": "format: gnas-genotype"},
    ],
)
def test_other_values_are_refused_in_one_line(value: object) -> None:
    with pytest.raises(InputError) as error:
        decode([value])
    assert len(str(error.value).splitlines()) == 1
