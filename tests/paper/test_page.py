"""Tables, figures and pages from finished runs."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from papers import ONE, TINY, done, seeds, wanted, write_run

from gnas.errors import InputError
from gnas.paper import ITEMS, Request, Results, draw_item, fill_page, write_page
from gnas.paper.catalogue import list_entries


@pytest.mark.filterwarnings("ignore:epoch")
def test_everything_is_drawn(tmp_path: Path) -> None:
    """Every table and figure of a very small paper, from runs to files; the CSV holds what the Markdown shows."""
    asked = wanted(*ITEMS, datasets=("zinc", "pattern"), methods=("gnas", "gin", "graphnas"), seeds=(41,))
    outcome, results = done(asked, tmp_path)
    assert outcome.failed == {}
    drawn = [draw_item(item, asked, results, outcome.failed, tmp_path) for item in asked.items]
    page = write_page(drawn, tmp_path, ["made by a test"], {"zinc/x": "out of memory"}).read_text()
    for one in drawn:
        assert one.tables or one.pictures or one.item == "table-graphs", one.item  # neither dataset is in that one
        for picture in one.pictures:
            assert picture.file.read_text().startswith(("<?xml", "<svg"))
            assert picture.file.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
            assert f"]({picture.file.relative_to(tmp_path)})" in page
    assert "- `zinc/x`: out of memory" in page
    assert "not run" not in page
    with open(tmp_path / "tables" / "table-zinc.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {(row["model"], row["depth"]) for row in rows} == {
        (e.model, str(e.depth)) for e in list_entries("table-zinc", asked)
    }
    for row in rows:
        assert float(row["difference"]) == pytest.approx(float(row["ours_metric"]) - float(row["paper_metric"]))
        if row["model"] in ("gnas", "algorithm-1"):
            assert int(row["weights"]) <= TINY.budget(int(row["paper_budget"]))


def test_a_page_is_filled_between_its_marks(tmp_path: Path) -> None:
    write_run(tmp_path / "runs", "zinc/single-level-4-seed0", ONE, seeds(0.26, 0.3))
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- gnas reproduce: table-zinc -->\nold\n<!-- end -->\nafter\n")
    asked, results = Request(items=("table-zinc",), methods=("gnas",), depths=(4,)), Results([tmp_path / "runs"])
    drawn = [draw_item("table-zinc", asked, results, {}, tmp_path / "out")]
    assert fill_page(page, drawn, asked, results) == 1
    text = page.read_text()
    assert text.startswith("before\n<!-- gnas reproduce: table-zinc -->\n")
    assert text.endswith("<!-- end -->\nafter\n")
    assert "old" not in text
    assert "0.2750 ± 0.0112" in text
    fill_page(page, drawn, asked, results)
    assert page.read_text() == text  # a second time changes nothing
    page.write_text("no marks")
    with pytest.raises(InputError, match="no marks to fill"):
        fill_page(page, drawn, asked, results)
