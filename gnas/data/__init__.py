"""Graphs to learn from: ``load`` takes a benchmark's name, a file, a folder or PyG objects and returns a ``Benchmark``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gnas.data.benchmark import Benchmark
from gnas.data.benchmarks import NAMES, is_dataset, list_names, load_from_package, load_named
from gnas.errors import InputError

__all__ = ["NAMES", "Benchmark", "load"]


def load(data: Any, *, y: Any = None, data_root: str | Path | None = None, seed: int = 0, **options: Any) -> Benchmark:
    """Three splits and their task, from a benchmark's name or from your own data.

    Args:
        data: a benchmark's name, of the package or of an installed one; or your own data: a path (a folder with
            ``graphs.csv``, ``nodes.csv`` and ``edges.csv``, a CSV with a ``smiles`` column, a file of ``gnas data pack``), a
            PyG dataset, ``Data`` or list of ``Data``, NetworkX graphs, a DataFrame or a list or Series of SMILES.
        y: targets of a list of SMILES or of a DataFrame: one for each molecule, rows of several, or columns by name.
        data_root: folder of benchmark files; else ``GNAS_DATA``, else a per-user cache folder.
        seed: of what is random in the data: the draw of a generated benchmark, the split of your own graphs.
        **options: for a benchmark see :func:`gnas.data.benchmarks.load_named`. For your own data, each one replaces what
            would be inferred; an option that means nothing to the data is an error.

    Options of your own data, with an example each (on the command line ``--data NAME=VALUE``)::

        name="mine"                        # the name in reports
        target="logP"                      # columns or attributes to predict: a name or a list
        level="node"                       # graph, node, edge, or link: which nodes are joined
        kind="regression"                  # or classification, multilabel
        metric="rmse"                      # the metric that selects
        loss="huber"                       # the loss of trainings
        readout="sum"                      # of nodes to a graph: mean, sum, max, mean_max
        head="mlp"                         # of embeddings to outputs: mlp or linear
        standardise=False                  # regression targets stay in their own unit for training
        split="scaffold"                   # or given, random, stratified, group:COLUMN, column:NAME
        fractions=(0.7, 0.15, 0.15)        # shares of train, validation and test
        folds=5, fold=2                    # fold 2 of 5 is the test split
        categorical=["charge"]             # columns that are categories; True or False: all or none
        edges="none"                       # auto: columns of edges are read; yes: an error if there are none
        encodings="walks:20,edge_walks"    # place in the graph; see gnas.data.graph_encodings
        structure="size,degree"            # the older option for these two alone
        pos=True                           # positions become node features
        graph_features=["mw", "tpsa"]      # numbers of whole graphs that join the read-out
        smiles="structure"                 # molecules: the column of SMILES
        atoms="element"                    # molecules: all (columns), element or tokens (of version 0.1)
        descriptors="rdkit"                # molecules: RDKit's descriptors join the read-out
        skip_bad=True                      # molecules: leave out rows that do not parse
        sample_neighbors=(10, 5)           # neighbours per hop of a graph too large to be computed whole

    >>> data = gnas.load("molecules.csv", target="logP", split="scaffold")
    >>> [len(split) for split in data.splits().values()]
    [224, 28, 28]
    """
    if isinstance(data, str) and y is not None:
        raise InputError(f"y goes with a list of SMILES or a DataFrame; {data[:80]!r} has its own targets")
    if isinstance(data, str) and data in NAMES:
        return load_named(data, data_root=data_root, seed=seed, **options)
    if isinstance(data, str) and is_dataset(data):
        return load_from_package(data, data_root=data_root, seed=seed, **options)
    if isinstance(data, str) and not is_path(data):
        raise unknown_data(data)
    from gnas.data.own.load import load_own

    return load_own(data, y, seed=seed, **options)


def is_path(text: str) -> bool:
    """Whether a file or folder of this name exists."""
    try:
        return bool(text.strip()) and Path(text).expanduser().exists()
    except (OSError, RuntimeError, ValueError):  # too long for a path, or the home of an unknown user
        return False


def unknown_data(data: str) -> InputError:
    """The error for a text that is neither a benchmark nor a path."""
    from gnas.data.own.load import FORMS

    names = ", ".join(list_names())
    return InputError(
        f"{data[:80]!r} is neither a benchmark nor an existing path; benchmarks: {names}; also accepted: {FORMS}"
    )
