"""Molecules from where people keep them, as one table: CSV and SDF files, a pandas DataFrame, lists of SMILES."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gnas.data.atoms import MOST_ATOMS
from gnas.data.encoding import Array
from gnas.data.limits import check_columns, check_memory
from gnas.data.own.csv import Table, read_bytes, read_csv
from gnas.data.smiles import import_rdkit
from gnas.errors import InputError

MOLECULE_FILES = (".csv", ".csv.gz", ".sdf", ".sdf.gz")


def is_molecule_file(path: Path) -> bool:
    """Whether the name ends as a file of molecules does."""
    return path.name.lower().endswith(MOLECULE_FILES)


def read_molecule_file(path: Path) -> Table:
    """Read a CSV with a column of SMILES, or an SDF with its properties as columns; either may be gzipped."""
    return read_sdf(path) if ".sdf" in path.name.lower()[-7:] else read_csv(path)


def read_sdf(path: Path) -> Table:
    """The molecules of an SDF as SMILES, their properties as columns; a record that rdkit cannot read is empty."""
    chem = import_rdkit()
    data = read_bytes(path)
    records: list[dict[str, str]] = []
    try:
        for molecule in chem.ForwardSDMolSupplier(io.BytesIO(data)):
            if molecule is None or molecule.GetNumAtoms() > MOST_ATOMS:
                records.append({})
                continue
            properties = {name.strip(): molecule.GetProp(name).strip() for name in molecule.GetPropNames()}
            records.append({**properties, "smiles": chem.MolToSmiles(molecule)})
    except (ValueError, RuntimeError, UnicodeDecodeError) as error:
        raise InputError(f"{path.name} record {len(records) + 1}: {str(error).splitlines()[0]}") from None
    names = {"smiles": 0}  # and the width of its longest text
    for record in records:
        names.update((name, max(names.get(name, 0), len(text))) for name, text in record.items())
    check_columns(len(names), path.name)
    needed = sum(8 + width for width in names.values()) * len(records)
    check_memory(needed, len(data), f"{path.name}: its properties")
    columns = {name: _cells([record.get(name) for record in records]) for name in names}
    return Table(path.name, columns, np.arange(1, len(records) + 1), "record")


# -- objects -------------------------------------------------------------------------------------------------------


def as_table(data: Any, y: Any = None) -> Any:
    """A DataFrame, a list of SMILES (with ``y``) or a list of (SMILES, target) pairs as a table; else ``data``."""
    if is_frame(data):
        return tabulate_frame(data, y)
    items = list(data) if isinstance(data, list | tuple) or _is_array(data) else []
    if items and all(isinstance(item, str) for item in items) and y is not None:
        return tabulate_smiles(items, y)
    if items and y is None and all(_is_pair(item) for item in items):
        return tabulate_smiles([item[0] for item in items], [item[1] for item in items])
    if y is not None:
        raise InputError("y holds the targets of a list of SMILES or of a DataFrame; other data has its own targets")
    return [str(item) for item in items] if _is_array(data) and all(isinstance(i, str) for i in items) else data


def is_frame(data: Any) -> bool:
    """Whether ``data`` is a pandas DataFrame; pandas need not be installed."""
    return type(data).__name__ == "DataFrame" and hasattr(data, "columns") and hasattr(data, "isna")


def tabulate_frame(frame: Any, y: Any = None) -> Table:
    """A DataFrame as a table."""
    names = [str(name).strip() for name in frame.columns]
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise InputError(f"DataFrame: two columns are called {twice[0]!r}")
    columns = {name: _cells(frame.iloc[:, i].tolist()) for i, name in enumerate(names)}
    targets = _tabulate_targets(y, len(frame))
    return Table("DataFrame", columns | targets, np.arange(len(frame)), "row", tuple(targets))


def tabulate_smiles(texts: Sequence[str], y: Any = None) -> Table:
    """Texts as a table with the column ``smiles``, and their targets: one per text, several, or columns by name."""
    targets = _tabulate_targets(y, len(texts))
    return Table("", {"smiles": _cells(texts)} | targets, np.arange(len(texts)), "SMILES", tuple(targets))


def _tabulate_targets(y: Any, rows: int) -> dict[str, Array]:
    if y is None:
        return {}
    if isinstance(y, Mapping) or is_frame(y):
        named = {str(name): _to_rows(y[name]) for name in y}
    else:
        given = [_to_list(row) for row in _to_rows(y)]
        width = len(given[0]) if given and isinstance(given[0], list) else 0
        if any((len(row) if isinstance(row, list) else 0) != width for row in given):
            raise InputError("y has rows of different lengths; give one target for each molecule, or as many for all")
        named = {f"y{i}": [row[i] for row in given] for i in range(width)} if width else {"y": given}
    for name, values in named.items():
        if len(values) != rows:
            raise InputError(f"{name} has {len(values)} entries for {rows} molecules")
    return {name: _cells([_to_list(value) for value in values]) for name, values in named.items()}


def _cells(values: Sequence[Any]) -> Array:
    """Values as cells of a CSV; None and NaN are empty."""
    return np.array([_cell(value) for value in values] or [], np.bytes_)


def _cell(value: Any) -> bytes:
    if value is None or type(value).__name__ in ("NAType", "NaTType"):  # pandas.NA cannot be compared
        return b""
    if isinstance(value, float | np.floating) and value != value:
        return b""
    if isinstance(value, bool | np.bool_):
        value = int(value)
    return str(value).strip().encode(errors="replace")


def _to_rows(y: Any) -> list[Any]:
    try:
        if not isinstance(y, str | bytes):
            return list(y)
    except TypeError:  # a number, say
        pass
    raise InputError(f"y is of type {type(y).__name__}; give a list, an array or a Series: a target for each molecule")


def _to_list(value: Any) -> Any:
    """A row of targets as a list, a single one as a plain number or text."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    value = list(value) if isinstance(value, tuple) else value
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def _is_pair(item: Any) -> bool:
    return isinstance(item, tuple | list) and len(item) == 2 and isinstance(item[0], str)


def _is_array(data: Any) -> bool:
    """A one-dimensional array or a pandas Series of texts."""
    return (isinstance(data, np.ndarray) and data.ndim == 1 and data.dtype.kind in "OU") or (
        type(data).__name__ == "Series" and hasattr(data, "tolist")
    )
