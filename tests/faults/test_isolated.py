"""Processes that gnas starts import nothing from the current folder, on every Python that it supports.

Workers of ``--on ray`` are in tests/jobs/test_ray_cluster.py, whole trainings by local workers in tests/jobs/test_local.py.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from gnas import distributed
from gnas.data import cache
from gnas.data.benchmarks import images
from gnas.data.own import molecules

# Of the standard library and of packages; a process that starts has not imported them.
NAMES = (
    "yaml",
    "json",
    "numpy",
    "torch",
    "pickle",
    "struct",
    "socket",
    "runpy",
    "multiprocessing",
    "tempfile",
    "signal",
)
PYTHONS = ("3.10", "3.11", "3.12", "3.13")


@pytest.fixture
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder holds modules that leave this file if they are imported."""
    place = tmp_path / "place"
    place.mkdir()
    for name in NAMES:
        (place / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write({name!r})\n")
    monkeypatch.chdir(place)
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    return tmp_path / "ran"


def find_python(version: str) -> str | None:
    kept = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    return str(kept[-1]) if kept else shutil.which(f"python{version}")


def test_the_modules_run_where_python_looks_in_the_current_folder(ran: Path) -> None:
    """What the other tests would see."""
    subprocess.run([sys.executable, "-c", "import yaml"], check=True)
    assert ran.read_text() == "yaml"


@pytest.mark.parametrize("version", PYTHONS)
def test_a_process_of_each_python(ran: Path, version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    python = find_python(version)
    if python is None:
        pytest.skip(f"no Python {version} here")
    package = ran.with_name("package") / "alone"
    package.mkdir(parents=True)
    names = [name for name in NAMES if name not in ("yaml", "numpy", "torch")]
    (package / "started.py").write_text(f"def main():\n    import {', '.join(names)}\n    print('started')\n")
    monkeypatch.setattr(distributed, "__file__", str(package / "distributed.py"))
    words = [python, *distributed.start_command("alone.started")[1:]]
    ended = subprocess.run(words, capture_output=True, text=True)
    assert (ended.stdout, ended.stderr) == ("started\n", "")
    assert not ran.exists()


def test_processes_that_compute_descriptors(ran: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """json.py was imported before the current folder was taken out."""
    pytest.importorskip("rdkit")
    monkeypatch.setattr(cache, "available_cores", lambda: 2)
    texts, wanted = ["CCO", "CCN", "c1ccccc1"], molecules.describe_molecules(["CCO", "CCN", "c1ccccc1"])["values"]
    asked = []
    run = subprocess.run
    monkeypatch.setattr(subprocess, "run", lambda *words, **options: asked.append(run(*words, **options)) or asked[-1])
    parts = cache.compute_in_parts(molecules.describe_molecules, texts, 1)
    assert np.array_equal(np.concatenate([part["values"] for part in parts]), wanted, equal_nan=True)
    assert [ended.returncode for ended in asked] == [0, 0]
    assert not ran.exists()


def test_processes_that_prepare_images(ran: Path) -> None:
    """Python starts them with the current folder as the first to import from."""
    pytest.importorskip("skimage")
    raw = Path("data/mnist")
    raw.mkdir(parents=True)
    for prefix in ("train", "t10k"):
        pixels = np.random.default_rng(0).integers(0, 256, 784, dtype=np.uint8).tobytes()
        (raw / f"{prefix}-images-idx3-ubyte").write_bytes(bytes(16) + pixels)
        (raw / f"{prefix}-labels-idx1-ubyte").write_bytes(bytes(9))
    made = images.segment_images("mnist", Path("data"), Path("parts"), workers=2)
    assert made["train"].nodes.size == made["test"].nodes.size == 1
    assert len(list(Path("parts").iterdir())) == 2  # the processes work in the current folder
    assert not ran.exists()
