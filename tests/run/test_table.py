"""Tables as text, against what readers of Markdown and CSV expect."""

import csv
import io

from gnas.run.table import csv_text, markdown_table


def test_markdown() -> None:
    wanted = "| a | b |\n|---|---|\n| 1 | [x \\| y] |"
    assert markdown_table(("a", "b"), [(1, "[x | y]")]) == wanted
    assert markdown_table(("a", "b"), []).count("\n") == 1


def test_csv_reads_back() -> None:
    rows = [{"a": "1", "b": 'quoted "text", and\nmore'}, {"a": "2"}]
    found = list(csv.DictReader(io.StringIO(csv_text(("a", "b"), rows), newline="")))
    assert found == [rows[0], {"a": "2", "b": ""}]
