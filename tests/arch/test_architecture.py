"""Every kind of architecture answers the same questions, survives its file, and builds its network."""

from pathlib import Path

import pytest
import torch

from gnas.arch.architecture import Architecture, read_architecture
from gnas.arch.gap import approximate
from gnas.arch.graphnas import GraphNASArchitecture, LayerChoice
from gnas.arch.hand_made import HandMade
from gnas.errors import InputError
from gnas.model.build import build_network, width_of
from gnas.model.task import Task

TASK = Task("node", "classification", 3, in_channels=5)
LAYER = LayerChoice("gat", "sum", "relu", 2, 4)
KINDS: dict[str, Architecture] = {
    "found": approximate("gatedgcn", 2),
    "graphnas": GraphNASArchitecture((LAYER, LAYER), 6),
    "baseline": HandMade("gat", 2, 6, options={"heads": 2}),
}


@pytest.fixture(params=KINDS)
def architecture(request: pytest.FixtureRequest) -> Architecture:
    return KINDS[request.param]


def test_it_answers_the_same_questions(architecture: Architecture) -> None:
    assert KINDS[architecture.kind] is architecture
    assert len(architecture.id) == 10
    assert architecture.depth() == len(architecture.formulas()) == 2
    assert bool(architecture.cells) == (architecture.kind == "found")
    assert (architecture.channels is None) == (architecture.kind == "found")
    assert architecture.with_output("all").cells != () or architecture.with_output("all") is architecture
    assert architecture.title


def test_its_text_and_its_file_are_read_back(architecture: Architecture, tmp_path: Path) -> None:
    assert read_architecture(architecture.to_yaml()) == architecture
    assert read_architecture(architecture.save(tmp_path / "a.yaml")) == architecture


def test_its_network_says_how_to_build_it_again(architecture: Architecture) -> None:
    network = build_network(architecture, TASK, channels=8, dropout=0.0)
    assert network.architecture == architecture
    again = build_network(network.architecture, TASK, **network.options)
    shapes = [[(name, value.shape) for name, value in one.state_dict().items()] for one in (network, again)]
    assert shapes[0] == shapes[1]
    x, edges = torch.rand(4, 5), torch.tensor([[0, 1, 2], [1, 2, 3]])
    assert network.eval()(x, edges).shape == (4, 3)


def test_only_an_open_width_follows_the_budget(architecture: Architecture) -> None:
    width = width_of(architecture, TASK, 8, budget=5000, multiple=4)
    if architecture.channels is not None:
        assert width == architecture.channels
        return
    weights = [build_network(architecture, TASK, channels=one).num_weights() for one in (width, width + 4)]
    assert weights[0] <= 5000 < weights[1]
    assert width_of(architecture, TASK, 8) == 8


def test_a_subclass_without_a_name_is_not_taken_for_its_parent() -> None:
    from gnas.model.baselines import GCN

    class Mine(GCN):
        pass

    assert GCN(TASK, 8, 2).architecture == HandMade("gcn", 2, 8, options={"normalization": "symmetric"})
    assert Mine(TASK, 8, 2).architecture is None


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("format: gnas-baseline\nversion: 2\nname: gcn\nnum_layers: 2\n", "version"),
        ("format: gnas-baseline\nversion: 1\nname: gcn\nnum_layers: 0\n", "num_layers is 0; allowed: 1 to 1,000"),
        ("format: gnas-baseline\nversion: 1\nname: gcn\nnum_layers: true\n", "num_layers is True"),
        ("format: gnas-baseline\nversion: 1\nname: [gcn]\nnum_layers: 2\n", "name must be a text"),
        ("format: gnas-baseline\nversion: 1\nnum_layers: 2\n", "key name is missing"),
        ("format: gnas-baseline\nversion: 1\nname: a\nnum_layers: 2\nchannels: 4\nbudget: 9\n", "choose one"),
        ("format: gnas-baseline\nversion: 1\nname: a\nnum_layers: 2\nwidth: 4\n", "unknown key 'width'"),
        ("format: gnas-other\nversion: 1\n", "unknown file format 'gnas-other'"),
    ],
)
def test_a_wrong_file_is_an_error_in_one_line(text: str, error: str) -> None:
    with pytest.raises(InputError, match=error):
        read_architecture(text)
