"""One table type for the terminal, Markdown, HTML and CSV.

A table has rows, which can be any objects, and columns. A column says which value of a row it holds and how people read
that value. CSV files hold the values; the other renderings show the texts.

>>> rows = [{"name": "gcn", "mean": 0.301}, {"name": "gin", "mean": 0.412}]
>>> table = Table((Column("network", "name"), Column("test MAE", "mean", "{:.2f}".format)), rows)
>>> print(table.to_markdown())
| network | test MAE |
|---|---:|
| gcn | 0.30 |
| gin | 0.41 |
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from gnas.files import format_csv

if TYPE_CHECKING:
    from rich.padding import Padding

R = TypeVar("R")
NONE = "–"  # shown for a value that is missing or not finite


def show_value(value: Any) -> str:
    """Any value as text: the default of a column.

    >>> show_value(None), show_value(True), show_value([1, 2]), show_value(0.5)
    ('–', 'yes', '1, 2', '0.5')
    """
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return NONE
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    return f"{value:g}" if isinstance(value, float) else str(value)


def show_count(value: float | None) -> str:
    """A count with commas between thousands.

    >>> show_count(1234567), show_count(None)
    ('1,234,567', '–')
    """
    return NONE if value is None else f"{value:,.0f}"


@dataclass(frozen=True)
class Column(Generic[R]):
    """One column of a table.

    Args:
        name: Heading for people.
        value: Value that CSV files hold and that rows sort by: the name of a field or key of the row, or a function of it.
        show: Turns the value into text.
        text: Turns the row into text, where the value alone is not enough. It replaces ``show``.
        unit: Unit of the values. The heading shows it in brackets.
        align: Side on which texts stand. By default numbers stand right and all else left.
        key: Heading in CSV files. By default the name of the field, or ``name`` where ``value`` is a function.
        strong: Tells whether the cell of a row stands out.
        optional: Leave the column out for people where no row has a value.
        csv_only: Write the column to CSV files only.
    """

    name: str
    value: str | Callable[[R], Any]
    show: Callable[[Any], str] = show_value
    text: Callable[[R], str] | None = None
    unit: str = ""
    align: Literal["left", "right"] | None = None
    key: str = ""
    strong: Callable[[R], bool] | None = None
    optional: bool = False
    csv_only: bool = False

    @property
    def heading(self) -> str:
        return f"{self.name} ({self.unit})" if self.unit else self.name

    @property
    def csv_heading(self) -> str:
        return self.key or (self.value if isinstance(self.value, str) else self.name)

    def value_of(self, row: R) -> Any:
        """The value of a row. A key that is missing in a mapping is None."""
        if not isinstance(self.value, str):
            return self.value(row)
        return row.get(self.value) if isinstance(row, Mapping) else getattr(row, self.value)

    def text_of(self, row: R) -> str:
        """The text of a row."""
        return self.text(row) if self.text is not None else self.show(self.value_of(row))

    def is_right(self, rows: Iterable[R]) -> bool:
        """Whether texts stand on the right."""
        if self.align is not None:
            return self.align == "right"
        values = [value for value in map(self.value_of, rows) if value is not None]
        return bool(values) and all(isinstance(value, int | float) for value in values)


@dataclass(frozen=True)
class Table(Generic[R]):
    """Rows and columns, with a caption.

    Args:
        columns: Columns from left to right.
        rows: Rows from top to bottom.
        caption: What the table shows, in a sentence or two.
        strong: Tells whether a row stands out.
        sorted_by: Name of the column by which the rows are sorted already.
        descending: Whether that order is from high to low.
    """

    columns: Sequence[Column[R]]
    rows: Sequence[R]
    caption: str = ""
    strong: Callable[[R], bool] | None = None
    sorted_by: str = ""
    descending: bool = False

    @staticmethod
    def from_tuples(headings: Sequence[str], rows: Iterable[Sequence[Any]], caption: str = "") -> Table[Sequence[Any]]:
        """A table whose rows are sequences of values, one per heading."""
        columns = [Column[Sequence[Any]](name, itemgetter(place)) for place, name in enumerate(headings)]
        return Table(columns, list(rows), caption)

    @staticmethod
    def from_records(names: Iterable[str], rows: Iterable[Any]) -> Table[Any]:
        """A table of the fields (or keys) with these names."""
        return Table([Column[Any](name, name) for name in names], list(rows))

    def shown_columns(self) -> list[Column[R]]:
        """The columns for people."""
        return [column for column in self.columns if not column.csv_only and not self._is_empty(column)]

    def headings(self) -> tuple[str, ...]:
        return tuple(column.heading for column in self.shown_columns())

    def texts(self) -> list[tuple[str, ...]]:
        """The cells as text, one tuple per row."""
        columns = self.shown_columns()
        return [tuple(column.text_of(row) for column in columns) for row in self.rows]

    def to_markdown(self) -> str:
        """Markdown without a line break at its end. Of a row that stands out, the first cell is bold."""
        columns = self.shown_columns()
        rules = ("---:" if column.is_right(self.rows) else "---" for column in columns)
        lines = [_markdown_row(map(_markdown_text, self.headings())), f"|{'|'.join(rules)}|"]
        for row in self.rows:
            cells = [_markdown_text(column.text_of(row)) for column in columns]
            for place, column in enumerate(columns):
                if self._is_cell_strong(row, column) or (place == 0 and self._is_strong(row)):
                    cells[place] = f"**{cells[place]}**"
            lines.append(_markdown_row(cells))
        return "\n".join(lines)

    def to_csv(self) -> str:
        """CSV with every column: values, not texts. A missing value is empty."""
        headings = (column.csv_heading for column in self.columns)
        return format_csv(headings, ([column.value_of(row) for column in self.columns] for row in self.rows))

    def to_html(self, *, sortable: bool = False, headings: bool = True, caption: bool = True) -> str:
        """An HTML table. ``sortable`` adds what the script of a report needs to sort it by a click on a heading.

        Without ``headings``, the first cell of each row is the heading of its row.
        """
        columns = self.shown_columns()
        sides = [' class="num"' if column.is_right(self.rows) else "" for column in columns]
        parts = [f'<table class="{"sortable" if sortable else "values"}">']
        if caption and self.caption:
            parts.append(f"<caption>{escape(self.caption)}</caption>")
        if headings:
            cells = (self._html_heading(column, side, sortable) for column, side in zip(columns, sides, strict=True))
            parts.append(f"<thead><tr>{''.join(cells)}</tr></thead>")
        body = (self._html_row(row, columns, sides, headings) for row in self.rows)
        return "".join([*parts, "<tbody>", *body, "</tbody></table>"])

    def to_rich(self) -> Padding:
        """The table for a terminal."""
        from rich import box, table
        from rich.padding import Padding
        from rich.text import Text

        grid = table.Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False, collapse_padding=True)
        columns = self.shown_columns()
        for column in columns:
            grid.add_column(column.heading, justify="right" if column.is_right(self.rows) else "left", overflow="fold")
        for row in self.rows:
            cells = [Text(c.text_of(row), style="bold" if self._is_cell_strong(row, c) else "") for c in columns]
            grid.add_row(*cells, style="bold green" if self._is_strong(row) else "")
        return Padding(grid, (0, 0, 0, 1), expand=False)

    def _html_heading(self, column: Column[R], side: str, sortable: bool) -> str:
        if not sortable:
            return f'<th scope="col"{side}>{escape(column.heading)}</th>'
        order = ("descending" if self.descending else "ascending") if column.name == self.sorted_by else "none"
        return f'<th scope="col"{side} aria-sort="{order}"><button type="button">{escape(column.heading)}</button></th>'

    def _html_row(self, row: R, columns: Sequence[Column[R]], sides: Sequence[str], headings: bool) -> str:
        cells = []
        for place, (column, side) in enumerate(zip(columns, sides, strict=True)):
            value, text = column.value_of(row), escape(column.text_of(row))
            is_number = isinstance(value, int | float) and math.isfinite(value)
            sort = f' data-sort="{value}"' if is_number else ""
            text = f"<b>{text}</b>" if self._is_strong(row) or self._is_cell_strong(row, column) else text
            if place == 0 and not headings:
                cells.append(f'<th scope="row">{text}</th>')
            else:
                cells.append(f"<td{side}{sort}>{text}</td>")
        return ('<tr class="stressed">' if self._is_strong(row) else "<tr>") + "".join(cells) + "</tr>"

    def _is_strong(self, row: R) -> bool:
        return self.strong is not None and self.strong(row)

    def _is_cell_strong(self, row: R, column: Column[R]) -> bool:
        return column.strong is not None and column.strong(row)

    def _is_empty(self, column: Column[R]) -> bool:
        return column.optional and all(column.text_of(row) in ("", NONE) for row in self.rows)


def _markdown_row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _markdown_text(text: str) -> str:
    return " ".join(text.replace("|", "\\|").splitlines())
