"""Measures of a graph as input: counted by hand, standardised over train, read by every network."""

from __future__ import annotations

import dataclasses
import math

import pytest
import small
import torch
from samples import pad, random_graph, shake
from torch_geometric.data import Batch, Data
from torch_geometric.utils import degree

import gnas
from gnas.arch import gap
from gnas.arch.space import SearchSpace
from gnas.data.graph_encodings import with_encodings
from gnas.data.storage import load_benchmark, save_benchmark
from gnas.errors import InputError
from gnas.graph import GraphBatch
from gnas.model import baselines
from gnas.model.encoder import Encoder
from gnas.model.network import Network
from gnas.model.structure import compute_measures, compute_moments
from gnas.model.supernet import Supernet
from gnas.model.task import Task
from gnas.run.models import read_task

AROUND = {"structure": ("size", "degree"), "structure_center": (1.0, 0.5), "structure_scale": (2.0, 0.25)}
PLAIN = Task("node", "classification", 2, in_channels=4)
TASK = dataclasses.replace(PLAIN, **AROUND)
GRAPHS = [random_graph(9, 20, seed=1), random_graph(1, 0, seed=2), random_graph(6, 11, seed=3, isolated=2)]


def by_hand(graphs: list[Data]) -> torch.Tensor:
    rows = []
    for graph in graphs:
        incoming = degree(graph.edge_index[1], graph.num_nodes)
        rows += [[math.log(1 + graph.num_nodes), math.log(1 + float(d))] for d in incoming]
    return torch.tensor(rows, dtype=torch.float64)


def test_measures_are_logarithms_of_counts() -> None:
    batch = GraphBatch.from_pyg(Batch.from_data_list(GRAPHS))
    found = compute_measures(batch, ("size", "degree"), torch.float64)
    torch.testing.assert_close(found, by_hand(GRAPHS))
    torch.testing.assert_close(compute_measures(batch, ("degree",), torch.float64), found[:, 1:])


def test_padding_changes_nothing() -> None:
    batch = GraphBatch.from_pyg(Batch.from_data_list(GRAPHS))
    found = compute_measures(pad(batch), ("size", "degree"), torch.float64)
    torch.testing.assert_close(found[: batch.num_nodes], by_hand(GRAPHS))
    assert bool(found.isfinite().all())


def test_they_are_standardised_over_the_nodes_of_train() -> None:
    b = gnas.load("cluster-mini", structure="degree,size")
    assert b.task.structure == ("size", "degree")
    every = compute_measures(b.train.batch(), b.task.structure, torch.float64)
    standard = (every - torch.tensor(b.task.structure_center)) / torch.tensor(b.task.structure_scale)
    torch.testing.assert_close(standard.mean(0), torch.zeros(2, dtype=torch.float64), atol=1e-5, rtol=0)
    torch.testing.assert_close(standard.std(0, correction=0), torch.ones(2, dtype=torch.float64), atol=1e-5, rtol=0)
    assert "size of the graph, degree of the node" in b.describe()


def test_a_measure_that_never_differs_has_the_scale_1() -> None:
    ring = torch.tensor([[0, 1, 2], [1, 2, 0]])
    data = [Data(x=torch.rand(3, 2), edge_index=ring, y=torch.tensor([float(k)])) for k in range(8)]
    b = gnas.load(data, structure=["size", "degree"])
    assert b.task.structure_scale == (1.0, 1.0)
    assert compute_moments(b.train, ("size",)) == ((pytest.approx(math.log(4)),), (1.0,))


def test_the_encoder_adds_a_linear_map_of_them() -> None:
    encoder = shake(Encoder(TASK, 5)).double()
    plain = Encoder(PLAIN, 5).double()
    plain.load_state_dict({k: v for k, v in encoder.state_dict().items() if not k.startswith("measured")})
    batch = GraphBatch.from_pyg(Batch.from_data_list(GRAPHS))
    around = (by_hand(GRAPHS) - torch.tensor([1.0, 0.5])) / torch.tensor([2.0, 0.25])
    torch.testing.assert_close(encoder(batch), plain(batch) + around @ encoder.measured.weight.T)


