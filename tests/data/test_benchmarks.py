"""The benchmarks by name: their tasks, the list of them, datasets of other packages, and the command ``gnas data``."""

from __future__ import annotations

import dataclasses
import json
import sys
import types
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
import small
import torch
from builders import change_facts, path_graphs
from terminal import gnas as run_gnas
from typer.testing import CliRunner

import gnas
from gnas import plugins
from gnas.cli.commands import data_app
from gnas.data import NAMES, load
from gnas.data.benchmark import SPLIT_NAMES
from gnas.data.benchmarks import check_benchmark, find_edge_fault, find_facts, list_benchmarks
from gnas.data.benchmarks.sources import Request
from gnas.errors import InputError
from gnas.graph import GraphSet

runner = CliRunner()

pytestmark = pytest.mark.usefixtures("own_cache")


def test_names() -> None:
    wanted = {
        "zinc",
        "pattern",
        "cluster",
        "mnist",
        "cifar10",
        "pattern-mini",
        "cluster-mini",
        "digits",
        "molecules-mini",
    }
    assert set(NAMES) == wanted


@pytest.mark.parametrize(
    ("name", "level", "outputs", "inputs", "loss", "metric"),
    [
        ("zinc", "graph", 1, (28,), "l1", "mae"),
        ("pattern", "node", 2, (3,), "weighted_cross_entropy", "class_accuracy"),
        ("cluster", "node", 6, (7,), "weighted_cross_entropy", "class_accuracy"),
        ("mnist", "graph", 10, 3, "cross_entropy", "accuracy"),
        ("cifar10", "graph", 10, 5, "cross_entropy", "accuracy"),
    ],
)
def test_tasks_are_those_of_the_protocol(
    name: str, level: str, outputs: int, inputs: tuple[int] | int, loss: str, metric: str
) -> None:
    task = find_facts(name).task
    found = (task.level, task.num_outputs, task.categories or task.in_channels, task.loss, task.metric)
    assert found == (level, outputs, inputs, loss, metric)


@pytest.mark.parametrize("name", ["zync", "no/such/folder", "", "~nobody/x", "x" * 5000, "a\0b"])
def test_an_unknown_name_lists_the_names(name: str) -> None:
    with pytest.raises(InputError, match=r"zinc, pattern, cluster.*graphs\.csv") as error:
        load(name)
    assert "\n" not in str(error.value)


def test_an_unknown_setting_is_said() -> None:
    with pytest.raises(InputError, match=r"has no option 'colour'.*edge_attr"):
        load("digits", colour=1)
    assert load("digits", metric="class_accuracy").task.metric == "class_accuracy"


def test_cli_list(tmp_path: Path) -> None:
    result = runner.invoke(data_app, ["list", "--data-root", str(tmp_path), "--json"])
    assert result.exit_code == 0
    assert [row["name"] for row in json.loads(result.stdout)["benchmarks"]] == list(NAMES)
    assert "pattern-mini" in runner.invoke(data_app, ["list", "--data-root", str(tmp_path)]).stdout


@pytest.mark.usefixtures("few")
def test_cli_prepare_and_check(tmp_path: Path) -> None:
    root = ["--data-root", str(tmp_path)]
    made = runner.invoke(data_app, ["prepare", "pattern", *root, "--json"])
    assert made.exit_code == 0
    assert json.loads(made.stdout)["file"] == str(tmp_path / "pattern/pattern.safetensors")
    result = runner.invoke(data_app, ["check", "pattern", *root, "--json"])
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert found["ok"]
    assert found["megabytes"] > 0
    assert {f"{split} graphs" for split in SPLIT_NAMES} <= {c["what"] for c in found["checks"]}
    assert runner.invoke(data_app, ["prepare", "digits", "--quiet"]).stdout == ""


def test_cli_check_fails_with_1(monkeypatch: pytest.MonkeyPatch) -> None:
    change_facts(monkeypatch, "molecules-mini", largest=99)
    result = runner.invoke(data_app, ["check", "molecules-mini"])
    assert result.exit_code == 1
    assert "DIFFERS" in result.stdout
    assert "memory" in result.stdout


def test_cli_wrong_name_is_an_input_error() -> None:
    assert isinstance(runner.invoke(data_app, ["check", "zync"]).exception, InputError)
    assert runner.invoke(data_app, ["check"]).exit_code == 2


def test_cli_pack(tmp_path: Path) -> None:
    file = tmp_path / "mini.safetensors"
    result = runner.invoke(data_app, ["pack", "molecules-mini", "-o", str(file), "--json"])
    assert result.exit_code == 0, result.output
    assert file.is_file()
    assert json.loads(result.stdout)["train"] == 400
    old = runner.invoke(data_app, ["pack", "molecules-mini", "-o", str(tmp_path / "mini.npz")])
    assert "name the file mini.safetensors" in str(old.exception)


