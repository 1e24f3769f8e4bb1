"""The paper's tables and figures as data, and how they are run and drawn.

``published`` has the lines that the paper prints, ``runs`` the kinds of runs, ``catalogue`` those that each table and figure
needs. ``results`` reads finished runs, ``schedule`` does the missing ones, ``tables`` and ``page`` write.
"""

from __future__ import annotations

from gnas.paper.catalogue import ITEMS, METHODS, Request, plan_runs
from gnas.paper.page import DrawnItem, draw_item, fill_page, write_page
from gnas.paper.results import Results
from gnas.paper.runs import PAPER, QUICK, Changes
from gnas.paper.schedule import Summary, perform_runs, read_failures

__all__ = [
    "ITEMS",
    "METHODS",
    "PAPER",
    "QUICK",
    "Changes",
    "DrawnItem",
    "Request",
    "Results",
    "Summary",
    "draw_item",
    "fill_page",
    "perform_runs",
    "plan_runs",
    "read_failures",
    "write_page",
]
