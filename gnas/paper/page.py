"""Files of the tables and figures, and the pages that show them.

A page of your own can be filled too: this module replaces the text between ``<!-- gnas reproduce: table-zinc -->`` and
``<!-- end -->``, and leaves the rest of the page unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gnas.errors import InputError, choose
from gnas.files import write_atomic
from gnas.paper.catalogue import FIGURES, ITEMS, Request
from gnas.paper.figures import Picture, draw_figures
from gnas.paper.results import Results
from gnas.paper.tables import PaperTable, make_tables, to_csv

PAGE = "index.md"
MARK = re.compile(r"(<!-- gnas reproduce: ([\w-]+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)


@dataclass(frozen=True)
class DrawnItem:
    """One item of the catalogue with its tables or its figures."""

    item: str
    tables: tuple[PaperTable, ...] = ()
    pictures: tuple[Picture, ...] = ()

    @property
    def title(self) -> str:
        return ITEMS[self.item]

    def to_markdown(self, folder: Path, complete: bool = True) -> str:
        """Markdown for a page in ``folder``. Unless ``complete``, rows that were not run are only named."""
        if self.tables:
            return "\n".join(table.to_markdown(complete) for table in self.tables)
        if not self.pictures:
            return "No finished run to draw it from.\n"
        return "\n".join(f"![{self.title}]({_relative(p.file, folder)})\n\n{p.caption}\n" for p in self.pictures)


def draw_item(item: str, request: Request, results: Results, failed: Mapping[str, str], out: Path) -> DrawnItem:
    """Write the files of one table or figure from finished runs: Markdown and CSV, or SVG and PNG."""
    if item in FIGURES:
        return DrawnItem(item, pictures=tuple(draw_figures(item, request, results, out / "figures")))
    drawn = DrawnItem(item, tables=tuple(make_tables(item, request, results, failed)))
    write_atomic(out / "tables" / f"{item}.md", f"## {drawn.title}\n\n{drawn.to_markdown(out / 'tables')}")
    write_atomic(out / "tables" / f"{item}.csv", to_csv(drawn.tables))
    return drawn


def write_page(drawn: Sequence[DrawnItem], out: Path, about: Sequence[str], failed: Mapping[str, str]) -> Path:
    """Write the page with all tables and figures. ``about`` are its first lines."""
    lines = ["# The paper, reproduced", "", *about, ""]
    if failed:
        lines += ["## Failed runs", "", *(f"- `{key}`: {reason}" for key, reason in failed.items()), ""]
    for one in drawn:
        lines += [f"## {one.title}", "", one.to_markdown(out)]
    return write_atomic(out / PAGE, "\n".join(lines))


def fill_page(page: Path, drawn: Sequence[DrawnItem], request: Request, results: Results) -> int:
    """Replace the text between the marks of a page. Figures go to ``images/`` beside it. Returns the number of marks."""
    try:
        text = page.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{page}: {error.strerror}") from None
    items = {one.item: one for one in drawn}
    count = 0

    def fill(match: re.Match[str]) -> str:
        nonlocal count
        item = choose(match[2], ITEMS, f"table or figure in {page}")
        if item not in items:
            return match[0]
        count += 1
        one = items[item]
        if one.pictures:
            one = DrawnItem(
                item, pictures=tuple(draw_figures(item, request, results, page.parent / "images", (".svg",)))
            )
        return f"{match[1]}\n{one.to_markdown(page.parent, complete=False)}\n{match[4]}"

    new = MARK.sub(fill, text)
    if not MARK.search(text):
        raise InputError(f"{page}: no marks to fill, such as '<!-- gnas reproduce: table-zinc -->' and '<!-- end -->'")
    write_atomic(page, new)
    return count


def _relative(file: Path, folder: Path) -> str:
    return file.relative_to(folder).as_posix() if file.is_relative_to(folder) else file.as_posix()
