"""Write the tables of docs/settings.md from the fields of the settings: ``python docs/settings_tables.py``.

A table goes between ``<!-- table: NAME -->`` and ``<!-- end -->``. A test fails when the page is out of date.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import Field, fields
from pathlib import Path
from typing import Any

from gnas.fields import field_kinds
from gnas.run.settings import GROUPS, PRESETS, Settings
from gnas.strategies.darts import Darts
from gnas.strategies.evolution import Evolution
from gnas.strategies.gradient import GradientSettings
from gnas.strategies.graphnas import GraphNAS
from gnas.strategies.race import Race
from gnas.strategies.random import RandomSearch

PAGE = Path(__file__).with_name("settings.md")
SHOWN = ("wide", "fast", "paper", "strong")
SHOWN_COLUMNS = [f"`{name}`" for name in SHOWN]
MARKED = re.compile(r"(<!-- table: (\S+) -->\n).*?(<!-- end -->)", re.S)


def group_table(group: str) -> Iterator[str]:
    """The settings of a group with their defaults in every preset."""
    resolved = [getattr(Settings.resolve(preset), group) for preset in SHOWN]
    yield from header(SHOWN_COLUMNS)
    for one in checked_fields(GROUPS[group]):
        yield row(group, GROUPS[group], one, [getattr(values, one.name) for values in resolved])


def options_table(kind: type, base: type | None = None) -> Iterator[str]:
    """The own settings of a strategy, less those that ``base`` or the group ``search`` has."""
    known = {one.name for one in fields(base)} if base is not None else {"epochs", "batch_size"}
    own = [one for one in checked_fields(kind) if one.name not in known and one.name != "name"]
    presets = [PRESETS[name].get("gradient", {}) if issubclass(kind, GradientSettings) else {} for name in SHOWN]
    differ = any(one.name in values for one in own for values in presets)
    yield from header(SHOWN_COLUMNS if differ else ["every preset"])
    for one in own:
        values = [preset.get(one.name, one.default) for preset in presets]
        yield row("search", kind, one, values if differ else values[:1])


def header(columns: Sequence[str]) -> tuple[str, str]:
    return f"| setting | type | {' | '.join(columns)} | meaning |", "|---|---|" + "---|" * (len(columns) + 1)


def row(group: str, kind: type, one: Field[Any], values: Sequence[Any]) -> str:
    cells = " | ".join(map(shown, values))
    return f"| `{group}.{one.name}` | {type_of(kind, one)} | {cells} | {one.metadata['help']} |"


def checked_fields(kind: type) -> list[Field[Any]]:
    return [one for one in fields(kind) if one.name in field_kinds(kind)]


def type_of(kind: type, one: Field[Any]) -> str:
    """The type of a setting, with its limits."""
    limits = " and ".join(f"{word} {limit:g}" for word, limit in one.metadata.get("limits", {}).items())
    return " ".join(filter(None, (field_kinds(kind)[one.name].describe(), limits)))


def shown(value: Any) -> str:
    """A value as a file has it."""
    if isinstance(value, tuple):
        return f"`{', '.join(map(plain, value))}`" if value else "none"
    return f"`{plain(value)}`" if value != "" else "as searched"


def plain(value: Any) -> str:
    """A value as YAML writes it."""
    return {"True": "true", "False": "false", "None": "null"}.get(str(value), str(value))


TABLES = {
    **{group: (lambda group=group: group_table(group)) for group in GROUPS},
    "gradient": lambda: options_table(GradientSettings),
    "darts": lambda: options_table(Darts, GradientSettings),
    "race": lambda: options_table(Race, RandomSearch),
    "trials": lambda: options_table(RandomSearch),
    "evolution": lambda: options_table(Evolution, RandomSearch),
    "graphnas": lambda: options_table(GraphNAS, RandomSearch),
}


def filled(text: str) -> str:
    """The page with its tables up to date."""
    return MARKED.sub(lambda found: f"{found[1]}\n{chr(10).join(TABLES[found[2]]())}\n\n{found[3]}", text)


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text()))
