"""Drawings: every link and node is there, dead branches are faded, nothing overlaps, texts are escaped."""

import subprocess
import sys
import types
from importlib.metadata import EntryPoint
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from strategies import cells, genotypes

from gnas import plugins
from gnas.arch.genotype import CellGenotype, Genotype
from gnas.arch.operation import OPERATIONS_INFO, Look
from gnas.arch.space import SearchSpace
from gnas.errors import InputError
from gnas.report import draw_cell, draw_genotype, save_drawing, to_png
from gnas.report.draw import layout_cell, layout_genotype, node_name, wrap_formula
from gnas.report.palette import PLUGIN_LOOKS, look_of
from gnas.report.shapes import Box, Group, Text

SVG = "{http://www.w3.org/2000/svg}"
LINKS = [(0, 1, "sparse"), (1, 2, "dense"), (1, 3, "max"), (2, 4, "sum"), (3, 5, "identity")]
CELL = CellGenotype(2, 1, tuple(LINKS))  # nodes 2 and 4 reach no output


def groups(svg: str, role: str) -> dict[str, ElementTree.Element]:
    """The groups of a role by what they are called."""
    root = ElementTree.fromstring(svg)
    found = [g for g in root.iter(f"{SVG}g") if role in g.get("class", "").split()]
    named = {g.findtext(f"{SVG}title", ""): g for g in found}
    assert len(named) == len(found)
    return named


@given(cells())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_every_link_and_node_is_drawn_and_the_dead_ones_are_faded(cell: CellGenotype) -> None:
    svg = draw_cell(cell, 7)
    links, nodes = groups(svg, "link"), groups(svg, "node")
    for link in cell.links:
        group = links.pop(f"{node_name(link.target, 7)} = {link.operation}({node_name(link.source, 7)})")
        assert link.operation in group.get("class", "").split()
        assert ("dead" in group.get("class", "").split()) == (link.target not in cell.live())
        assert link.operation in [text.text for text in group.iter(f"{SVG}text")]
    for node in cell.present():
        output = node in cell.output_nodes()
        group = nodes.pop(node_name(node, 7) + (", part of the output" if output else ""))
        assert ("output" in group.get("class", "").split()) == output
        assert ("dead" in group.get("class", "").split()) == (node not in cell.live())
        assert (group.get("opacity") is not None) == (node not in cell.live())
    assert not links
    assert not nodes


@given(cells())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_two_boxes_overlap_and_all_lie_on_the_sheet(cell: CellGenotype) -> None:
    drawing = layout_cell(cell)
    groups = [
        shape for shape in drawing.shapes if isinstance(shape, Group) and shape.role.split()[0] in ("link", "node")
    ]
    boxes = [next(inner for inner in group.shapes if isinstance(inner, Box)) for group in groups]
    for place, box in enumerate(boxes):
        assert 0 <= box.x <= box.x + box.width <= drawing.width
        assert 0 <= box.y <= box.y + box.height <= drawing.height
        for other in boxes[:place]:
            apart = box.x >= other.x + other.width or other.x >= box.x + box.width
            assert apart or box.y >= other.y + other.height or other.y >= box.y + box.height


def test_the_formula_is_written_under_the_cell() -> None:
    formula = "".join(text.text or "" for text in groups(draw_cell(CELL), "formula")[""].iter(f"{SVG}text"))
    assert formula.replace(" ", "") == str(CELL.tree()).replace(" ", "")


def test_the_legend_names_the_operations_and_the_fading() -> None:
    words = [text.text for text in groups(draw_cell(CELL), "legend")[""].iter(f"{SVG}text")]
    assert {"sparse", "dense", "max", "sum", "identity", "faded: does not reach the output"} <= set(words)
    alive = CellGenotype(1, 1, ((0, 1, "dense"), (1, 2, "sum"), (2, 3, "dense")))
    assert "faded" not in draw_cell(alive)


def test_levels_are_labelled() -> None:
    words = [shape.text for shape in layout_cell(CELL).shapes if isinstance(shape, Text)]
    assert words[2:] == ["Level 1", "filter", "Level 2", "aggregate", "Level 3", "filter"]


def test_a_title_is_escaped() -> None:
    svg = draw_genotype(Genotype((CELL,)), title="<script>\"&'</script>")
    assert "<script" not in svg
    assert "<script>\"&'</script>" in [text.text for text in ElementTree.fromstring(svg).iter(f"{SVG}text")]


@given(genotypes())
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_genotype_holds_all_its_cells(genotype: Genotype) -> None:
    svg = draw_genotype(genotype, columns=2)
    assert len(groups(svg, "cell")) == len(genotype)
    assert len(groups(svg, "link")) == sum(len(cell.links) for cell in genotype)


def test_a_large_genotype_stays_small_and_on_its_sheet() -> None:
    genotype = SearchSpace(4, 4).sample(np.random.default_rng(0), 16)
    drawing = layout_genotype(genotype)
    assert len(draw_genotype(genotype)) < 250_000
    assert drawing.width < 2000
    assert draw_genotype(genotype).count('class="node') == 16 * 13


def test_png_has_the_same_proportions() -> None:
    content = to_png(CELL, scale=1.0)
    width, height = (int.from_bytes(content[at : at + 4], "big") for at in (16, 20))
    drawing = layout_cell(CELL)
    assert content.startswith(b"\x89PNG")
    assert abs(width - drawing.width) <= 1
    assert abs(height - drawing.height) <= 1


def test_files_by_their_ending(tmp_path: Path) -> None:
    genotype = Genotype((CELL,))
    assert ElementTree.fromstring(save_drawing(genotype, tmp_path / "a.svg").read_text()).tag == f"{SVG}svg"
    assert save_drawing(genotype, tmp_path / "deep" / "a.PNG", title="$x$").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(InputError, match=r"a\.gif: a drawing is written as \.svg or \.png"):
        save_drawing(genotype, tmp_path / "a.gif")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.svg", "deep"]


def test_each_operation_differs_in_more_than_colour() -> None:
    looks = [(look.dash, look.marker, look.width) for look in (info.look for info in OPERATIONS_INFO.values())]
    assert len({look[:2] for look in looks}) == len(looks)
    assert look_of("my_own") in PLUGIN_LOOKS
    assert look_of("my_own") == look_of("my_own")


def test_an_operation_of_another_package_brings_its_look(monkeypatch: pytest.MonkeyPatch) -> None:
    class Wavy:
        look = Look("#112233", (1, 2), "plus", "x")

    monkeypatch.setitem(sys.modules, "outside_package", types.SimpleNamespace(Wavy=Wavy))
    point = EntryPoint("wavy_line", "outside_package:Wavy", "gnas.operations")
    monkeypatch.setattr(plugins, "entry_points", lambda group: [point] if group == point.group else [])
    assert look_of("wavy_line") is Wavy.look


@pytest.mark.parametrize("width", [8, 20, 45])
def test_a_wrapped_formula_loses_nothing(width: int) -> None:
    text = "[identity#1(max(sparse(sparse#1))) | dense(identity#1(max(sparse))) | sum]"
    lines = wrap_formula(text, width)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    assert all(len(line) <= max(width, 20) for line in lines)


def test_drawing_needs_neither_torch_nor_matplotlib() -> None:
    code = (
        "import sys; from gnas.arch.gap import approximate; from gnas.report import draw_genotype;"
        "draw_genotype(approximate('gcn', 2));"
        "print([name for name in ('torch', 'matplotlib') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[]\n", "")
