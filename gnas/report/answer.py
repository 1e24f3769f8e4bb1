"""The answer first: which network, how deep, how good against the baselines, how long it took. In words and numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gnas.model.task import higher_is_better
from gnas.run.leaderboard import Leaderboard, Row
from gnas.run.record import RunRecord, TrainingFigures, TrainingRecord
from gnas.run.settings import config_value
from gnas.run.strategy_curves import StrategyComparison
from gnas.run.words import count, duration, format_metric, format_spread, join_words, name_metric, unit


@dataclass(frozen=True)
class Fact:
    """One number of the headline: a value, what it is, and a remark."""

    value: str
    label: str
    remark: str = ""


def found_row(board: Leaderboard) -> Row | None:
    """The found network: the best of them where there are several."""
    return next((row for row in board.rows if row.found), None)


def best_baseline(board: Leaderboard) -> Row | None:
    return next((row for row in board.rows if not row.found), None)


def answer(job: RunRecord) -> list[str]:
    """A few sentences with numbers."""
    sentences = [_network(job), _chosen(job)] if job.genotype is not None else []
    if job.rounds:
        sentences.append(_depth(job))
    row = found_row(job.leaderboard) if job.leaderboard else None
    if job.leaderboard and row:
        sentences.append(_quality(job.leaderboard, row, "it" if sentences else "the network found"))
        sentences.append(_time(job, row))
    else:
        sentences.append(_so_far(job))
    return [sentence for sentence in sentences if sentence]


def facts(job: RunRecord) -> list[Fact]:
    """The numbers of the headline; those that are there."""
    found: list[Fact] = []
    if job.genotype is not None:
        found.append(Fact(str(job.genotype.depth()), "depth", f"cells of {len(job.genotype)} that pass messages"))
    row = found_row(job.leaderboard) if job.leaderboard else None
    if job.leaderboard and row:
        metric, rival = job.leaderboard.metric, best_baseline(job.leaderboard)
        value = format_metric(metric, row.mean)
        found.append(Fact(value, f"test {unit(metric)}", _seeds(metric, row)))
        if rival:
            found.append(Fact(_gain(metric, row, rival), f"against {rival.name}", verdict(metric, row, rival)))
        found.append(Fact(f"{row.num_weights:,}", "weights"))
    seconds = search_seconds(job)
    if seconds:
        found.append(Fact(duration(seconds), "search", _effort(job)))
    return found


def search_seconds(job: RunRecord) -> float | None:
    if job.rounds:
        return sum(one.seconds or 0.0 for one in job.rounds)
    if job.search:
        return job.search.seconds
    return job.history[-1].get("seconds") if job.history else None


def _effort(job: RunRecord) -> str:
    several = job.search.searches if job.search else ()
    if several and not job.rounds:
        return f"{len(several)} searches"
    return count(len(job.rounds), "round") if job.rounds else count(len(job.history), job.step)


def verdict(metric: str, row: Row, rival: Row) -> str:
    """``better`` or ``worse``; ``within the spread`` where the difference is smaller than the seeds' own."""
    if row.seeds > 1 and rival.seeds > 1 and abs(row.mean - rival.mean) <= max(row.std, rival.std):
        return "within the spread over seeds"
    if row.mean == rival.mean:
        return "the same"
    return "better" if (row.mean > rival.mean) == higher_is_better(metric) else "worse"


def _gain(metric: str, row: Row, rival: Row) -> str:
    """The difference in points of a percentage, or in percent of an error."""
    if higher_is_better(metric):
        return f"{row.mean - rival.mean:+.2f}\u00a0points".replace("-", "−")
    text = (
        f"{100 * (row.mean - rival.mean) / rival.mean:+.1f}\u00a0%" if rival.mean else f"{row.mean - rival.mean:+.4f}"
    )
    return text.replace("-", "−")


def _seeds(metric: str, row: Row) -> str:
    return f"± {format_metric(metric, row.std)} over {row.seeds} seeds" if row.seeds > 1 else "one seed"


def _network(job: RunRecord) -> str:
    genotype = job.genotype
    assert genotype is not None
    counts = genotype.aggregations()
    how = ", ".join(f"{name} ×{number}" for name, number in counts.most_common())
    doing = {"finished": "The search found", "running": "So far the search has", "stopped": "The search left"}
    verb = "The search found" if job.search or job.leaderboard else doing[job.state]
    depth = f"message-passing depth {genotype.depth()}" + (
        f" (aggregations: {how})" if how else " (no aggregation at all)"
    )
    return f"{verb} a network of {count(len(genotype), 'cell')} with {depth}."


