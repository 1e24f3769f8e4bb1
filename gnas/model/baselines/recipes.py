"""Hand-made networks of today, each built from its genotype: there is no second implementation."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

from gnas.arch.hand_made import HandMade
from gnas.arch.recipes import RECIPES, recipe
from gnas.errors import InputError
from gnas.model.network import Network
from gnas.model.task import Task


def build_recipe(name: str, task: Task, channels: int = 64, num_layers: int = 4, dropout: float = 0.0) -> Network:
    """The network of a recipe, such as ``gin+``."""
    if num_layers < 1:
        raise InputError(f"a network needs at least one layer, not {num_layers}")
    network = Network(recipe(name, num_layers), task, channels, dropout=dropout)
    network.architecture, network.options = HandMade(name, num_layers, channels), {"dropout": dropout}
    return network


def list_recipes(others: Mapping[str, object]) -> dict[str, Callable[..., Network]]:
    """The functions that build recipes, by name, without those of ``others``, which are classes of their own."""
    return {name: functools.partial(build_recipe, name) for name in RECIPES if name not in others}
