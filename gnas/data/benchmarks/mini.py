"""Small benchmarks that come with the package: built in under a second, trained in seconds, for demos and tests."""

from __future__ import annotations

import csv
import re
from functools import partial
from pathlib import Path

import numpy as np
import torch

from gnas.data.benchmark import SPLIT_NAMES
from gnas.data.benchmarks import sbm, zinc
from gnas.data.benchmarks.compact import Compact, Splits
from gnas.data.benchmarks.images import UNIT
from gnas.data.benchmarks.sbm import Blocks, ClusterModel, Draws, PatternModel, generate_splits
from gnas.data.benchmarks.sources import DIGITS, Dataset, Facts, image_task, node_task
from gnas.data.benchmarks.superpixels import as_graph_set, nearest_edges
from gnas.data.encoding import Array
from gnas.data.smiles import Molecule
from gnas.graph import GraphSet
from gnas.model.task import Task

# -- digits: drawn digits, cut into superpixel-like pieces ---------------------------------------------------------
#
# Only + - * / and square roots, which round in the same way on every machine.

SIZE = 20  # pixels
CELL = 5  # a piece is a cell of 5 x 5 pixels, or its part with ink, or its part without

_PIXELS = np.moveaxis(np.indices((SIZE, SIZE), np.float64), 0, -1)[:, :, None]

# Strokes of each digit as corners (row, column) on a 0..4 by 0..2 field.
STROKES = (
    ((0, 0), (0, 2), (4, 2), (4, 0), (0, 0)),
    ((1, 0), (0, 1), (4, 1)),
    ((0, 0), (0, 2), (2, 2), (4, 0), (4, 2)),
    ((0, 0), (0, 2), (2, 1), (4, 2), (4, 0)),
    ((4, 2), (0, 2), (2, 0), (3, 2)),
    ((0, 2), (0, 0), (2, 0), (2, 2), (4, 2), (4, 0)),
    ((0, 2), (0, 0), (4, 0), (4, 2), (2, 2), (2, 0)),
    ((0, 0), (0, 2), (2, 1), (4, 1)),
    ((2, 0), (0, 0), (0, 2), (2, 2), (2, 0), (4, 0), (4, 2), (2, 2)),
    ((2, 2), (2, 0), (0, 0), (0, 2), (4, 2), (4, 0)),
)


def draw_digit(digit: int, draws: Draws) -> Array:
    """An image [20, 20] of levels 0..255: the strokes scaled, slanted, moved and drawn with a random width."""
    grow, wide, slant, lean, down, right, thick = (draws.below(2001, 7) - 1000) / 1000
    corners = np.array(STROKES[digit], np.float64) - (2, 1)
    tall, broad = 3.0 + 0.3 * grow, 4.2 + 0.5 * wide
    row = tall * corners[:, 0] + 0.6 * lean * corners[:, 1] + (SIZE - 1) / 2 + 2.6 * down
    column = broad * corners[:, 1] + 0.5 * slant * corners[:, 0] + (SIZE - 1) / 2 + 2.6 * right
    away = _distance(np.stack([row, column], 1))
    noise = draws.below(21, SIZE * SIZE).reshape(SIZE, SIZE)
    ink = np.floor(255 * np.clip(1.7 + 0.3 * thick - away, 0, 1))
    return np.minimum(ink + noise * (ink > 0), 255)


def _distance(path: Array) -> Array:
    """Distance of every pixel to the nearest stroke."""
    start, along = path[:-1], path[1:] - path[:-1]
    length = along[:, 0] * along[:, 0] + along[:, 1] * along[:, 1]
    offset = _PIXELS - start
    part = np.clip((offset[..., 0] * along[:, 0] + offset[..., 1] * along[:, 1]) / length, 0, 1)
    down, right = offset[..., 0] - part * along[:, 0], offset[..., 1] - part * along[:, 1]
    return np.sqrt(down * down + right * right).min(-1)


def cut_pieces(image: Array) -> tuple[Array, Array]:
    """Mean intensity [n] and centre [n, 2] in pixels x 1024 of the pieces, whose borders follow the ink."""
    row, column = np.divmod(np.arange(SIZE * SIZE), SIZE)
    level = image.ravel()
    cell, inked = row // CELL * (SIZE // CELL) + column // CELL, level >= 128
    dark = np.bincount(cell, inked)
    mixed = (dark >= 4) & (dark <= CELL * CELL - 4)
    _, piece = np.unique(2 * cell + (inked & mixed[cell]), return_inverse=True)
    count = np.bincount(piece)
    center = np.stack([np.bincount(piece, row) / count, np.bincount(piece, column) / count], 1)
    return np.bincount(piece, level) / count, np.rint(center * UNIT)