def _chosen(job: RunRecord) -> str:
    """Of several searches: which one was taken, and why."""
    if job.search is None or not job.search.searches or job.rounds:
        return ""
    several, chosen = job.search.searches, job.search.seed
    values = {one["seed"]: one["val_metric"] for one in several}
    others = join_words([format_metric(job.metric, value) for seed, value in values.items() if seed != chosen])
    return (
        f"It comes from seed {chosen}, the best of {len(several)} searches by validation after a brief training "
        f"({name_metric(job.metric, values[chosen])}; the other{'s' * (len(several) > 2)} {others})."
    )


def _depth(job: RunRecord) -> str:
    done = [one for one in job.rounds if one.searched is not None]
    if not done:
        return f"The first round searches with {count(job.rounds[0].initial or 0, 'cell')}."
    way = " → ".join(str(depth) for depth in (done[0].initial, *(one.searched for one in done)))
    why = (job.result or {}).get("explanation")
    end = f" The loop ended because {why}." if why else ""
    return f"The depth went {way} in {count(len(done), 'round')}.{end}"


def _quality(board: Leaderboard, row: Row, subject: str) -> str:
    metric, rival = board.metric, best_baseline(board)
    over = f" over {row.seeds} seeds" if row.seeds > 1 else " (one seed, so no spread is known)"
    value = name_metric(metric, row.mean) + (f" ± {format_metric(metric, row.std)}" if row.seeds > 1 else "")
    text = f"On the test split of {board.dataset} {subject} reaches {value}{over}"
    if rival is None:
        return text + "; nothing was trained beside it."
    other = f"the best hand-made network, {rival.name} ({format_spread(metric, rival.mean, rival.std, rival.seeds)})"
    told = verdict(metric, row, rival)
    if told in ("better", "worse"):
        return f"{text}: {told} than {other} by {_gain(metric, row, rival).lstrip('+−')}."
    return f"{text}: level with {other}, {'the difference is ' + told if told != 'the same' else 'to the last digit'}."


def _time(job: RunRecord, row: Row) -> str:
    seconds = search_seconds(job)
    each = duration(row.seconds / max(row.seeds, 1))
    training = f"training it {each}" + (f" a seed ({row.seeds} seeds)" if row.seeds > 1 else "")
    return f"The search took {duration(seconds)} and {training}." if seconds else f"{training.capitalize()}."


def _strategies(comparison: StrategyComparison) -> str:
    rows = comparison.rows()
    if not rows:
        return "No strategy has found a network that could be trained."
    best, metric, epochs = rows[0], comparison.metric, comparison.budget["epochs"]
    value = name_metric(metric, best.best) + (f" ± {format_metric(metric, best.std)}" if best.seeds > 1 else "")
    text = (
        f"Of {count(len(rows), 'strategy').replace('ys', 'ies')}, {best.strategy} found the best network by validation"
    )
    return f"{text} within {count(epochs, 'epoch')}: {value} over {count(best.seeds, 'seed')}."


def _so_far(job: RunRecord) -> str:
    if job.strategies is not None:
        return _strategies(job.strategies)
    if job.trainings:
        if len(job.trainings) == 1 and not job.history and job.trainings[0].result:
            return _one(job.trainings[0], job.trainings[0].result)
        done = sum(training.result is not None for training in job.trainings)
        return f"{_searched(job)}Of {count(len(job.trainings), 'training')} begun, {done} finished." + _best(job)
    if job.search:
        return f"The search took {duration(search_seconds(job))}. No network is trained here yet."
    if job.history:
        last, total = job.history[-1], config_value(job.config, "search.epochs")
        place = f"{job.step} {last.get('epoch')}" + (f" of {total}" if total and job.step == "epoch" else "")
        value = last.get("best_val_metric", last.get("val_metric"))
        told = f"; validation {name_metric(job.metric, value)}" if value is not None else ""
        return f"The search is at {place} after {duration(last.get('seconds'))}{told}. No network is trained here yet."
    return "Nothing is recorded yet: the first epoch of the search has not ended."


def _one(training: TrainingRecord, result: TrainingFigures) -> str:
    value, epoch = name_metric(result.metric, result.test), result.best_epoch
    took = f"{count(result.epochs, 'epoch')} in {duration(result.seconds)}"
    return f"{training.name}, seed {training.seed}: test {value}, taken at epoch {epoch} of its training ({took})."


def _searched(job: RunRecord) -> str:
    return f"The search took {duration(search_seconds(job))}. " if job.search else ""


def _best(job: RunRecord) -> str:
    values = [(record["val_metric"], training) for training in job.trainings for record in _judged(training)]
    if not values:
        return ""
    pick = max if higher_is_better(job.metric) else min
    value, training = pick(values, key=lambda pair: pair[0])
    return f" Best validation so far: {name_metric(job.metric, value)} ({training.name}, seed {training.seed})."


def _judged(training: TrainingRecord) -> list[dict[str, Any]]:
    return [record for record in training.history if record.get("val_metric") is not None]
