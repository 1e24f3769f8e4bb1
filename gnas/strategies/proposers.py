"""Where the candidates of a race come from: hand-made networks, random draws, mutations, and a predictor.

A proposer draws from a random generator of its own and returns a candidate without a width.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from gnas.arch.genotype import Genotype
from gnas.arch.hand_made import HandMade
from gnas.arch.space import SearchSpace
from gnas.arch.stack import READOUTS
from gnas.errors import InputError
from gnas.model.baselines import HAND_MADE
from gnas.model.build import build_network, width_of
from gnas.model.stage import OperationTypes
from gnas.model.task import Task
from gnas.strategies.candidate import RaceCandidate, without_edge_warning
from gnas.strategies.predictor import RidgePredictor

ZOO = (
    *("gatedgcn", "gin", "gcn", "gatedgcn+", "gin+", "pna+", "gcn+"),
    *("graphsage", "gatv2", "gine", "pna", "gat", "monet", "mlp"),
)
DRAWN = 3  # of the first candidates every third is a random draw
RATES, DROPOUTS, SIZES = (1 / 3, 1.0, 3.0), (0.0, 0.1, 0.2), (0.3, 1.0)
WIDTHS = 4  # widths are multiples of it, as in the main job
LEADERS = 5  # candidates that mutations start from
POOL = 150  # random draws, and as many mutations, that the predictor chooses from
SAME_CELLS = 0.5  # share of the draws whose cells are all the same
ATTEMPTS = 50  # draws until one is new


@dataclass(frozen=True)
class CandidateSpace:
    """Everything that can race: architectures, and the values of each choice beside them.

    Args:
        space: The space of the cells.
        task: The task. Read-outs race if it is about whole graphs.
        num_cells: The usual depth. Half as many cells up to twice as many race.
        lr: The usual learning rate. A third of it and three times as much race too.
        max_weights: The most weights of a network; widths are chosen for it.
        operations: Your own operations by name.
    """

    space: SearchSpace
    task: Task
    num_cells: int
    lr: float
    max_weights: int
    operations: OperationTypes | None = None

    @property
    def depths(self) -> tuple[int, ...]:
        n = self.num_cells
        return tuple(sorted({max(n // 2, 1), n, n + max(n // 2, 1), 2 * n}))

    def choices(self) -> dict[str, tuple[Any, ...]]:
        """The values of every choice but the architecture and its depth."""
        rates = tuple(float(f"{self.lr * factor:.2g}") for factor in RATES)
        readouts = READOUTS if self.task.level == "graph" else ("",)
        return {"lr": rates, "dropout": DROPOUTS, "readout": readouts, "size": SIZES}

    def usual(self, architecture: Any, origin: str) -> RaceCandidate:
        """A candidate with the usual choices."""
        readout = self.task.readout if self.task.level == "graph" else ""
        return RaceCandidate(architecture, self.lr, readout=readout, origin=origin)

    def hand_made(self) -> list[RaceCandidate]:
        """The hand-made networks with the usual choices."""
        return [self.usual(HandMade(name, self.num_cells), "hand-made") for name in ZOO if name in HAND_MADE]

    def sample(self, rng: np.random.Generator) -> RaceCandidate:
        """A random draw: every choice uniformly, the cells all the same in half of the draws."""
        depth = int(rng.choice(self.depths))
        if rng.random() < SAME_CELLS:
            genotype = _repeat(self.space.sample(rng, 1), depth)
        else:
            genotype = self.space.sample(rng, depth)
        made = {name: _pick(values, rng) for name, values in self.choices().items()}
        return RaceCandidate(genotype, origin="random", **made)

    def mutate(self, parent: RaceCandidate, rng: np.random.Generator) -> RaceCandidate:
        """``parent`` with one choice drawn again; in half of the cases it is one of the architecture."""
        child = replace(parent, channels=0, origin="mutation")
        open_choices = [name for name, values in self.choices().items() if len(values) > 1]
        if open_choices and rng.random() < 0.5:
            name = str(rng.choice(open_choices))
            others = [value for value in self.choices()[name] if value != getattr(parent, name)]
            return replace(child, **{name: _pick(others, rng)})
        made = parent.architecture
        if isinstance(made, HandMade):
            return replace(child, architecture=self._mutate_hand_made(made, rng))
        assert isinstance(made, Genotype)
        return replace(child, architecture=self._mutate_genotype(made, rng))

    def _mutate_hand_made(self, made: HandMade, rng: np.random.Generator) -> HandMade:
        if rng.random() < 0.5:
            return HandMade(_pick([name for name in ZOO if name != made.name], rng), made.num_layers)
        return HandMade(made.name, self._other_depth(made.num_layers, rng))

    def _mutate_genotype(self, genotype: Genotype, rng: np.random.Generator) -> Genotype:
        if rng.random() < 0.25 or genotype not in self.space:
            depth = self._other_depth(len(genotype), rng)
            cells = [genotype[int(rng.integers(len(genotype)))] for _ in range(max(depth - len(genotype), 0))]
            return replace(genotype, cells=(*genotype.cells, *cells)[:depth])
        same = len(set(genotype.cells)) == 1
        if same:
            return _repeat(self.space.mutate(replace(genotype, cells=genotype.cells[:1]), rng), len(genotype))
        return self.space.mutate(genotype, rng)

    def _other_depth(self, depth: int, rng: np.random.Generator) -> int:
        return int(_pick([other for other in self.depths if other != depth] or [depth], rng))

    def fit_width(self, candidate: RaceCandidate) -> RaceCandidate | None:
        """The candidate as wide as its share of the weights allows; None if no width fits."""
        budget = int(candidate.size * self.max_weights)
        task, made = candidate.task_of(self.task), candidate.architecture
        with contextlib.suppress(InputError):
            if isinstance(made, HandMade):
                with torch.device("meta"), without_edge_warning():
                    built = build_network(replace(made, channels=None, budget=budget), task).architecture
                assert isinstance(built, HandMade)
                return replace(candidate, architecture=built, channels=built.channels or 0)
            with without_edge_warning():
                return replace(candidate, channels=width_of(made, task, 0, budget, multiple=WIDTHS))
        return None


@dataclass(frozen=True)
class Tried:
    """A candidate that was trained, and how good it is; higher is better."""

    candidate: RaceCandidate
    score: float


Proposer = Callable[[CandidateSpace, Sequence[Tried], np.random.Generator], RaceCandidate]


def propose_random(space: CandidateSpace, tried: Sequence[Tried], rng: np.random.Generator) -> RaceCandidate:
    """A random draw of the space."""
    return space.sample(rng)


def propose_mutation(space: CandidateSpace, tried: Sequence[Tried], rng: np.random.Generator) -> RaceCandidate:
    """A mutation of one of the leaders."""
    leaders = sorted(tried, key=lambda one: -one.score)[:LEADERS]
    return space.mutate(_pick(leaders, rng).candidate, rng) if leaders else space.sample(rng)


def propose_predicted(space: CandidateSpace, tried: Sequence[Tried], rng: np.random.Generator) -> RaceCandidate:
    """The best by a ridge regression on what was tried, among random draws and mutations of the leaders."""
    if len(tried) < 2:
        return space.sample(rng)
    predictor = RidgePredictor.fit(
        [one.candidate.features() for one in tried], _rank([one.score for one in tried]).tolist()
    )
    pool = [propose_mutation(space, tried, rng) for _ in range(POOL)] + [space.sample(rng) for _ in range(POOL)]
    known = {one.candidate.id for one in tried}
    fresh = [one for one in pool if one.id not in known] or pool
    best = fresh[int(predictor.predict([one.features() for one in fresh]).argmax())]
    return replace(best, origin="predictor")


PROPOSERS: Mapping[str, Proposer] = {
    "predictor": propose_predicted,
    "mutation": propose_mutation,
    "random": propose_random,
}
TURNS = ("predictor", "mutation", "predictor", "mutation", "random")  # after the first candidates, over and over


def propose_candidate(
    space: CandidateSpace, tried: Sequence[Tried], known: set[str], number: int, seed: int
) -> RaceCandidate | None:
    """Candidate ``number`` of a race, counted from 0: new, and with its width; None if the space has no new one.

    First come the hand-made networks, and a random draw after every two of them. The same arguments give the same candidate.
    """
    rng = np.random.default_rng([seed, number])
    zoo = space.hand_made()
    place, drawn_now = number - number // DRAWN, number % DRAWN == DRAWN - 1
    early = place < len(zoo)
    first = [zoo[place]] if early and not drawn_now else []
    propose = PROPOSERS["random" if early else TURNS[number % len(TURNS)]]
    for attempt in range(ATTEMPTS):
        drawn = first.pop() if first else (propose if attempt < ATTEMPTS // 2 else propose_random)(space, tried, rng)
        if drawn.id not in known:
            fitted = space.fit_width(drawn)
            if fitted is not None:
                return fitted
    return None


def _rank(scores: Sequence[float]) -> np.ndarray:
    """Scores as places from 0 to 1: a few failures are then no reason to distrust everything near them."""
    places: np.ndarray = np.argsort(np.argsort(scores, kind="stable"), kind="stable") / max(len(scores) - 1, 1)
    return places


def _repeat(genotype: Genotype, depth: int) -> Genotype:
    return replace(genotype, cells=genotype.cells[:1] * depth)


def _pick(values: Sequence[Any], rng: np.random.Generator) -> Any:
    return values[int(rng.integers(len(values)))]
