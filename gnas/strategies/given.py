"""Architectures of the caller, each trained briefly and judged by validation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gnas.arch.architecture import Architecture
from gnas.strategies.base import SearchContext, SearchProblem
from gnas.strategies.brief import TrialSettings
from gnas.strategies.trials import TrialSearch


class GivenTrials(TrialSearch):
    """Trials of the architectures ``given``, in order."""

    def __init__(
        self, given: Sequence[Architecture], settings: TrialSettings, problem: SearchProblem, context: SearchContext
    ) -> None:
        super().__init__(replace(settings, trials=len(given)), problem, context)
        self.given = given

    def propose(self) -> Architecture:
        return self.given[len(self.history)]
