"""Regularised evolution: mutate a good one of the youngest, and let the oldest die."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from gnas.arch.genotype import Genotype
from gnas.errors import InputError
from gnas.fields import setting
from gnas.model.network import GraphModule
from gnas.model.supernet import Supernet
from gnas.strategies.base import SearchContext, SearchProblem, SearchResult
from gnas.strategies.one_shot import OneShotTraining
from gnas.strategies.random import GenotypeTrials
from gnas.strategies.trial import TrialSettings
from gnas.training.loop import Record


@dataclass(frozen=True)
class Evolution(TrialSettings):
    """Ageing evolution (Real et al., Regularized Evolution for Image Classifier Architecture Search, AAAI 2019).

    The first ``population`` genotypes are drawn uniformly. Each later one is a mutation (one node re-drawn) of the best
    of ``sample`` members drawn from the ``population`` youngest: even a good member leaves when it is old. With ``inherit`` a
    supernet is trained first, for ``supernet_epochs`` epochs of uniformly drawn paths, and every trial starts from its
    weights, so that few ``epochs`` per trial suffice.

    >>> gnas.Evolution(trials=100, population=20, sample=5).population
    20
    """

    trials: int = setting(50, "networks to try", at_least=1)
    population: int = setting(10, "number of youngest networks that parents are drawn from", at_least=1)
    sample: int = setting(3, "networks drawn from the population; the best one is the parent", at_least=1)
    inherit: bool = setting(False, "start every trial from the weights of a supernet")
    supernet_epochs: int = setting(10, "epochs of that supernet", at_least=1)
    name: str = "evolution"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sample > self.population:
            raise InputError(
                f"sample is {self.sample}, population {self.population}; needed: 1 <= sample <= population"
            )
        if self.inherit and self.max_epochs is not None and self.max_epochs < self.supernet_epochs + self.epochs:
            raise InputError(f"max_epochs is {self.max_epochs}: not enough for the supernet and one trial")

    def search(self, problem: SearchProblem, context: SearchContext) -> SearchResult:
        return _EvolutionTrials(self, problem, context).search(self.name)


class _EvolutionTrials(GenotypeTrials):
    settings: Evolution
    supernet: Supernet | None = None

    def prepare(self, resumed: bool) -> tuple[int, float]:
        s, run = self.settings, self.context.run
        if not s.inherit:
            return 0, 0.0
        part = None if run is None else run.part("supernet", {"job": "supernet"}, resume=resumed, force=not resumed)
        try:
            training = OneShotTraining(
                self.problem,
                self.context,
                self.stores["train"],
                s.supernet_epochs,
                s.batch_size,
                s.lr,
                s.precision,
                part,
            )
            self.supernet = training.train()
        finally:
            if part is not None:
                part.close()
        return training.epoch, training.seconds

    def propose(self) -> Genotype:
        """The living are the youngest of the history: nothing else needs to be remembered."""
        living = self.history[-self.settings.population :]
        if len(living) < self.settings.population:
            return super().propose()
        chosen = self.rng.choice(len(living), self.settings.sample, replace=False)
        parent = max((living[int(k)] for k in chosen), key=self._fitness)
        return self.problem.space.mutate(Genotype.from_yaml(parent["genotype"]), self.rng)

    def independent(self) -> int:
        """The first population is drawn uniformly; after that every outcome counts."""
        return max(1, self.settings.population - len(self.history))

    def build(self, candidate: Any) -> GraphModule:
        return super().build(candidate) if self.supernet is None else self.supernet.inherit_weights(candidate)

    def _fitness(self, record: Record) -> float:
        metric = record["val_metric"]
        if metric is None:
            return -math.inf
        return metric if self.problem.task.higher_is_better else -metric
