"""The paper's tables and figures, declared as data, and what runs and draws them.

``catalogue`` says which runs each needs, ``jobs`` what a run is, ``carry_out`` does what is missing, ``shelf`` finds what
is finished, ``page`` draws.
"""

from __future__ import annotations

from gnas.reproduce.carry_out import Outcome, carry_out
from gnas.reproduce.catalogue import ITEMS, METHODS, Wanted, jobs
from gnas.reproduce.jobs import Changes
from gnas.reproduce.page import draw, fill_page, write_page
from gnas.reproduce.scale import PAPER, QUICK
from gnas.reproduce.shelf import Shelf

__all__ = [
    "ITEMS",
    "METHODS",
    "PAPER",
    "QUICK",
    "Changes",
    "Outcome",
    "Shelf",
    "Wanted",
    "carry_out",
    "draw",
    "fill_page",
    "jobs",
    "write_page",
]
