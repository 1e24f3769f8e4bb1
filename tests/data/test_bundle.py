"""A bundle is read back exactly, holds no pickles, and a damaged or hostile one is an error line."""

import dataclasses
import io
import json
import zipfile

import numpy as np
import pytest
import torch
from builders import citation_graph, one_line, outcome, path_graphs, write_folder, write_smiles
from hypothesis import given, settings
from hypothesis import strategies as st

from gnas.data.own.bundle import TENSORS, pack, read_arrays, unpack
from gnas.data.own.custom import encode, load_custom


def assert_same(a, b):
    assert (a.name, a.task, a.task.labels, a.source, a.notes) == (b.name, b.task, b.task.labels, b.source, b.notes)
    assert a.encoding == b.encoding
    for one, other in zip(a.splits().values(), b.splits().values(), strict=True):
        assert one.level == other.level
        for field in TENSORS:
            x, y = getattr(one, field), getattr(other, field)
            assert (x is None) == (y is None), field
            if x is not None:
                assert x.dtype == y.dtype
                assert torch.equal(x.nan_to_num(-9), y.nan_to_num(-9)), field


@pytest.fixture(params=["list", "transductive", "tables", "smiles", "unlabelled"])
def benchmark(request, tmp_path):
    if request.param == "list":
        return load_custom(path_graphs(pos=None, edge_attr=None), name="paths")
    if request.param == "transductive":
        return load_custom(citation_graph(columns=2))
    if request.param == "tables":
        return load_custom(write_folder(tmp_path / "own"))
    if request.param == "smiles":
        pytest.importorskip("rdkit")
        return load_custom(write_smiles(tmp_path / "mols.csv"))
    y = torch.rand(30)
    y[::4] = torch.nan
    return load_custom(citation_graph().update({"y": y}))


@pytest.mark.parametrize("compress", [False, True])
def test_round_trip(benchmark, tmp_path, compress):
    path = pack(benchmark, tmp_path / "b.npz", compress=compress)
    back = load_custom(path)
    assert_same(benchmark, back)
    assert (back.train.x is back.val.x) == (benchmark.train.x is benchmark.val.x)
    assert (back.train.mask is back.val.mask) == (benchmark.train.mask is None)


def test_the_same_benchmark_gives_the_same_bytes(benchmark, tmp_path):
    one, other = (pack(benchmark, tmp_path / name).read_bytes() for name in ("a.npz", "b.npz"))
    assert one == other


def test_new_data_is_encoded_the_same_from_a_bundle(tmp_path):
    pytest.importorskip("rdkit")
    b = load_custom(write_smiles(tmp_path / "mols.csv"))
    back = unpack(pack(b, tmp_path / "b.npz"))
    assert torch.equal(
        encode(["CCCl"], b.encoding, b.task).graphs.x, encode(["CCCl"], back.encoding, back.task).graphs.x
    )


def test_numpy_reads_it_without_pickles(benchmark, tmp_path):
    with np.load(pack(benchmark, tmp_path / "b.npz"), allow_pickle=False) as file:
        assert json.loads(bytes(file["meta"]))["format"] == "gnas-bundle"
        assert all(file[name].dtype != object for name in file.files)


def test_writing_leaves_no_half_file(benchmark, tmp_path, monkeypatch):
    path = pack(benchmark, tmp_path / "b.npz")
    before = path.read_bytes()
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError("disk")))
    with pytest.raises(OSError, match="disk"):
        pack(dataclasses.replace(benchmark, name="other"), path)
    assert path.read_bytes() == before
    assert not list(tmp_path.glob(".b.npz*"))


def test_dtypes_a_bundle_does_not_take(tmp_path):
    b = load_custom(citation_graph())
    with one_line("train.x", "bfloat16"):
        pack(dataclasses.replace(b, train=dataclasses.replace(b.train, x=b.train.x.bfloat16())), tmp_path / "b.npz")


# -- damage --------------------------------------------------------------------------------------------------------


@pytest.fixture
def packed(tmp_path):
    return pack(load_custom(path_graphs(12)), tmp_path / "b.npz")


def rewrite(path, **changes):
    """Write the bundle again with some arrays changed, or left out where None."""
    arrays = {**read_arrays(path), **changes}
    np.savez(path, **{k: v for k, v in arrays.items() if v is not None})


def change_meta(path, **changes):
    meta = {**json.loads(bytes(read_arrays(path)["meta"])), **changes}
    rewrite(path, meta=np.frombuffer(json.dumps(meta).encode(), np.uint8))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"meta": None}, "no 'meta' array"),
        ({"meta": np.frombuffer(b"[1", np.uint8)}, "not JSON"),
        ({"meta": np.frombuffer(b"[" * 100_000, np.uint8)}, "not JSON"),
        ({"meta": np.frombuffer(b"[1]", np.uint8)}, "list"),
        ({"train.x": None}, "the train split has no x"),
        ({"train.x": np.zeros((2, 1), np.int16)}, "node_ptr"),
        ({"train.y": np.zeros((2, 1), np.float32)}, "y has the shape [2, 1]"),
        ({"train.y": np.zeros((2, 2, 2), np.float32)}, "shape"),
        ({"val.x": np.array([["a"]])}, "only plain numbers"),
        ({"val.edge_index": np.zeros((2, 4), np.int64) - 1}, "edge"),
    ],
)
def test_arrays_that_are_wrong(packed, changes, words):
    rewrite(packed, **changes)
    with one_line("b.npz", words):
        unpack(packed)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"format": "other"}, "format 'other'"),
        ({"version": 99}, "version 99"),
        ({"splits": {"train": {}}}, "no x"),
        ({"splits": []}, "list"),
        ({"task": None}, "NoneType"),
        ({"task": {"level": "planet"}}, "task"),
        ({"encoding": {"source": 1}}, "not an encoding"),
    ],
)
def test_words_that_are_wrong(packed, changes, words):
    change_meta(packed, **changes)
    with one_line(words):
        unpack(packed)


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
    task = json.loads(bytes(read_arrays(packed)["meta"]))["task"]
    change_meta(packed, task={**task, **change})
    with one_line():
        unpack(packed)


def test_pickles_are_refused(tmp_path):
    path = tmp_path / "b.npz"
    np.savez(path, meta=np.array([{"a": 1}], dtype=object))
    with one_line("b.npz", "object", "only plain numbers"):
        unpack(path)


def test_bombs_are_refused(tmp_path):
    path = tmp_path / "b.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("meta.npy", bytes(100_000_000))
    assert path.stat().st_size < 200_000
    with one_line("would unpack to 100,000,000 bytes", "refused"):
        unpack(path)


def test_headers_that_claim_more_than_there_is(tmp_path):
    path = tmp_path / "b.npz"
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": (2**40, 2**40)})
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("meta.npy", file.getvalue())
    with one_line("cut short"):
        unpack(path)
    with one_line("refused"):
        unpack(path, max_bytes=10)


def test_no_file(tmp_path):
    with one_line("b.npz", "No such file"):
        unpack(tmp_path / "b.npz")


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_damaged_bytes_are_an_error_line_or_harmless(tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "damaged.npz"
    content = bytearray(pack(load_custom(path_graphs(6)), path).read_bytes())
    if data.draw(st.booleans()):
        content = content[: data.draw(st.integers(0, len(content)))]
    for _ in range(data.draw(st.integers(1, 5))):
        if content:
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content)
    back, line = outcome(lambda: unpack(path))
    assert "\n" not in line
    assert back or line
