"""Imports point one way, the values are free of torch, and importing the package is quick and silent."""

import ast
import resource
import subprocess
import sys
from pathlib import Path

import pytest

import gnas

PACKAGE = Path(gnas.__file__).parent

# Files and folders in import order: each may import only from those before it, and from its own folder.
ORDER = [
    *(
        "printed",
        "errors",
        "fields",
        "files",
        "leases",
        "arch",
        "plugins",
        "distributed",
        "graph",
        "tensors",
        "kernels",
        "model",
    ),
    *("data", "run"),
    *("training", "jobs", "strategies", "compare", "workflow", "folds", "cost", "use", "report", "paper", "cli"),
]
TORCH_FREE = (
    "printed",
    "errors",
    "fields",
    "files",
    "leases",
    "arch",
)  # what a network is, as values


def files() -> list[Path]:
    return [path for path in sorted(PACKAGE.rglob("*.py")) if path != PACKAGE / "__init__.py"]


def part(path: Path) -> str:
    """The line of ORDER a file belongs to."""
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imported(path: Path) -> set[str]:
    """Every module a file imports anywhere in it, with full names."""
    names = set()
    here = ["gnas", *path.relative_to(PACKAGE).with_suffix("").parts]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = [*here[: -node.level], node.module] if node.level else [node.module]
            module = ".".join(filter(None, base))
            names |= {f"{module}.{alias.name}" for alias in node.names} if module == "gnas" else {module}
    return names


def inner(path: Path) -> set[str]:
    """The lines of ORDER a file imports from."""
    return {name.split(".")[1] for name in imported(path) if name.startswith("gnas.")}


def test_every_file_has_its_place() -> None:
    missing = {part(path) for path in files()} - set(ORDER) - {"__main__"}
    assert not missing, f"add to ORDER in this file: {', '.join(sorted(missing))}"
    assert len(ORDER) == len(set(ORDER))


def test_imports_point_one_way() -> None:
    wrong = []
    for path in files():
        mine = part(path)
        if mine not in ORDER:
            continue
        allowed = {mine, *ORDER[: ORDER.index(mine)]}
        wrong += [f"{path.relative_to(PACKAGE)} imports {name}" for name in sorted(inner(path) - allowed)]
    assert not wrong, "; ".join(wrong)


def torch_free_files() -> list[Path]:
    """The modules of TORCH_FREE."""
    return [path for path in files() if part(path) in TORCH_FREE]


def test_the_values_import_no_torch() -> None:
    assert set(TORCH_FREE) == set(ORDER[: len(TORCH_FREE)])
    assert len(torch_free_files()) > 8
    for path in torch_free_files():
        outside = {name.split(".")[0] for name in imported(path)}
        assert not outside & {"torch", "torch_geometric"}, path


def test_the_values_work_where_torch_is_not_installed() -> None:
    modules = [".".join(path.relative_to(PACKAGE).with_suffix("").parts) for path in torch_free_files()]
    present = [name.removesuffix(".__init__") for name in modules]
    code = f"""
import importlib, sys, types
for name in ("torch", "torch_geometric"):
    sys.modules[name] = None  # an import of it now fails
package = types.ModuleType("gnas")
package.__path__ = [{str(PACKAGE)!r}]
sys.modules["gnas"] = package
for name in {present!r}:
    importlib.import_module("gnas." + name)
from gnas.arch.gap import approximate
print(approximate("gatedgcn", 1).formulas()[0])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[identity | dense(sum(dense))]\n", "")


def test_a_search_and_a_training_import_neither_pyg_nor_the_compiler() -> None:
    """Two thirds of all modules, half of the time before the first step; who uses them imports them.

    A race also builds every hand-made network, to count its weights. scikit-learn is imported after the last step, for the
    metrics of the result.
    """
    code = """
import sys
import gnas
benchmark = gnas.load("molecules-mini")
found = gnas.search(benchmark, strategy=gnas.SingleLevel(epochs=1), channels=4, num_cells=1).genotype
def look(record):
    seen.update(sklearn="sklearn" in sys.modules, modules=len(sys.modules))
seen = {}
gnas.train(lambda: gnas.Network(found, benchmark.task, 4), benchmark, gnas.TrainConfig(epochs=1), on_epoch=look)
for name in gnas.baselines.HAND_MADE:
    gnas.baselines.build_baseline(name, benchmark.task, num_layers=2, budget=20_000)
unwanted = {"torch_geometric", "torch._dynamo", "sympy"} & set(sys.modules)
print(sorted(unwanted), seen["sklearn"], seen["modules"] < 1800)
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[] False True\n", "")


def test_import_is_quick_and_silent() -> None:
    seconds = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run([sys.executable, "-c", "import gnas"], capture_output=True, text=True, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        seconds.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
        if seconds[-1] < 3:
            break
    assert min(seconds) < 3


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("import torch.nn as nn", {"torch.nn"}),
        ("from gnas import graph, errors", {"gnas.graph", "gnas.errors"}),
        ("def f():\n    from gnas.model.cell import Cell", {"gnas.model.cell"}),
        ("from . import cpu", {"gnas.aggregate"}),
        ("from ..graph import Neighbors", {"gnas.graph"}),
    ],
)
def test_the_reader_of_imports_sees_them_all(
    text: str, wanted: set, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "PACKAGE", tmp_path)
    (tmp_path / "aggregate").mkdir()
    path = tmp_path / "aggregate" / "triton_kernels.py"
    path.write_text(text, encoding="utf-8")
    assert imported(path) == wanted
