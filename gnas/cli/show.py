"""Results on the terminal: the leaderboard, the answer in words, the network, and what to do next."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from gnas.arch.architecture import Architecture, describe_stack
from gnas.cli.screen import Screen, number_cells
from gnas.printed import format_count
from gnas.run.leaderboard import Leaderboard
from gnas.run.table import Table
from gnas.run.words import describe_direction, duration, format_metric, label_metric
from gnas.strategies.depth import DepthResult


def show_leaderboard(screen: Screen, board: Leaderboard) -> None:
    """Print the leaderboard and the other metrics of the test split. Searched networks stand out."""
    screen.say(board.table().to_rich())
    screen.say(f" {board.dataset}, {describe_direction(board.metric)}", style="dim")
    others = board.metrics_table()
    if others is not None:
        screen.say(others.to_rich())
        screen.say(f" other metrics of the test split; {label_metric(board.metric)} selects", style="dim")


def show_answer(screen: Screen, folder: Path) -> None:
    """Print the answer in words: what predictions use, how the found network compares, and how long the run took."""
    from gnas.report.answer import describe_run
    from gnas.run.record import read_run

    screen.pair("result", "\n".join(describe_run(read_run(folder), with_network=False)))


def show_network(screen: Screen, architecture: Architecture, title: str = "found") -> None:
    """Print an architecture: its size, its depth, one formula per cell, and what is around the cells."""
    formulas = architecture.formulas()
    depth = architecture.depth()
    screen.pair(
        title, f"{format_count(len(formulas), 'cell')}, message-passing depth {depth} (genotype {architecture.id})"
    )
    screen.pairs("", list_parts(architecture), style="green")


def list_parts(architecture: Architecture) -> list[tuple[str, str]]:
    """The formulas of the cells, and what is around them, each with its name."""
    around = describe_stack(architecture)
    return [*number_cells(architecture.formulas()), *([("around", around)] if around else [])]


def list_next_steps(folder: str) -> list[list[str]]:
    """Commands for a finished run."""
    return [["gnas", "export", folder], ["gnas", "predict", folder, "DATA", "-o", "predictions.csv"]]


def show_next_steps(screen: Screen, report: str | None, *commands: Sequence[str]) -> None:
    """Print where the report is, and commands to run next."""
    if report is not None:
        screen.pair("report", report)
    for number, words in enumerate(commands):
        screen.pair("" if number else "next", shlex.join(words), style="dim")


def show_rounds(screen: Screen, result: DepthResult, metric: str) -> None:
    """Print the rounds of a depth search."""
    headings = ("round", "cells", "of them aggregate", f"validation {label_metric(metric)}", "time")
    rows = [
        (number, one.initial, one.searched, format_metric(metric, one.val_metric), duration(one.seconds))
        for number, one in enumerate(result.rounds, start=1)
    ]
    screen.say(Table.from_tuples(headings, rows).to_rich())
