"""Cells of CSV files, against Python's csv module; broken files are named with their line."""

import csv
import io

import numpy as np
import pytest
from builders import one_line
from hypothesis import given, settings
from hypothesis import strategies as st

from gnas.data.own.csv import read_csv

CELLS = st.text(st.characters(codec="utf-8", exclude_characters="\0\r\n"), max_size=40).map(str.strip)


@given(st.lists(st.tuples(CELLS, CELLS, CELLS), max_size=12), st.sampled_from(["\n", "\r\n"]), st.booleans())
@settings(max_examples=60, deadline=None)
def test_cells_are_those_of_the_csv_module(tmp_path_factory, rows, ending, quoted):
    rows = [r for r in rows if any(r)]
    text = io.StringIO()
    csv.writer(text, lineterminator=ending, quoting=csv.QUOTE_ALL if quoted else csv.QUOTE_MINIMAL).writerows(
        [("a", "b", "c"), *rows]
    )
    path = tmp_path_factory.getbasetemp() / "cells.csv"
    path.write_bytes(text.getvalue().encode())
    table = read_csv(path)
    found = [[c.decode() for c in column.tolist()] for column in table.columns.values()]
    assert list(zip(*found, strict=True)) == rows
    assert table.lines.tolist() == list(range(2, len(rows) + 2))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "empty"),
        (b"\n\n", "empty"),
        (b"a,b\n1,2\n3\n", "t.csv line 3: 1 cells, but the first line has 2"),
        (b'a,b\n"1",2,3\n', "line 2: 3 cells"),
        (b"a,a\n1,2\n", "two columns are called 'a'"),
        (b",a\n0,1\n", "column 1 has no name"),
        (b"a;b\n1;2\n", "commas"),
        (b"a,b\n1,\xff\n", "t.csv line 2: not UTF-8"),
        ("a,b\n1,2\n".encode("utf-16"), "UTF-8"),
        ("a,b\n1,2\n".encode("utf-16-le"), "NUL"),
        (b'a,b\n1,"open\n2,3\n', "line"),
    ],
)
def test_broken_files(tmp_path, data, words):
    (tmp_path / "t.csv").write_bytes(data)
    with one_line(words):
        read_csv(tmp_path / "t.csv")


def test_values_of_a_column(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b"\xef\xbb\xbfi,f,s,gap,under,big\n 1 ,1.5,a,,1_0,99999999999999999999\n-2,1e3,b c,4,1_1,1\n")
    table = read_csv(path)
    values = {name: table.values(name)[0] for name in table.columns}
    assert values["i"].tolist() == [1, -2]
    assert values["f"].tolist() == [1.5, 1000]
    assert values["s"].tolist() == [b"a", b"b c"]
    assert values["under"].tolist() == [b"1_0", b"1_1"]
    assert values["big"].dtype == np.float64
    assert table.values("gap")[1].tolist() == [False, True]
    with one_line("t.csv line 2", "'gap' is empty"):
        table.features("gap")
