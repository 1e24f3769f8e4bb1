"""Parts of other packages, which an entry point in their ``pyproject.toml`` makes known by name.

For example a strategy, whose package is imported when the name is used::

    [project.entry-points."gnas.strategies"]
    greedy = "my_package.greedy:Greedy"

docs/extending.md says what the parts of each group must be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from gnas.errors import InputError, choose


def find_plugins(group: str) -> dict[str, EntryPoint]:
    """The entry points of installed packages in a group, by name; nothing is imported."""
    return {point.name: point for point in entry_points(group=group)}


def check_plugin(name: str, built_in: Iterable[str], group: str, what: str) -> str:
    """Return ``name`` if it is built in or an entry point of the group; nothing is imported."""
    return name if name in built_in else choose(name, [*built_in, *find_plugins(group)], what)


def resolve_plugin(name: str, built_in: Mapping[str, Callable[..., Any]], group: str, what: str) -> Callable[..., Any]:
    """The class or function of a name. A built-in part wins over an entry point of the same name."""
    if name in built_in:
        return built_in[name]
    return load_plugin(find_plugins(group)[check_plugin(name, built_in, group, what)])


def load_plugin(point: EntryPoint) -> Callable[..., Any]:
    """Import the class or function of an entry point."""
    try:
        part: Callable[..., Any] = point.load()
    except (ImportError, AttributeError) as error:
        raise InputError(f"{point.group} {point.name!r} ({point.value}) cannot be imported: {error}") from error
    if not callable(part):
        raise InputError(f"{point.group} {point.name!r} ({point.value}) is not callable: name a class or a function")
    return part
