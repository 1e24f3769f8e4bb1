"""The paper's tables and figures, declared as data, and what runs and draws them.

``catalogue`` says which runs each needs, ``jobs`` what a run is, ``carry_out`` does what is missing, ``shelf`` finds what
is finished, ``page`` draws.
"""

from __future__ import annotations

from gnas.paper.carry_out import Outcome, carry_out
from gnas.paper.catalogue import ITEMS, METHODS, Wanted, jobs
from gnas.paper.jobs import Changes
from gnas.paper.page import draw, fill_page, write_page
from gnas.paper.scale import PAPER, QUICK
from gnas.paper.shelf import Shelf

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
