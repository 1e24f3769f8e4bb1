"""Everything drawn: a Markdown and a CSV file for each table, SVG and PNG for each figure, one page over all of it.

A page of your own is filled too: between ``<!-- gnas reproduce: table-zinc -->`` and ``<!-- end -->`` stands what this
command writes; the rest of the page is left alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gnas.errors import InputError, choose
from gnas.files import write_atomic
from gnas.paper.catalogue import ITEMS, Wanted
from gnas.paper.figures import Picture, pictures
from gnas.paper.sheets import Sheet, sheets, to_csv
from gnas.paper.shelf import Shelf

PAGE = "index.md"
MARK = re.compile(r"(<!-- gnas reproduce: ([\w-]+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)


@dataclass(frozen=True)
class Drawn:
    """One table or figure as it stands."""

    item: str
    title: str
    sheets: tuple[Sheet, ...] = ()
    pictures: tuple[Picture, ...] = ()

    def body(self, folder: Path, whole: bool = True) -> str:
        """Markdown for a page in ``folder``; unless ``whole``, rows that were not run are only named."""
        if self.sheets:
            return "\n".join(sheet.to_markdown(whole) for sheet in self.sheets)
        if not self.pictures:
            return "No finished run to draw it from.\n"
        shown = (f"![{self.title}]({_relative(one.file, folder)})\n\n{one.caption}\n" for one in self.pictures)
        return "\n".join(shown)


def draw(item: str, wanted: Wanted, shelf: Shelf, failed: Mapping[str, str], out: Path) -> Drawn:
    """Write the files of one table or figure from finished runs."""
    if item.startswith("figure-"):
        return Drawn(item, ITEMS[item], pictures=tuple(pictures(item, wanted, shelf, out / "figures")))
    made = tuple(sheets(item, wanted, shelf, failed))
    drawn = Drawn(item, ITEMS[item], sheets=made)
    write_atomic(out / "tables" / f"{item}.md", f"## {drawn.title}\n\n{drawn.body(out / 'tables')}")
    write_atomic(out / "tables" / f"{item}.csv", to_csv(made))
    return drawn


def write_page(drawn: list[Drawn], out: Path, about: list[str], failed: Mapping[str, str]) -> Path:
    """The page over everything: what was asked, what failed, every table and figure."""
    lines = ["# The paper, reproduced", "", *about, ""]
    if failed:
        lines += ["## Failed runs", "", *(f"- `{key}`: {why}" for key, why in failed.items()), ""]
    for one in drawn:
        lines += [f"## {one.title}", "", one.body(out)]
    return write_atomic(out / PAGE, "\n".join(lines))


def fill_page(page: Path, drawn: list[Drawn], wanted: Wanted, shelf: Shelf) -> int:
    """Renew what stands between the marks of a page; figures go to ``images/`` beside it. Returns the number of marks."""
    try:
        text = page.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{page}: {error.strerror}") from None
    known = {one.item: one for one in drawn}
    count = 0

    def renewed(match: re.Match[str]) -> str:
        nonlocal count
        item = choose(match[2], ITEMS, f"table or figure in {page}")
        if item not in known:
            return match[0]
        count += 1
        one = known[item]
        if one.pictures:
            images = pictures(item, wanted, shelf, page.parent / "images", (".svg",))
            one = Drawn(item, one.title, pictures=tuple(images))
        return f"{match[1]}\n{one.body(page.parent, whole=False)}\n{match[4]}"

    new = MARK.sub(renewed, text)
    if not MARK.search(text):
        raise InputError(f"{page}: no marks to fill, such as '<!-- gnas reproduce: table-zinc -->' and '<!-- end -->'")
    write_atomic(page, new)
    return count


def _relative(file: Path, folder: Path) -> str:
    try:
        return file.relative_to(folder).as_posix()
    except ValueError:
        return file.as_posix()
