"""A found architecture as a picture, in the manner of the paper's appendix figure."""

from __future__ import annotations

import io
from pathlib import Path

from gnas.arch.architecture import Architecture
from gnas.arch.genotype import CellGenotype
from gnas.errors import InputError
from gnas.files import write_atomic
from gnas.report.layout import layout_cell, layout_genotype
from gnas.report.shapes import Drawing
from gnas.report.svg import svg

LARGEST = 8000  # pixels of a PNG's longer side


def draw_cell(cell: CellGenotype, number: int = 1) -> str:
    """One cell as SVG text: three levels, links by operation, dead branches faded, the formula below."""
    return svg(layout_cell(cell, number))


def draw_genotype(genotype: Architecture, *, title: str = "", columns: int = 4) -> str:
    """All cells as SVG text, ``columns`` in a row."""
    return svg(layout_genotype(genotype, title=title, columns=columns))


def to_png(what: CellGenotype | Architecture, *, title: str = "", columns: int = 4, scale: float = 2.0) -> bytes:
    """The same picture as the content of a PNG file, ``scale`` pixels for each of the SVG's."""
    return _png(_layout(what, title, columns), scale)


def save_drawing(what: CellGenotype | Architecture, path: str | Path, *, title: str = "", columns: int = 4) -> Path:
    """Write the picture as ``.svg`` or ``.png``, by the name of the file."""
    path = Path(path)
    if path.suffix.lower() not in (".svg", ".png"):
        raise InputError(f"{path}: a drawing is written as .svg or .png; give a name that ends so")
    drawing = _layout(what, title, columns)
    return write_atomic(path, svg(drawing) if path.suffix.lower() == ".svg" else _png(drawing, 2.0))


def _layout(what: CellGenotype | Architecture, title: str, columns: int) -> Drawing:
    if isinstance(what, CellGenotype):
        return layout_cell(what)
    return layout_genotype(what, title=title, columns=columns)


def _png(drawing: Drawing, scale: float) -> bytes:
    from gnas.report.paint import DPI, figure

    scale = min(scale, LARGEST / max(drawing.width, drawing.height))
    content = io.BytesIO()
    figure(drawing).savefig(content, format="png", dpi=DPI * scale)
    return content.getvalue()
