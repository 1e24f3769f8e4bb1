"""Hand-made networks as values."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnas.arch.hand_made import HandMade
from gnas.errors import InputError

OPTIONS = st.dictionaries(st.sampled_from(["heads", "eps", "original"]), st.integers(1, 9) | st.booleans(), max_size=2)


@given(
    layers=st.integers(1, 1000),
    width=st.none() | st.tuples(st.sampled_from(["channels", "budget"]), st.integers(1, 60_000)),
    options=OPTIONS,
)
def test_a_network_is_read_from_its_text(layers: int, width: tuple[str, int] | None, options: dict) -> None:
    one = HandMade("gat", layers, options=options, **dict([width] if width else []))  # type: ignore[arg-type]
    found = HandMade.from_yaml(one.to_yaml())
    assert (found, found.id) == (one, one.id)
    assert found.formulas() == ("gat",) * layers
    assert found.depth() == layers


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"num_layers": 0}, "num_layers is 0; allowed: 1 to 1,000"),
        ({"num_layers": True}, "num_layers is True"),
        ({"channels": 65_537}, "channels is 65537; allowed: 1 to 65,536"),
        ({"channels": 8, "budget": 100}, "gcn has channels and a budget of weights; choose one of them"),
    ],
)
def test_wrong_sizes(values: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        HandMade("gcn", **values)


@pytest.mark.parametrize("text", ["", "[]", "format: gnas-baseline", "format: gnas-baseline\nversion: 1\nname: 3\n"])
def test_what_is_no_network_is_refused_with_its_file(text: str) -> None:
    with pytest.raises(InputError, match=r"^made\.yaml: "):
        HandMade.from_yaml(text, "made.yaml")


def test_a_newer_file_is_refused() -> None:
    text = HandMade("gcn").to_yaml().replace("version: 1", "version: 9")
    with pytest.raises(InputError, match="9"):
        HandMade.from_yaml(text)


def test_a_file(tmp_path: Path) -> None:
    path = HandMade("gin", 3, budget=5_000).save(tmp_path / "gin.yaml")
    assert HandMade.from_yaml(path.read_text()) == HandMade("gin", 3, budget=5_000)
