"""Exported programs: torch.export and ONNX give what the exported module gives, for any number of nodes, edges and graphs."""

import dataclasses
import io
import json
import subprocess
import sys
import types
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from trained import CLASSES, hand_made, keep, network, refused

import gnas
from gnas.arch import gap
from gnas.arch.genotype import Genotype
from gnas.arch.operation import AGGREGATORS, MESSAGES
from gnas.arch.recipes import expand_recipe
from gnas.arch.stack import Stack
from gnas.data.own.load import encode_graphs
from gnas.model.network import GraphModule
from gnas.model.task import Task
from gnas.use.export import export_run
from gnas.use.export_card import TORCH
from gnas.use.export_program import AXES, sample_inputs
from gnas.use.predict import predict

BONDS = Task("graph", "regression", 2, categories=(5, 3), edge_categories=(4, 2), center=(1.0, 2.0), scale=(3.0, 4.0))
WHOLE = dataclasses.replace(BONDS, walks=5, laplacian=3, edge_walks=4, graph_channels=3)
MEASURED = Task(
    "graph",
    "classification",
    3,
    in_channels=4,
    structure=("size", "degree"),
    structure_center=(1.5, 0.25),
    structure_scale=(0.5, 2.0),
)
SIZES = ((5, 4, 3), (7, 2, 2, 9, 3), (6,), (1,))  # nodes of each graph; a single node has no edges
MOLECULES = ["CCO", "c1ccccc1O", "[Na+].[Cl-]", "C", "CC(=O)N[C@@H](C)C(=O)O", "C1CC1C#N"]


def every_operation() -> Genotype:
    """Each aggregator and each message twice, in different pairs."""
    count = len(AGGREGATORS)
    names = [f"{a}({MESSAGES[(k + shift) % len(MESSAGES)]})" for shift in (0, 2) for k, a in enumerate(AGGREGATORS)]
    return gap.genotype([f"[dense | {' | '.join(part)}]" for part in (names[:count], names[count:])], None, "bare")


HAND_MADE = {  # networks of the benchmark: a task of each, with columns of edges, encodings and features of graphs
    "gatedgcn": WHOLE,
    "gin": WHOLE,
    "gat": dataclasses.replace(BONDS, level="node"),
    "monet": dataclasses.replace(BONDS, level="edge"),
    "gcn": Task("link", "multilabel", 1, in_channels=4),
    "graphsage": MEASURED,
}
CASES: dict[str, tuple[Task, Genotype]] = {
    "every-operation": (BONDS, every_operation()),
    "encodings": (WHOLE, expand_recipe("gatedgcn+", 1)),
    "mean-max": (MEASURED, dataclasses.replace(gap.genotype("[sparse | max(dense)]"), stack=Stack(readout="mean_max"))),
    "nodes": (dataclasses.replace(WHOLE, level="node", graph_channels=0), expand_recipe("gatv2", 1)),
    "edges": (dataclasses.replace(BONDS, level="edge"), expand_recipe("pna", 1)),
    "links": (Task("link", "multilabel", 1, in_channels=4), expand_recipe("gcn+", 1)),
}


NAMES = (*CASES, *HAND_MADE)


def build(name: str) -> GraphModule:
    """The network of a case. A second layer repeats the first one's program, unless edges go on to it or the last one differs."""
    if name in CASES:
        return network(*CASES[name])
    return hand_made(name, HAND_MADE[name], layers=2 if name in ("gatedgcn", "gat") else 1)


def load_module(folder: Path) -> types.ModuleType:
    module = types.ModuleType("model")
    module.__file__ = str(folder / "model.py")
    exec(compile((folder / "model.py").read_text(), "model.py", "exec"), module.__dict__)
    return module


def make_inputs(net: GraphModule, sizes: tuple[int, ...]) -> dict[str, Tensor]:
    found = sample_inputs([net], sizes)
    if sizes == (1,):
        found["edge_index"] = found["edge_index"][:, :0]
        found |= {name: value[:0] for name, value in found.items() if AXES[name] == (0, "edges")}
    return found


