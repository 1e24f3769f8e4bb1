"""Stored graphs are read back exactly, hold no pickles, and a damaged or hostile file is an error line."""

import dataclasses
import io
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from builders import citation_graph, one_line, outcome, path_graphs, write_folder, write_smiles
from bundles import bundle_arrays, write_bundle
from hypothesis import given, settings
from hypothesis import strategies as st

import gnas
from gnas.data.own.load import encode_graphs, load_own
from gnas.data.storage import (
    BENCHMARK,
    TENSORS,
    BrokenFile,
    load_benchmark,
    read_arrays,
    read_graphs,
    read_npz,
    save_benchmark,
    write_arrays,
    write_graphs,
)
from gnas.tensors import read_digest, read_tensors, write_tensors

FILE, OLD = "b.safetensors", "b.npz"


def assert_same(a, b):
    assert (a.name, a.task, a.task.labels, a.source, a.notes) == (b.name, b.task, b.task.labels, b.source, b.notes)
    assert (a.encoding, a.patience, a.fingerprint) == (b.encoding, b.patience, b.fingerprint)
    for one, other in zip(a.splits().values(), b.splits().values(), strict=True):
        assert (one.level, one.sample_neighbors) == (other.level, other.sample_neighbors)
        for field in TENSORS:
            x, y = getattr(one, field), getattr(other, field)
            assert (x is None) == (y is None), field
            if x is not None:
                assert x.dtype == y.dtype
                assert torch.equal(x.nan_to_num(-9), y.nan_to_num(-9)), field


@pytest.fixture(params=["list", "transductive", "sampled", "tables", "smiles", "unlabelled", "named"])
def benchmark(request, tmp_path):
    if request.param == "list":
        return load_own(path_graphs(pos=None, edge_attr=None), name="paths")
    if request.param == "transductive":
        return load_own(citation_graph(columns=2))
    if request.param == "sampled":
        return load_own(citation_graph(), sample_neighbors=(3, -1))
    if request.param == "tables":
        return load_own(write_folder(tmp_path / "own"))
    if request.param == "smiles":
        pytest.importorskip("rdkit")
        return load_own(write_smiles(tmp_path / "mols.csv"))
    if request.param == "named":
        return gnas.load("cluster-mini")
    y = torch.rand(30)
    y[::4] = torch.nan
    return load_own(citation_graph().update({"y": y}))


def test_round_trip(benchmark, tmp_path):
    back = load_own(save_benchmark(benchmark, tmp_path / FILE))
    assert_same(benchmark, back)
    assert (back.train.x is back.val.x) == (benchmark.train.x is benchmark.val.x)
    assert (back.train.mask is back.val.mask) == (benchmark.train.mask is None)


def test_the_same_benchmark_has_the_same_digest(benchmark, tmp_path):
    one, other = (read_digest(save_benchmark(benchmark, tmp_path / f"{name}.safetensors")) for name in "ab")
    assert one == other


@pytest.mark.parametrize("compress", [False, True])
def test_a_file_of_version_0_1_still_loads(benchmark, tmp_path, compress):
    back = load_own(write_bundle(benchmark, tmp_path / OLD, compress))
    if benchmark.train.sample_neighbors:  # not in those files
        back = load_own(back, sample_neighbors=benchmark.train.sample_neighbors)
        back = dataclasses.replace(back, notes=benchmark.notes)
    assert_same(benchmark, back)


def test_a_kept_file_of_version_0_1_still_loads():
    back = gnas.load(str(Path(__file__).parents[1] / "kept" / "0.1" / "graphs.npz"))
    assert {name: len(graphs) for name, graphs in back.splits().items()} == {"train": 8, "val": 1, "test": 1}
    assert back.encoding is not None
    assert (back.encoding.requested, back.task.kind) == (("weight",), "regression")


def test_the_first_files_of_version_0_1_have_no_structure(tmp_path):
    arrays = bundle_arrays(load_own(path_graphs(12)))
    meta = json.loads(bytes(arrays["meta"]))
    for name in ("structure", "structure_center", "structure_scale"):
        del meta["task"][name]
    np.savez(tmp_path / OLD, **{**arrays, "meta": np.frombuffer(json.dumps(meta).encode(), np.uint8)})
    assert load_benchmark(tmp_path / OLD).task.structure == ()


