"""Molecules from SMILES: a CSV with a ``smiles`` column, or plain texts; atoms are texts, bonds integers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gnas.data.encoding import Array, Column, Place, format_count, format_list
from gnas.data.own.csv import Table, read_csv
from gnas.data.own.options import ReadOptions
from gnas.data.own.raw import RawGraphs
from gnas.data.own.tables import TARGET, read_split_columns
from gnas.data.smiles import Molecule, import_rdkit, parse_smiles
from gnas.errors import InputError, choose


def read_smiles_csv(path: Path, options: ReadOptions) -> RawGraphs:
    """Read a CSV of SMILES; targets are the columns that ``options`` name, or those called y, or the only other column."""
    table = read_csv(path)
    column = next((c for c in table.columns if c.lower() == "smiles"), None)
    if column is None:
        raise InputError(
            f"{table.file}: no column 'smiles'; the columns are: {format_list(list(table.columns))} "
            "(for graphs as tables give the folder that holds graphs.csv, nodes.csv and edges.csv)"
        )
    if not len(table):
        raise InputError(f"{table.file}: no rows; there are no molecules to learn from")
    names = _targets(table, column, options)
    read = {n: table.values(n, options.text_labels) for n in names}
    split, groups = read_split_columns(table, options)
    texts = [cell.decode() for cell in table.columns[column].tolist()]
    molecules, keep, notes = _parse_all(texts, table.place, options)
    labelled = np.logical_and.reduce([filled for _, filled in read.values()])[keep] if read else None
    return _raw(
        path.stem,
        molecules,
        [texts[i] for i in keep],
        targets={n: values[keep] for n, (values, _) in read.items()},
        labelled=labelled,
        graph_split=None if split is None else split[keep],
        graph_groups=None if groups is None else groups[keep],
        requested=options.target,
        rows=keep,
        notes=notes,
        reasons=(f"graph level: {table.file} has the target {', '.join(names)}",) if names else (),
        graph_place=lambda g: table.place(int(keep[g])),
    )


def read_smiles(texts: Sequence[str], options: ReadOptions) -> RawGraphs:
    """Molecules without targets, for prediction."""
    molecules, keep, notes = _parse_all(texts, lambda i: f"SMILES {i}", options)
    return _raw(
        "molecules",
        molecules,
        [texts[i] for i in keep],
        targets={},
        rows=keep,
        notes=notes,
        graph_place=lambda g: f"SMILES {int(keep[g])}",
    )


def find_scaffolds(texts: Sequence[str]) -> list[str]:
    """The Bemis-Murcko scaffold of each molecule; empty for molecules without a ring."""
    import_rdkit()
    from rdkit.Chem.Scaffolds import MurckoScaffold

    return [MurckoScaffold.MurckoScaffoldSmiles(smiles=text, includeChirality=False) for text in texts]


def _targets(table: Table, column: str, options: ReadOptions) -> list[str]:
    if options.level not in (None, "graph"):
        raise InputError(f"{table.file}: molecules have targets at graph level, not at {options.level} level")
    free = [c for c in table.columns if c not in (column, *options.reserved)]
    if options.unlabelled and not set(options.target) <= set(free):
        return []
    if options.target:
        return [choose(name, free, f"target column of {table.file}") for name in options.target]
    named = [c for c in free if TARGET.fullmatch(c)]
    if named or len(free) == 1:
        return named or free
    if not free:
        raise InputError(f"{table.file}: no target column beside {column!r}; add one called y")
    raise InputError(
        f"{table.file}: which column is the target? name it with the data option target; columns: {format_list(free)}"
    )


def _raw(name: str, molecules: Sequence[Molecule], texts: Sequence[str], **rest: Any) -> RawGraphs:
    return RawGraphs(
        source="smiles",
        name=name,
        node_counts=np.array([len(m.atoms) for m in molecules]),
        edge_counts=np.array([m.bonds.shape[1] for m in molecules]),
        edge_index=np.concatenate([m.bonds for m in molecules], axis=1),
        nodes={"atom": np.array([a for m in molecules for a in m.atoms], np.bytes_)},
        edges={"bond": np.concatenate([m.types for m in molecules]).astype(np.int64)},
        level="graph",
        smiles=tuple(texts),
        **rest,
    )


def _parse_all(
    texts: Sequence[str], place: Place, options: ReadOptions
) -> tuple[list[Molecule], Array, tuple[str, ...]]:
    """Molecules, the numbers of their texts, and notes on what was skipped."""
    import_rdkit()
    molecules, keep, bad, unknown = [], [], [], []
    for i, text in enumerate(texts):
        try:
            molecule = parse_smiles(text)
        except (ValueError, RuntimeError):  # rdkit's own complaints are among these
            if not options.skip_bad:
                what = f"{place(i)}: the SMILES {text[:60]!r} does not parse"
                raise InputError(f"{what}; correct it, or leave such rows out with the option skip_bad") from None
            bad.append(place(i))
            continue
        if options.skip_bad and not _is_known(molecule, options.vocabulary):
            unknown.append(place(i))
            continue
        molecules.append(molecule)
        keep.append(i)
    left_out = (
        (bad, "their SMILES do not parse"),
        (unknown, "their atoms or bonds are not in the training data"),
    )
    notes = tuple(
        f"{format_count(len(rows), 'row')} skipped, {why}: {format_list(rows, 3)}" for rows, why in left_out if rows
    )
    if not molecules:
        raise InputError(f"no molecule is left of {format_count(len(texts), 'row')}: {'; '.join(notes)}")
    return molecules, np.array(keep), notes


def _is_known(molecule: Molecule, columns: Sequence[Column]) -> bool:
    """Whether a network that reads ``columns`` knows every atom and bond."""
    found = {"atom": np.array(molecule.atoms, np.bytes_), "bond": np.asarray(molecule.types, np.int64)}
    read = (column.codes(found[column.name]) for column in columns if column.name in found)
    return all(not len(codes) or codes.min() >= 0 for codes in read)
