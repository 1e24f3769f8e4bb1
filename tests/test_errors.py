"""Errors: one line, with the choices."""

import pytest

from gnas.errors import InputError, OutOfMemory, RunError, choose, explain_memory, name_memory, name_place


def test_a_message_is_one_line_without_control_characters() -> None:
    assert str(InputError("a\nb \x1b[31mred")) == "a b \\x1b[31mred"
    assert len(str(InputError("several\nlines\r\nof text")).splitlines()) == 1
    assert "\x1b" not in str(RunError("\x1b[2J"))


def test_an_unknown_value_is_an_error_with_the_choices_and_the_nearest_one() -> None:
    assert choose("gcn", ["gcn", "gin"], "network") == "gcn"
    with pytest.raises(InputError, match=r"unknown network 'gcm'; choose one of: gcn, gin; did you mean 'gcn'\?"):
        choose("gcm", ["gcn", "gin"], "network")
    with pytest.raises(InputError, match="there is none to choose"):
        choose("x", [], "network")


def test_the_place_stands_in_front_of_the_message() -> None:
    with pytest.raises(InputError, match=r"^a.csv: row 3: no number$"), name_place("a.csv"), name_place("row 3"):
        raise InputError("no number")
    with pytest.raises(KeyError), name_place("a.csv"):
        raise KeyError("other errors pass")


def test_full_memory_is_one_line_that_says_what_to_lower() -> None:
    with pytest.raises(OutOfMemory, match="out of memory; lower the batch"), explain_memory("cpu", "the batch"):
        raise MemoryError
    with pytest.raises(OutOfMemory, match="out of the memory of cuda:0; lower x"), explain_memory("cuda:0", "x"):
        raise RuntimeError("CUDA out of memory. Tried to allocate")
    with pytest.raises(RuntimeError, match="shapes"), explain_memory("cpu", "x"):
        raise RuntimeError("shapes differ")
    assert (name_memory("cpu"), name_memory("cuda")) == ("memory", "the memory of cuda")
