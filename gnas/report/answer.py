"""The answer of a run in sentences and numbers: which network, how deep, how good, and how long it took."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gnas.arch.architecture import describe_stack
from gnas.model.metrics import decimals, higher_is_better, is_percentage
from gnas.printed import format_count
from gnas.report.uncertainty import find_difference
from gnas.run.leaderboard import Leaderboard, Row
from gnas.run.record import RunRecord, TrainingFigures, TrainingRecord
from gnas.run.settings import config_value
from gnas.run.strategy_curves import StrategyComparison
from gnas.run.words import SPACE, duration, format_metric, format_spread, join_words, label_metric, name_metric

Verdict = Literal["better", "worse", "the same", "within the spread over the seeds", "within the spread over the folds"]


@dataclass(frozen=True)
class Fact:
    """One number of the headline: a value, what it is, and a remark."""

    value: str
    label: str
    remark: str = ""


def describe_run(run: RunRecord, with_network: bool = True) -> list[str]:
    """The answer of a run, as a few sentences: first what predictions use, if it is not the found network.

    ``with_network=False`` leaves out the sentence on the found architecture, for a place that shows it anyway.
    """
    row, used = found_row(run.leaderboard), used_row(run.leaderboard)
    if run.is_racing and (run.state == "running" or row is None):
        return [_describe_race(run)]
    sentences = [_describe_used(run.metric, used)] if used else []
    if run.genotype is not None:
        sentences += [_describe_network(run)] * with_network + [_describe_choice(run)]
    sentences.append(_describe_learning(run))
    if run.rounds:
        sentences.append(_describe_rounds(run))
    if run.leaderboard and row:
        if row.folds:
            sentences.append(_describe_folds(run, row))
        subject = "the procedure" if row.folds else "the network" if run.genotype is None else "it"
        sentences.append(_describe_quality(run.leaderboard, row, subject, used))
        sentences += [_describe_uncertainty(run, row), _describe_time(run, row)]
    else:
        sentences.append(_describe_progress(run))
    return [sentence for sentence in sentences if sentence]


def list_facts(run: RunRecord) -> list[Fact]:
    """The numbers of the headline, as far as the run has them."""
    facts, metric = list[Fact](), run.metric
    row, rival, used = found_row(run.leaderboard), best_baseline(run.leaderboard), used_row(run.leaderboard)
    if used:
        label = f"test {label_metric(metric)} of {used.name}"
        facts.append(Fact(format_metric(metric, used.mean), label, "predictions use it"))
    if run.genotype is not None:
        cells = format_count(len(run.genotype), "cell")
        facts.append(Fact(str(run.genotype.depth()), "message-passing depth", f"of {cells}"))
    if row:
        spread = f"± {format_metric(metric, row.std)} over {row.describe_runs()}" if row.runs > 1 else "one seed"
        of = " of the found network" if used else ""
        facts.append(Fact(format_metric(metric, row.mean), f"test {label_metric(metric)}{of}", spread))
        if rival:
            difference = _difference(metric, row, rival)
            facts.append(Fact(difference, f"compared with {rival.name}", judge_row(metric, row, rival)))
        facts.append(Fact(f"{row.num_weights:,}", "weights"))
    seconds = search_seconds(run)
    if seconds:
        facts.append(Fact(duration(seconds), "search", _search_effort(run)))
    return facts


def found_row(board: Leaderboard | None) -> Row | None:
    """The row of the searched network; the best of them if there are several."""
    return next((row for row in board.rows if row.found), None) if board else None


def best_baseline(board: Leaderboard | None) -> Row | None:
    """The row of the best hand-made network."""
    return next((row for row in board.rows if not row.found and not row.members), None) if board else None


def used_row(board: Leaderboard | None) -> Row | None:
    """The row of the network that predictions use, the best on validation; None if it is the found one, or with folds."""
    if board is None or not board.rows or any(row.folds for row in board.rows):
        return None
    pick = max if higher_is_better(board.metric) else min
    rows = sorted(board.rows, key=lambda row: row.name != "gnas")  # of equal ones it is the found one
    best = pick(rows, key=lambda row: row.val)
    return None if best.found or not any(row.found for row in rows) else best


def search_seconds(run: RunRecord) -> float | None:
    """How long the search took, or has taken so far."""
    if run.rounds:
        return sum(one.seconds or 0.0 for one in run.rounds)
    if run.search:
        return run.search.seconds
    return run.history[-1].get("seconds") if run.history else None


def judge_row(metric: str, row: Row, rival: Row) -> Verdict:
    """How a network compares with another.

    A difference below the standard deviation over the seeds, or over the folds, does not count.
    """
    if row.runs > 1 and rival.runs > 1 and abs(row.mean - rival.mean) <= max(row.std, rival.std):
        return "within the spread over the folds" if row.folds else "within the spread over the seeds"
    if row.mean == rival.mean:
        return "the same"
    return "better" if (row.mean > rival.mean) == higher_is_better(metric) else "worse"


def _difference(metric: str, row: Row, rival: Row) -> str:
    """The difference with its sign: in points of a percentage, in percent of an error, or as it is."""
    difference = row.mean - rival.mean
    if is_percentage(metric):
        return f"{_signed(difference, 2)}{SPACE}points"
    if higher_is_better(metric):
        return _signed(difference, decimals(metric))
    return f"{_signed(100 * difference / rival.mean, 1)}{SPACE}%" if rival.mean else _signed(difference, 4)


def _signed(value: float, digits: int) -> str:
    return f"{value:+.{digits}f}".replace("-", "−")


def _search_effort(run: RunRecord) -> str:
    if run.rounds:
        return format_count(len(run.rounds), "round")
    searches = run.search.searches if run.search else ()
    if run.is_race:
        return f"{format_count(run.history[-1].get('tried', 0), 'network')} tried"
    return f"{len(searches)} searches" if searches else format_count(len(run.history), run.step)


def _describe_network(run: RunRecord) -> str:
    genotype = run.genotype
    assert genotype is not None
    starts = {"running": "So far, the search has chosen", "stopped": "The search stopped at"}
    start = "The search found" if run.search or run.leaderboard else starts.get(run.state, "The search found")
    counts = ", ".join(f"{name} ×{number}" for name, number in genotype.aggregations().most_common())
    depth = f"message-passing depth {genotype.depth()} ({f'aggregations: {counts}' if counts else 'no aggregation'})"
    around = describe_stack(genotype)
    more = f" Around its cells: {around}." if around else ""
    return f"{start} a network of {format_count(len(genotype), 'cell')} with {depth}.{more}"


def _describe_choice(run: RunRecord) -> str:
    """Which of several searches was the best."""
    if run.search is None or not run.search.searches or run.rounds:
        return ""
    chosen, values = run.search.seed, {one["seed"]: one["val_metric"] for one in run.search.searches}
    others = [format_metric(run.metric, value) for seed, value in values.items() if seed != chosen]
    return (
        f"Of {len(values)} searches, seed {chosen} had the best validation result after a brief training: "
        f"{name_metric(run.metric, values[chosen])}. The other{'s' * (len(others) > 1)} had {join_words(others)}."
    )


def _describe_rounds(run: RunRecord) -> str:
    done = [one for one in run.rounds if one.searched is not None]
    if not done:
        return f"The first round searches with {format_count(run.rounds[0].initial or 0, 'cell')}."
    depths = " → ".join(str(depth) for depth in (done[0].initial, *(one.searched for one in done)))
    reason = (run.result or {}).get("explanation")
    end = f" The depth search ended because {reason}." if reason else ""
    return f"The depth changed {depths} in {format_count(len(done), 'round')}.{end}"


def _describe_folds(run: RunRecord, row: Row) -> str:
    best = (run.result or {}).get("best_fold")
    end = f" The network shown is that of fold {best}, which has the best validation result." if best else ""
    return f"Each of the {row.folds} folds was computed on its own.{end}"


def _describe_quality(board: Leaderboard, row: Row, subject: str, used: Row | None) -> str:
    """How good the found network is, beside the best hand-made one; a sentence on ``used`` stands before this one."""
    metric, rival = board.metric, best_baseline(board)
    value = name_metric(metric, row.mean)
    value += f" ± {format_metric(metric, row.std)} over {row.describe_runs()}" if row.runs > 1 else " with one seed"
    where = f"In cross-validation on {board.dataset}" if row.folds else f"On the test split of {board.dataset}"
    text = f"The found network reaches {value}." if used else f"{where}, {subject} reaches {value}."
    if rival is None:
        return f"{text} No other network was trained for comparison."
    other = f"the best hand-made network, {rival.name} ({format_spread(metric, rival.mean, rival.std, rival.runs)})"
    if rival is used:  # the sentence before says what it is
        other = rival.name
    verdict = judge_row(metric, row, rival)
    if verdict in ("better", "worse"):
        return f"{text} This is {_difference(metric, row, rival).lstrip('+−')} {verdict} than {other}."
    if verdict == "the same":
        return f"{text} This is the same as {other}."
    return f"{text} The difference from {other} is {verdict}."


def _describe_uncertainty(run: RunRecord, row: Row) -> str:
    """How sure the difference from the best hand-made network is."""
    rival = best_baseline(run.leaderboard)
    found = find_difference(run, row, rival) if rival is not None else None
    if found is None:
        return ""
    value, low, high = (_signed(one, decimals(run.metric)) for one in (found.value, found.low, found.high))
    verdict = "so it is more than chance" if found.is_sure else "so it may be chance"
    interval = f"a 95{SPACE}% interval of {low} to {high} ({found.method} over {found.over})"
    return f"The difference of {value} has {interval}, {verdict}."


def _describe_learning(run: RunRecord) -> str:
    """What was done about a supernet that did not learn."""
    records = [record for record in run.history if isinstance(record.get("not_learned"), dict)]
    if not records:
        return ""
    last = records[-1]["not_learned"]
    start = f"At rate {last['rate']:.3g} the supernet was no better than a constant prediction"
    if last.get("new_rate") is None:
        return f"{start}, so its choices mean little."
    return f"{start}, so the search began anew with rate {last['new_rate']:.3g} at epoch {records[-1]['epoch']}."


def _describe_used(metric: str, row: Row) -> str:
    """What predictions use in place of the found network."""
    what = f"ensemble of {format_count(row.members, 'network')}" if row.members else f"hand-made network {row.name}"
    test = name_metric(metric, row.mean) + (f" ± {format_metric(metric, row.std)}" if row.runs > 1 else "")
    val = name_metric(metric, row.val)
    return f"Predictions use the {what}, the best on validation ({val}). On the test split it reaches {test}."


def _describe_time(run: RunRecord, row: Row) -> str:
    seconds = search_seconds(run)
    search = f"The search took {duration(seconds)}. " if seconds else ""
    runs = max(row.folds, 1) * row.seeds
    seeds = f" per seed ({format_count(runs, 'training') if row.folds else f'{row.seeds} seeds'})" if runs > 1 else ""
    return f"{search}Training took {duration(row.seconds / max(runs, 1))}{seeds}."


def _describe_strategies(comparison: StrategyComparison) -> str:
    rows = comparison.rows()
    if not rows:
        return "No strategy has found a network that could be trained."
    best, metric = rows[0], comparison.metric
    value = name_metric(metric, best.best) + (f" ± {format_metric(metric, best.std)}" if best.seeds > 1 else "")
    strategies = "1 strategy" if len(rows) == 1 else f"{len(rows)} strategies"
    text = f"Of {strategies}, {best.strategy} found the best network by validation"
    return f"{text} within {format_count(comparison.budget['epochs'], 'epoch')}: {value} over {format_count(best.seeds, 'seed')}."


def _describe_progress(run: RunRecord) -> str:
    """How far a run is that has no leaderboard."""
    if run.strategies is not None:
        return _describe_strategies(run.strategies)
    if run.trainings:
        if len(run.trainings) == 1 and not run.history and run.trainings[0].result:
            return _describe_training(run.trainings[0], run.trainings[0].result)
        search = f"The search took {duration(search_seconds(run))}. " if run.search else ""
        done = sum(training.result is not None for training in run.trainings)
        return f"{search}{done} of {format_count(len(run.trainings), 'training')} finished.{_describe_best(run)}"
    if run.search:
        return f"The search took {duration(search_seconds(run))}. No network has been trained yet."
    if run.history:
        last, total = run.history[-1], config_value(run.config, "search.epochs")
        place = f"{run.step} {last.get('epoch')}" + (f" of {total}" if total and run.step == "epoch" else "")
        value = last.get("best_val_metric", last.get("val_metric"))
        result = f" Its validation result is {name_metric(run.metric, value)}." if value is not None else ""
        seconds = duration(last.get("seconds"))
        return f"The search is at {place} after {seconds}.{result} No network has been trained yet."
    return "Nothing is recorded yet: the first epoch of the search has not ended."


def _describe_race(run: RunRecord) -> str:
    """A race under way, whose test results are shown at the end, or one that stopped."""
    last = run.history[-1]
    tried, dropped = format_count(last.get("tried", 0), "network"), last.get("dropped", 0)
    best = last.get("best_val_metric")
    start = "The race goes on" if run.state == "running" else "The race stopped"
    value = name_metric(run.metric, best)
    leader = "" if best is None else f" The best on validation is {last.get('leader')} ({value})."
    return f"{start}: {tried} tried, {dropped} dropped.{leader}"


def _describe_training(training: TrainingRecord, result: TrainingFigures) -> str:
    value = name_metric(result.metric, result.test)
    effort = f"{format_count(result.epochs, 'epoch')} in {duration(result.seconds)}"
    return (
        f"{training.name}, seed {training.seed}: test {value} at epoch {result.best_epoch}, which has the best "
        f"validation metric ({effort})."
    )


def _describe_best(run: RunRecord) -> str:
    records = [(record.get("val_metric"), training) for training in run.trainings for record in training.history]
    values = [(value, training) for value, training in records if value is not None]
    if not values:
        return ""
    pick = max if higher_is_better(run.metric) else min
    value, training = pick(values, key=lambda pair: pair[0])
    return f" Best validation so far: {name_metric(run.metric, value)} ({training.name}, seed {training.seed})."
