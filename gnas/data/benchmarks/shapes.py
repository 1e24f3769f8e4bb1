"""``digits``: drawn digits, cut into superpixel-like pieces. Only + - * / and square roots, which round the same way on
every machine."""

from __future__ import annotations

import numpy as np

from gnas.data.benchmarks.draws import Draws
from gnas.data.benchmarks.knn import UNIT, nearest_edges
from gnas.data.cache import Array
from gnas.data.compact import Compact, Splits

SIZE = 20  # pixels
CELL = 5  # a piece is a cell of 5 x 5 pixels, or one of the two halves, ink and blank, it falls into

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


def draw(digit: int, draws: Draws) -> Array:
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


def pieces(image: Array) -> tuple[Array, Array]:
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


def digits(counts: dict[str, int], seed: int) -> Splits:
    """Digits in equal numbers, in random order."""
    splits: Splits = {}
    for part, (split, count) in enumerate(counts.items()):
        label = Draws(seed, part << 32).order(count) % len(STROKES)
        found = [pieces(draw(int(digit), Draws(seed, part << 32 | i + 1))) for i, digit in enumerate(label)]
        nodes = np.array([len(ink) for ink, _ in found])
        center = np.concatenate([c for _, c in found]).astype(np.uint16)
        source, degree, _ = nearest_edges(center, nodes, SIZE)
        x = np.column_stack([np.concatenate([ink for ink, _ in found]) / 255, center / (UNIT * SIZE)])
        splits[split] = Compact(nodes, degree, source, {"x": x.astype(np.float32), "label": label.astype(np.uint8)})
    return splits
