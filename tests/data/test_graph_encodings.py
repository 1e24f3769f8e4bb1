"""The data option ``encodings``: its words, its rule, what is prepared, and that files and fingerprints know it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import small
import torch
from torch_geometric.data import Data

import gnas
from gnas.data import graph_encodings
from gnas.data.cache import cached_arrays, user_cache
from gnas.data.graph_encodings import EncodingChoice, parse_encodings, with_encodings
from gnas.data.storage import load_benchmark, save_benchmark
from gnas.errors import InputError
from gnas.model.encodings import fill_encodings
from gnas.run.settings import Settings

ALL = "walks:5,edge_walks:4,laplacian:3,size,degree"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return user_cache()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("none", EncodingChoice()),
        ("auto", None),
        ("walks, degree+size", EncodingChoice(("size", "degree"), walks=20)),
        (["edge_walks", "laplacian:2"], EncodingChoice(edge_walks=20, laplacian=2)),
        (ALL, EncodingChoice(("size", "degree"), 5, 4, 3)),
    ],
)
def test_words(words: str | list[str], expected: EncodingChoice | None) -> None:
    assert parse_encodings(words) == expected


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ("steps", "unknown encoding 'steps'.*walks"),
        ("walks:0", "write walks:20"),
        ("walks:many", "write walks:20"),
        ("size:3", "takes no number"),
        ("auto,walks", "auto stands alone"),
    ],
)
def test_wrong_words(words: str, error: str) -> None:
    with pytest.raises(InputError, match=error):
        gnas.load("cluster-mini", encodings=words)
    with pytest.raises(InputError, match=error):
        gnas.load(small.benchmark(), encodings=words)


def test_splits_have_what_the_task_reads() -> None:
    found = gnas.load("cluster-mini", encodings=ALL)
    task = found.task
    assert (task.structure, task.walks, task.laplacian, task.edge_walks) == (("size", "degree"), 5, 3, 4)
    for graphs in found.splits().values():
        assert graphs.node_pe.shape == (graphs.num_nodes, 8)
        assert graphs.edge_pe.shape == (graphs.num_edges, 4)
    again = with_encodings(found, "walks:2")
    assert again.train.node_pe.shape[1] == 2
    assert again.train.edge_pe is None
    assert again.task.structure == ()
    assert (
        with_encodings(found, structure="size").train.node_pe.shape[1] == 8
    )  # the older option changes measures alone
    assert with_encodings(found) is found


def test_splits_of_one_graph_share_their_encodings() -> None:
    found = gnas.load(small.transductive(), encodings="walks:3")
    assert found.train.node_pe is found.val.node_pe is found.test.node_pe


def test_auto() -> None:
    small_graphs = gnas.load("cluster-mini", encodings="auto").task
    assert (small_graphs.structure, small_graphs.walks, small_graphs.edge_walks) == (("size", "degree"), 20, 20)
    sampled = gnas.load(small.transductive(), encodings="auto", sample_neighbors=(4, 2)).task
    assert (sampled.structure, sampled.walks, sampled.edge_walks) == ((), 0, 0)


def test_auto_leaves_walks_out_of_large_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_encodings, "SMALL_NODES", 20)
    task = gnas.load("cluster-mini", encodings="auto").task
    assert (task.structure, task.walks, task.edge_walks) == (("size", "degree"), 0, 0)


@pytest.mark.parametrize(("large", "walks"), [(1, 20), (3, 0)])
def test_one_large_graph_in_a_hundred_does_not_turn_walks_off(large: int, walks: int) -> None:
    ring, big = (torch.stack([torch.arange(n), torch.arange(n).roll(1)]) for n in (5, 201))
    edges = [big] * large + [ring] * (120 - large)
    graphs = [Data(x=torch.ones(e.size(1), 1), edge_index=e, y=torch.tensor([k / 7])) for k, e in enumerate(edges)]
    assert graph_encodings.choose_encodings(gnas.load(graphs)).walks == walks


def test_sampled_neighbourhoods_carry_the_encodings_of_the_whole_graph() -> None:
    whole = gnas.load(small.transductive(), encodings="walks:3,edge_walks:2")
    sampled = gnas.load(small.transductive(), encodings="walks:3,edge_walks:2", sample_neighbors=(2,))
    assert torch.equal(whole.train.node_pe, sampled.train.node_pe)


def test_a_packed_file_and_the_fingerprint_know_encodings(tmp_path: Path) -> None:
    plain, encoded = gnas.load("cluster-mini"), gnas.load("cluster-mini", encodings=ALL)
    marks = {
        b.fingerprint for b in (plain, encoded, with_encodings(plain, "walks:5"), with_encodings(plain, "walks:6"))
    }
    assert len(marks) == 4
    stored = load_benchmark(save_benchmark(encoded, tmp_path / "b.safetensors"))
    assert stored.fingerprint == encoded.fingerprint
    assert stored.task == encoded.task
    assert torch.equal(stored.test.node_pe, encoded.test.node_pe)
    assert gnas.load(tmp_path / "b.safetensors", encodings="none").fingerprint == plain.fingerprint
    for preset in ({"encodings": "auto"}, {"structure": "auto"}):  # what gnas search adds
        assert gnas.load(tmp_path / "b.safetensors", **preset).fingerprint == encoded.fingerprint
    other = dataclasses.replace(encoded, task=dataclasses.replace(encoded.task, walks=6))
    with pytest.raises(InputError, match=r"train: node_pe has the shape \[\d+, 8\]"):
        load_benchmark(save_benchmark(other, tmp_path / "wrong.safetensors"))


def test_the_fingerprint_of_data_without_them_is_that_of_the_first_version() -> None:
    assert gnas.load("cluster-mini").fingerprint.startswith("4662dc4090a1e7ce")
    assert gnas.load("molecules-mini", structure="auto").fingerprint.startswith("e26be1346d021c2a")


def test_long_computations_are_kept_on_disk(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = gnas.load("cluster-mini")
    first = with_encodings(plain, ALL)
    assert not cache.exists()  # quick ones are computed each time
    monkeypatch.setattr(graph_encodings, "CACHE_WORK", 0)
    assert torch.equal(with_encodings(plain, ALL).val.edge_pe, first.val.edge_pe)
    assert len(list((cache / "encodings").iterdir())) == 3
    monkeypatch.setattr(graph_encodings, "fill_encodings", lambda *_: pytest.fail("computed again"))
    assert torch.equal(with_encodings(plain, ALL).val.node_pe, first.val.node_pe)


def test_a_damaged_file_of_the_cache_is_made_again(cache: Path) -> None:
    make = {"a": torch.arange(3).numpy()}
    cached_arrays("tests", "key", lambda: make)
    assert cached_arrays("tests", "key", dict)["a"].tolist() == [0, 1, 2]
    (cache / "tests" / "key.safetensors").write_bytes(b"damaged")
    assert cached_arrays("tests", "key", lambda: make)["a"].tolist() == [0, 1, 2]


def test_settings_take_them_as_texts() -> None:
    settings = Settings.resolve("fast", data={"encodings": "walks:4,size"})
    assert settings.data["encodings"] == ["walks:4", "size"]
    assert parse_encodings(settings.data["encodings"]) == EncodingChoice(("size",), walks=4)


def test_prediction_computes_the_same() -> None:
    found = gnas.load("cluster-mini", encodings=ALL)
    bare = dataclasses.replace(found.test, node_pe=None, edge_pe=None)
    filled = fill_encodings(bare, found.task)
    assert torch.equal(filled.node_pe, found.test.node_pe)
    assert torch.equal(filled.edge_pe, found.test.edge_pe)
