"""Pictures of single graphs, with the scores of an explanation as colours: molecules by rdkit, others by a spring layout."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from gnas.arch.operation import BLUE, VERMILLION
from gnas.data.atoms import parse_canonical
from gnas.data.encoding import Array
from gnas.errors import InputError
from gnas.files import write_atomic
from gnas.report.shapes import Box, Curve, Drawing, Group, Point, Shape, Text, drawing_png, to_svg
from gnas.use.explain import Explanation, write_csv

WIDTH, HEIGHT = 380, 300
MOST_NODES = 60  # drawn of one graph
EDGE = 26.0  # margin
ENDINGS = (".html", ".svg", ".png", ".csv")  # of files of explanations
WHITE, DARK, FAINT_LINE = "#ffffff", "#1c2430", "#9aa3af"


@dataclass(frozen=True)
class GraphPicture:
    """What is drawn of a graph: its edges, names of nodes, scores of nodes and edges, and the nodes a target is of."""

    edge_index: Array
    num_nodes: int
    names: tuple[str, ...] = ()
    nodes: Array | None = None
    edges: Array | None = None
    marked: tuple[int, ...] = ()
    smiles: str = ""
    pos: Array | None = field(default=None, repr=False)

    def colours(self) -> tuple[dict[int, str], dict[tuple[int, int], str]]:
        """Colours of nodes and of pairs of nodes: blue raises the output, vermillion lowers it, white does neither."""
        pairs: dict[tuple[int, int], float] = {}
        for (a, b), score in zip(self.edge_index.T.tolist(), [] if self.edges is None else self.edges, strict=False):
            pairs[min(a, b), max(a, b)] = pairs.get((min(a, b), max(a, b)), 0.0) + float(score)
        nodes = dict(enumerate([] if self.nodes is None else self.nodes.tolist()))
        largest = max([*map(abs, nodes.values()), *map(abs, pairs.values())], default=0.0) or 1.0
        return (
            {k: _mix_colour(score / largest) for k, score in nodes.items()},
            {k: _mix_colour(score / largest) for k, score in pairs.items()},
        )


def _mix_colour(score: float) -> str:
    """White at 0, blue towards 1, vermillion towards -1."""
    full = BLUE if score > 0 else VERMILLION
    share = min(abs(score), 1.0) * 0.85
    parts = (round(255 + share * (int(full[k : k + 2], 16) - 255)) for k in (1, 3, 5))
    return "#" + "".join(f"{part:02x}" for part in parts)


def draw_graph(picture: GraphPicture) -> str:
    """The graph as SVG text: a molecule by rdkit, any other as circles and lines."""
    found = _draw_molecule(picture, png=False)
    return found if isinstance(found, str) else to_svg(_layout_graph(picture))


def graph_png(picture: GraphPicture) -> bytes:
    """The same as the content of a PNG file."""
    found = _draw_molecule(picture, png=True)
    return found if isinstance(found, bytes) else drawing_png(_layout_graph(picture), 2.0)


# -- molecules -----------------------------------------------------------------------------------------------------


def _draw_molecule(picture: GraphPicture, png: bool) -> str | bytes | None:
    """The molecule as SVG text or PNG, by rdkit; None if the graph is no molecule, or rdkit cannot draw here."""
    molecule = _find_molecule(picture) if picture.smiles else None
    if molecule is None:
        return None
    try:
        from rdkit.Chem.Draw import rdMolDraw2D
    except ImportError:  # it needs libraries of X11, which many containers lack; gnas doctor names them
        return None
    nodes, pairs = picture.colours()
    ends = {bond.GetIdx(): (bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()) for bond in molecule.GetBonds()}
    bonds = {k: _rgb(pairs[min(a, b), max(a, b)]) for k, (a, b) in ends.items() if (min(a, b), max(a, b)) in pairs}
    atoms = {k: _rgb(colour) for k, colour in nodes.items()}
    drawer: Any = rdMolDraw2D.MolDraw2DCairo(2 * WIDTH, 2 * HEIGHT) if png else rdMolDraw2D.MolDraw2DSVG(WIDTH, HEIGHT)
    drawer.drawOptions().fillHighlights = True
    rdMolDraw2D.PrepareAndDrawMolecule(
        drawer,
        molecule,
        highlightAtoms=list(atoms),
        highlightAtomColors=atoms,
        highlightBonds=list(bonds),
        highlightBondColors=bonds,
        highlightAtomRadii=dict.fromkeys(atoms, 0.4),
    )
    drawer.FinishDrawing()
    if png:
        return bytes(drawer.GetDrawingText())
    text = str(drawer.GetDrawingText())
    return re.sub(r"<!--.*?-->\s*", "", text[text.index("<svg") :])


def _find_molecule(picture: GraphPicture) -> Any:
    """rdkit's molecule whose atoms have the numbers of the graph's nodes; None if there is none."""
    try:
        from gnas.data.smiles import import_rdkit

        chem = import_rdkit()
    except InputError:
        return None
    wanted = {tuple(edge) for edge in picture.edge_index.T.tolist()}
    parsed = parse_canonical(picture.smiles)
    for molecule in (None if parsed is None else parsed[0], chem.MolFromSmiles(picture.smiles)):
        if molecule is None or molecule.GetNumAtoms() != picture.num_nodes:
            continue
        bonds = [(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()) for bond in molecule.GetBonds()]
        if {*bonds, *((b, a) for a, b in bonds)} == wanted:
            return molecule
    return None


def _rgb(colour: str) -> tuple[float, float, float]:
    return int(colour[1:3], 16) / 255, int(colour[3:5], 16) / 255, int(colour[5:7], 16) / 255


# -- other graphs --------------------------------------------------------------------------------------------------


def _layout_graph(picture: GraphPicture) -> Drawing:
    """The graph as circles and lines. Of a large one, the nodes with the largest scores around the marked ones."""
    shown = _choose_nodes(picture)
    places = _place_nodes(picture, shown)
    nodes, pairs = picture.colours()
    size = 22.0 if len(shown) <= 30 else 16.0
    lines: list[Shape] = []
    for a, b in sorted({(min(a, b), max(a, b)) for a, b in picture.edge_index.T.tolist()}):
        if a in places and b in places and a != b:
            coloured = pairs.get((a, b))
            if coloured is not None:
                lines.append(Curve(places[a], ((places[b],),), coloured, 7.0))
            lines.append(Curve(places[a], ((places[b],),), FAINT_LINE, 1.2))
    circles = [_circle(picture, k, places[k], nodes.get(k, WHITE), size) for k in shown]
    label = f"{len(shown)} of {picture.num_nodes:,} nodes" if len(shown) < picture.num_nodes else ""
    note = [Text(WIDTH / 2, HEIGHT - 9, label, 11, fill="#5f6a7a")] if label else []
    return Drawing(WIDTH, HEIGHT, (Box(0, 0, WIDTH, HEIGHT, 0, WHITE), *lines, *circles, *note), "graph with scores")


def _circle(picture: GraphPicture, node: int, place: Point, fill: str, size: float) -> Group:
    marked = node in picture.marked
    box = Box(
        *(place[0] - size / 2, place[1] - size / 2, size, size, size / 2, fill),
        stroke=DARK if marked else FAINT_LINE,
        line=3.0 if marked else 1.0,
    )
    score = "" if picture.nodes is None else f": {picture.nodes[node]:+.4g}"
    name = f" ({picture.names[node]})" if picture.names else ""
    text = picture.names[node][:3] if picture.names else str(node)
    return Group("node", (box, Text(*place, text, 9, fill=DARK)), f"node {node}{name}{score}")


def _choose_nodes(picture: GraphPicture) -> list[int]:
    """All nodes, or the marked ones with those around them, larger scores first."""
    if picture.num_nodes <= MOST_NODES:
        return list(range(picture.num_nodes))
    scores = np.zeros(picture.num_nodes) if picture.nodes is None else np.abs(picture.nodes)
    near: dict[int, set[int]] = {}
    for a, b in picture.edge_index.T.tolist():
        near.setdefault(a, set()).add(b)
        near.setdefault(b, set()).add(a)
    chosen = dict.fromkeys(picture.marked or [int(scores.argmax())])
    while len(chosen) < MOST_NODES:
        around = {n for k in chosen for n in near.get(k, ())} - set(chosen)
        if not around:
            break
        ranked = sorted(around, key=lambda n: (-scores[n], n))
        chosen |= dict.fromkeys(ranked[: MOST_NODES - len(chosen)])
    return list(chosen)


def _place_nodes(picture: GraphPicture, shown: Sequence[int]) -> dict[int, Point]:
    """Places in pixels: the positions of the data, or a spring layout."""
    if picture.pos is not None and picture.pos.shape[1] >= 2:
        points = np.asarray(picture.pos, float)[list(shown)][:, :2]
    else:
        import networkx

        graph = networkx.Graph()
        graph.add_nodes_from(shown)
        known = set(shown)
        graph.add_edges_from((a, b) for a, b in picture.edge_index.T.tolist() if a in known and b in known and a != b)
        found = networkx.spring_layout(graph, seed=0, iterations=120)
        points = np.array([found[k] for k in shown], float).reshape(-1, 2)
    low, spread = points.min(0), np.ptp(points, axis=0)
    unit = (points - low) / np.where(spread > 0, spread, 1.0)
    unit = np.where(spread > 0, unit, 0.5)
    room = np.array([WIDTH - 2 * EDGE, HEIGHT - 2 * EDGE - 10])
    return {k: (float(x), float(y)) for k, (x, y) in zip(shown, EDGE + unit * room, strict=True)}


# -- explanations -----------------------------------------------------------------------------------------------------


def draw_explanation(explanation: Explanation) -> str:
    """The graph or molecule as SVG text. Blue parts raise the output, vermillion parts lower it."""
    return draw_graph(to_picture(explanation))


def save_explanations(explanations: Sequence[Explanation], path: str | Path) -> list[Path]:
    """Write explanations as ``.html`` (one page), ``.csv`` (all scores), ``.svg`` or ``.png`` (a file per row).

    Returns the written files. Of several pictures each has its row in the name: ``explanation-row3.svg``.
    """
    path, kind = Path(path), Path(path).suffix.lower()
    if kind not in ENDINGS:
        raise InputError(
            f"{path}: an explanation is written as {', '.join(ENDINGS)}; use a name with one of these endings"
        )
    if not explanations:
        raise InputError("there is no explanation to write; name at least one row")
    if kind == ".csv":
        return [write_atomic(path, write_csv(explanations))]
    if kind == ".html":
        return [write_atomic(path, _page(explanations))]
    places = list_files(path, [one.row for one in explanations])
    for one, place in zip(explanations, places, strict=True):
        write_atomic(place, draw_explanation(one) if kind == ".svg" else graph_png(to_picture(one)))
    return places


def list_files(path: Path, rows: Sequence[int]) -> list[Path]:
    """The files that ``save_explanations`` writes for these rows."""
    if path.suffix.lower() not in (".svg", ".png") or len(rows) == 1:
        return [path]
    return [path.with_name(f"{path.stem}-row{row}{path.suffix}") for row in rows]


def to_picture(explanation: Explanation) -> GraphPicture:
    """What is drawn of an explanation."""
    place = explanation.place
    marked = tuple(place[name] for name in ("node", "source", "target") if name in place)
    return GraphPicture(
        explanation.edge_index,
        len(explanation.nodes),
        explanation.names,
        explanation.nodes,
        explanation.edges,
        marked,
        explanation.smiles,
        explanation.pos,
    )


def _page(explanations: Sequence[Explanation]) -> str:
    from gnas.report.html import render_page  # it imports this module, for the test rows of a report

    shown = [{"about": one, "svg": draw_explanation(one), "largest": _largest(one)} for one in explanations]
    return render_page("explain.html", shown=shown, network=explanations[0].network)


def _largest(explanation: Explanation) -> list[tuple[str, float]]:
    """The parts with the largest scores."""
    names = explanation.names or ("",) * len(explanation.nodes)
    parts = [(f"node {k} {name}".strip(), s) for k, (name, s) in enumerate(zip(names, explanation.nodes, strict=True))]
    if explanation.edges is not None:
        ends = explanation.edge_index.T.tolist()
        parts += [(f"edge {a} → {b}", s) for (a, b), s in zip(ends, explanation.edges, strict=True)]
    if explanation.features is not None:
        parts += [(f"feature {k} of the graph", s) for k, s in enumerate(explanation.features)]
    return [(text, float(s)) for text, s in sorted(parts, key=lambda one: -abs(one[1]))[:5]]
