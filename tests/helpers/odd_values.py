"""Odd cells, numbers and JSON values for fuzz tests."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

WORDS = "nan NaN inf -inf -1 0 1 7 99 1.5 -0.0 1e400 1e38 1_0 0x1 abc é 日本 ' a,b 1;2 train val True None C c1ccccc1 C( [Xx] *"
HUGE = [str(2**31), str(2**63 - 1), str(-(2**63)), str(2**63), "9" * 30]
NASTY_CELLS = st.sampled_from(["", " ", "\n", "\x00", '"', '""', *WORDS.split(), *HUGE]) | st.text(max_size=5)
NASTY_NUMBERS = st.sampled_from([0, 1, -1, 2, 7, 2**15, 2**31, 2**62, -(2**62), 2**63 - 1, -(2**63)])
NASTY_FLOATS = st.sampled_from([0.0, -1.0, 0.5, 1e30, 1e300, float("nan"), float("inf"), -float("inf")])

JSON = st.recursive(
    st.none() | st.booleans() | NASTY_NUMBERS | NASTY_FLOATS | st.text(max_size=3) | st.just(10**400),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)


def mutate_json(value: Any, draw: Any) -> Any:
    """Somewhere down the tree another value, or one key less."""
    if isinstance(value, dict) and value and draw(st.integers(0, 5)):
        key = draw(st.sampled_from(sorted(value)))
        if draw(st.integers(0, 4)) == 0:
            return {k: v for k, v in value.items() if k != key}
        return {**value, key: mutate_json(value[key], draw)}
    if isinstance(value, list) and value and draw(st.booleans()):
        at = draw(st.integers(0, len(value) - 1))
        return [*value[:at], mutate_json(value[at], draw), *value[at + 1 :]]
    return draw(JSON)
