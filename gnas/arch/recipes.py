"""Hand-made networks of today as genotypes: the formula of their cell, and what is around it.

The paper's approximations of older networks are ``gap.ZOO``.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace

from gnas.arch.architecture import Architecture
from gnas.arch.gap import genotype
from gnas.arch.genotype import Genotype
from gnas.arch.hand_made import HandMade
from gnas.arch.stack import DEFAULT, Stack
from gnas.errors import choose


@dataclass(frozen=True)
class Recipe:
    """A cell that all layers have, and the stack around it."""

    formula: str
    stack: Stack = DEFAULT


RECIPES = {
    # Hu et al., Strategies for Pre-training Graph Neural Networks, ICLR 2020
    "gine": Recipe("[identity | sum(edge)]", Stack(mlp=2)),
    # Bresson and Laurent, Residual Gated Graph ConvNets, 2017
    "gatedgcn": Recipe("[identity | mean(gated)]", Stack(edges="updated")),
    # Brody et al., How Attentive are Graph Attention Networks?, ICLR 2022
    "gatv2": Recipe("[identity | sum(attention)]"),
    # Corso et al., Principal Neighbourhood Aggregation for Graph Nets, NeurIPS 2020, without its scalers
    "pna": Recipe("[identity | mean(pair) | max(pair) | std(pair) | sum(pair)]"),
    # Luo et al., Unlocking the Potential of Classic GNNs for Graph-level Tasks, ICML 2025: GNN+
    "gcn+": Recipe("[identity | symmetric(edge)]", Stack(ffn=True)),
    "gin+": Recipe("[identity | sum(edge)]", Stack(ffn=True, mlp=2)),
    "gatedgcn+": Recipe("[identity | mean(gated)]", Stack(ffn=True, edges="updated")),
    # Several aggregators, as in PNA, over the messages of GINE, with the parts of GNN+
    "pna+": Recipe("[identity | sum(edge) | mean(edge) | max(edge)]", Stack(ffn=True)),
}


@functools.cache  # a race compares every draw with all of them
def expand_recipe(name: str, num_cells: int = 4) -> Genotype:
    """The genotype of a hand-made network of today, with the same cell ``num_cells`` times.

    >>> expand_recipe("gatedgcn+").formulas()[0]
    '[identity | mean(gated)]'
    """
    found = RECIPES[choose(name, RECIPES, "recipe")]
    return replace(genotype(found.formula, num_cells, "bare"), stack=found.stack)


def as_genotype(architecture: Architecture) -> Genotype | None:
    """The genotype of a found network or of a recipe; None for other networks.

    >>> as_genotype(HandMade("gin+", 2)) == expand_recipe("gin+", 2)
    True
    """
    if isinstance(architecture, HandMade):
        return expand_recipe(architecture.name, architecture.num_layers) if architecture.name in RECIPES else None
    return architecture if isinstance(architecture, Genotype) else None


def as_hand_made(genotype: Genotype) -> Architecture:
    """The hand-made network whose recipe this genotype is, or the genotype itself.

    >>> as_hand_made(expand_recipe("gin+", 2))
    HandMade(name='gin+', num_layers=2, channels=None, budget=None, options={})
    """
    for name in RECIPES:
        if expand_recipe(name, len(genotype)) == genotype:
            return HandMade(name, len(genotype))
    return genotype
