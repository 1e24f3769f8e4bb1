"""Results as people read them: the leaderboard, the network, where things are."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gnas.cli.screen import Screen, cells, table
from gnas.run.leaderboard import Leaderboard
from gnas.run.words import count, direction, duration, figure, spread, unit
from gnas.strategies.depth import DepthResult


def leaderboard(screen: Screen, board: Leaderboard) -> None:
    """Rows from best to worst; found networks stand out."""
    metric = board.metric
    head = f"test {unit(metric)}"
    columns = ["network", head, "val", "weights", "depth", "s/epoch", "time"]
    remarks = any(row.remark for row in board.rows)
    rows = [
        (
            row.name,
            spread(metric, row.mean, row.std, row.seeds),
            figure(metric, row.val),
            f"{row.num_weights:,}",
            str(row.depth),
            f"{row.seconds_per_epoch:.2f}",
            duration(row.seconds),
            *([row.remark] if remarks else []),
        )
        for row in board.rows
    ]
    strong = next((number for number, row in enumerate(board.rows) if row.found), -1)
    seeds = count(board.rows[0].seeds, "seed") if board.rows else "no rows"
    screen.say(table([*columns, *(["remark"] if remarks else [])], rows, left=("network", "remark"), strong=strong))
    screen.say(f" {board.dataset}, {seeds}, {direction(metric)}", style="dim")


def verdict(screen: Screen, folder: Path) -> None:
    """The answer in words: how good against the best hand-made network, and how long it took."""
    from gnas.report.answer import answer
    from gnas.report.record import read_job

    job = read_job(folder)
    sentences = answer(job)[1 if job.genotype is not None else 0 :]
    screen.pair("result", "\n".join(sentences))


def network(screen: Screen, architecture: Any, title: str = "found") -> None:
    """An architecture: its size, its depth, and a formula a cell."""
    formulas = architecture.formulas()
    depth = architecture.depth()
    screen.pair(title, f"{count(len(formulas), 'cell')}, message-passing depth {depth} (genotype {architecture.id})")
    screen.pairs("", cells(formulas), style="green")


def next_steps(screen: Screen, report: str | None, *commands: Sequence[str]) -> None:
    """Where the report is, and what can be done next."""
    if report is not None:
        screen.pair("report", report)
    for number, words in enumerate(commands):
        screen.pair("" if number else "next", shlex.join(words), style="dim")


def rounds(screen: Screen, result: DepthResult, metric: str) -> None:
    """The rounds of a depth search."""
    rows = [
        (str(number), str(r.initial), str(r.searched), figure(metric, r.val_metric), duration(r.seconds))
        for number, r in enumerate(result.rounds, start=1)
    ]
    screen.say(table(("round", "cells", "of them aggregate", f"val {unit(metric)}", "time"), rows))