def test_new_data_is_encoded_the_same_from_a_stored_benchmark(tmp_path):
    pytest.importorskip("rdkit")
    b = load_own(write_smiles(tmp_path / "mols.csv"))
    back = load_benchmark(save_benchmark(b, tmp_path / FILE))
    assert torch.equal(
        encode_graphs(["CCCl"], b.encoding, b.task).graphs.x, encode_graphs(["CCCl"], back.encoding, back.task).graphs.x
    )


def test_graphs_are_shared_by_content(benchmark, tmp_path):
    file = write_graphs(benchmark.val, tmp_path)
    assert write_graphs(benchmark.val, tmp_path) == file != write_graphs(benchmark.test, tmp_path)
    back = read_graphs(file)
    assert dataclasses.replace(benchmark, val=back).fingerprint == benchmark.fingerprint
    with one_line("not a gnas file of graphs (make one"):
        load_benchmark(file)


def test_writing_leaves_no_half_file(benchmark, tmp_path, monkeypatch):
    path = save_benchmark(benchmark, tmp_path / FILE)
    before = path.read_bytes()
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError("disk")))
    with pytest.raises(OSError, match="disk"):
        save_benchmark(dataclasses.replace(benchmark, name="other"), path)
    assert path.read_bytes() == before
    assert not list(tmp_path.glob(f".{FILE}*"))


def test_a_file_has_the_ending_of_its_content(tmp_path):
    with one_line("b.npz", "name the file b.safetensors"):
        save_benchmark(gnas.load("digits"), tmp_path / OLD)


# -- arrays --------------------------------------------------------------------------------------------------------


def test_arrays_of_every_kind_come_back(tmp_path):
    kinds = ("?", "u1", "i1", "u2", "i2", "i4", "i8", "f2", "f4", "f8")
    arrays = {kind: np.arange(6).reshape(2, 3).T.astype(kind) for kind in kinds}
    found, about = read_arrays(write_arrays(tmp_path / FILE, arrays, {"source": "tests"}))
    assert about == {"source": "tests"}
    for kind, array in arrays.items():
        assert found[kind].dtype == array.dtype
        assert np.array_equal(found[kind], array)


def test_a_benchmark_is_not_a_file_of_arrays(tmp_path):
    save_benchmark(load_own(path_graphs(12)), tmp_path / FILE)
    with pytest.raises(BrokenFile, match="not a gnas prepared file"):
        read_arrays(tmp_path / FILE)


# -- damage --------------------------------------------------------------------------------------------------------


@pytest.fixture
def packed(tmp_path):
    return save_benchmark(load_own(path_graphs(12)), tmp_path / FILE)


def rewrite(path, about=None, **changes):
    """Write the file again with some tensors changed, or left out if None."""
    text, tensors = read_tensors(path, BENCHMARK, "file")
    tensors = {k: v for k, v in {**tensors, **changes}.items() if v is not None}
    write_tensors(path, BENCHMARK, text if about is None else about, tensors)


def change_about(path, **changes):
    rewrite(path, json.dumps({**json.loads(read_tensors(path, BENCHMARK, "file")[0]), **changes}))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"train.x": None}, "the train split has no x"),
        ({"train.x": torch.zeros(2, 1, dtype=torch.int16)}, "node_ptr"),
        ({"train.y": torch.zeros(2, 1)}, "y has the shape [2, 1]"),
        ({"train.y": torch.zeros(2, 2, 2)}, "shape"),
        ({"val.edge_index": torch.zeros(2, 4, dtype=torch.long) - 1}, "edge"),
    ],
)
def test_tensors_that_are_wrong(packed, changes, words):
    rewrite(packed, **changes)
    with one_line(FILE, words):
        load_benchmark(packed)


@pytest.mark.parametrize("text", ["[1", "[" * 100_000, "[1]", "{}"])
def test_descriptions_that_are_wrong(packed, text):
    rewrite(packed, text)
    with one_line(FILE, "its description"):
        load_benchmark(packed)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"splits": {"train": {}}}, "no x"),
        ({"splits": {}}, "there is no train split"),
        ({"splits": []}, "list"),
        ({"task": None}, "NoneType"),
        ({"task": {"level": "planet"}}, "task"),
        ({"encoding": {"source": 1}}, "not an encoding"),
        ({"patience": -1}, "patience is -1"),
        ({"patience": "5"}, "patience is '5'"),
    ],
)
def test_parts_of_a_description_that_are_wrong(packed, changes, words):
    change_about(packed, **changes)
    with one_line(words):
        load_benchmark(packed)


