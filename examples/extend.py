"""An operation of your own in the search space, and a search strategy of your own. Neither is registered anywhere.

Run: python examples/extend.py
"""

from dataclasses import dataclass

import numpy as np
import torch

import gnas
from gnas.model.operations import Operation
from gnas.strategies.base import SearchContext, SearchProblem, SearchResult


class Shift(Operation):
    """H + b: a learned offset. A stack of them, one for each place where the operation is used."""

    def __init__(self, channels, count, variant):
        super().__init__(channels, count, variant)
        self.offset = torch.nn.Parameter(torch.zeros(count, 1, channels))

    def forward(self, h, x, neighbors):
        return h + self.offset


@dataclass(frozen=True)
class BestOfTwo:
    """Draw two genotypes, train each for an epoch, keep the better one by validation."""

    name: str = "best-of-two"

    def search(self, problem: SearchProblem, context: SearchContext) -> SearchResult:
        rng, records = np.random.default_rng(context.seed), []
        for number in (1, 2):
            genotype = problem.space.sample(rng, problem.num_cells)
            network = gnas.Network(genotype, problem.task, problem.channels, operations=problem.operations)
            judged = gnas.Benchmark("trial", problem.train, problem.val, problem.val, problem.task, "")  # no test split
            result = gnas.train(network, judged, gnas.TrainConfig(epochs=1, batch_size=32), device=context.device)
            records.append({"epoch": number, "genotype": genotype.to_yaml(), "val_metric": result.val})
        pick = max if problem.task.higher_is_better else min
        best = pick(records, key=lambda record: record["val_metric"])
        return SearchResult(gnas.Genotype.from_yaml(best["genotype"]), records, 0.0, self.name, trained_epochs=2)


benchmark = gnas.load("cluster-mini")
space = gnas.SearchSpace(2, 2, filters=("zero", "identity", "sparse", "shift"))
more = {"space": space, "channels": 8, "num_cells": 2, "operations": {"shift": Shift}}
for strategy in (gnas.SingleLevel(epochs=2, batch_size=32), BestOfTwo()):
    result = gnas.search(benchmark, strategy=strategy, **more)
    print(f"{result.strategy}:", *result.genotype.formulas(), sep="\n  ")
    network = gnas.Network(result.genotype, benchmark.task, channels=8, operations={"shift": Shift})
    print(f"  {network.num_weights():,} weights")
