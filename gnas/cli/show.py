"""Results as people read them: the leaderboard, the network, where things are."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from gnas.arch.architecture import Architecture
from gnas.cli.screen import Screen, cells
from gnas.run.leaderboard import Leaderboard
from gnas.run.table import Table
from gnas.run.words import count, direction, duration, format_metric, unit
from gnas.strategies.depth import DepthResult


def leaderboard(screen: Screen, board: Leaderboard) -> None:
    """Rows from best to worst; found networks stand out."""
    screen.say(board.table().to_rich())
    screen.say(f" {board.dataset}, {direction(board.metric)}", style="dim")


def verdict(screen: Screen, folder: Path) -> None:
    """The answer in words: how good against the best hand-made network, and how long it took."""
    from gnas.report.answer import answer
    from gnas.report.record import read_job

    job = read_job(folder)
    sentences = answer(job)[1 if job.genotype is not None else 0 :]
    screen.pair("result", "\n".join(sentences))


def network(screen: Screen, architecture: Architecture, title: str = "found") -> None:
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
    headings = ("round", "cells", "of them aggregate", f"validation {unit(metric)}", "time")
    rows = [
        (number, one.initial, one.searched, format_metric(metric, one.val_metric), duration(one.seconds))
        for number, one in enumerate(result.rounds, start=1)
    ]
    screen.say(Table.from_tuples(headings, rows).to_rich())
