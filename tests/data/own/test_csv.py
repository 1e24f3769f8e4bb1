"""Cells of CSV files, against Python's csv module; broken files are named with their line."""

import csv
import gzip
import io
import os
import subprocess
import sys
import time

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


def peak(code: str, *words: object) -> tuple[str, float, float]:
    """What a process of its own says, its seconds, and by how many megabytes its memory grew."""
    whole = (
        "import resource, sys, time\nfrom pathlib import Path\nimport numpy\nfrom gnas.data.own.csv import read_csv\n"
        "from gnas.data.storage import read_npz\nused = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000\n"
        "before, begin = used(), time.monotonic()\n"
        f"try:\n    {code}\n    said = 'read'\nexcept Exception as error:\n    said = str(error)\n"
        "print(said, time.monotonic() - begin, used() - before, sep='\\n')\n"
    )
    words = [sys.executable, "-c", whole, *map(str, words)]
    said, seconds, grown = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
    return said, float(seconds), float(grown)


def test_a_million_columns_are_refused_at_once(tmp_path):
    """The search for repeated names took hours."""
    names = ",".join(f"c{i}" for i in range(1_000_000))
    (tmp_path / "t.csv").write_text(f"{names}\n{'1,' * 999_999}1\n")
    said, seconds, grown = peak("read_csv(Path(sys.argv[1]))", tmp_path / "t.csv")
    assert said == (
        "t.csv: 1,000,000 columns; allowed are 100,000; remove some, or set the environment variable GNAS_MAX_COLUMNS=1000000"
    )
    assert seconds < 10
    assert grown < 500


def test_many_columns_are_read_in_linear_time(tmp_path, monkeypatch):
    names = [f"c{i}" for i in range(30_000)]
    (tmp_path / "t.csv").write_text(f"{','.join(names)}\n{'1,' * 29_999}1\n")
    begin = time.monotonic()
    assert list(read_csv(tmp_path / "t.csv").columns) == names
    assert time.monotonic() - begin < 5  # a second; 12 with a search per name
    monkeypatch.setenv("GNAS_MAX_COLUMNS", "100")
    with one_line("30,000 columns; allowed are 100"):
        read_csv(tmp_path / "t.csv")
    monkeypatch.setenv("GNAS_MAX_COLUMNS", "all")
    with one_line("GNAS_MAX_COLUMNS is 'all'"):
        read_csv(tmp_path / "t.csv")


@pytest.mark.parametrize("quote", ["", '"'])
def test_a_long_cell_among_many_rows_is_refused_before_memory_is_taken(tmp_path, quote):
    """A file of 2.9 MB took 7.5 GB."""
    long = f"{quote}{'x' * 20_000}{quote}"
    (tmp_path / "t.csv").write_text(f"a,b\n{long},{long}\n" + "1,2\n" * 100_000)
    said, _, grown = peak("read_csv(Path(sys.argv[1]))", tmp_path / "t.csv")
    assert said.startswith("t.csv: its cells, up to 20,000 characters long (column 'a'), would take 4,")
    assert said.endswith("if you trust the file, set the environment variable GNAS_MAX_MEMORY=5GB")
    assert grown < 300


def test_a_compressed_file_that_unpacks_to_much_is_refused(tmp_path):
    with gzip.open(tmp_path / "t.csv.gz", "wb") as file:
        file.write(b"a\n" + b"1\n" * 50_000_000)
    said, _, grown = peak("read_csv(Path(sys.argv[1]))", tmp_path / "t.csv.gz")
    assert said.startswith("t.csv.gz: what it unpacks to would take 67,108,865 bytes of memory, from a file of 97,")
    assert grown < 400


def test_a_prepared_file_that_unpacks_to_much_is_refused(tmp_path):
    """A file of 9.4 MB took 6.5 GB. The size in the header is checked before anything is unpacked."""
    np.savez_compressed(tmp_path / "t.npz", a=np.zeros(500_000_000, np.uint8))
    said, seconds, grown = peak("read_npz(Path(sys.argv[1]))", tmp_path / "t.npz")
    assert "its arrays would take 500,000,128 bytes of memory" in said
    assert said.endswith("GNAS_MAX_MEMORY=1GB")
    assert (seconds < 5, grown < 100) == (True, True)


def test_pipes_are_no_tables(tmp_path):
    for name in ("t.csv", "t.csv.gz"):
        os.mkfifo(tmp_path / name)
        with one_line(name, "not a regular file"):
            read_csv(tmp_path / name)
