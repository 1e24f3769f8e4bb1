"""How the choices formed, as drawings: each different cell once, and for each epoch which of them it shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gnas.arch.genotype import CellGenotype, Genotype
from gnas.errors import InputError
from gnas.report.layout import layout_cell, rows_needed
from gnas.report.shapes import to_svg
from gnas.run.record import RunRecord
from gnas.run.words import count, format_metric, unit

BUDGET = 1_500_000  # letters of drawings in one report


@dataclass(frozen=True)
class Frame:
    """One position of the slider: the drawing of each cell by number, and the line of text above them."""

    label: str
    drawings: tuple[int, ...]
    text: str


@dataclass(frozen=True)
class Frames:
    """Drawings as (SVG, formula), and the frames that refer to them. ``left_out`` epochs are not drawn."""

    drawings: tuple[tuple[str, str], ...]
    frames: tuple[Frame, ...]
    left_out: int = 0


def build_frames(job: RunRecord, budget: int = BUDGET) -> Frames:
    """Frames for the epochs of a search and its final genotype; evenly thinned out where they exceed the budget."""
    steps = _steps(job)
    rows = rows_needed(cell for _, genotype, _ in steps for cell in genotype)
    kept = steps
    for stride in (1, 2, 3, 5, 10, 20, 50, 100, 1000):
        kept = [step for place, step in enumerate(steps) if (len(steps) - 1 - place) % stride == 0]
        drawings, numbers = _drawings([genotype for _, genotype, _ in kept], rows)
        if sum(len(picture) + len(formula) for picture, formula in drawings) <= budget:
            break
    frames = []
    for place, (label, genotype, record) in enumerate(kept):
        before = kept[place - 1][1] if place else None
        shown = tuple(numbers[number, cell] for number, cell in enumerate(genotype, start=1))
        frames.append(Frame(label, shown, _text(label, genotype, record, before, job.metric)))
    return Frames(drawings, tuple(frames), len(steps) - len(kept))


def _steps(job: RunRecord) -> list[tuple[str, Genotype, dict[str, Any]]]:
    known: dict[str, Genotype | None] = {}
    steps = []
    for record in job.history:
        text = record.get("genotype") or ""
        if text not in known:
            known[text] = _read(text)
        genotype = known[text]
        if genotype is not None:
            steps.append((f"{job.step.capitalize()} {record['epoch']}", genotype, record))
    if job.genotype is not None and (not steps or steps[-1][1] != job.genotype):
        steps.append(("Final choice" if job.search else "Choice so far", job.genotype, {}))
    return steps


def _read(text: str) -> Genotype | None:
    """A genotype; None for those of strategies whose networks are not made of our cells."""
    try:
        return Genotype.from_yaml(text) if text else None
    except InputError:
        return None


def _drawings(
    genotypes: list[Genotype], rows: tuple[int, int]
) -> tuple[tuple[tuple[str, str], ...], dict[tuple[int, CellGenotype], int]]:
    numbers: dict[tuple[int, CellGenotype], int] = {}
    drawings: list[tuple[str, str]] = []
    for genotype in genotypes:
        for number, cell in enumerate(genotype, start=1):
            if (number, cell) not in numbers:
                numbers[number, cell] = len(drawings)
                picture = layout_cell(cell, number, rows=rows, formula=False, legend=False)
                drawings.append((to_svg(picture, page=True), str(cell.tree())))
    return tuple(drawings), numbers


def _text(label: str, genotype: Genotype, record: dict[str, Any], before: Genotype | None, metric: str) -> str:
    parts = [label, f"depth {genotype.depth()}"]
    if record.get("val_metric") is not None:
        parts.append(f"validation {unit(metric)} {format_metric(metric, record['val_metric'])}")
    if before is not None:
        changed = sum(
            len(set(new.links) - set(old.links)) for new, old in zip(genotype.cells, before.cells, strict=False)
        )
        parts.append(f"{count(changed, 'link')} changed" if changed else "no change")
    return " · ".join(parts)
