"""Sources and prepared files: what is tried in which order, and what is said when something is missing or broken."""

from __future__ import annotations

import errno
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
import torch
from builders import change_facts
from terminal import gnas, one_line
from torch_geometric.data import Data

from gnas.data import load
from gnas.data.benchmarks import DATASETS, PUBLISHED, find_edge_fault, prepare_benchmark, sources
from gnas.data.benchmarks.sources import cache_folder, find_data_root
from gnas.data.cache import user_cache
from gnas.data.storage import read_arrays, write_arrays
from gnas.errors import InputError
from gnas.tensors import write_tensors

pytestmark = pytest.mark.usefixtures("own_cache")


def test_the_data_root_is_the_argument_then_the_variable_then_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_cache: Path
) -> None:
    monkeypatch.delenv("GNAS_DATA", raising=False)
    assert find_data_root() == user_cache() == own_cache
    monkeypatch.setenv("GNAS_DATA", str(tmp_path / "named"))
    assert find_data_root() == tmp_path / "named"
    assert find_data_root(tmp_path / "asked") == tmp_path / "asked"


@pytest.mark.usefixtures("few")
def test_a_prepared_file_of_version_0_1_is_read_and_stored_anew(tmp_path: Path) -> None:
    good = load("pattern", data_root=tmp_path)
    path = tmp_path / "pattern/pattern.safetensors"
    arrays, _ = read_arrays(path)
    np.savez(path.with_suffix(".npz"), format=np.array(1), about=np.array("{}"), **arrays)
    path.unlink()
    old = load("pattern", data_root=tmp_path)
    assert old.source == "prepared: pattern/pattern.npz"
    assert old.fingerprint == good.fingerprint
    assert load("pattern", data_root=tmp_path).source.startswith("prepared: pattern/pattern.safetensors (from prepared")


@pytest.mark.usefixtures("few")
def test_a_generated_benchmark_is_kept_and_read_back(tmp_path: Path) -> None:
    first, again = (load("pattern", data_root=tmp_path) for _ in range(2))
    assert first.source == "generator: drawn from the seed"
    assert again.source == "prepared: pattern/pattern.safetensors (from generator: drawn from the seed)"
    for a, b in zip(first.splits().values(), again.splits().values(), strict=True):
        assert torch.equal(a.edge_index, b.edge_index)
        assert torch.equal(a.x, b.x)
        assert torch.equal(a.y, b.y)
    other = load("pattern", data_root=tmp_path, seed=1)
    assert not torch.equal(other.train.node_ptr, first.train.node_ptr)
    assert (tmp_path / "pattern/pattern-seed1.safetensors").is_file()


@pytest.mark.usefixtures("few")
def test_preparing_a_file_that_cannot_be_written_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``gnas data prepare`` ended well, and the file was not there. Who only loads the data can do without it."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(sources, "write_arrays", full)
    assert "not stored for the next time" in str(load("pattern", data_root=tmp_path).notes)
    one_line(gnas("data", "prepare", "pattern", "--data-root", tmp_path), 1, "No space left on device")


