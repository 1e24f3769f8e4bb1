"""The paper's tables and figures as data, and how they are run and drawn.

``published`` has the lines that the paper prints, ``catalogue`` the runs that each table and figure needs, ``results`` reads
finished runs, ``carry_out`` does the missing ones, ``tables``, ``figures`` and ``page`` write.
"""

from __future__ import annotations

from gnas.paper.carry_out import Outcome, carry_out
from gnas.paper.catalogue import ITEMS, METHODS, Request, plan_runs
from gnas.paper.jobs import Changes
from gnas.paper.page import DrawnItem, draw_item, fill_page, write_page
from gnas.paper.results import Results
from gnas.paper.scale import PAPER, QUICK

__all__ = [
    "ITEMS",
    "METHODS",
    "PAPER",
    "QUICK",
    "Changes",
    "DrawnItem",
    "Outcome",
    "Request",
    "Results",
    "carry_out",
    "draw_item",
    "fill_page",
    "plan_runs",
    "write_page",
]
