"""Molecules of a table with a column of SMILES, or of plain texts, as raw graphs with targets and features."""

from __future__ import annotations

from collections.abc import Sequence
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
)
from gnas.data.cache import cached_by_texts
from gnas.data.descriptors import compute_descriptors
from gnas.data.encoding import Array, Column, Place, format_list
from gnas.data.own.csv import Table
from gnas.data.own.graph_features import describe_unused, read_table_features
from gnas.data.own.options import ReadOptions
from gnas.data.own.raw import RawGraphs
from gnas.data.own.tables import TARGET, read_split_columns
from gnas.data.processes import compute_in_parts
from gnas.data.smiles import Molecule, import_rdkit, parse_smiles
from gnas.errors import InputError, choose
from gnas.printed import format_count

SMILES_NAMES = ("smiles", "canonical_smiles", "isomeric_smiles", "mol", "structure", "molecule")
FEWEST = 5000  # molecules of a process that reads atoms: a thousand take a second
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
    graphs, keep, notes = _read_atoms(texts, table.place, options)
    features = read_table_features(table, (column,), options)
    kept = [texts[i] for i in keep]
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
        smiles=tuple(kept),
        smiles_column=options.smiles or "",
        rows=keep,
        requested=options.target,
        notes=notes,
        left_out=describe_unused("columns", unused),
        reasons=(*_explain_column(table, column), *_explain_targets(table, names, options)),
        files=(table.size(),) if table.file else (),
        graph_place=lambda g: table.place(int(keep[g])),
    )


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
    labels = [c for c in columns if table.is_binary(c)]
    others = [c for c in columns if c not in labels]
    return labels if len(labels) > 1 and all(table.is_text(c) for c in others) else []


def _explain_column(table: Table, column: str) -> tuple[str, ...]:
    """Which column was read as SMILES, if its name does not say so."""
    return (
        ()
        if column.lower() == SMILES_NAMES[0]
        else (f"molecules: the column {column!r} of {table.file} is read as SMILES",)
    )


def _explain_targets(table: Table, names: Sequence[str], options: ReadOptions) -> tuple[str, ...]:
    """How the targets were found, for the description."""
    if not names:
        return ()
    found = (table.name_targets("graph", names),)
    if options.target or names == list(table.target_names) or len(names) == 1 or any(map(TARGET.fullmatch, names)):
        return found
    return (
        *found,
        f"{len(names)} targets: all columns of {table.file or 'the table'} that hold 0, 1 and blanks; target=NAME picks some",
    )


# -- atoms and bonds -----------------------------------------------------------------------------------------------


def _read_atoms(
    texts: Sequence[str], place: Place, options: ReadOptions
) -> tuple[dict[str, Any], Array, tuple[str, ...]]:
    """Arrays of ``RawGraphs``, the numbers of the texts that were read, and notes on the others."""
    if options.atoms == "tokens":
        molecules, keep, notes = _parse_tokens(texts, place, options)
        return _token_arrays(molecules), keep, notes
    table = _featurise(texts)
    read = table.node_counts > 0
    bad = [place(i) for i in np.flatnonzero(~read).tolist()]
    if bad and not options.skip_bad:
        raise _does_not_parse(texts, int(read.argmin()), place)
    notes = _note_skipped(bad, "their SMILES do not parse")
    if not read.any():
        raise _nothing_left(texts, notes)
    keep, table = np.flatnonzero(read), table.select(read)
    unusual = [place(int(i)) for i in keep[table.unusual]]
    if unusual:
        notes = (
            *notes,
            f"{format_count(len(unusual), 'row')} with a valence unknown to rdkit: {format_list(unusual, 3)}",
        )
    return _atom_arrays(table, options.atoms == "element", lambda g: place(int(keep[g]))), keep, notes


def _featurise(texts: Sequence[str]) -> AtomTable:
    import rdkit

    key = {"content": "atoms", "version": 1, "rdkit": rdkit.__version__}

    def make() -> dict[str, Array]:
        parts = compute_in_parts(describe_atoms, texts, FEWEST)
        return dict(vars(join_tables([AtomTable(**part) for part in parts])))

    return AtomTable(**cached_by_texts("molecules", key, texts, make))


def describe_atoms(texts: Sequence[str]) -> dict[str, Array]:
    """The arrays of an ``AtomTable`` by name, as a process hands them back."""
    return dict(vars(featurise_smiles(texts)))


def _atom_arrays(table: AtomTable, plain: bool, place: Place) -> dict[str, Any]:
    ends = {"node_lines": table.node_counts.cumsum(), "edge_lines": table.edge_counts.cumsum()}

    def line(ends: Array) -> Place:  # the order of the atoms is canonical: their numbers would mean nothing to a reader
        return lambda row: place(int(np.searchsorted(ends, row, side="right")))

    return {
        "node_counts": table.node_counts,
        "edge_counts": table.edge_counts,
        "edge_index": table.edge_index,
        "nodes": table.node_columns(PLAIN_ATOMS if plain else ATOM_COLUMNS),
        "edges": table.edge_columns(PLAIN_BONDS if plain else BOND_COLUMNS),
        **{name: line(last) for name, last in ends.items()},
    }


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


def _token_arrays(molecules: Sequence[Molecule]) -> dict[str, Any]:
    return {
        "node_counts": np.array([len(m.atoms) for m in molecules]),
        "edge_counts": np.array([m.bonds.shape[1] for m in molecules]),
        "edge_index": np.concatenate([m.bonds for m in molecules], axis=1),
        "nodes": {"atom": np.array([a for m in molecules for a in m.atoms], np.bytes_)},
        "edges": {"bond": np.concatenate([m.types for m in molecules]).astype(np.int64)},
    }


def _parse_tokens(
    texts: Sequence[str], place: Place, options: ReadOptions
) -> tuple[list[Molecule], Array, tuple[str, ...]]:
    molecules, keep, bad, unknown = [], [], [], []
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
    notes = (
        *_note_skipped(bad, "their SMILES do not parse"),
        *_note_skipped(unknown, "their atoms or bonds are not in the training data"),
    )
    if not molecules:
        raise _nothing_left(texts, notes)
    return molecules, np.array(keep), notes


def _is_known(molecule: Molecule, columns: Sequence[Column]) -> bool:
    """Whether a network that reads ``columns`` knows every atom and bond."""
    found = {"atom": np.array(molecule.atoms, np.bytes_), "bond": np.asarray(molecule.types, np.int64)}
    read = (column.codes(found[column.name]) for column in columns if column.name in found)
    return all(not len(codes) or codes.min() >= 0 for codes in read)