@pytest.mark.parametrize("name", ["network", "supernet", *baselines.BASELINES])
def test_every_network_reads_them(name: str) -> None:
    """Two graphs that differ in size only: a node far from the difference has another output, without ``structure`` the same."""
    pair = torch.tensor([[0, 1], [1, 0]])
    small = Data(x=torch.ones(2, 4), edge_index=pair)
    large = Data(x=torch.ones(3, 4), edge_index=pair)
    sized = dataclasses.replace(PLAIN, structure=("size",), structure_center=(1.0,), structure_scale=(0.1,))
    for task, differs in ((PLAIN, False), (sized, True)):
        torch.manual_seed(0)
        if name == "network":
            net: torch.nn.Module = Network(gap.approximate("gcn", 2), task, 8)
        elif name == "supernet":
            net = Supernet(SearchSpace(), task, 8, 1)
        else:
            net = baselines.build_baseline(name, task, num_layers=2)
        if differs:
            assert not net.encoder.measured.weight.any()  # type: ignore[union-attr]
            torch.nn.init.ones_(net.encoder.measured.weight)  # type: ignore[union-attr, arg-type]
        net.eval()
        gap_between = (net(small)[0] - net(large)[0]).abs().max()
        assert bool(gap_between > 1e-6) == differs


def test_a_task_keeps_them_in_files(tmp_path) -> None:  # type: ignore[no-untyped-def]
    b = gnas.load("pattern-mini", structure="size")
    assert load_benchmark(save_benchmark(b, tmp_path / "b.safetensors")).task == b.task
    assert (
        read_task({name: list(v) if isinstance(v, tuple) else v for name, v in dataclasses.asdict(b.task).items()})
        == b.task
    )


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ({"structure": ("diameter",)}, "structure 'diameter'"),
        ({"structure": ("size",)}, "one entry for each measure"),
    ],
)
def test_a_wrong_task(change: dict[str, tuple[str, ...]], wanted: str) -> None:
    with pytest.raises(InputError, match=wanted):
        dataclasses.replace(TASK, **change)


def test_wrong_words_and_sampled_neighbours_are_errors() -> None:
    with pytest.raises(InputError, match=r"structure 'diameter'.*size"):
        gnas.load("pattern-mini", structure="size,diameter")
    b = gnas.load("pattern-mini")
    sampled = dataclasses.replace(b, train=dataclasses.replace(b.train, sample_neighbors=(4, 4)))
    with pytest.raises(InputError, match="neighbours are sampled"):
        with_encodings(sampled, structure="size")
    assert with_encodings(b) is b


def test_auto_is_what_differs_from_node_to_node() -> None:
    assert gnas.load("cluster-mini", structure="auto").task.structure == ("size", "degree")
    pairs = [Data(x=torch.randn(2, 1), edge_index=torch.tensor([[0, 1], [1, 0]]), y=torch.rand(1)) for _ in range(20)]
    assert gnas.load(pairs, structure=["auto"]).task.structure == ()
    path = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    paths = [Data(x=torch.randn(3, 1), edge_index=path, y=torch.rand(1)) for _ in range(20)]
    assert gnas.load(paths, structure="auto").task.structure == ("degree",)


def test_auto_is_nothing_where_neighbours_are_sampled() -> None:
    graph = small.transductive()
    assert gnas.load(graph, structure="auto").task.structure == ("degree",)
    assert gnas.load(graph, structure="auto", sample_neighbors=(4, 2)).task.structure == ()
    with pytest.raises(InputError, match="degree cannot be measured"):
        gnas.load(graph, structure="degree", sample_neighbors=(4, 2))


def test_none_and_words_that_do_not_go_together() -> None:
    assert gnas.load("cluster-mini", structure="none").task.structure == ()
    with pytest.raises(InputError, match="auto cannot be combined"):
        gnas.load("cluster-mini", structure="auto,size")
    with pytest.raises(InputError, match="did you mean 'degree'"):
        gnas.load("cluster-mini", structure="degre")
