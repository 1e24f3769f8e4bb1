"""Random search: the strategy every other one has to beat."""

from __future__ import annotations

from dataclasses import dataclass

from gnas.arch.genotype import Genotype
from gnas.strategies.base import SearchContext, SearchProblem, SearchResult
from gnas.strategies.trial import TrialSettings
from gnas.strategies.trials import TrialSearch


@dataclass(frozen=True)
class RandomSearch(TrialSettings):
    """Genotypes drawn uniformly from the space, each trained for ``epochs``; the best by validation is the result.

    >>> gnas.RandomSearch(trials=50, epochs=10).trials
    50
    """

    name: str = "random"

    def search(self, problem: SearchProblem, context: SearchContext) -> SearchResult:
        return GenotypeTrials(self, problem, context).search(self.name)


class GenotypeTrials(TrialSearch):
    """Trials of genotypes, by default drawn uniformly."""

    def propose(self) -> Genotype:
        return self.problem.space.sample(self.rng, self.problem.num_cells)

    def independent(self) -> int:
        drawn = type(self).propose is GenotypeTrials.propose
        return self.settings.trials if drawn else 1  # nothing is learned from draws
