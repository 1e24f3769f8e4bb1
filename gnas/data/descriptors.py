"""RDKit's two-dimensional descriptors of molecules, about 200 numbers each, computed by one process per core."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gnas.data.atoms import parse_canonical
from gnas.data.cache import cached_by_texts
from gnas.data.encoding import RDKIT, Array
from gnas.data.processes import compute_in_parts
from gnas.data.smiles import import_rdkit

LEFT_OUT = ("Ipc",)  # grows exponentially with the molecule; AvgIpc is its bounded form
FEWEST = 500  # molecules of a process


def list_descriptors() -> list[tuple[str, Any]]:
    """Names and functions of rdkit's descriptors."""
    import_rdkit()
    from rdkit.Chem import Descriptors

    return [(name, function) for name, function in Descriptors.descList if name not in LEFT_OUT]


def compute_descriptors(texts: Sequence[str]) -> dict[str, Array]:
    """Descriptors of molecules by name (``rdkit:TPSA``); NaN where rdkit cannot compute one."""
    import rdkit

    names = [name for name, _ in list_descriptors()]
    key = {"content": "descriptors", "version": 1, "rdkit": rdkit.__version__, "names": names}

    def make() -> dict[str, Array]:
        return {"values": np.concatenate([part["values"] for part in compute_in_parts(compute, texts, FEWEST)])}

    found = cached_by_texts("molecules", key, texts, make)["values"]
    return {f"{RDKIT}{name}": found[:, i] for i, name in enumerate(names)}


def compute(texts: Sequence[str]) -> dict[str, Array]:
    """Descriptors of each text, one row per molecule, under the name ``values``."""
    functions = [function for _, function in list_descriptors()]
    found = np.full((len(texts), len(functions)), np.nan)
    for row, text in enumerate(texts):
        parsed = parse_canonical(text)
        if parsed is not None:
            found[row] = [_call(function, parsed[0]) for function in functions]
    return {"values": np.where(np.isfinite(found), found, np.nan)}


def _call(function: Any, molecule: Any) -> float:
    try:
        return float(function(molecule))
    except (ValueError, RuntimeError, ZeroDivisionError, OverflowError):  # rdkit's own complaints are among these
        return float("nan")
