"""Tensors and a text in one file: every damage is one line, and a newer file says so."""

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gnas.errors import InputError
from gnas.tensors import read_digest, read_tensors, write_tensors

FORM = "gnas-test-2"
TENSORS = {"a": torch.arange(6.0).reshape(2, 3), "b": torch.tensor([True, False]), "none": torch.empty(0, 3)}


def write(folder: Path, form: str = FORM) -> Path:
    return write_tensors(folder / "x.safetensors", form, "a text", TENSORS)


def test_what_was_written_is_read(tmp_path: Path) -> None:
    text, found = read_tensors(write(tmp_path), FORM, "thing")
    assert text == "a text"
    assert found.keys() == TENSORS.keys()
    assert all(torch.equal(found[name], one) and found[name].dtype == one.dtype for name, one in TENSORS.items())


def test_views_of_one_tensor_are_written(tmp_path: Path) -> None:
    whole = torch.arange(8.0)
    path = write_tensors(tmp_path / "views", FORM, "", {"first": whole[:4], "every": whole[::2], "again": whole})
    assert read_tensors(path, FORM, "thing")[1]["every"].tolist() == [0.0, 2.0, 4.0, 6.0]


def test_the_digest_is_that_of_the_content(tmp_path: Path) -> None:
    first = read_digest(write(tmp_path))
    assert read_digest(write_tensors(tmp_path / "y", FORM, "a text", dict(reversed(TENSORS.items())))) == first
    changed = {**TENSORS, "a": TENSORS["a"] + 1}
    assert read_digest(write_tensors(tmp_path / "z", FORM, "a text", changed)) != first


@settings(max_examples=60, deadline=None)
@given(place=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_any_flipped_bit_is_refused_or_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory, place: int, bit: int
) -> None:
    path = write(tmp_path_factory.mktemp("flipped"))
    content = bytearray(path.read_bytes())
    content[place % len(content)] ^= 1 << bit
    path.write_bytes(content)
    try:
        text, found = read_tensors(path, FORM, "thing")
    except InputError:
        return
    assert text == "a text"
    assert all(torch.equal(found[name], one) for name, one in TENSORS.items())


def test_other_and_newer_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such thing"):
        read_tensors(tmp_path / "absent", FORM, "thing")
    with pytest.raises(InputError, match="not a gnas thing"):
        read_tensors(write(tmp_path, "gnas-other-1"), FORM, "thing")
    with pytest.raises(InputError, match="3"):
        read_tensors(write(tmp_path, "gnas-test-3"), FORM, "thing")
