"""Every Python block of the README and the docs runs; every command exists as it is written; every link leads somewhere."""

import importlib.util
import re
import shlex
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch_geometric.loader import DataLoader
from typer.testing import CliRunner

import gnas
from gnas.cli import app
from gnas.run.settings import setting_names

ROOT = Path(__file__).parents[1]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
PAGES += [ROOT / folder / "README.md" for folder in ("benchmarks", "examples")]
SMALL = (
    *("--preset", "fast", "--channels", "4", "--epochs", "1", "--set", "nodes=2", "--set", "strategy_settings.lr=0.05"),
    *("--set", "search_epochs=1", "--set", "search_batch=64", "--set", "seeds=41", "--device", "cpu"),
)
every_page = pytest.mark.parametrize(
    "page", PAGES, ids=lambda page: page.name if page.parent in (ROOT, ROOT / "docs") else page.parent.name
)


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(), re.DOTALL)


def commands(page: Path) -> list[list[str]]:
    """The command lines of a page's shell blocks, in words; variables before a command are left out."""
    lines = [
        line for block in blocks(page, "(?:sh|bash|shell|console)") for line in block.replace("\\\n", " ").splitlines()
    ]
    words = [shlex.split(line, comments=True) for line in lines]
    return [[word for word in line if not re.match(r"[A-Z_]+=", word)] for line in words if line]


def run(words: list[str]) -> None:
    done = CliRunner().invoke(app, words, catch_exceptions=False)
    assert done.exit_code == 0, (words, done.output)


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with the data the pages speak of."""
    monkeypatch.chdir(tmp_path)
    for file in (ROOT / "examples").glob("*.csv"):
        shutil.copy(file, tmp_path)
    return tmp_path


@every_page
@pytest.mark.usefixtures("data", "few_graphs", "no_plots")
@pytest.mark.filterwarnings("ignore:epoch")
def test_code_blocks_run(page: Path) -> None:
    scope = {"__name__": "docs"}
    for number, block in enumerate(blocks(page, "python"), 1):
        exec(compile(block, f"{page.name}, block {number}", "exec"), scope)
    assert scope["__name__"] == "docs"


@every_page
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?://|#)([^)#]+)", page.read_text())
    missing = [link for link in links if not (page.parent / link).exists()]
    assert not missing


@every_page
def test_commands_are_written_as_they_are(page: Path) -> None:
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for program, *words in commands(page):
        if program == "gnas":
            run([*words, "--help"])  # an option that is not there is an error all the same
        elif program == "make":
            assert set(words) <= set(targets), words
        elif program == "python" and words[0] != "-m":
            assert (ROOT / words[0]).is_file(), words


def test_the_map_names_every_folder_and_only_files_that_exist() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    named = re.findall(r"`(gnas/[\w/.]+)`", text)
    assert not [path for path in named if not (ROOT / path).exists()]
    folders = {f"gnas/{path.parent.name}/" for path in (ROOT / "gnas").glob("*/__init__.py")}
    assert folders <= set(named)


@every_page
def test_named_tests_exist(page: Path) -> None:
    """Paths such as ``tests/run/test_folder.py`` and ``tests/run/test_folder.py::test_history`` lead to a file and a function."""
    for path, _, name in re.findall(r"\b(tests/[\w./-]+\.\w+)(::(\w+))?", page.read_text()):
        assert (ROOT / path).is_file(), path
        assert f"def {name}(" in (ROOT / path).read_text() or not name, f"{path}::{name}"


TUTORIALS = {  # files that the commands of a tutorial leave
    "tutorial.md": (
        "runs/mine/report.html",
        "exported/model.py",
        "predictions.csv",
        "architecture.png",
        "explanation.svg",
        "comparison.html",
    ),
    "tutorial-graph.md": ("runs/papers/report.html", "topics.csv", "paper.svg", "pictures/leaderboard.svg"),
    "tutorial-tables.md": (
        "runs/plants/report.html",
        "runs/plants-depth/result.json",
        "fails.csv",
        "plants.safetensors",
    ),
}


@pytest.mark.parametrize("name", TUTORIALS)
def test_a_tutorial_can_be_followed(name: str, data: Path, request: pytest.FixtureRequest) -> None:
    if name != "tutorial.md":  # one draws all plots
        request.getfixturevalue("no_plots")
    page = ROOT / "docs" / name
    for block in blocks(page, "python"):
        if "csv.writer" in block:  # writes the folder that the commands read
            exec(block, {"gnas": gnas})
    for words in (words[1:] for words in commands(page) if words[0] == "gnas"):
        plain = [word for word in words if not re.fullmatch(r"\d+m", word) and word != "--time"]
        quick = ("--strategy", "single-level", "--cells", "2", "--baselines", "gcn") if words[0] == "search" else ()
        small = [*(SMALL if words[0] in ("search", "depth") else ()), *quick]
        run([*plain[:2], *small, *plain[2:]])
    for file in TUTORIALS[name]:
        assert (data / file).is_file(), file
    if name == "tutorial.md":
        assert (data / "runs/again/genotype.yaml").read_text() == (data / "runs/mine/genotype.yaml").read_text()


def test_the_module_of_lightning_trains(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page's block with the least of Lightning: a module, and a trainer that takes steps."""

    class Trainer:
        def __init__(self, max_epochs: int) -> None:
            self.max_epochs = max_epochs

        def fit(self, module: torch.nn.Module, loader: DataLoader) -> None:
            optimizer = module.configure_optimizers()
            for number, batch in enumerate(loader):
                optimizer.zero_grad()
                module.training_step(batch, number).backward()
                optimizer.step()

    monkeypatch.setitem(sys.modules, "lightning", SimpleNamespace(LightningModule=torch.nn.Module, Trainer=Trainer))
    (block,) = [text for text in blocks(ROOT / "docs" / "export.md", "text") if "import lightning" in text]
    data = gnas.load("molecules-mini")
    network = gnas.Network(gnas.gap.approximate("gin", num_cells=1), data.task, channels=4)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    exec(block, {"network": network, "loader": DataLoader([data.train[k] for k in range(8)], batch_size=4)})
    assert any((before[name] != value).any() for name, value in network.named_parameters())


def test_the_example_of_the_tutorial_is_the_file() -> None:
    shown = blocks(ROOT / "docs" / "tutorial.md", "text")[0]
    assert (ROOT / "examples" / "molecules.csv").read_text().startswith(shown)


def test_the_tables_of_settings_are_those_of_the_code() -> None:
    """``python docs/settings_tables.py`` writes them."""
    spec = importlib.util.spec_from_file_location("settings_tables", ROOT / "docs" / "settings_tables.py")
    assert spec is not None
    assert spec.loader is not None
    tables = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tables)
    page = (ROOT / "docs" / "settings.md").read_text()
    assert page == tables.filled(page)
    assert {name for _, name, _ in tables.MARKED.findall(page)} == set(tables.TABLES)
    documented = set(re.findall(r"^\| `(\w+\.\w+)` \|", page, re.M))
    assert documented >= set(setting_names())
