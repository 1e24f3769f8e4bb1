"""Write the tables of docs/settings.md from the fields of the settings: ``python docs/settings_tables.py``.

A table goes between ``<!-- table: NAME -->`` and ``<!-- end -->``. A test fails when the page is out of date.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
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
OTHERS = [name for name in PRESETS if name != "paper"]
HEADER = (
    f"| setting | type | default | {' | '.join(f'`{name}`' for name in OTHERS)} | meaning |",
    "|---|---|---|" + "---|" * (len(OTHERS) + 1),
)
MARKED = re.compile(r"(<!-- table: (\S+) -->\n).*?(<!-- end -->)", re.S)


def group_table(group: str) -> Iterator[str]:
    """The settings of a group with their defaults, and with the values that differ in the other presets."""
    resolved = {preset: getattr(Settings.resolve(preset), group) for preset in PRESETS}
    yield from HEADER
    for one in checked_fields(GROUPS[group]):
        usual, *others = (getattr(values, one.name) for values in resolved.values())
        cells = [shown(usual), *("" if value == usual else shown(value) for value in others)]
        yield f"| `{group}.{one.name}` | {type_of(GROUPS[group], one)} | {' | '.join(cells)} | {one.metadata['help']} |"


def options_table(kind: type, base: type | None = None) -> Iterator[str]:
    """The own settings of a strategy, less those that ``base`` or the group ``search`` has."""
    known = {one.name for one in fields(base)} if base is not None else {"epochs", "batch_size"}
    preset = {name: PRESETS[name].get("gradient", {}) for name in OTHERS}
    yield from HEADER
    for one in checked_fields(kind):
        if one.name not in known and one.name != "name":
            gradient = issubclass(kind, GradientSettings)
            others = [shown(values[one.name]) if gradient and one.name in values else "" for values in preset.values()]
            cells = " | ".join([shown(one.default), *others])
            yield f"| `search.{one.name}` | {type_of(kind, one)} | {cells} | {one.metadata['help']} |"


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
