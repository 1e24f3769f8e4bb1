"""Molecules from where people keep them, as one table: CSV and SDF files, a pandas DataFrame, lists of SMILES."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from gnas.data.own.csv import Table, read_csv


def read_molecule_file(path: Path) -> Table:
    """Read a file of molecules."""
    return read_csv(path)


def tabulate_smiles(texts: Sequence[str]) -> Table:
    """Texts as a table with the column ``smiles``."""
    cells = np.array([text.encode(errors="replace") for text in texts], np.bytes_)
    return Table("", {"smiles": cells}, np.arange(len(texts)), "SMILES")
