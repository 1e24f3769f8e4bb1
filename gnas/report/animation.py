"""A race as an animated SVG: the result of every training by time, the best so far, and the best found cell as it changes.

The animation is declared in the SVG itself, without scripts, so that a page can show it as an image. A program that does not
animate shows the end of the race.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gnas.arch.genotype import Genotype
from gnas.arch.operation import BLUE, GREY, VERMILLION
from gnas.errors import InputError
from gnas.files import write_atomic
from gnas.model.task import higher_is_better
from gnas.printed import format_count
from gnas.report.axes import name_axis
from gnas.report.draw import count_rows, layout_cell
from gnas.report.palette import BAND, FAINT, INK, LIGHT
from gnas.report.pictures import read_genotype
from gnas.report.shapes import NAMESPACE, SANS, Box, Curve, Drawing, Point, Shape, Text, make_marker, to_svg
from gnas.run.record import RunRecord, read_run
from gnas.run.words import duration, format_metric, label_metric

WIDTH, HEIGHT = 900.0, 420.0
LEFT, TOP, PLOT_WIDTH, PLOT_HEIGHT = 70.0, 100.0, 460.0, 255.0
CELL = (560.0, 76.0, 320.0, 300.0)  # x, y, width, height of the drawing of the cell
SECONDS, PAUSE = 9.0, 3.0  # of the animation; of the end, before it begins again
TIMES = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 18000)  # seconds between two labels
MOST_LABELS = 6  # of an axis
SHOWN = 0.9  # share of the values that are inside the plot


@dataclass(frozen=True)
class Result:
    """One training of a race, at the time when it ended."""

    candidate: str
    seconds: float
    value: float
    genotype: Genotype | None  # None for a hand-made network
    tried: int
    dropped: int
    leader: str


def save_animation(folder: str | Path, path: str | Path) -> Path:
    """Write the race of a run folder as an animated ``.svg`` file and return its path.

    >>> from gnas.report.animation import save_animation
    >>> save_animation("runs/a-race", "race.svg")  # doctest: +SKIP
    """
    path = Path(path)
    if path.suffix.lower() != ".svg":
        raise InputError(f"{path}: an animation is written as .svg; use a name with this ending")
    return write_atomic(path, animate_race(read_run(folder)))


def animate_race(run: RunRecord) -> str:
    """The animated SVG of a race."""
    results = _list_results(run)
    if len(results) < 2:
        raise InputError(f"{run.folder}: only a race of several trainings can be animated; this run has none")
    frame = _Frame(results, run.metric)
    parts = [
        f'<svg{NAMESPACE} viewBox="0 0 {WIDTH:g} {HEIGHT:g}" width="{WIDTH:g}" height="{HEIGHT:g}" '
        f'font-family="{SANS}" color="{LIGHT[INK]}" role="img" aria-label="A race of networks on {_plain(run.dataset)}">',
        f'<rect width="{WIDTH:g}" height="{HEIGHT:g}" rx="10" fill="{LIGHT["paper"]}"/>',
        _inline(frame.axes(run.dataset)),
        _revealed(_inline(frame.curves()), frame),
        *_captions(results, frame),
        *_cells(results, frame),
    ]
    return "".join([*parts, "</svg>\n"])


def _list_results(run: RunRecord) -> list[Result]:
    found = []
    for record in run.history:
        value, key = record.get("val_metric"), record.get("candidate_id")
        if value is not None and isinstance(key, str):
            genotype = read_genotype(str(record.get("genotype") or ""))
            more = (int(record["tried"]), int(record["dropped"]), str(record["leader"]))
            found.append(Result(key, float(record["seconds"]), float(value), genotype, *more))
    return found


# -- the plot --------------------------------------------------------------------------------------------------------


class _Frame:
    """Places of times and values in the picture."""

    def __init__(self, results: Sequence[Result], metric: str) -> None:
        self.results, self.metric, self.higher = results, metric, higher_is_better(metric)
        self.last = max(one.seconds for one in results)
        values = sorted((one.value for one in results), reverse=self.higher)
        best, worst = values[0], values[int(SHOWN * (len(values) - 1))]
        room = 0.08 * abs(worst - best) or 1.0
        self.low, self.high = min(best, worst) - room, max(best, worst) + room

    def x(self, seconds: float) -> float:
        return LEFT + PLOT_WIDTH * seconds / self.last

    def y(self, value: float) -> float:
        share = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return TOP + PLOT_HEIGHT * (1 - share)

    def point(self, one: Result) -> Point:
        return self.x(one.seconds), self.y(one.value)

    def moment(self, seconds: float) -> float:
        """The share of the animation that has passed at a time of the race."""
        return min(SECONDS * seconds / self.last, SECONDS) / (SECONDS + PAUSE)

    def axes(self, dataset: str) -> Drawing:
        """What does not move."""
        title, bottom = name_axis("validation", self.metric), TOP + PLOT_HEIGHT
        shapes: list[Shape] = [
            Text(24, 30, f"A race on {_plain(dataset)}", 17, "start", bold=True),
            Text(LEFT, TOP - 14, title, 12, "start", FAINT),
            Box(LEFT, TOP, PLOT_WIDTH, PLOT_HEIGHT, 4, BAND),
        ]
        for value in _round_numbers(self.low, self.high, (1, 2, 2.5, 5, 10)):
            shapes.append(Text(LEFT - 8, self.y(value), format_metric(self.metric, value), 11, "end", FAINT))
        for seconds in _round_numbers(0.0, self.last, TIMES):
            words = duration(seconds) if seconds else "0"
            shapes.append(Text(self.x(seconds), bottom + 16, words, 11, "middle", FAINT))
        keys = ((BLUE, "disc", "found network"), (VERMILLION, "square", "hand-made network"), (INK, "", "best so far"))
        for k, (colour, marker, words) in enumerate(keys):
            x, y = LEFT + 160 * k, bottom + 42
            line = Curve((x, y), (((x + 16, y),),), colour, 2.4)
            shapes.append(make_marker(marker, x + 8, y, 9, colour) if marker else line)
            shapes.append(Text(x + 24, y, words, 12, "start"))
        return Drawing(WIDTH, HEIGHT, tuple(shapes))

    def curves(self) -> Drawing:
        """Candidates as lines from rung to rung, trainings as points, and the best so far as a line of steps."""
        return Drawing(WIDTH, HEIGHT, (*self._lines(), *self._best(), *self._points()))

    def _lines(self) -> Iterator[Shape]:
        groups: dict[str, list[Point]] = {}
        for one in self.results:
            groups.setdefault(one.candidate, []).append(self.point(one))
        for points in groups.values():
            if len(points) > 1:
                yield Curve(points[0], tuple((point,) for point in points[1:]), GREY, 1.0)

    def _points(self) -> Iterator[Shape]:
        for one in self.results:
            found = one.genotype is not None
            yield make_marker("disc" if found else "square", *self.point(one), 8, BLUE if found else VERMILLION)

    def _best(self) -> Iterator[Shape]:
        better, best = max if self.higher else min, self.results[0].value
        steps: list[tuple[Point, ...]] = []
        for one in self.results[1:]:
            steps.append(((self.x(one.seconds), self.y(best)),))
            best = better(best, one.value)
            steps.append(((self.x(one.seconds), self.y(best)),))
        yield Curve(self.point(self.results[0]), tuple(steps), INK, 2.4)


def _round_numbers(low: float, high: float, steps: Sequence[float]) -> list[float]:
    """At most six multiples of one of ``steps``, times a power of ten, between two numbers."""
    power = 10.0 ** (math.floor(math.log10(high - low)) - 1) if steps[-1] == 10 else 1.0
    while True:
        for step in steps:
            first, last = math.ceil(low / (step * power)), math.floor(high / (step * power))
            if last - first < MOST_LABELS:
                return [number * step * power for number in range(first, last + 1)]
        power *= 10.0


# -- what moves ------------------------------------------------------------------------------------------------------


def _animate(attribute: str, values: str, times: str, more: str = "") -> str:
    """The change of an attribute during the animation."""
    return (
        f'<animate attributeName="{attribute}" values="{values}" keyTimes="{times}" {more}'
        f'dur="{SECONDS + PAUSE:g}s" begin="-{SECONDS:g}s" repeatCount="indefinite"/>'
    )


def _revealed(content: str, frame: _Frame) -> str:
    """Content that appears from left to right as the race goes on."""
    widths = f"{LEFT - 8:g};{LEFT + PLOT_WIDTH + 10:g};{WIDTH:g}"
    animate = _animate("width", widths, f"0;{frame.moment(frame.last):.4f};1")
    clip = f'<clipPath id="passed"><rect width="{WIDTH:g}" height="{HEIGHT:g}">{animate}</rect></clipPath>'
    return f'<defs>{clip}</defs><g clip-path="url(#passed)">{content}</g>'


def _captions(results: Sequence[Result], frame: _Frame) -> Iterator[str]:
    """The state of the race after each training, above the plot."""
    contents = []
    for one in results:
        tried = f"{format_count(one.tried, 'network')} tried, {one.dropped} dropped"
        words = f"{duration(one.seconds)}: {tried}; leader: {one.leader}"
        contents.append(_inline(Drawing(WIDTH, HEIGHT, (Text(24, 54, words, 13, "start"),))))
    return _in_turn(contents, [0.0, *(frame.moment(one.seconds) for one in results[1:])])


def _cells(results: Sequence[Result], frame: _Frame) -> Iterator[str]:
    """The first cell of the best found network, while it is the best."""
    changes = list[tuple[Result, Genotype]]()
    for one in results:
        best = changes[-1][0].value if changes else None
        better = best is None or (one.value > best if frame.higher else one.value < best)
        if one.genotype is not None and better:
            changes.append((one, one.genotype))
    rows, contents = count_rows(genotype[0] for _, genotype in changes), []
    x, y, width, height = CELL
    for one, genotype in changes:
        cell = to_svg(layout_cell(genotype[0], 1, rows=rows, formula=False, legend=False), page=True)
        place = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}"'
        value = f"{label_metric(frame.metric)} {format_metric(frame.metric, one.value)}"
        title = f"the best found network, {format_count(len(genotype), 'cell')} ({value})"
        words = Drawing(WIDTH, HEIGHT, (Text(x + width / 2, y + height + 18, title, 12, "middle", FAINT),))
        contents.append(cell.replace("<svg ", f"<svg {place} ", 1) + _inline(words))
    return _in_turn(contents, [frame.moment(one.seconds) for one, _ in changes])


def _in_turn(contents: Sequence[str], starts: Sequence[float]) -> Iterator[str]:
    """Each content from its moment to that of the next; without an animation, the last alone."""
    for k, (content, start) in enumerate(zip(contents, starts, strict=True)):
        is_last = k + 1 == len(contents)
        times = [("0", 0.0)] * (start > 0) + [("1", start)] + ([] if is_last else [("0", starts[k + 1])])
        values, keys = ";".join(value for value, _ in times), ";".join(f"{moment:.4f}" for _, moment in times)
        animate = _animate("opacity", values, keys, 'calcMode="discrete" ') if len(times) > 1 else ""
        yield f'<g opacity="{int(is_last)}">{animate}{content}</g>'


def _inline(drawing: Drawing) -> str:
    """A drawing as elements inside the picture."""
    text = to_svg(drawing, page=True)
    return text[text.index(">") + 1 : text.rindex("</svg>")]


def _plain(text: str) -> str:
    return "".join(letter for letter in text if letter.isalnum() or letter in " -_.")[:40]
