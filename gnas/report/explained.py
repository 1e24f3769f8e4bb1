"""Explanations of predictions as pictures: SVG and PNG files, and one page for several."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gnas.errors import InputError
from gnas.files import write_atomic
from gnas.report.draw import drawing_png
from gnas.report.graphs import GraphPicture, draw_molecule, layout_graph
from gnas.report.html import render_page
from gnas.report.shapes import to_svg
from gnas.use.explain import Explanation, write_csv

ENDINGS = (".html", ".svg", ".png", ".csv")


def draw_explanation(explanation: Explanation) -> str:
    """The graph or molecule as SVG text. Blue parts raise the output, vermillion parts lower it."""
    picture = to_picture(explanation)
    found = draw_molecule(picture)
    return found if isinstance(found, str) else to_svg(layout_graph(picture))


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
        write_atomic(place, draw_explanation(one) if kind == ".svg" else _png(one))
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


def _png(explanation: Explanation) -> bytes:
    picture = to_picture(explanation)
    found = draw_molecule(picture, png=True)
    return found if isinstance(found, bytes) else drawing_png(layout_graph(picture), 2.0)


def _page(explanations: Sequence[Explanation]) -> str:
    shown = [{"about": one, "svg": draw_explanation(one), "largest": _largest(one)} for one in explanations]
    return render_page("explain.html", shown=shown, network=explanations[0].network)


def _largest(explanation: Explanation) -> list[tuple[str, float]]:
    """The parts with the largest scores."""
    names = explanation.names or ("",) * len(explanation.nodes)
    parts = [(f"node {k} {name}".strip(), s) for k, (name, s) in enumerate(zip(names, explanation.nodes, strict=True))]
    ends = explanation.edge_index.T.tolist()
    parts += [
        (f"edge {a} → {b}", s)
        for (a, b), s in zip(ends, [] if explanation.edges is None else explanation.edges, strict=False)
    ]
    parts += [
        (f"feature {k} of the graph", s)
        for k, s in enumerate([] if explanation.features is None else explanation.features)
    ]
    return [(text, float(s)) for text, s in sorted(parts, key=lambda one: -abs(one[1]))[:5]]