def test_the_list_names_the_source_that_would_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "zinc").mkdir()
    (tmp_path / "zinc/zinc12k_smiles.csv").touch()
    found = {row.name: row.source for row in list_benchmarks(tmp_path)}
    assert found["zinc"].startswith("raw: zinc/zinc12k_smiles.csv")
    assert found["pattern"] == "generator: drawn from the seed"
    assert found["mnist"] == "none"
    assert found["digits"] == "built in"
    monkeypatch.delenv("GNAS_OFFLINE")
    assert Request("zinc", find_facts("zinc"), tmp_path).download
    assert {row.name: row.source for row in list_benchmarks(tmp_path)}["pattern"].startswith("download")


# -- datasets of other packages ------------------------------------------------------------------------------------


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, object]]:
    """An installed package with datasets: PyG objects, a benchmark, a missing function, and a name of ours."""
    calls: list[dict[str, object]] = []

    def read_paths(**arguments: object) -> list[object]:
        calls.append(arguments)
        return path_graphs(12)

    module = types.ModuleType("outside_package")
    module.read_paths = read_paths  # type: ignore[attr-defined]
    module.read_small = lambda data_root, seed: small.benchmark()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "outside_package", module)
    names = {"paths": "read_paths", "small": "read_small", "broken": "missing", "digits": "read_paths"}
    points = [EntryPoint(name, f"outside_package:{part}", "gnas.datasets") for name, part in names.items()]
    monkeypatch.setattr(plugins, "entry_points", lambda group: [p for p in points if p.group == group])
    return calls


def test_a_dataset_of_another_package_is_loaded_by_name(offered: list[dict[str, object]], tmp_path: Path) -> None:
    benchmark = load("paths", data_root=tmp_path, seed=3, metric="rmse")
    assert offered == [{"data_root": tmp_path, "seed": 3}]
    assert (benchmark.name, benchmark.task.metric, len(benchmark.train)) == ("paths", "rmse", 10)
    assert load("small").fingerprint == small.benchmark().fingerprint


@pytest.mark.usefixtures("offered")
def test_names_of_ours_win_and_all_are_listed(tmp_path: Path) -> None:
    assert load("digits").source == "built in"
    rows = list_benchmarks(tmp_path)
    assert [row.name for row in rows] == [*NAMES, "paths", "small", "broken"]
    assert (rows[-3].graphs, rows[-3].source) == ((), "entry point: outside_package:read_paths")
    with pytest.raises(InputError, match="paths, small, broken; also accepted"):
        load("pahts")
    with pytest.raises(InputError, match=r"gnas.datasets 'broken' \(outside_package:missing\) cannot be imported"):
        load("broken")


@pytest.mark.usefixtures("offered")
def test_commands_take_a_dataset_of_another_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "outside_package:read_paths" in runner.invoke(data_app, ["list", "--json"]).stdout
    ended = run_gnas(
        *("search", "paths", "--preset", "fast", "--cells", "1", "--channels", "4", "--search-epochs", "1"),
        *("--epochs", "1", "--baselines", "none", "--device", "cpu", "--quiet", "--track", "none", "--out", "run"),
    )
    assert ended.code == 0, ended
    assert isinstance(gnas.load_genotype("run/genotype.yaml"), gnas.Genotype)


def small_set(edges: list[tuple[int, int]]) -> GraphSet:
    index = torch.tensor(edges, dtype=torch.int16).T
    return GraphSet(torch.zeros(3, 1), index, torch.tensor([0, 3]), torch.tensor([0, len(edges)]), torch.zeros(1))


@pytest.mark.parametrize(
    ("edges", "fault"),
    [
        ([(1, 0), (0, 1)], ""),
        ([(1, 0), (3, 1)], "out of range"),
        ([(1, 0), (1, 1)], "self-loops"),
        ([(0, 1), (1, 0)], "not sorted"),
        ([(1, 0), (1, 0)], "repeated"),
        ([(1, 0), (0, 1), (2, 1)], "opposite"),
    ],
)
def test_faulty_edges_are_found(edges: list[tuple[int, int]], fault: str) -> None:
    found = find_edge_fault(small_set(edges), symmetric=True)
    assert fault in found
    assert bool(found) == bool(fault)


def test_a_check_notices_missing_nodes() -> None:
    benchmark = load("molecules-mini")
    facts = dataclasses.replace(find_facts("molecules-mini"), nodes=5_000)
    assert [c.what for c in check_benchmark(benchmark, facts) if not c.ok] == ["nodes"]
