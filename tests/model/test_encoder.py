"""The category "other" of a column: nothing is learned about it, so its embedding is zero and stays zero."""

import dataclasses

import pytest
import torch
from builders import one_line, write_csv, write_folder

from gnas.data.own.load import encode_graphs, load_own
from gnas.model.baselines import build_baseline
from gnas.model.encoder import EdgeEncoder, Encoder
from gnas.model.task import Task

TASK = Task("graph", "regression", 1, categories=(3, 4), edge_categories=(2, 3), other=(1,), edge_other=(0, 1))


def test_rows_of_other_are_zero_and_no_other_bit_changes():
    plain = dataclasses.replace(TASK, other=(), edge_other=())
    for kind, zero in ((Encoder, [6]), (EdgeEncoder, [1, 4])):
        torch.manual_seed(0)
        weight, after = kind(TASK, 8).weight.detach(), torch.rand(1)
        torch.manual_seed(0)
        before = kind(plain, 8).weight.detach()
        assert torch.equal(after, torch.rand(1))
        keep = [i for i in range(len(weight)) if i not in zero]
        assert torch.equal(weight[keep], before[keep])
        assert not weight[zero].any()
        assert before[zero].all()


@pytest.mark.parametrize("wrong", [{"other": (2,)}, {"other": (-1,)}, {"edge_other": ("a",)}])
def test_columns_that_do_not_exist(wrong):
    with one_line(next(iter(wrong)), "2 columns"):
        dataclasses.replace(TASK, **wrong)


def make_folder(path):
    """Categories of nodes and edges; the atom Xe and the bond 9 are in the test split alone."""
    folder = write_folder(path)
    nodes = [(g, n, "Xe" if g == 11 and n == 1 else "CNO"[(g + n) % 3]) for g in range(12) for n in range(3 + g % 3)]
    write_csv(folder / "nodes.csv", ("graph_id", "node_id", "atom"), nodes)
    edges = [(g, n, n + 1, "far" if g == 11 else "ab"[n % 2]) for g in range(12) for n in range(2 + g % 3)]
    write_csv(folder / "edges.csv", ("graph_id", "source", "target", "bond"), edges)
    return folder


def test_training_leaves_it_at_zero(tmp_path):
    b = load_own(make_folder(tmp_path / "tables"))
    assert (b.task.other, b.task.edge_other) == ((0,), (0,))
    torch.manual_seed(0)
    network = build_baseline("gatedgcn", b.task, num_layers=2, budget=4000)
    optimizer = torch.optim.AdamW(network.parameters(), lr=0.01, weight_decay=0.1)
    batch = b.train.batch()
    start = network.encoder.weight.detach().clone()
    for _ in range(5):
        optimizer.zero_grad()
        b.task.loss_value(network(batch), batch).backward()
        optimizer.step()
    assert not network.encoder.weight[-1].any()
    assert not network.edge_encoder.weight[-1].any()
    assert (network.encoder.weight != start)[:-1].any(dim=1).all()
    assert network.eval()(b.test.batch()).isfinite().all()


def test_beside_numbers_it_is_a_row_of_zeros(tmp_path):
    b = load_own(write_folder(tmp_path / "tables"))
    assert b.task.in_channels
    assert b.task.other == ()
    new = write_folder(tmp_path / "new", 2)
    text = (new / "nodes.csv").read_text()
    (new / "nodes.csv").write_text(text.replace("0,1,N,", "0,1,Xe,"))
    x = encode_graphs(new, b.encoding, b.task).graphs.x
    assert x[0, :4].tolist() == [1, 0, 0, 0]
    assert x[1, :4].tolist() == [0, 0, 0, 0]
