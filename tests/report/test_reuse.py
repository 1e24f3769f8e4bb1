"""The code that a page offers runs, and gives the network of the run."""

import json
from pathlib import Path

import pytest
from folders import real_job

import gnas
from gnas.report.reuse import make_snippets
from gnas.run import checkpoint
from gnas.run.record import read_run


def test_the_code_on_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = real_job(tmp_path / "real")
    monkeypatch.chdir(tmp_path)
    python = [snippet.text for snippet in make_snippets(read_run(real)) if snippet.title.startswith("Python")]
    assert len(python) == 2
    networks = []
    for text in python:
        names: dict = {}
        exec(text, names)
        networks.append(names["network"])
    assert names["genotype"] == read_run(real).genotype
    assert isinstance(networks[0], gnas.Network)
    assert not networks[0].training
    stored = json.loads((real / "trained/gnas/seed-1/result.json").read_text())
    assert networks[0].num_weights() == networks[1].num_weights() == stored["num_weights"]
    weights = checkpoint.load(real / "trained/gnas/seed-1/weights.safetensors")
    assert all((networks[0].state_dict()[name] == value).all() for name, value in weights.items())
