"""Columns and encodings: new values are read as the first ones, encodings are JSON, positions are those of a loop."""

import numpy as np
import pytest
from builders import one_line
from hypothesis import given, settings
from hypothesis import strategies as st

from gnas.data.encoding import Column, Encoding, find_positions, find_repeat
from gnas.data.own.columns import fit_column


def place(row: int) -> str:
    return f"row {row}"


def texts(*values: str) -> np.ndarray:
    return np.array([v.encode() for v in values])


@given(st.lists(st.integers(-9, 9) | st.integers(-(2**62), 2**62)), st.lists(st.integers(-9, 9)))
@settings(max_examples=60, deadline=None)
def test_positions_are_those_of_a_list(known, wanted):
    found = find_positions(np.array(known, np.int64), np.array(wanted, np.int64))
    assert found.tolist() == [known.index(w) if w in known else -1 for w in wanted]
    texts = [np.array([str(v).encode() for v in values], np.bytes_) for values in (known, wanted)]
    assert find_positions(*texts).tolist() == found.tolist()
    repeats = [i for i, v in enumerate(known) if v in known[:i]]
    assert find_repeat(np.array(known, np.int64)) == (repeats[0] if repeats else None)


def test_reading_new_values():
    with one_line("row 1", "'Xe'", "C, O"):
        Column("c", "vocabulary", 2, ("C", "O")).read(texts("C", "Xe"), place)
    with one_line("row 0", "'c' is 7", "0..4"):
        Column("c", "integer", 5).read(np.array([7]), place)
    with one_line("row 2", "nan"):
        Column("c").read(np.array([0, 1, np.nan]), place)
    with one_line("row 0", "inf"):
        Column("c").read(np.array([np.inf]), place)
    with one_line("row 0", "'c' is 'no'; a number is needed"):
        Column("c").read(texts("no"), place)
    with one_line("row 0: 'c' is 1e+300"):
        Column("c").read(np.array([1e300]), place)


def test_encodings_are_json():
    import json

    columns = (Column("a", "vocabulary", 2, ("x", "y")), Column("b"), Column("c", "vocabulary", 1, (-3,)))
    encoding = Encoding("tables", "node", "classification", columns, columns[:1], ("y",), ("no", "yes"), (), ("why",))
    assert Encoding.from_dict(json.loads(json.dumps(encoding.to_dict()))) == encoding


@pytest.mark.parametrize(
    "broken",
    [
        {},
        {"nodes": [{"name": "a", "kind": "vocabulary", "size": 2, "values": ["x"]}]},
        {"nodes": [{"name": "a", "kind": "vocabulary", "size": 2, "values": ["x", 1]}]},
        {"nodes": [{"name": "a", "kind": "integer", "size": "many", "values": []}]},
        {"nodes": [3]},
        {"nodes": None},
        {"source": "pickle"},
        {"source": []},
        {"labels": 4},
        {"nodes": [{"name": "b", "kind": "integer", "size": 3, "values": [], "absent": ["1"]}]},
    ],
)
def test_encodings_that_are_none(broken):
    whole = Encoding("tables", "node", "regression", (Column("b"),), targets=("y",)).to_dict()
    with one_line():
        Encoding.from_dict({**whole, **broken} if broken else broken)


def test_notes_on_unseen_values_are_short():
    column = Column("element", "vocabulary", 2, ("C",), other=True)
    values = np.array([b"C", b"Br", b"Br", b"I", b"Xe", b"F", b"C", b"Br"])
    (note,) = column.note_unseen(values, lambda row: f"line {row // 2}")
    assert note == (
        "column 'element': 'Br', 'F', 'I' and 1 more are not in the training data and are read as 'other' "
        "(line 0, line 1, line 2 and 1 more)"
    )
    (note,) = column.note_unseen(np.repeat(values[1:2], 5000), lambda row: f"line {row}")
    assert note.endswith("is read as 'other' (line 0, line 1, line 2 and 4,997 more)")
    assert column.note_unseen(values[:1], str) == []


def test_a_number_that_train_lacks_is_other_and_noted_also_below_its_largest():
    column = fit_column(Column("kind", "integer", 6), np.array([0, 1, 5, 5]))
    values = np.array([0, 3, 5, 7, 3])
    assert column.read(values, str).tolist() == [0, 6, 5, 6, 6]
    (note,) = column.note_unseen(values, lambda row: f"row {row}")
    assert note.startswith("column 'kind': 3, 7 are not in the training data and are read as 'other' (row 1, row 3")
    whole = Encoding("tables", "node", "regression", (column,), targets=("y",))
    assert Encoding.from_dict(whole.to_dict()).nodes == (column,)
    without_gap = fit_column(Column("kind", "integer", 3), np.array([0, 2, 1]))
    assert without_gap.values == ()
