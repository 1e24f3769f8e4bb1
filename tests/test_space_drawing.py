"""The drawing of the search space in docs/concepts.md has every choice of the package and is up to date."""

import importlib.util
from pathlib import Path

from gnas.arch.operation import AGGREGATORS, MESSAGES
from gnas.arch.stack import EDGE_STATES, ENCODINGS, READOUTS
from gnas.report.shapes import to_svg

DOCS = Path(__file__).parents[1] / "docs"


def test_the_drawing_is_that_of_the_code() -> None:
    """``python docs/space_drawing.py`` writes it."""
    spec = importlib.util.spec_from_file_location("space_drawing", DOCS / "space_drawing.py")
    assert spec is not None
    assert spec.loader is not None
    drawing = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(drawing)
    text = (DOCS / "images" / "space.svg").read_text()
    assert text == to_svg(drawing.draw_space()) + "\n"
    for name in (*AGGREGATORS, *MESSAGES, *EDGE_STATES, *ENCODINGS, *READOUTS):
        assert f">{name.replace('_', ' ')}</text>" in text
    assert "images/space.svg" in (DOCS / "concepts.md").read_text()
