"""Tables as text, against what readers of Markdown, CSV and HTML expect."""

import csv
import io
from dataclasses import dataclass
from xml.etree import ElementTree

import pytest
from rich.console import Console

from gnas.run.table import Column, Table, show_count, show_value


@dataclass(frozen=True)
class Row:
    name: str
    mean: float | None
    weights: int
    remark: str = ""


ROWS = (Row("<b>gcn | 2", 0.301, 1_234_567), Row("gnas", None, 20))
COLUMNS = (
    Column[Row]("network", "name"),
    Column[Row]("test", "mean", lambda value: "–" if value is None else f"{value:.2f}", unit="MAE"),
    Column[Row]("weights", "weights", show_count, key="num_weights"),
    Column[Row]("twice", lambda row: 2 * row.weights, csv_only=True),
    Column[Row]("remark", "remark", optional=True),
)
TABLE = Table(COLUMNS, ROWS, "A caption & more.", lambda row: row.name == "gnas", "test")


def test_markdown() -> None:
    wanted = "| network | test (MAE) | weights |\n|---|---:|---:|\n| <b>gcn \\| 2 | 0.30 | 1,234,567 |\n| **gnas** | – | 20 |"
    assert TABLE.to_markdown() == wanted
    assert Table.from_tuples(("a", "b"), [("x\ny", "z")]).to_markdown() == "| a | b |\n|---|---|\n| x y | z |"
    assert Table.from_tuples(("a", "b"), []).to_markdown().count("\n") == 1


def test_a_cell_can_stand_out_alone() -> None:
    columns = (Column[int]("n", lambda n: n), Column[int]("even", lambda n: n, strong=lambda n: n % 2 == 0))
    assert Table(columns, (1, 2)).to_markdown().endswith("| 1 | 1 |\n| 2 | **2** |")
    assert Table(columns, (1, 2)).to_html().count("<b>") == 1


def test_an_optional_column_is_there_for_one_value() -> None:
    rows = (*ROWS, Row("gin", 1.0, 1, "slow"))
    assert Table(COLUMNS, rows).headings() == ("network", "test (MAE)", "weights", "remark")
    assert [texts[-1] for texts in Table(COLUMNS, rows).texts()] == ["", "", "slow"]


def test_csv_holds_values_and_reads_back() -> None:
    found = list(csv.DictReader(io.StringIO(TABLE.to_csv(), newline="")))
    assert list(found[0]) == ["name", "mean", "num_weights", "twice", "remark"]
    assert found[0] == {
        "name": "<b>gcn | 2",
        "mean": "0.301",
        "num_weights": "1234567",
        "twice": "2469134",
        "remark": "",
    }
    assert found[1]["mean"] == ""
    rows = [{"a": "1", "b": 'quoted "text", and\nmore'}, {"a": "2"}]
    text = Table.from_records(("a", "b"), rows).to_csv()
    assert list(csv.DictReader(io.StringIO(text, newline=""))) == [rows[0], {"a": "2", "b": ""}]


def test_html_is_escaped_and_sorts_by_the_value() -> None:
    root = ElementTree.fromstring(TABLE.to_html(sortable=True))
    assert root.findtext("caption") == TABLE.caption
    heads = root.findall("./thead/tr/th")
    assert ["".join(head.itertext()) for head in heads] == list(TABLE.headings())
    assert [head.get("aria-sort") for head in heads] == ["none", "ascending", "none"]
    assert [head.get("class") for head in heads] == [None, "num", "num"]
    first, second = root.findall("./tbody/tr")
    assert ["".join(cell.itertext()) for cell in first] == ["<b>gcn | 2", "0.30", "1,234,567"]
    assert [cell.get("data-sort") for cell in first] == [None, "0.301", "1234567"]
    assert [cell.get("data-sort") for cell in second] == [None, None, "20"]
    assert second.get("class") == "stressed"


def test_html_without_headings_has_headings_of_rows() -> None:
    root = ElementTree.fromstring(Table.from_tuples(("name", "value"), [("seed", 3)]).to_html(headings=False))
    assert root.find("thead") is None
    assert [(cell.tag, cell.text) for cell in root.findall("./tbody/tr/*")] == [("th", "seed"), ("td", "3")]


def test_a_terminal_shows_every_cell() -> None:
    console = Console(width=80, file=io.StringIO(), markup=True)
    console.print(TABLE.to_rich())
    lines = [line.split() for line in console.file.getvalue().splitlines()]  # type: ignore[attr-defined]
    assert ["network", "test", "(MAE)", "weights"] in lines
    assert ["<b>gcn", "|", "2", "0.30", "1,234,567"] in lines


@pytest.mark.parametrize(
    ("value", "text"), [(float("inf"), "–"), ((), "none"), ((1, "a"), "1, a"), (False, "no"), (7, "7"), (0.25, "0.25")]
)
def test_values_as_text(value: object, text: str) -> None:
    assert show_value(value) == text
