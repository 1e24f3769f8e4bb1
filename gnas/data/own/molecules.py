"""Molecules as raw graphs: a table with a column of SMILES, a file, a DataFrame, or lists of SMILES and targets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gnas.data.atoms import (
    ATOM_COLUMNS,
    BOND_COLUMNS,
    MOST_ATOMS,
    PLAIN_ATOMS,
    PLAIN_BONDS,
    AtomTable,
    featurise_smiles,
    join_tables,
    parse_canonical,
)
from gnas.data.cache import compute_by_texts
from gnas.data.encoding import RDKIT, Array, Column, Place, format_list
from gnas.data.own.csv import Table, read_csv, read_sdf
from gnas.data.own.options import ReadOptions
from gnas.data.own.raw import RawGraphs, describe_unused
from gnas.data.own.tables import TARGET, read_split_columns
from gnas.data.smiles import Molecule, import_rdkit, parse_smiles
from gnas.errors import InputError, choose
from gnas.printed import format_count

SMILES_NAMES = ("smiles", "canonical_smiles", "isomeric_smiles", "mol", "structure", "molecule")
FEWEST = 5000  # molecules of a process that reads atoms: a thousand take a second
FEWEST_DESCRIBED = 500  # molecules of a process that computes descriptors
LEFT_OUT = ("Ipc",)  # of the descriptors: it grows exponentially with the molecule; AvgIpc is its bounded form
MOLECULE_FILES = (".csv", ".csv.gz", ".sdf", ".sdf.gz")
SAMPLE = 20  # rows that are parsed to find the column of SMILES


def read_molecules(table: Table, name: str, options: ReadOptions) -> RawGraphs:
    """Read a table of molecules.

    Targets are the columns that ``options`` name, or those called y, or the only other column, or all columns of labels.
    """
    import_rdkit()
    if not len(table):
        raise InputError(f"{table.file}: no rows; there are no molecules to learn from")
    column = find_smiles_column(table, options)
    names = _targets(table, column, options)
    targets, labelled = table.targets(names, options.text_labels)
    split, groups = read_split_columns(table, options)
    texts = [cell.decode() for cell in table.columns[column].tolist()]
    read = _read_tokens if options.atoms == "tokens" else _read_atoms
    graphs, keep, notes = read(texts, table.place, options)
    features = table.graph_features((column,), options)
    kept = tuple(texts[i] for i in keep)
    described = compute_descriptors(kept) if options.descriptors else {}
    unused = [c for c in table.columns if c not in (column, *options.reserved, *names, *features)]
    return RawGraphs(
        source="smiles",
        name=name,
        **graphs,
        targets={n: values[keep] for n, values in targets.items()},
        level="graph",
        labelled=None if labelled is None else labelled[keep],
        graph_split=None if split is None else split[keep],
        graph_groups=None if groups is None else groups[keep],
        graphs={**{n: values[keep] for n, values in features.items()}, **described},
        smiles=kept,
        smiles_column=options.smiles or "",
        rows=keep,
        requested=options.target,
        notes=notes,
        left_out=describe_unused("columns", unused),
        reasons=(*_explain_column(table, column), *_explain_targets(table, names, options)),
        files=(table.size(),) if table.file else (),
    )


def is_molecule_file(path: Path) -> bool:
    """Whether the name ends as a file of molecules does."""
    return path.name.lower().endswith(MOLECULE_FILES)


def read_molecule_file(path: Path) -> Table:
    """Read a CSV with a column of SMILES, or an SDF with its properties as columns; either may be gzipped."""
    return read_sdf(path) if ".sdf" in path.name.lower()[-7:] else read_csv(path)


def find_scaffolds(texts: Sequence[str]) -> list[str]:
    """The Bemis-Murcko scaffold of each molecule; empty for molecules without a ring."""
    import_rdkit()
    from rdkit.Chem.Scaffolds import MurckoScaffold

    return [MurckoScaffold.MurckoScaffoldSmiles(smiles=text, includeChirality=False) for text in texts]


# -- columns of the table ------------------------------------------------------------------------------------------


def find_smiles_column(table: Table, options: ReadOptions) -> str:
    """The column that the caller named, or one with a usual name, or the only one whose cells parse."""
    if options.smiles is not None and (options.smiles in table.columns or not options.vocabulary):
        return choose(options.smiles, table.columns, f"column of {table.file}")
    usual = {c.lower(): c for c in reversed(list(table.columns))}
    for name in SMILES_NAMES:
        if name in usual:
            return usual[name]
    parse = [c for c in table.columns if _is_smiles(table.columns[c])]
    if len(parse) == 1:
        return parse[0]
    found = f"several hold SMILES ({format_list(parse)})" if parse else "none of its columns holds SMILES"
    raise InputError(
        f"{table.file}: no column 'smiles', and {found}; name it with the data option smiles; the columns are: "
        f"{format_list(list(table.columns))} (for graphs as tables give the folder that holds nodes.csv and edges.csv)"
    )


def _is_smiles(cells: Array) -> bool:
    chem = import_rdkit()
    texts = [cell.decode(errors="replace") for cell in cells[:SAMPLE].tolist() if cell]
    return bool(texts) and all(chem.MolFromSmiles(t, sanitize=False) is not None for t in texts)


def _targets(table: Table, column: str, options: ReadOptions) -> list[str]:
    if options.level not in (None, "graph"):
        raise InputError(f"{table.file}: molecules have targets at graph level, not at {options.level} level")
    free = [c for c in table.columns if c not in (column, *options.reserved, *options.graph_features)]
    if options.unlabelled and not set(options.target) <= set(free):
        return []
    if options.target:
        return [choose(name, free, f"target column of {table.file}") for name in options.target]
    named = [c for c in free if c in table.target_names] or [c for c in free if TARGET.fullmatch(c)]
    if named or len(free) == 1:
        return named or free
    labels = _find_labels(table, free)
    if labels:
        return labels
    if not free:
        raise InputError(f"{table.file}: no target column beside {column!r}; add one called y")
    raise InputError(
        f"{table.file}: which column is the target? name it with the data option target; columns: {format_list(free)}"
    )


def _find_labels(table: Table, columns: Sequence[str]) -> list[str]:
    """Several columns of 0, 1 and blanks, if no other column holds numbers that could be the target."""
    read = {name: table.values(name, allow_text=True) for name in columns}
    numbers = {name: values[filled] for name, (values, filled) in read.items() if values.dtype.kind != "S"}
    labels = [name for name, known in numbers.items() if len(known) and np.isin(known, (0, 1)).all()]
    return labels if len(labels) > 1 and len(labels) == len(numbers) else []


def _explain_column(table: Table, column: str) -> tuple[str, ...]:
    """Which column was read as SMILES, if its name does not say so."""
    usual = column.lower() == SMILES_NAMES[0]
    return () if usual else (f"molecules: the column {column!r} of {table.file} is read as SMILES",)


def _explain_targets(table: Table, names: Sequence[str], options: ReadOptions) -> tuple[str, ...]:
    """How the targets were found, for the description."""
    if not names:
        return ()
    found = (table.name_targets("graph", names),)
    if options.target or names == list(table.target_names) or len(names) == 1 or any(map(TARGET.fullmatch, names)):
        return found
    what = f"all columns of {table.file or 'the table'} that hold 0, 1 and blanks; target=NAME picks some"
    return (*found, f"{len(names)} targets: {what}")


# -- atoms and bonds -----------------------------------------------------------------------------------------------


Read = tuple[
    dict[str, Any], Array, tuple[str, ...]
]  # fields of RawGraphs, the texts that were read, notes on the others


def _read_atoms(texts: Sequence[str], place: Place, options: ReadOptions) -> Read:
    """Atoms and bonds with their columns."""
    table = _featurise(texts)
    parsed = table.node_counts > 0
    keep, bad = np.flatnonzero(parsed), [place(i) for i in np.flatnonzero(~parsed).tolist()]
    if bad and not options.skip_bad:
        raise _does_not_parse(texts, int(parsed.argmin()), place)
    notes = _note_skipped(bad, "their SMILES do not parse")
    if not len(keep):
        raise _nothing_left(texts, notes)
    table = table.select(parsed)
    unusual = [place(i) for i in keep[table.unusual].tolist()]
    if unusual:
        notes += (f"{format_count(len(unusual), 'row')} with a valence unknown to rdkit: {format_list(unusual, 3)}",)

    def line(
        counts: Array,
    ) -> Place:  # the order of the atoms is canonical: their numbers would mean nothing to a reader
        ends = counts.cumsum()
        return lambda row: place(int(keep[np.searchsorted(ends, row, side="right")]))

    plain = options.atoms == "element"
    fields = {
        "node_counts": table.node_counts,
        "edge_counts": table.edge_counts,
        "edge_index": table.edge_index,
        "nodes": table.node_columns(PLAIN_ATOMS if plain else ATOM_COLUMNS),
        "edges": table.edge_columns(PLAIN_BONDS if plain else BOND_COLUMNS),
        "places": {
            "graph": lambda graph: place(int(keep[graph])),
            "node": line(table.node_counts),
            "edge": line(table.edge_counts),
        },
    }
    return fields, keep, notes


def _featurise(texts: Sequence[str]) -> AtomTable:
    import rdkit

    key = {"content": "atoms", "version": 1, "rdkit": rdkit.__version__}

    def join(parts: list[Mapping[str, Array]]) -> dict[str, Array]:
        return dict(vars(join_tables([AtomTable(**part) for part in parts])))

    return AtomTable(**compute_by_texts("molecules", key, texts, describe_atoms, FEWEST, join))


def describe_atoms(texts: Sequence[str]) -> dict[str, Array]:
    """The arrays of an ``AtomTable`` by name, as a process hands them back."""
    return dict(vars(featurise_smiles(texts)))


def _does_not_parse(texts: Sequence[str], row: int, place: Place) -> InputError:
    what = f"the SMILES {texts[row][:60]!r} does not parse" if texts[row] else "no molecule"
    if len(texts[row]) > MOST_ATOMS:
        what += f", or has more than {MOST_ATOMS:,} atoms"
    return InputError(f"{place(row)}: {what}; correct it, or leave such rows out with the option skip_bad")


def _note_skipped(rows: Sequence[str], why: str) -> tuple[str, ...]:
    return (f"{format_count(len(rows), 'row')} skipped, {why}: {format_list(rows, 3)}",) if rows else ()


def _nothing_left(texts: Sequence[str], notes: Sequence[str]) -> InputError:
    return InputError(f"no molecule is left of {format_count(len(texts), 'row')}: {'; '.join(notes)}")


# -- the tokens of gnas 0.1: one text per atom, such as "N H1 +" ----------------------------------------------------


def _read_tokens(texts: Sequence[str], place: Place, options: ReadOptions) -> Read:
    """Atoms as tokens, bonds by their kind."""
    molecules: list[Molecule] = []
    keep, bad, unknown = [], [], []
    for i, text in enumerate(texts):
        try:
            molecule = parse_smiles(text)
        except (ValueError, RuntimeError):  # rdkit's own complaints are among these
            if not options.skip_bad:
                raise _does_not_parse(texts, i, place) from None
            bad.append(place(i))
            continue
        if options.skip_bad and not _is_known(molecule, options.vocabulary):
            unknown.append(place(i))
            continue
        molecules.append(molecule)
        keep.append(i)
    notes = _note_skipped(bad, "their SMILES do not parse")
    notes += _note_skipped(unknown, "their atoms or bonds are not in the training data")
    if not molecules:
        raise _nothing_left(texts, notes)
    fields = {
        "node_counts": np.array([len(one.atoms) for one in molecules]),
        "edge_counts": np.array([one.bonds.shape[1] for one in molecules]),
        "edge_index": np.concatenate([one.bonds for one in molecules], axis=1),
        "nodes": {"atom": np.array([atom for one in molecules for atom in one.atoms], np.bytes_)},
        "edges": {"bond": np.concatenate([one.types for one in molecules]).astype(np.int64)},
        "places": {"graph": lambda graph: place(keep[graph])},
    }
    return fields, np.array(keep), notes


def _is_known(molecule: Molecule, columns: Sequence[Column]) -> bool:
    """Whether a network that reads ``columns`` knows every atom and bond."""
    found = {"atom": np.array(molecule.atoms, np.bytes_), "bond": np.asarray(molecule.types, np.int64)}
    read = (column.codes(found[column.name]) for column in columns if column.name in found)
    return all(not len(codes) or codes.min() >= 0 for codes in read)


# -- descriptors: about 200 numbers of each molecule ----------------------------------------------------------------


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

    def join(parts: list[Mapping[str, Array]]) -> dict[str, Array]:
        return {"values": np.concatenate([part["values"] for part in parts])}

    found = compute_by_texts("molecules", key, texts, describe_molecules, FEWEST_DESCRIBED, join)["values"]
    return {f"{RDKIT}{name}": found[:, i] for i, name in enumerate(names)}


def describe_molecules(texts: Sequence[str]) -> dict[str, Array]:
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
