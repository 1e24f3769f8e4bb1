"""A run under way: its state, its numbers so far, and the candidates of its race."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from gnas.errors import InputError
from gnas.model.metrics import higher_is_better
from gnas.report.answer import Fact
from gnas.run import layout
from gnas.run.record import RunRecord, file_signature
from gnas.run.settings import config_value
from gnas.run.table import Column, Table
from gnas.run.words import duration, format_metric, label_metric
from gnas.strategies.candidate import RaceCandidate
from gnas.strategies.trials import TRIALS

FRESH = 120.0  # seconds after its last change, or five epochs, that a folder without a lock, as of another machine, is running


def live_state(run: RunRecord) -> str:
    """``finished``, ``running`` or ``stopped``. A folder that another machine writes has no lock here: its files decide."""
    if run.state != "stopped":
        return run.state
    histories = [run.history, *(training.history for training in run.trainings)]
    pace = max((float(one[-1].get("seconds") or 0.0) / len(one) for one in histories if one), default=0.0)
    return "running" if time.time() - _last_change(run.folder) < max(FRESH, 5 * pace) else "stopped"


def _last_change(folder: Path) -> float:
    return max((time_ns / 1e9 for _, _, time_ns in file_signature(folder)), default=0.0)


def list_progress(run: RunRecord, state: str) -> list[Fact]:
    """How far a run is, how good, and how long it still takes."""
    facts = []
    values = [record["val_metric"] for record in run.history if record.get("val_metric") is not None]
    last = run.history[-1] if run.history else {}
    best = last.get("best_val_metric", values[-1] if values else None)
    if best is not None:
        facts.append(
            Fact(format_metric(run.metric, best), f"validation {label_metric(run.metric)}", str(last.get("leader", "")))
        )
    if "tried" in last:
        total = None if _limit(run) else config_value(run.config, "search.trials")
        of = f"of {total}, " if isinstance(total, int) else ""
        facts.append(Fact(str(last["tried"]), "networks tried", f"{of}{last.get('dropped', 0)} dropped"))
    elif run.history:
        total = config_value(run.config, "search.epochs") if run.step == "epoch" else None
        facts.append(Fact(str(len(run.history)), f"{run.step}s of the search", f"of {total}" if total else ""))
    if run.trainings and not run.is_racing:
        done = sum(one.result is not None for one in run.trainings)
        facts.append(Fact(f"{done} of {len(run.trainings)}", "trainings finished"))
    begin = (run.folder / layout.CONFIG).stat().st_mtime
    passed = max((time.time() if state == "running" else _last_change(run.folder)) - begin, 0.0)
    facts.append(Fact(duration(passed), "so far" if state == "running" else "in all"))
    left = _seconds_left(run, passed) if state == "running" else None
    if left is not None:
        facts.append(
            Fact(duration(left), "left", "by the limit of the race" if _limit(run) else "of the search, about")
        )
    return facts


def _limit(run: RunRecord) -> float | None:
    value = config_value(run.config, "search.max_seconds")
    return float(value) if isinstance(value, int | float) and value > 0 else None


def _seconds_left(run: RunRecord, passed: float) -> float | None:
    """Seconds to the limit of a race; of a search by epochs, at the speed so far."""
    limit = _limit(run)
    if limit is not None:
        return max(limit - passed, 0.0)
    total, done = config_value(run.config, "search.epochs"), len(run.history)
    if run.search is not None or run.step != "epoch" or not done or not isinstance(total, int):
        return None
    return max(total - done, 0) * float(run.history[-1].get("seconds") or 0.0) / done


# -- the candidates of a race ----------------------------------------------------------------------------------------


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