class Programs(dict[tuple[str, str], Path]):
    """Folders of cases by name and format. Each is exported when a test first reads it: a worker has some of the tests only."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self.root = root

    def __missing__(self, key: tuple[str, str]) -> Path:
        name, form = key
        run = self.root / f"run-{name}"
        if not run.exists():
            keep(run, build(name))
        self[key] = export_run(run, self.root / f"{name}-{form}", format=form)
        return self[key]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Programs:
    """All cases in both formats."""
    return Programs(tmp_path_factory.mktemp("programs"))


@pytest.mark.parametrize("name", NAMES)
def test_a_torch_program_gives_what_the_module_gives(programs: Programs, name: str) -> None:
    folder = programs[name, "torch"]
    program = torch.export.load(io.BytesIO((folder / "model.pt2").read_bytes())).module()
    model = load_module(folder).load(folder)
    for sizes in SIZES:
        given = make_inputs(build(name), sizes)
        torch.testing.assert_close(program(**given), model(**given), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_an_onnx_program_gives_what_the_module_gives(programs: Programs, name: str) -> None:
    onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime runs ONNX programs")
    pytest.importorskip("onnxscript", reason="onnxscript writes ONNX programs")
    folder = programs[name, "onnx"]
    session = onnxruntime.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])
    model = load_module(folder).load(folder)
    for sizes in SIZES:
        given = make_inputs(build(name), sizes)
        expected = model(**given).detach().numpy()
        (out,) = session.run(None, {key: value.numpy() for key, value in given.items()})
        np.testing.assert_allclose(out, expected, atol=1e-5, rtol=1e-5)
        assert sizes == (1,) or len(expected) == 1 or expected.std() > 1e-3, "a constant would hide mistakes"
    shapes = {value.name: value.shape for value in session.get_inputs()}
    assert shapes["edge_index"] == [2, "edges"]
    assert shapes["x"][0] == "nodes"
    rows = {"node": "nodes", "edge": "edges", "link": "pairs", "graph": "graphs"}
    assert session.get_outputs()[0].shape[0] == rows[build(name).task.level]


def test_encodings_are_given_to_a_program(programs: Programs) -> None:
    folder = programs["encodings", "torch"]
    model, program = load_module(folder).load(folder), torch.export.load(folder / "model.pt2").module()
    given = sample_inputs([build("encodings")], (4, 6))
    computed = model.encodings(given["edge_index"], given["batch"])
    plain = {name: value for name, value in given.items() if name not in computed}
    torch.testing.assert_close(program(**plain, **computed), model(**plain), atol=1e-5, rtol=1e-5)
    card = (folder / "README.md").read_text()
    assert "The program does not compute `node_walks`, `laplacian` and `edge_walks`" in card
    assert "load().encodings(edge_index, batch)" in card
    assert "The number of edges, graphs and nodes may differ" in card


def test_the_card_says_which_versions_read_a_program(programs: Programs) -> None:
    declared = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    assert f'"torch>={TORCH}"' in declared
    card = (programs[NAMES[0], "torch"] / "README.md").read_text()
    assert f"It was written by torch {torch.__version__.partition('+')[0]}, " in card
    onnx = pytest.importorskip("onnx", reason="onnx reads the version of a program")
    folder = programs[NAMES[0], "onnx"]
    model = onnx.load(folder / "model.onnx")
    versions = f"ONNX opset {model.opset_import[0].version} and IR version {model.ir_version}"
    assert versions in (folder / "README.md").read_text()


def test_the_format_is_checked(tmp_path: Path) -> None:
    keep(tmp_path / "run", network())
    assert "unknown format 'onxn'" in refused(export_run, tmp_path / "run", tmp_path / "out", format="onxn")
    assert not (tmp_path / "out").exists()


# -- what reads new data ----------------------------------------------------------------------------------------------


@pytest.fixture
def molecules(tmp_path: Path) -> Path:
    pytest.importorskip("rdkit")
    data = gnas.load(MOLECULES * 5, y=np.arange(30) / 7, descriptors="rdkit")
    keep(tmp_path / "run", network(data.task, expand_recipe("gin+", 2)), encoding=data.encoding)
    return export_run(tmp_path / "run", tmp_path / "out")


def outside(folder: Path, code: str) -> str:
    """What a process in the folder prints that cannot import this package."""
    blocked = "import sys; sys.path.insert(0, '.'); sys.modules['gnas'] = None; sys.modules['torch_geometric'] = None\n"
    done = subprocess.run(
        [sys.executable, "-I", "-c", blocked + code], cwd=folder, capture_output=True, text=True, check=False
    )
    return done.stdout if done.returncode == 0 else done.stderr


def test_an_exported_folder_reads_smiles_without_this_package(molecules: Path) -> None:
    code = f"from model import load; from molecules import read; print(load()(**read({MOLECULES})).tolist())"
    np.testing.assert_allclose(json.loads(outside(molecules, code)), predict(molecules, MOLECULES).values, rtol=1e-4)
    bad = outside(molecules, "from molecules import read; read(['CCO', 'C('])")
    assert "ValueError: the SMILES 'C(' does not parse" in bad
    unseen = outside(molecules, "from molecules import read; print(read(['CC[Se]C'])['x'][2, 0].item())")
    columns = json.loads((molecules / "model.json").read_text())["encoding"]["nodes"]
    assert int(unseen) == columns[0]["size"] - 1  # the category for other values


def test_a_number_that_train_lacks_is_other_outside_too(tmp_path: Path) -> None:
    """No atom of train has two hydrogens, one or none; the atoms of the new molecules have them."""
    pytest.importorskip("rdkit")
    data = gnas.load(["C", "CC"] * 10, y=np.arange(20) / 7)
    keep(tmp_path / "run", network(data.task, expand_recipe("gin+", 2)), encoding=data.encoding)
    folder = export_run(tmp_path / "run", tmp_path / "out")
    new = ["CCC", "CC(C)C", "CC(C)(C)C", "CC"]
    code = f"from molecules import read; found = read({new}); print([found[n].tolist() for n in ('x', 'edge_attr')])"
    graphs = encode_graphs(new, data.encoding, data.task).graphs
    x, edge_attr = json.loads(outside(folder, code))
    assert x == graphs.x.tolist()
    assert {row[4] for row in x} == {3, 5}, "the network saw three and four hydrogens"
    assert sorted(edge_attr) == sorted(graphs.edge_attr.tolist())
    assert "| 4 | hydrogens | 6 categories: 3, 4 as they are, other = 5 |" in (folder / "README.md").read_text()


def post(address: str, content: object) -> tuple[int, dict]:
    request = urllib.request.Request(address, json.dumps(content).encode())
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def serve(folder: Path) -> tuple[subprocess.Popen, str]:
    process = subprocess.Popen(
        [sys.executable, "serve.py", "0"], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdout is not None
    return process, process.stdout.readline().decode().strip()


def test_the_server_answers_smiles(molecules: Path) -> None:
    process, address = serve(molecules)
    try:
        assert address.startswith("http://127.0.0.1:")
        code, answer = post(address, {"smiles": MOLECULES})
        assert code == 200
        np.testing.assert_allclose(answer["predictions"], predict(molecules, MOLECULES).values, rtol=1e-4)
        assert post(address, {"smiles": ["C("]}) == (400, {"error": "ValueError: the SMILES 'C(' does not parse"})
        assert post(address, ["C"])[0] == 400
    finally:
        process.kill()
        process.wait()


def test_the_server_answers_graphs(tmp_path: Path) -> None:
    keep(tmp_path / "run", network(CLASSES))
    folder = export_run(tmp_path / "run", tmp_path / "out")
    process, address = serve(folder)
    try:
        graph = {"x": [[0, 1], [4, 2], [1, 1]], "edge_index": [[0, 1, 2], [1, 2, 0]]}
        code, answer = post(address, {"graphs": [graph, graph]})
        assert (code, answer["names"]) == (200, ["low", "mid", "high"])
        found = np.array(answer["predictions"])
        model = load_module(folder).load(folder)
        expected = model(torch.tensor(graph["x"]), torch.tensor(graph["edge_index"])).softmax(-1).detach()
        np.testing.assert_allclose(found, torch.cat([expected, expected]), rtol=1e-4)
        code, answer = post(address, {"graphs": [{"x": [[0, 1]], "edge_index": [[0], [1]]}]})
        assert (code, "numbers of nodes, 0 to 0" in answer["error"]) == (400, True)
    finally:
        process.kill()
        process.wait()


def test_the_readers_pass_the_linter_and_need_no_formatting(molecules: Path, tmp_path: Path) -> None:
    keep(tmp_path / "other", network(CLASSES))
    folders = [molecules, export_run(tmp_path / "other", tmp_path / "graphs")]
    rules = ["--isolated", "--line-length=120", "--target-version=py310"]
    for command in (["check", *rules, "--select=F,W,I,UP,SIM,C4,PIE,RET"], ["format", *rules, "--diff"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, *map(str, folders)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout
