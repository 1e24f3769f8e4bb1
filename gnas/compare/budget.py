"""A budget that makes searches comparable: epochs to spend, and one short training for every network that is judged."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from gnas.errors import InputError
from gnas.strategies import GraphNAS, SearchStrategy
from gnas.strategies.base import SearchProblem
from gnas.strategies.evolution import Evolution
from gnas.strategies.gradient import GradientSettings
from gnas.strategies.race import Race
from gnas.strategies.trial import TrialSettings
from gnas.strategies.weights import most_weights


@dataclass(frozen=True)
class SearchBudget:
    """What every strategy may spend, and how every network is trained before it is judged.

    Args:
        epochs: Epochs of each strategy, of supernets and of networks together.
        trial_epochs: Epochs of a network before it is judged.
        derivations: Networks that are derived from a supernet, at equal distances.
        batch_size, lr, precision: Of these trainings.
        max_weights: Where a strategy chooses widths; 0: as many as the heaviest network of the space has.

    >>> from gnas.compare.budget import SearchBudget
    >>> SearchBudget(epochs=100, trial_epochs=10).trials
    10
    """

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
        if isinstance(strategy, Race):
            changes |= {"training": None, "max_weights": strategy.max_weights or self.max_weights}
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
