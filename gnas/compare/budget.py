"""A budget that makes searches comparable: epochs to spend, and one short training for every network that is judged."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

from gnas.arch.genotype import CellGenotype, Genotype, Link
from gnas.errors import InputError
from gnas.model.network import Network
from gnas.strategies import GraphNAS, SearchStrategy
from gnas.strategies.base import SearchProblem
from gnas.strategies.evolution import Evolution
from gnas.strategies.gradient import GradientSettings
from gnas.strategies.trial import TrialSettings


@dataclass(frozen=True)
class SearchBudget:
    """What every strategy may spend, and how every network is trained before it is judged."""

    epochs: int = 100
    trial_epochs: int = 10
    derivations: int = 4
    batch_size: int = 128
    lr: float = 1e-3
    precision: str = "tf32"
    max_weights: int = 0  # where a strategy chooses widths; 0: as many as the heaviest network of the space has

    def __post_init__(self) -> None:
        for name in ("epochs", "trial_epochs", "derivations", "batch_size"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} of the budget is {getattr(self, name)!r}; it must be at least 1")
        if self.search_epochs < self.derivations:
            least = self.derivations * (self.trial_epochs + 1)
            raise InputError(
                f"a budget of {self.epochs} epochs is too small for {self.derivations} derived networks of "
                f"{self.trial_epochs} epochs each and a search before them; give at least {least} epochs"
            )

    @property
    def trials(self) -> int:
        """How many networks a strategy by trials can afford."""
        return self.epochs // self.trial_epochs

    @property
    def search_epochs(self) -> int:
        """How many epochs a gradient strategy has for its supernet."""
        return self.epochs - self.derivations * self.trial_epochs

    def trial_settings(self) -> TrialSettings:
        """How one network is trained."""
        return TrialSettings(self.trials, self.trial_epochs, self.batch_size, self.lr, precision=self.precision)

    def given_to(self, strategy: SearchStrategy) -> SearchStrategy:
        """The strategy with this budget; one of another kind keeps its own settings.

        Evolution's population is at most half of its trials: a larger one would draw at random all the time.
        """
        changes: dict[str, Any] = {}
        if isinstance(strategy, TrialSettings):
            own = asdict(self.trial_settings())
            changes = {**own, "max_epochs": self.epochs, "max_seconds": strategy.max_seconds}
        if isinstance(strategy, Evolution):
            population = min(strategy.population, max(self.trials // 2, 1))
            changes |= {"population": population, "sample": min(strategy.sample, population)}
        if isinstance(strategy, GraphNAS) and self.max_weights:
            changes |= {"max_weights": min(strategy.max_weights, self.max_weights)}
        if isinstance(strategy, GradientSettings):
            changes = {"epochs": self.search_epochs, "searches": 1}  # one search at a time
        return replace(strategy, **changes) if changes else strategy  # type: ignore[type-var]

    def rule(self) -> str:
        """How the points were made, in words."""
        return (
            f"Each strategy spent up to {self.epochs} epochs. Every network was trained from scratch for "
            f"{self.trial_epochs} epochs (batch {self.batch_size}, rate {self.lr:g}) and judged by validation; strategies "
            f"with a supernet trained it for {self.search_epochs} epochs, and {self.derivations} networks derived on the "
            "way. An epoch of a supernet is other work than one of a network: compare seconds too."
        )

    def for_problem(self, problem: SearchProblem) -> SearchBudget:
        """This budget with its ``max_weights`` known."""
        return self if self.max_weights else replace(self, max_weights=most_weights(problem))


def most_weights(problem: SearchProblem) -> int:
    """Weights of the heaviest network of the space: as many live links as can be, its heaviest operations on them."""
    space, found = problem.space, []
    n, m = space.nodes, space.outputs
    for name in (name for name in space.filters if name != "zero"):
        for second in space.second_level:
            first = [Link(k - 1, k, name) for k in range(1, n + 1)]  # a chain: its end keeps all of it alive
            middle = [Link(k, n + k, second) for k in range(1, n + 1)]
            last = [Link(2 * n + 1 - min(k, n), 2 * n + k, name) for k in range(1, m + 1)]
            cell = CellGenotype(n, m, (*first, *middle, *last), space.output)
            genotype = Genotype((cell,) * problem.num_cells, space.variant)
            with torch.device("meta"):  # counted, not allocated
                network = Network(genotype, problem.task, problem.channels, operations=problem.operations)
            found.append(network.num_weights())
    return max(found)
