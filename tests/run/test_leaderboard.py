"""The leaderboard: its files hold its rows, and its table shows them with the digits of the metric."""

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

from gnas.run.leaderboard import Leaderboard, Row

ROWS = (
    Row("gnas | mine", 0.27612345, 0.0151, 4, 0.3, 434_123, 4, 1.234, 99.96, True, 'a|b, "c"'),
    Row("gcn", 0.459, 0.0, 1, 0.5, 103_077, 16, 0.5, 1.0),
)


def test_files_can_be_read_again(tmp_path: Path) -> None:
    board = Leaderboard("zinc", "mae", ROWS)
    board.save(tmp_path)
    assert Leaderboard.from_dict(json.loads((tmp_path / "leaderboard.json").read_text())) == board
    kinds = {name: type(getattr(ROWS[0], name)) for name in Row.__dataclass_fields__}
    kinds["found"] = {"True": True, "False": False}.get
    read = csv.DictReader(io.StringIO((tmp_path / "leaderboard.csv").read_text()))
    assert tuple(Row(**{name: kinds[name](value) for name, value in row.items()}) for row in read) == ROWS
    lines = (tmp_path / "leaderboard.md").read_text().splitlines()
    cells = [[cell.strip() for cell in line.replace(r"\|", "\0").strip("|").split("|")] for line in lines]
    assert tuple(cells[0]) == board.table().headings()
    found = [tuple(cell.replace("\0", "|").strip("*") for cell in row) for row in cells[2:]]
    assert found == board.table().texts()
    assert found[0][:5] == ("gnas | mine (found)", "0.2761 ± 0.0151", "4", "0.3000", "434,123")
    assert found[0][-1] == 'a|b, "c"'


def test_percent_has_two_digits() -> None:
    row = replace(ROWS[0], mean=86.804, std=0.1)
    assert Leaderboard("pattern", "class_accuracy", (row,)).table().texts()[0][1] == "86.80 ± 0.10"


def test_other_metrics_are_a_table_of_their_own_and_columns_of_the_csv(tmp_path: Path) -> None:
    alone = Leaderboard("zinc", "mae", ROWS)
    assert alone.metrics_table() is None
    gcn = replace(ROWS[1], metrics={"test": {"mae": 0.459, "rmse": 0.61234, "r2": 0.8}, "val": {"rmse": 0.7}})
    board = replace(alone, rows=(replace(ROWS[0], metrics={"test": {"mae": 0.276, "r2": 0.9}}), gcn))
    others = board.metrics_table()
    assert others is not None
    assert others.headings() == ("network", "R²", "RMSE")
    assert others.texts() == [("gnas | mine", "0.9000", "–"), ("gcn", "0.8000", "0.6123")]
    board.save(tmp_path)
    assert (tmp_path / "leaderboard.md").read_text().count("\n|---") == 2
    rows = list(csv.DictReader(io.StringIO((tmp_path / "leaderboard.csv").read_text())))
    assert [(row["test_r2"], row["test_rmse"]) for row in rows] == [("0.9", ""), ("0.8", "0.61234")]
