"""The candidates of a race with their results, from the history of the run, and a plot of their curves."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from gnas.errors import InputError
from gnas.model.metrics import higher_is_better
from gnas.report.axes import add_legend, line_style, new_figure, set_heading, use_log_axis
from gnas.report.palette import FAINT, LIGHT, SERIES
from gnas.run import layout
from gnas.run.record import RunRecord
from gnas.run.table import Column, Table
from gnas.run.words import describe_direction, format_metric, label_metric
from gnas.strategies.candidate import RaceCandidate
from gnas.strategies.trials import TRIALS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LEADERS = 5  # with a colour of their own
MANY = 20  # points, of which the worst tenth is not shown


@dataclass
class Racer:
    """One candidate: its trained epochs and validation metrics so far, and what became of it."""

    id: str
    title: str
    origin: str
    points: list[tuple[int, float]] = field(default_factory=list)
    state: str = "in the race"


def list_racers(run: RunRecord) -> list[Racer]:
    """The candidates of a race, best first; empty if the search is no race."""
    found: dict[str, Racer] = {}
    trials = layout.search_folder(run.folder) / TRIALS
    for record in run.history:
        key = record.get("candidate_id")
        if not isinstance(key, str):
            return []
        if key not in found:
            try:
                made = RaceCandidate.from_dict({**record["candidate"], "architecture": record["genotype"]})
            except (InputError, KeyError, TypeError):
                continue
            found[key] = Racer(key, made.title, made.origin)
        value = record.get("val_metric")
        if value is None:
            found[key].state = "failed"
        else:
            found[key].points.append((int(record["reached"]), float(value)))
    sign = -1.0 if higher_is_better(run.metric) else 1.0
    racers = sorted(found.values(), key=lambda one: sign * one.points[-1][1] if one.points else float("inf"))
    for one in racers:
        if one.state != "failed" and not (trials / one.id).is_dir():
            one.state = "dropped" if run.search is None else "not trained to the end"
        elif one.state != "failed" and run.search is not None:
            one.state = "trained to the end"
    return racers


def draw_race_curves(racers: list[Racer], metric: str) -> Figure:
    """The validation metric by trained epochs: the leaders in colours, all others grey."""
    figure, (panel,) = new_figure(height=3.6)
    for one in racers[LEADERS:]:
        if one.points:
            panel.plot(*zip(*one.points, strict=True), color=LIGHT[FAINT], linewidth=0.9, alpha=0.4, marker=".", ms=3)
    handles, names = [], []
    for one, look in reversed(list(zip(racers[:LEADERS], SERIES, strict=False))):
        if one.points:
            handles += panel.plot(*zip(*one.points, strict=True), **line_style(look), markersize=5)
            names.append(one.title)
    use_log_axis(panel)
    panel.set_xlabel("trained epochs")
    set_heading(panel, f"validation {label_metric(metric)} ({describe_direction(metric)})")
    _focus(panel, racers, metric)
    if names:
        add_legend(figure, handles[::-1], names[::-1], loc="outside upper center", ncols=1)
    return figure


def _focus(panel: object, racers: list[Racer], metric: str) -> None:
    """Leave out the worst tenth of many values: a failed start would flatten all curves."""
    values = sorted((value for one in racers for _, value in one.points), reverse=higher_is_better(metric))
    if len(values) < MANY:
        return
    best, limit = values[0], values[int(0.9 * (len(values) - 1))]
    room = 0.06 * abs(limit - best) or 1.0
    outward = room if best > limit else -room
    panel.set_ylim(*sorted((best + outward, limit - outward)))  # type: ignore[attr-defined]


def racers_table(racers: list[Racer], metric: str) -> Table[Racer]:
    """The best candidates with what became of them."""
    ended = any(one.state == "trained to the end" for one in racers)
    left = sum(one.state != "trained to the end" if ended else one.state in ("dropped", "failed") for one in racers)
    columns = (
        Column[Racer]("candidate", "title"),
        Column[Racer]("from", "origin"),
        Column[Racer]("epochs", lambda one: one.points[-1][0] if one.points else 0),
        Column[Racer](
            f"validation {label_metric(metric)}",
            lambda one: one.points[-1][1] if one.points else None,
            partial(format_metric, metric),
        ),
        Column[Racer]("state", "state"),
    )
    shown = racers[:12]
    one, many = ("was", "were") if ended else ("is", "are")
    what = f"{one if left == 1 else many} {'not trained to the end' if ended else 'dropped'}"
    caption = f"{len(shown)} of {len(racers)} candidates, best first. {left} {what}."
    return Table(columns, shown, caption)
