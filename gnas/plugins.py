"""Parts that other packages add: an entry point in their ``pyproject.toml`` is all it takes.

A strategy, for instance, from a package that never imports this one before it is asked for::

    [project.entry-points."gnas.strategies"]
    greedy = "my_package.greedy:Greedy"

The groups are ``gnas.strategies``, ``gnas.operations`` and ``gnas.baselines``; docs/extending.md says what each part must
be. Nothing is imported until it is used, and nothing that is not installed can be named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from gnas.errors import InputError, choose


def plugins(group: str) -> dict[str, EntryPoint]:
    """What installed packages offer in a group, by name; not imported yet."""
    return {point.name: point for point in entry_points(group=group)}


def known(name: str, ours: Iterable[str], group: str, what: str) -> str:
    """``name`` if it is one of ours or one that an installed package offers, which is not imported for that."""
    return name if name in ours else choose(name, [*ours, *plugins(group)], what)


def resolve(name: str, ours: Mapping[str, Callable[..., Any]], group: str, what: str) -> Callable[..., Any]:
    """The part of this name: one of ours, else one that an installed package offers. Ours win a clash of names."""
    return ours[name] if name in ours else load(plugins(group)[known(name, ours, group, what)])


def load(point: EntryPoint) -> Callable[..., Any]:
    """Import what an entry point names."""
    try:
        part: Callable[..., Any] = point.load()
    except (ImportError, AttributeError) as error:
        raise InputError(f"{point.group} {point.name!r} ({point.value}) cannot be imported: {error}") from error
    if not callable(part):
        raise InputError(f"{point.group} {point.name!r} ({point.value}) is not callable: name a class or a function")
    return part
