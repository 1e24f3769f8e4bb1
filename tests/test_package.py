"""The wheel and the sdist: they hold every file of the package, and the wheel works without the repository."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml

import gnas

ROOT = Path(__file__).parents[1]
SMOKE = """
import gnas
assert gnas.__file__.startswith({root!r}), gnas.__file__
print(gnas.__version__, sorted(gnas.load_genotypes("zinc")), len(gnas.load("molecules-mini").train))
from jinja2 import PackageLoader
print(sorted(PackageLoader("gnas.report", "").list_templates()))
"""


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the wheel and the sdist, built from a copy."""
    pytest.importorskip("build", reason="the package build makes wheels")
    source = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(ROOT / "gnas", source / "gnas", ignore=shutil.ignore_patterns("__pycache__"))
    done = subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "."], cwd=source, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return source / "dist"


def package_files() -> set[str]:
    found = (path for path in (ROOT / "gnas").rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(ROOT).as_posix() for path in found}


def test_the_wheel_and_the_sdist_hold_every_file_of_the_package(dist: Path) -> None:
    with zipfile.ZipFile(next(dist.glob("*.whl"))) as wheel:
        assert {name for name in wheel.namelist() if name.startswith("gnas/")} == package_files()
    with tarfile.open(next(dist.glob("*.tar.gz"))) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    assert package_files() <= names
    assert {"pyproject.toml", "README.md", "LICENSE"} <= names


def test_the_wheel_works_without_the_repository(dist: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(next(dist.glob("*.whl"))) as wheel:
        wheel.extractall(tmp_path / "installed")
    root = str(tmp_path / "installed")
    environment = {**os.environ, "PYTHONPATH": root}
    done = subprocess.run(
        [sys.executable, "-c", SMOKE.format(root=root)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{gnas.__version__} [4, 8, 12, 16]")
    assert "template.html" in done.stdout


def test_one_version() -> None:
    declared = re.search(r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text(), re.M)
    assert declared is not None
    assert declared[1] == gnas.__version__ == yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"]
