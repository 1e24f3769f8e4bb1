"""Parts that other packages add: an entry point in their ``pyproject.toml`` is all it takes.

A strategy, for instance, from a package that never imports this one before it is asked for::

    [project.entry-points."gnas.strategies"]
    greedy = "my_package.greedy:Greedy"

The groups are ``gnas.strategies``, ``gnas.operations`` and ``gnas.baselines``. Nothing is imported until it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from gnas.errors import InputError, choose


def plugins(group: str) -> dict[str, EntryPoint]:
    """What installed packages offer in a group, by name; not imported yet."""
    return {point.name: point for point in entry_points(group=group)}


def resolve(name: str, known: Mapping[str, Callable[..., Any]], group: str, what: str) -> Callable[..., Any]:
    """The part of this name: one of ours, else one that an installed package offers. Ours win a clash of names."""
    if name in known:
        return known[name]
    offered = plugins(group)
    return load(offered[choose(name, [*known, *offered], what)])


def load(point: EntryPoint) -> Callable[..., Any]:
    """Import what an entry point names."""
    try:
        part = point.load()
    except (ImportError, AttributeError) as error:
        raise InputError(f"{point.group} {point.name!r} ({point.value}) cannot be imported: {error}") from error
    if not callable(part):
        raise InputError(f"{point.group} {point.name!r} ({point.value}) is not callable: name a class or a function")
    return part
