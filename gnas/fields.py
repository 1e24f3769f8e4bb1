"""Settings as fields of frozen dataclasses: each field declares its type, its limits or choices, and a line of help.

One validator serves files, the command line, Python and the settings of strategies:

    @dataclass(frozen=True)
    class Oven:
        degrees: int = setting(180, "temperature", at_least=50, at_most=300)

        def __post_init__(self) -> None:
            check_fields(self)
"""

from __future__ import annotations

import math
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from numbers import Integral, Real
from typing import Any

from gnas.errors import InputError, choose

WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}
PLURALS = {bool: "switches", int: "whole numbers", float: "numbers", str: "texts"}
SWITCHES = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def setting(
    default: Any,
    help: str = "",
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    above: float | None = None,
    below: float | None = None,
    choices: Sequence[Any] = (),
    distinct: bool = False,
) -> Any:
    """A field of a settings dataclass.

    Args:
        default: the value if none is given.
        help: one line for the documentation.
        at_least, at_most, above, below: limits of a number.
        choices: the values that are allowed; of a text, an empty default is allowed too.
        distinct: the field is a list with at least one entry, each of them once.
    """
    limits = {"of at least": at_least, "above": above, "at most": at_most, "less than": below}
    known = {word: limit for word, limit in limits.items() if limit is not None}
    return field(
        default=default, metadata={"help": help, "limits": known, "choices": tuple(choices), "distinct": distinct}
    )


@dataclass(frozen=True)
class Kind:
    """The type of a field, as far as it can be checked."""

    base: type  # bool, int, float or str
    several: bool = False  # a tuple of them
    optional: bool = False  # None is allowed

    def describe(self) -> str:
        text = f"a list of {PLURALS[self.base]}" if self.several else WORDS[self.base]
        return f"{text} or null" if self.optional else text


_KINDS: dict[Any, Mapping[str, Kind]] = {}


def field_kinds(owner: type) -> Mapping[str, Kind]:
    """The fields of a settings dataclass whose values can be checked, with their types."""
    if owner not in _KINDS:
        hints = typing.get_type_hints(owner)
        kinds = {one.name: _kind(hints[one.name]) for one in fields(owner)}
        _KINDS[owner] = {name: kind for name, kind in kinds.items() if kind is not None}
    return _KINDS[owner]


def _kind(hint: Any) -> Kind | None:
    arguments = typing.get_args(hint)
    if isinstance(hint, types.UnionType):
        inner = [one for one in arguments if one is not types.NoneType]
        kind = _kind(inner[0]) if len(inner) == 1 and len(arguments) == 2 else None
        return None if kind is None else Kind(kind.base, kind.several, optional=True)
    if typing.get_origin(hint) is tuple and arguments[1:] == (...,) and arguments[0] in WORDS:
        return Kind(arguments[0], several=True)
    return Kind(hint) if hint in WORDS else None


def check_fields(settings: Any, group: str = "") -> None:
    """Check the type, the limits and the choices of every field; the error names the field, after its ``group``."""
    kinds = field_kinds(type(settings))
    for one in fields(settings):
        if one.name in kinds:
            _check(one, kinds[one.name], getattr(settings, one.name), f"{group}.{one.name}" if group else one.name)


def _check(one: Field[Any], kind: Kind, value: Any, name: str) -> None:
    if value is None and kind.optional:
        return
    limits, choices = one.metadata.get("limits", {}), one.metadata.get("choices", ())
    several = isinstance(value, list | tuple)
    items = tuple(value) if kind.several and several else (value,)
    right = several == kind.several and all(_is_a(item, kind.base) for item in items)
    if choices and right and value != one.default:
        for item in items:
            if item not in choices and not isinstance(item, str):
                raise InputError(f"{name} is {item!r}; choose one of: {', '.join(map(str, choices))}")
            choose(item, choices, name)
    if right and all(_within(item, limits) for item in items):
        if one.metadata.get("distinct") and (not items or len(set(items)) < len(items)):
            raise InputError(f"{name} is {list(items)}; name at least one, each once")
        return
    clauses = " and ".join(f"{word} {limit:g}" for word, limit in limits.items())
    raise InputError(f"{name} is {value!r}; it must be {' '.join(filter(None, (kind.describe(), clauses)))}")


def _is_a(value: Any, base: type) -> bool:
    if base is bool or isinstance(value, bool):
        return base is bool and isinstance(value, bool)
    if base is float:
        return isinstance(value, Real) and math.isfinite(value)
    return isinstance(value, Integral if base is int else str)


def _within(value: Any, limits: Mapping[str, float]) -> bool:
    tests = {
        "of at least": lambda limit: value >= limit,
        "above": lambda limit: value > limit,
        "at most": lambda limit: value <= limit,
        "less than": lambda limit: value < limit,
    }
    return all(tests[word](limit) for word, limit in limits.items())


def convert_fields(owner: type, values: Mapping[str, Any], group: str = "") -> dict[str, Any]:
    """Values of a file or a command line, each brought to the type of its field in ``owner``."""
    kinds = field_kinds(owner)
    return {
        name: _converted(kinds[name], value, f"{group}.{name}" if group else name) for name, value in values.items()
    }


def _converted(kind: Kind, value: Any, name: str) -> Any:
    if kind.optional and (value is None or str(value).lower() in ("null", "none")):
        return None
    try:
        if not kind.several:
            return _scalar(value, kind.base)
        if isinstance(value, Mapping) or value is None:
            raise TypeError
        items = value.replace(",", " ").split() if isinstance(value, str) else value
        return tuple(_scalar(item, kind.base) for item in (items if isinstance(items, list | tuple) else (items,)))
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{name} is {value!r}; it must be {kind.describe()}") from None


def _scalar(value: Any, base: type) -> Any:
    """A value of a YAML file or the text of a command line as ``base``; raises ValueError or TypeError."""
    if base is bool:
        return value if isinstance(value, bool) else SWITCHES[_text(value)]
    if base is str:
        if not isinstance(value, str):
            raise TypeError
        return value
    if isinstance(value, bool) or not isinstance(value, str | Real):
        raise TypeError
    if base is float:
        return float(value)
    number: Any = float(value) if isinstance(value, str) and not value.strip().lstrip("+-").isdigit() else value
    if int(number) != float(number):
        raise ValueError
    return int(number)


def _text(value: Any) -> str:
    text = str(value).lower()
    if text not in SWITCHES:
        raise ValueError
    return text
