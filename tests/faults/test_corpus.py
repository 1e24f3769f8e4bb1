"""Inputs that reached new lines of a reader in benchmarks/guided.py: each is read, or refused in one line."""

from __future__ import annotations

import warnings
import zipfile
from pathlib import Path

import pytest
from corpora import FORMS, refusal, seeds

CORPUS = Path(__file__).parents[1] / "kept" / "corpus"


@pytest.mark.parametrize("reader", FORMS)
def test_every_kept_input(tmp_path: Path, reader: str) -> None:
    if reader == "smiles":
        pytest.importorskip("rdkit")
    with zipfile.ZipFile(CORPUS / f"{reader}.zip") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        inputs = [archive.read(name) for name in archive.namelist()]
        assert len(inputs) > 5
        assert [said for data in inputs if (said := refusal(FORMS[reader], data, tmp_path))] == []


@pytest.mark.parametrize("reader", FORMS)
def test_the_corpus_grows_from_sound_inputs(tmp_path: Path, reader: str) -> None:
    if reader == "smiles":
        pytest.importorskip("rdkit")
    for data in seeds(reader):
        assert FORMS[reader](data, tmp_path)