@pytest.mark.usefixtures("few")
def test_a_read_only_root_is_left_alone(tmp_path: Path, own_cache: Path) -> None:
    root = tmp_path / "data"
    (root / "cluster").mkdir(parents=True)
    (root / "cluster").chmod(0o555)
    root.chmod(0o555)
    assert cache_folder(root, "cluster") == own_cache / "cluster"
    assert prepare_benchmark("cluster", data_root=root).path == own_cache / "cluster/cluster.safetensors"
    assert list((root / "cluster").iterdir()) == []
    assert load("cluster", data_root=root).source.startswith("prepared")


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("fault", ["cut", "flip", "other", "format", "short"])
def test_a_broken_prepared_file_is_said_and_built_again(fault: str, tmp_path: Path) -> None:
    good, path = load("cluster", data_root=tmp_path), tmp_path / "cluster/cluster.safetensors"
    content = bytearray(path.read_bytes())
    if fault == "cut":
        path.write_bytes(content[: len(content) // 2])
    elif fault == "flip":
        content[len(content) // 2] ^= 0xFF
        path.write_bytes(content)
    elif fault == "other":
        write_tensors(path, "gnas-checkpoint-1", "{}", {"x": torch.arange(3)})
    else:
        arrays, about = read_arrays(path)
        arrays = {k: v for k, v in arrays.items() if k != "val.source"} if fault == "short" else arrays
        write_arrays(path, arrays, about)
        if fault == "format":
            tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
            write_tensors(path, "gnas-arrays-99", "{}", tensors)
    with pytest.warns(UserWarning, match="built again"):
        mended = load("cluster", data_root=tmp_path)
    assert mended.source.startswith("generator")
    assert "built again" in mended.notes[0]
    assert torch.equal(mended.train.edge_index, good.train.edge_index)
    assert load("cluster", data_root=tmp_path).source.startswith("prepared")


def test_a_file_with_pickles_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mnist/mnist_superpixels.npz"
    path.parent.mkdir()
    np.savez(path, train_node_ptr=np.array([{"a": 1}], dtype=object))
    with pytest.raises(InputError, match="pickle"):
        load("mnist", data_root=tmp_path)


@pytest.mark.parametrize("name", ["zinc", "mnist", "cifar10"])
def test_without_any_source_the_error_says_what_to_put_where(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        load(name, data_root=tmp_path)
    text = str(error.value)
    assert str(tmp_path) in text
    assert f"{name}/" in text
    assert "data_root" in text
    assert "\n" not in text


def graph(n: int, **columns: torch.Tensor) -> Data:
    ring = torch.arange(n)
    edge_index = torch.stack([torch.cat([ring, ring.roll(1)]), torch.cat([ring.roll(1), ring])])
    return Data(edge_index=edge_index, **columns)


def fake(name: str, split: str, folder: Path) -> Iterable[Data]:
    """What PyG's classes hand out, in small."""
    for n in (12, 14):
        if name == "zinc":
            bonds = torch.ones(2 * n, dtype=torch.long)
            yield graph(n, x=torch.full((n, 1), 3), edge_attr=bonds, y=torch.tensor([0.5]))
        elif name == "mnist":
            spots = torch.stack([torch.arange(n) / n, torch.arange(n) / n / 2], 1)
            yield graph(n, x=torch.full((n, 1), 0.5), pos=spots, y=torch.tensor([7]))
        else:
            yield graph(n, x=torch.eye(3)[torch.arange(n) % 3], y=torch.arange(n) % 2)


@pytest.mark.parametrize("name", ["zinc", "pattern", "mnist"])
def test_a_download_is_the_third_source(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "fetch_with_pyg", fake)
    change_facts(monkeypatch, name, graphs=(2, 2, 2))
    benchmark = load(name, data_root=tmp_path, download=True)
    assert benchmark.source.startswith("download")
    assert benchmark.train.node_counts.tolist() == [12, 14]
    assert load(name, data_root=tmp_path).source.startswith("prepared")
    if name == "zinc":
        assert benchmark.train.edge_attr is not None
        assert benchmark.train.edge_attr.tolist() == [1] * 52
    if name == "pattern":
        assert benchmark.train.x[:4, 0].tolist() == [0, 1, 2, 0]
        assert find_edge_fault(benchmark.train, symmetric=True) == ""
    if name == "mnist":  # our edges, not those that were downloaded
        assert benchmark.train.edge_counts.tolist() == [96, 112]
        assert benchmark.train.x[1].tolist() == pytest.approx([0.5, 1 / 12, 1 / 24], abs=1e-4)


@pytest.mark.usefixtures("few")
def test_a_failing_download_gives_way_to_the_generator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str, split: str, folder: Path) -> Iterable[Data]:
        raise OSError("no network\nat all")

    monkeypatch.setattr(sources, "fetch_with_pyg", fail)
    assert load("pattern", data_root=tmp_path, download=True).source.startswith("generator")
    with pytest.raises(InputError, match=r"download failed \(cannot download zinc: no network\)"):
        load("zinc", data_root=tmp_path, download=True)


def test_sources_come_in_the_order_prepared_raw_download_generator() -> None:
    order = ["prepared", "raw", "download", "generator"]
    for name in PUBLISHED:
        kinds = [order.index(source.kind) for source in DATASETS[name].sources]
        assert kinds == sorted(kinds)
