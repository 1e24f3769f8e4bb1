"""What is read off the data: column kinds, task kinds, labels, and every override."""

import numpy as np
import pytest
from builders import one_line

from gnas.data.encoding import Column
from gnas.data.own.columns import infer_column
from gnas.data.own.raw import RawGraphs
from gnas.data.own.targets import format_label, infer_encoding, read_targets


def place(row: int) -> str:
    return f"row {row}"


def texts(*values: str) -> np.ndarray:
    return np.array([v.encode() for v in values])


def raw_graphs(targets, nodes=None, labelled=None, row_split=None, level="graph") -> RawGraphs:
    rows = len(next(iter(targets.values())))
    ones, none = np.ones(rows, np.int64), np.zeros(rows, np.int64)
    nodes = {"x": none} if nodes is None else nodes
    edges = np.zeros((2, 0), np.int64)
    if level == "node":
        ones, none = np.array([rows]), np.array([0])
    return RawGraphs("pyg", "test", ones, none, edges, nodes, {}, targets, level, labelled, row_split=row_split)


@pytest.mark.parametrize(
    ("values", "categorical", "wanted"),
    [
        (np.array([0, 2, 1]), None, Column("c", "integer", 3)),
        (np.array([6, 7, 53]), None, Column("c", "integer", 54)),
        (np.array([-1, 1]), None, Column("c", "vocabulary", 2, (-1, 1))),
        (np.array([5, 900]), None, Column("c", "vocabulary", 2, (5, 900))),
        (np.arange(2000), None, Column("c")),
        (np.array([0.0, 2.0]), None, Column("c")),
        (np.array([0.0, 2.0]), True, Column("c", "integer", 3)),
        (np.array([0, 2]), False, Column("c")),
        (texts("O", "C", "é", "C"), None, Column("c", "vocabulary", 3, ("C", "O", "é"))),
    ],
)
def test_columns(values, categorical, wanted):
    column = infer_column("c", values, categorical, place)
    assert column == wanted
    read = column.read(values, place)
    if column.kind == "vocabulary":
        back = [column.values[i] for i in read]
        assert back == [v.decode() if isinstance(v, bytes) else v for v in values.tolist()]
    else:
        assert (read == values).all()


def test_columns_that_cannot_be():
    with one_line("row 1", "'c' is 0.5", "category"):
        infer_column("c", np.array([1.0, 0.5]), True, place)
    with one_line("'c' holds texts", "'O'"):
        infer_column("c", texts("O"), False, place)
    with one_line("2000 different texts"):
        infer_column("c", np.array([str(i).encode() for i in range(2000)]), None, place)


@pytest.mark.parametrize(
    ("y", "kind", "labels"),
    [
        (np.array([0, 1, 2, 1]), "classification", ("0", "1", "2")),
        (np.array([-1, 1, -1, 1]), "classification", ("-1", "1")),
        (np.array([7, 300] * 4), "classification", ("7", "300")),
        (np.array([17, 230, 45, 1999]), "regression", ()),
        (np.arange(300), "regression", ()),
        (np.array([0.5, 1.0, 2.0]), "regression", ()),
        (np.array([0.0, 1.0, 2.0]), "regression", ()),
        (np.array([0.0, 1.0, 1.0]), "classification", ("0", "1")),
        (texts("no", "yes", "no"), "classification", ("no", "yes")),
    ],
)
def test_kinds(y, kind, labels):
    encoding = infer_encoding(raw_graphs({"y": y}))
    assert (encoding.kind, encoding.labels, encoding.targets) == (kind, labels, ("y",))
    assert any(kind in reason for reason in encoding.reasons)
    found, rows = read_targets(encoding, raw_graphs({"y": y}))
    assert rows.all()
    if labels:
        assert [labels[i] for i in found] == [format_label(v) for v in y.tolist()]
    else:
        assert (found[:, 0] == y.astype(np.float32)).all()


def test_kinds_as_asked():
    assert infer_encoding(raw_graphs({"y": np.array([0, 1, 2, 1])}), kind="regression").kind == "regression"
    floats = infer_encoding(raw_graphs({"y": np.array([0.5, 2.0, 0.5])}), kind="classification")
    assert floats.labels == ("0.5", "2")
    with one_line("graph 0", "'a'", "regression needs numbers"):
        infer_encoding(raw_graphs({"y": texts("a", "b")}), kind="regression")


def test_several_targets():
    many = raw_graphs({"a": np.array([0.5, 1]), "b": np.array([3, 4])})
    encoding = infer_encoding(many)
    assert (encoding.kind, encoding.targets) == ("regression", ("a", "b"))
    assert read_targets(encoding, many)[0].shape == (2, 2)
    hot = raw_graphs({"cat": np.array([1, 0, 0]), "dog": np.array([0, 1, 1])})
    encoding = infer_encoding(hot)
    assert (encoding.kind, encoding.labels) == ("classification", ("cat", "dog"))
    assert read_targets(encoding, hot)[0].tolist() == [0, 1, 1]
    with one_line("several class targets", "data option target"):
        infer_encoding(raw_graphs({"a": texts("x", "y"), "b": np.array([1, 2])}))


def test_one_class_or_no_target_at_all():
    with one_line("one class only", "'3'"):
        infer_encoding(raw_graphs({"y": np.array([3, 3, 3])}))
    with one_line("no graph has a target"):
        infer_encoding(raw_graphs({"y": np.array([np.nan, np.nan])}))


def test_rows_without_target_or_split_do_not_make_classes():
    y = np.array([0, 1, 9, 1])
    encoding = infer_encoding(raw_graphs({"y": y}, row_split=np.array([0, 1, -1, 2]), level="node"))
    assert encoding.labels == ("0", "1")
    found, rows = read_targets(encoding, raw_graphs({"y": y}, row_split=np.array([0, 1, -1, 2]), level="node"))
    assert found.tolist() == [0, 1, -1, 1]
    assert rows.tolist() == [True, True, False, True]


def test_input_columns():
    y = {"y": np.array([0, 1, 1])}
    words = {f"w{i}": np.array([0, 1, i % 2]) for i in range(4)}
    assert infer_encoding(raw_graphs(y, words)).in_channels == 4
    assert infer_encoding(raw_graphs(y, words), categorical=True).categories == (2, 2, 2, 2)
    mixed = {"atom": texts("C", "N", "C"), "charge": np.array([0.5, 1, 2])}
    encoding = infer_encoding(raw_graphs(y, mixed))
    assert (encoding.mixed, encoding.in_channels, encoding.categories) == (True, 3, ())
    chosen = infer_encoding(raw_graphs(y, {"a": np.array([0, 1, 2]), "b": np.array([0, 1, 2])}), categorical=["a"])
    assert [c.categorical for c in chosen.nodes] == [True, False]
    with one_line("categorical column 'chrage'", "did you mean 'charge'"):
        infer_encoding(raw_graphs(y, mixed), categorical=["chrage"])
    assert infer_encoding(raw_graphs(y, {})).categories == (64,)
