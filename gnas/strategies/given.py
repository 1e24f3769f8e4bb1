"""Networks that are given, each trained briefly and judged by validation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from gnas.arch.genotype import Genotype
from gnas.model.graphnas_space import architecture_from_yaml
from gnas.model.network import GraphModule
from gnas.strategies.base import SearchContext, SearchProblem
from gnas.strategies.brief import TrialSettings
from gnas.strategies.random import GenotypeTrials


class GivenTrials(GenotypeTrials):
    """Trials of given architectures, in order."""

    def __init__(
        self, given: Sequence[Any], settings: TrialSettings, problem: SearchProblem, context: SearchContext
    ) -> None:
        super().__init__(replace(settings, trials=len(given)), problem, context)
        self.given = given

    def propose(self) -> Any:
        return self.given[len(self.history)]

    def build(self, candidate: Any) -> GraphModule:
        return super().build(candidate) if isinstance(candidate, Genotype) else candidate.build(self.problem.task)

    def read(self, text: str) -> Any:
        return architecture_from_yaml(text)
