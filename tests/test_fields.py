"""Fields of settings: types, limits and choices are checked, texts become what they mean, errors are one line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from gnas.errors import InputError
from gnas.fields import check_fields, convert_fields, field_kinds, setting


@dataclass(frozen=True)
class Oven:
    degrees: int = setting(180, "temperature", at_least=50, at_most=300)
    speed: float = setting(0.5, above=0, below=1)
    mode: str = setting("", choices=("fan", "grill"))
    level: int = setting(1, choices=(1, 2))
    light: bool = setting(False)
    racks: tuple[int, ...] = setting((1, 2), distinct=True)
    timer: float | None = setting(None, at_least=0)
    names: tuple[str, ...] = ()
    other: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        check_fields(self, "oven")


def test_fields_that_cannot_be_checked_are_left_alone() -> None:
    assert "other" not in field_kinds(Oven)
    Oven(other={"a": 1})


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"degrees": 10}, "oven.degrees is 10; it must be a whole number of at least 50 and at most 300"),
        ({"degrees": 100.5}, "oven.degrees is 100.5; it must be a whole number"),
        ({"degrees": True}, "oven.degrees is True"),
        ({"degrees": "hot"}, "oven.degrees is 'hot'"),
        ({"speed": 1.0}, "oven.speed is 1.0; it must be a number above 0 and less than 1"),
        ({"speed": float("nan")}, "oven.speed is nan"),
        ({"mode": "gril"}, "unknown oven.mode 'gril'; choose one of: fan, grill; did you mean 'grill'"),
        ({"level": 3}, "oven.level is 3; choose one of: 1, 2"),
        ({"light": 1}, "oven.light is 1; it must be true or false"),
        ({"racks": (1, 1)}, "name at least one, each once"),
        ({"racks": ()}, "name at least one, each once"),
        ({"racks": 1}, "oven.racks is 1; it must be a list of whole numbers"),
        ({"racks": ("a",)}, "it must be a list of whole numbers"),
        ({"timer": -1.0}, "oven.timer is -1.0; it must be a number or null of at least 0"),
        ({"names": "abc"}, "it must be a list of texts"),
    ],
)
def test_wrong_values_are_named(values: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as error:
        Oven(**values)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("name", "value", "result"),
    [
        ("degrees", "2e2", 200),
        ("degrees", 200.0, 200),
        ("degrees", "200", 200),
        ("speed", "1e-1", 0.1),
        ("speed", 1, 1.0),
        ("light", "yes", True),
        ("light", "FALSE", False),
        ("racks", "1, 2 3", (1, 2, 3)),
        ("racks", 4, (4,)),
        ("timer", "null", None),
        ("timer", "3", 3.0),
        ("names", ["a", "b"], ("a", "b")),
    ],
)
def test_texts_become_what_they_mean(name: str, value: Any, result: Any) -> None:
    converted = convert_fields(Oven, {name: value})[name]
    assert (converted, type(converted)) == (result, type(result))


@pytest.mark.parametrize(
    ("name", "value"),
    [("degrees", "1.5"), ("degrees", "inf"), ("degrees", None), ("speed", []), ("light", "maybe"), ("racks", {"a": 1})],
)
def test_what_has_no_meaning_is_refused(name: str, value: Any) -> None:
    with pytest.raises(InputError, match=f"{name} is .*; it must be"):
        convert_fields(Oven, {name: value})