def draw_digits(counts: tuple[int, int, int], seed: int) -> Splits:
    """Digits in equal numbers, in random order."""
    splits: Splits = {}
    for part, (split, count) in enumerate(zip(SPLIT_NAMES, counts, strict=True)):
        label = Draws(seed, part << 32).order(count) % len(STROKES)
        found = [cut_pieces(draw_digit(int(digit), Draws(seed, part << 32 | i + 1))) for i, digit in enumerate(label)]
        nodes = np.array([len(ink) for ink, _ in found])
        center = np.concatenate([c for _, c in found]).astype(np.uint16)
        source, degree, sigma = nearest_edges(center, nodes, SIZE)
        x = np.column_stack([np.concatenate([ink for ink, _ in found]) / 255, center / (UNIT * SIZE)])
        columns: dict[str, Array] = {"x": x.astype(np.float32), "label": label.astype(np.uint8)}
        splits[split] = Compact(nodes, degree, source, {**columns, "center": center, "sigma": sigma})
    return splits


def digit_graphs(split: Compact, edge_attr: bool = False) -> GraphSet:
    """Intensity and centre of the pieces as features; ``edge_attr`` adds edge strengths and positions."""
    return as_graph_set(split, torch.from_numpy(split.columns["x"]), SIZE, edge_attr)


# -- molecules-mini: every core with every substituent, and the octanol-water coefficient logP of rdkit -------------
#
# The graphs are in a small table beside this file, so that loading them needs no rdkit. tests/data/benchmarks/test_mini.py makes
# the table again.

TABLE = Path(__file__).with_name("molecules_mini.csv")
MARKS = {1: "-", 2: "=", 3: "#"}


def read_table() -> list[tuple[Molecule, float]]:
    """The molecules with their logP."""
    with open(TABLE, newline="", encoding="utf-8") as file:
        return [(_parse_molecule(atoms, bonds), float(logp)) for _, logp, atoms, bonds in list(csv.reader(file))[1:]]


def _parse_molecule(atoms: str, bonds: str) -> Molecule:
    """Atom tokens with semicolons between them, bonds as ``0-1 1=2 2#3``."""
    types = np.array([next(t for t, mark in MARKS.items() if mark in bond) for bond in bonds.split()], np.uint8)
    ends = np.array([re.split("[-=#]", bond) for bond in bonds.split()], np.int64).T
    return Molecule(tuple(atoms.split(";")), np.concatenate([ends, ends[::-1]], 1), np.tile(types, 2))


def split_molecules(counts: tuple[int, int, int], seed: int) -> Splits:
    """The rows of the table, distributed to the splits in random order."""
    rows, order, first = read_table(), Draws(seed, 0).order(sum(counts)), 0
    splits: Splits = {}
    for split, count in zip(SPLIT_NAMES, counts, strict=True):
        molecules, targets = zip(*(rows[i] for i in order[first : first + count]), strict=True)
        splits[split] = zinc.pack_molecules(molecules, targets)
        first += count
    return splits


# -- the datasets --------------------------------------------------------------------------------------------------

PATTERN_MINI = PatternModel(Blocks(3, (4, 9), 0.5, 0.2), patterns=20, pattern_sizes=(5, 9))
CLUSTER_MINI = ClusterModel(Blocks(4, (4, 9), 0.7, 0.1))


def _blocks(what: str, classes: int, model: sbm.Model, figures: tuple[int, int, int, float]) -> Dataset:
    """A dataset of small stochastic block models whose nodes have one signal more than there are classes."""
    facts = Facts(
        f"small stochastic block models, {what}",
        node_task(classes, classes + 1),
        (240, 60, 60),
        *figures,
        symmetric=True,
        tolerance=0.06,
        slack=3,
        patience=5,
    )
    return Dataset(facts, sbm.graph_set, build=partial(generate_splits, model))


# The figures are those of seed 0; other seeds draw other graphs of the same kind.
DATASETS = {
    "pattern-mini": _blocks("find the planted pattern", 2, PATTERN_MINI, (9_503, 17, 35, 267.8)),
    "cluster-mini": _blocks("find the communities", 4, CLUSTER_MINI, (9_324, 18, 35, 157.3)),
    "digits": Dataset(
        Facts(
            "superpixels of drawn digits",
            image_task(3, DIGITS),
            (400, 100, 100),
            *(14_301, 19, 28, 190.7),
            symmetric=False,
            tolerance=0.06,
            slack=3,
        ),
        digit_graphs,
        build=draw_digits,
        edge_channels=1,
    ),
    "molecules-mini": Dataset(
        Facts(
            "small molecules, octanol-water coefficient logP",
            Task("graph", "regression", 1, (28,), loss="l1", metric="mae", labels=("logP",)),
            (400, 88, 88),
            *(4_968, 4, 16, 17.0),
            symmetric=True,
        ),
        zinc.graph_set,
        build=split_molecules,
        standardise=True,
        edge_categories=zinc.BONDS,
    ),
}
