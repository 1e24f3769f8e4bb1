"""Checkpoints: what comes back is what went in, bit for bit; anything else is refused in one line."""

import io
import json
import math
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from safetensors.torch import save as tensor_bytes
from torch import Tensor

from gnas import tensors
from gnas.errors import InputError
from gnas.run import checkpoint

STATE = {
    "ints": {0: "zero", 7: {1: None}},
    "flags": [True, False, None],
    "pair": (0.5, (1, -2)),
    "floats": [1e-300, -0.0, math.inf, 0.1 + 0.2, 2**70],
    "text": "ü |\n\"'\\",
    "empty": [{}, [], (), torch.zeros(0, 3)],
    "tensors": [
        torch.tensor(0.1, dtype=torch.float64),
        torch.arange(3) * 2**40,
        torch.tensor([[True, False]]),
        torch.randn(4, 5).t()[1:],
        torch.tensor([math.nan, -math.inf], dtype=torch.bfloat16),
        torch.tensor([], dtype=torch.bool),
    ],
}
quick = settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


def same(a: Any, b: Any) -> bool:
    """Equal in type, shape and bits."""
    if type(a) is not type(b):
        return False
    if isinstance(a, Tensor):
        alike = a.dtype == b.dtype and a.shape == b.shape
        return alike and bytes(a.contiguous().view(-1).view(torch.uint8)) == bytes(
            b.contiguous().view(-1).view(torch.uint8)
        )
    if isinstance(a, dict):
        pairs = zip(a.items(), b.items(), strict=False)
        return len(a) == len(b) and all(same(k, m) and same(v, w) for (k, v), (m, w) in pairs)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return repr(a) == repr(b)


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> bytes:
    return checkpoint.save(tmp_path_factory.mktemp("state") / "one", STATE).read_bytes()


def loaded(path: Path, data: bytes) -> Any:
    path.write_bytes(data)
    return checkpoint.load(path)


def test_round_trip(tmp_path: Path, written: bytes) -> None:
    assert same(loaded(tmp_path / "one", written), STATE)
    assert not same(STATE, {**STATE, "pair": [0.5, (1, -2)]})  # the comparison itself can fail


leaves = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
)
keys = st.one_of(st.integers(), st.text(st.characters(exclude_categories=["Cs"]), max_size=3), st.none())
nested = st.recursive(
    leaves,
    lambda inner: st.one_of(st.lists(inner), st.lists(inner).map(tuple), st.dictionaries(keys, inner)),
    max_leaves=8,
)


@quick
@given(nested)
def test_round_trip_of_anything(tmp_path: Path, state: Any) -> None:
    assert same(checkpoint.load(checkpoint.save(tmp_path / "any", state)), state)


@pytest.mark.parametrize("kind", ["adam", "sgd"])
def test_optimizer_states(tmp_path: Path, kind: str) -> None:
    model = torch.nn.Linear(3, 2)
    optimizer = (
        torch.optim.Adam(model.parameters()) if kind == "adam" else torch.optim.SGD(model.parameters(), 0.1, 0.9)
    )
    model(torch.randn(4, 3)).sum().backward()
    optimizer.step()
    state = optimizer.state_dict()
    found = checkpoint.load(checkpoint.save(tmp_path / "state", state))
    assert same(found, state)
    optimizer.load_state_dict(found)


def test_tensors_are_copied(tmp_path: Path) -> None:
    one = torch.zeros(3)
    path = checkpoint.save(tmp_path / "state", [one, one, one[1:]])
    one.fill_(1)
    assert same(checkpoint.load(path), [torch.zeros(3), torch.zeros(3), torch.zeros(2)])


def test_what_cannot_be_kept_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="cannot hold a set"):
        checkpoint.save(tmp_path / "state", {"a": {1, 2}})
    assert list(tmp_path.iterdir()) == []


# -- damage -----------------------------------------------------------------------------------------------------------


@quick
@given(st.floats(0, 1, exclude_max=True), st.integers(1, 255))
@example(0.0, 255)
@example(0.999999, 1)
def test_a_flipped_byte_is_noticed(tmp_path: Path, written: bytes, place: float, change: int) -> None:
    damaged = bytearray(written)
    damaged[int(place * len(written))] ^= change
    said = None
    try:
        found = loaded(tmp_path / "one", bytes(damaged))
    except InputError as error:
        said = str(error)
    if said is None:
        assert same(found, STATE)  # white space, say
    else:
        assert said.startswith(str(tmp_path / "one"))
        assert "\n" not in said


def test_every_flipped_tensor_byte_is_noticed(tmp_path: Path) -> None:
    data = checkpoint.save(tmp_path / "one", {"a": torch.arange(4.0), "b": torch.tensor([True, False])}).read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    assert len(data) - start == 18
    for place in range(start, len(data)):
        damaged = bytearray(data)
        damaged[place] ^= 2
        with pytest.raises(InputError, match="does not match its digest"):
            loaded(tmp_path / "one", bytes(damaged))


@quick
@given(st.floats(0, 1, exclude_max=True))
def test_truncation_is_noticed(tmp_path: Path, written: bytes, share: float) -> None:
    with pytest.raises(InputError, match="damaged checkpoint"):
        loaded(tmp_path / "one", written[: int(share * len(written))])


@quick
@given(st.binary(max_size=60), st.booleans())
def test_random_bytes_are_refused(tmp_path: Path, data: bytes, framed: bool) -> None:
    with pytest.raises(InputError, match="checkpoint"):
        loaded(tmp_path / "one", len(data).to_bytes(8, "little") + data if framed else data)


class Malicious:
    ran = False

    def __reduce__(self):
        return (exec, ("import test_checkpoint; test_checkpoint.Malicious.ran = True",))


def torch_file(value: Any) -> bytes:
    file = io.BytesIO()
    torch.save(value, file)
    return file.getvalue()


def header(meta: dict[str, Any], **extra: Any) -> bytes:
    text = json.dumps({"__metadata__": meta, **extra}).encode()
    return len(text).to_bytes(8, "little") + text


SKELETONS = ['{"tensor": "9"}', '{"dict": 3}', '{"dict": [[[1], 2]]}', "{}", '{"a": 1, "b": 2}', "[" * 9999, "not json"]


@pytest.mark.parametrize(
    "data",
    [
        pickle.dumps(Malicious()),
        torch_file(Malicious()),
        (2**62).to_bytes(8, "little") + b"{}",
        (200_000_000).to_bytes(8, "little") + b" " * 100,
        header({}),
        header({"format": "gnas-checkpoint-1"}),
        header({"format": "gnas-checkpoint-1", "state": "1", "digest": "0"}),
        header({"format": ["gnas-checkpoint-1"]}),
        tensor_bytes({"weight": torch.ones(2)}, {"format": "pt"}),
        b"[]",
        b"",
    ],
)
def test_other_files_are_refused(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(InputError, match="checkpoint"):
        loaded(tmp_path / "one", data)
    assert not Malicious.ran


@pytest.mark.parametrize("skeleton", SKELETONS)
def test_a_forged_structure_is_refused(tmp_path: Path, skeleton: str) -> None:
    meta = {"format": checkpoint.FORMAT, "state": skeleton, "digest": tensors._digest({}, skeleton)}
    with pytest.raises(InputError, match="damaged checkpoint"):
        loaded(tmp_path / "one", tensor_bytes({}, meta))


def test_no_file_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such checkpoint"):
        checkpoint.load(tmp_path / "nothing")
    with pytest.raises(InputError, match="damaged checkpoint"):
        checkpoint.load(tmp_path)