@pytest.mark.parametrize("hops", [3, ["3"], [0], [True], None])
def test_hops_that_are_wrong(packed, hops):
    splits = json.loads(read_tensors(packed, BENCHMARK, "file")[0])["splits"]
    splits["val"]["sample_neighbors"] = hops
    change_about(packed, splits=splits)
    with one_line("sample_neighbors"):
        load_benchmark(packed)


@pytest.mark.parametrize(
    "change",
    [
        *(
            {"num_outputs": 10**30},
            {"num_outputs": True},
            {"categories": [0]},
            {"categories": ["3"]},
            {"categories": 3},
        ),
        *({"level": "planet"}, {"loss": "none"}, {"scale": [-1.0]}, {"center": [10**400]}, {"labels": ["a", "b"]}),
        {"surprise": 1},
    ],
)
def test_tasks_that_are_wrong(packed, change):
    task = json.loads(read_tensors(packed, BENCHMARK, "file")[0])["task"]
    change_about(packed, task={**task, **change})
    with one_line():
        load_benchmark(packed)


def test_weights_are_not_graphs(tmp_path):
    write_tensors(tmp_path / FILE, "gnas-checkpoint-1", "{}", {"a": torch.ones(2)})
    with one_line(FILE, "not a gnas file of graphs"):
        load_own(tmp_path / FILE)


@pytest.mark.parametrize("name", [FILE, OLD])
def test_no_file(tmp_path, name):
    with one_line(name, "o such file"):
        load_benchmark(tmp_path / name)


@pytest.mark.parametrize("write", [save_benchmark, write_bundle])
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_damaged_bytes_are_an_error_line_or_harmless(tmp_path_factory, write, data):
    path = tmp_path_factory.getbasetemp() / ("damaged.npz" if write is write_bundle else "damaged.safetensors")
    content = bytearray(write(load_own(path_graphs(6)), path).read_bytes())
    if data.draw(st.booleans()):
        content = content[: data.draw(st.integers(0, len(content)))]
    for _ in range(data.draw(st.integers(1, 5))):
        if content:
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content)
    back, line = outcome(lambda: load_benchmark(path))
    assert "\n" not in line
    assert back or line


# -- damage to files of version 0.1 --------------------------------------------------------------------------------


@pytest.fixture
def old(tmp_path):
    return write_bundle(load_own(path_graphs(12)), tmp_path / OLD)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"meta": None}, "no 'meta' array"),
        ({"meta": np.frombuffer(b"[1", np.uint8)}, "not valid JSON"),
        ({"meta": np.frombuffer(b"[1]", np.uint8)}, "list"),
        ({"meta": np.frombuffer(b'{"format": "other"}', np.uint8)}, "'other' version None"),
        ({"train.x": None}, "the train split has no x"),
        ({"train.x": np.zeros((2, 1), np.int16)}, "node_ptr"),
        ({"train.y": np.zeros((2, 2, 2), np.float32)}, "shape"),
        ({"val.x": np.array([["a"]])}, "only plain numbers"),
    ],
)
def test_arrays_that_are_wrong(old, changes, words):
    arrays = {**dict(np.load(old)), **changes}
    np.savez(old, **{k: v for k, v in arrays.items() if v is not None})
    with one_line(OLD, words):
        load_benchmark(old)


def test_pickles_are_refused(tmp_path):
    path = tmp_path / OLD
    np.savez(path, meta=np.array([{"a": 1}], dtype=object))
    with one_line(OLD, "object", "only plain numbers"):
        load_benchmark(path)


def test_bombs_are_refused(tmp_path, monkeypatch):
    path = tmp_path / OLD
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("meta.npy", bytes(100_000_000))
    assert path.stat().st_size < 200_000
    with one_line("would take 100,000,000 bytes of memory", "GNAS_MAX_MEMORY=1GB"):
        load_benchmark(path)
    with pytest.raises(BrokenFile, match="would take 100,000,000 bytes of memory"):
        read_npz(path)
    monkeypatch.setenv("GNAS_MAX_MEMORY", "10")
    with one_line("allowed are 10;"):
        load_benchmark(write_bundle(gnas.load("digits"), path))
    monkeypatch.setenv("GNAS_MAX_MEMORY", "1 GB")
    load_benchmark(path)
    monkeypatch.setenv("GNAS_MAX_MEMORY", "much")
    with one_line("GNAS_MAX_MEMORY is 'much'; write it as"):
        load_benchmark(path)


def test_headers_that_claim_more_than_there_is(tmp_path):
    path = tmp_path / OLD
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": (2**40, 2**40)})
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("meta.npy", file.getvalue())
    with one_line("cut short"):
        load_benchmark(path)
