"""Where the candidates of a race come from: hand-made networks, random draws, mutations, and a predictor.

A proposer draws from a random generator of its own and returns a candidate without a width.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch

from gnas.arch.architecture import Architecture
from gnas.arch.branches import BranchSpace
from gnas.arch.gap import genotype as genotype_from_formula
from gnas.arch.genotype import Genotype
from gnas.arch.hand_made import HandMade
from gnas.arch.recipes import as_genotype, as_hand_made
from gnas.arch.space import SearchSpace
from gnas.arch.stack import READOUTS, Stack
from gnas.errors import InputError
from gnas.model.baselines import HAND_MADE, usual_depth, usual_options
from gnas.model.build import build_network, width_of
from gnas.model.encoder import list_encodings
from gnas.model.stage import OperationTypes
from gnas.model.task import Task
from gnas.strategies.candidate import RaceCandidate, without_edge_warning
from gnas.strategies.predictor import RidgePredictor

ZOO = (  # those that win most often first: a race with little time sees no others
    *("gin+", "gatedgcn", "gine", "gcn+", "gatedgcn+", "gin", "pna+"),
    *("gcn", "graphsage", "pna", "gatv2", "gat", "monet", "mlp"),
)
ONE_GRAPH_FIRST = "gcn"  # there
PROPAGATION = 10  # steps, on one graph: half of the draws propagate their outputs
SHALLOW = "[identity | symmetric]"  # the cell of the first found candidate there
FIRST_CELL = "[identity | mean(edge) | max(edge)]"  # of the first found candidate elsewhere: docs/pays.md says why
FIRST = 12  # candidates before the predictor has its turns, two thirds of them hand-made
RATES, DROPOUTS, SIZES = (1 / 3, 1.0, 3.0), (0.0, 0.1, 0.2), (0.3, 1.0)
AROUND_DROPOUT = (0.4, 1.0, 1.4)  # multiples of the usual rate, if it is not 0
WIDTHS = 4  # widths are multiples of it, as in the main job
LEADERS = 5  # candidates that mutations start from
PARENTS = 4  # hand-made networks whose neighbours race before anything was tried
POOL = 150  # random draws, and as many mutations, that the predictor chooses from
BRANCHES = 0.7  # share of the draws whose cells are made of branches
SAME_CELLS = 0.5  # of the other draws: share of those whose cells are all the same
ATTEMPTS = 50  # draws until one is new


@dataclass(frozen=True)
class CandidateSpace:
    """Everything that can race: architectures, and the values of each choice beside them.

    Args:
        space: The space of the cells.
        task: The task. Read-outs race if it is about whole graphs.
        num_cells: The usual depth; on one graph at most 2 of it. Half as many cells up to twice as many race.
        lr: The usual learning rate. A third of it and three times as much race too.
        max_weights: The most weights of a network; widths are chosen for it.
        operations: Your own operations by name.
        derived: Genotypes that supernets of this race found, in the order in which they are proposed.
        dropout: The usual dropout rate. A smaller and a larger one race too.
    """

    space: SearchSpace
    task: Task
    num_cells: int
    lr: float
    max_weights: int
    operations: OperationTypes | None = None
    derived: tuple[Genotype, ...] = ()
    dropout: float = 0.0

    @cached_property
    def branches(self) -> BranchSpace:
        """Cells of branches. Which encodings a network reads races too, if the data has any."""
        stack, known = self.space.stack, {_encoding(self.task, name) for name in list_encodings(self.task)}
        if known and stack.encodings == (None,):
            single = [(name,) for name in sorted(known) if len(known) > 1]
            stack = replace(stack, encodings=(None, (), *single))
        if self.has_one_graph and stack.propagation == (0,):
            stack = replace(stack, propagation=(PROPAGATION, 0))
        return BranchSpace(replace(self.space, stack=stack))

    @property
    def has_one_graph(self) -> bool:
        """Whether networks are shallow and may propagate their outputs: on one graph, trained with dropout."""
        return self.task.of_one_graph and self.dropout > 0

    @property
    def usual_depth(self) -> int:
        """The depth of hand-made networks; fewer cells than in the space on one graph."""
        return usual_depth(self.task, self.num_cells, self.dropout)

    @property
    def depths(self) -> tuple[int, ...]:
        n = self.usual_depth
        return tuple(sorted({max(n // 2, 1), n, n + max(n // 2, 1), 2 * n}))

    def choices(self) -> dict[str, tuple[Any, ...]]:
        """The values of every choice but the architecture and its depth."""
        rates = tuple(float(f"{self.lr * factor:.2g}") for factor in RATES)
        readouts = READOUTS if self.task.level == "graph" else ("",)
        around = tuple(min(round(self.dropout * factor, 2), 0.9) for factor in AROUND_DROPOUT)
        return {"lr": rates, "dropout": around if self.dropout else DROPOUTS, "readout": readouts, "size": SIZES}

    def usual(self, architecture: Architecture, origin: str) -> RaceCandidate:
        """A candidate with the usual choices."""
        readout = self.task.readout if self.task.level == "graph" else ""
        return RaceCandidate(architecture, self.lr, self.dropout, readout, origin=origin)

    def hand_made(self) -> list[RaceCandidate]:
        """The hand-made networks with the usual choices."""
        names = [name for name in ZOO if name in HAND_MADE]
        if self.has_one_graph:
            names.sort(key=lambda name: name != ONE_GRAPH_FIRST)
        return [self.usual(self._named(name, self.usual_depth), "hand-made") for name in names]

    def _named(self, name: str, num_layers: int) -> HandMade:
        return HandMade(name, num_layers, options=usual_options(name, self.task, self.dropout))

    def sample(self, rng: np.random.Generator) -> RaceCandidate:
        """A random draw: every choice uniformly. Most cells are made of branches, the others have all levels of the space."""
        depth = int(rng.choice(self.depths))
        if rng.random() < BRANCHES:
            genotype = self.branches.sample(rng, depth)
        elif rng.random() < SAME_CELLS:
            genotype = _repeat(self.space.sample(rng, 1), depth)
        else:
            genotype = self.space.sample(rng, depth)
        made = {name: _pick(values, rng) for name, values in self.choices().items()}
        return RaceCandidate(as_hand_made(genotype), origin="random", **made)

    def derive(self) -> list[RaceCandidate]:
        """A cell that is good on many datasets, then the genotypes of supernets, all with the usual choices.

        On one graph that cell is alone in its network, and its outputs are propagated. Spaces without it have none.
        """
        found = [self.usual(one, "supernet") for one in self.derived]
        if self.has_one_graph:
            made = genotype_from_formula(SHALLOW, 1, self.space.variant)
            return [self.usual(replace(made, stack=Stack(propagation=PROPAGATION)), "known"), *found]
        made = genotype_from_formula(FIRST_CELL, self.usual_depth, self.space.variant)
        made = replace(made, stack=Stack(ffn=True))
        return [self.usual(made, "known"), *found] if made in self.branches else found

    def mutate(self, parent: RaceCandidate, rng: np.random.Generator) -> RaceCandidate:
        """``parent`` with one choice drawn again; in half of the cases it is one of the architecture."""
        child = replace(parent, channels=0, origin="mutation")
        open_choices = [name for name, values in self.choices().items() if len(values) > 1]
        if open_choices and rng.random() < 0.5:
            name = str(rng.choice(open_choices))
            others = [value for value in self.choices()[name] if value != getattr(parent, name)]
            return replace(child, **{name: _pick(others, rng)})
        made = parent.architecture
        genotype = as_genotype(made)
        if isinstance(made, HandMade) and (genotype is None or genotype not in self.branches):
            return replace(child, architecture=self._mutate_hand_made(made, rng))
        assert genotype is not None
        return replace(child, architecture=as_hand_made(self._mutate_genotype(genotype, rng)))

    def vary(self, parent: RaceCandidate, rng: np.random.Generator) -> RaceCandidate | None:
        """A found network with the choices of ``parent`` and another cell or stack; None if it has no neighbour of branches."""
        genotype = as_genotype(parent.architecture)
        if genotype is None or genotype not in self.branches:
            return None
        for _ in range(ATTEMPTS):
            made = as_hand_made(self.branches.mutate(genotype, rng))
            if not isinstance(made, HandMade):
                return replace(parent, architecture=made, channels=0, origin="mutation")
        return None

    def _mutate_hand_made(self, made: HandMade, rng: np.random.Generator) -> HandMade:
        if rng.random() < 0.5:
            return self._named(_pick([name for name in ZOO if name != made.name], rng), made.num_layers)
        return self._named(made.name, self._other_depth(made.num_layers, rng))

    def _mutate_genotype(self, genotype: Genotype, rng: np.random.Generator) -> Genotype:
        branched = genotype in self.branches
        if rng.random() < 0.25 or not (branched or genotype in self.space):
            depth = self._other_depth(len(genotype), rng)
            cells = [genotype[int(rng.integers(len(genotype)))] for _ in range(max(depth - len(genotype), 0))]
            return replace(genotype, cells=(*genotype.cells, *cells)[:depth])
        if branched:
            return self.branches.mutate(genotype, rng)
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


def propose_neighbor(space: CandidateSpace, tried: Sequence[Tried], rng: np.random.Generator) -> RaceCandidate:
    """A found network that differs from the best one in a part of its cells: it begins where hand-made ones are."""
    parents = [one.candidate for one in _order(tried)]
    if not parents:
        zoo = space.hand_made()[:PARENTS]
        parents = [zoo[place] for place in rng.permutation(len(zoo))]
    varied = (space.vary(one, rng) for one in parents)
    return next((one for one in varied if one is not None), None) or space.sample(rng)


def propose_mutation(space: CandidateSpace, tried: Sequence[Tried], rng: np.random.Generator) -> RaceCandidate:
    """A mutation of one of the leaders."""
    return _mutate_one(space, _order(tried)[:LEADERS], rng)


def propose_predicted(space: CandidateSpace, tried: Sequence[Tried], rng: np.random.Generator) -> RaceCandidate:
    """The best by a ridge regression on what was tried, among random draws and mutations of the leaders."""
    if len(tried) < 2:
        return space.sample(rng)
    predictor = RidgePredictor.fit(
        [one.candidate.features() for one in tried], _rank([one.score for one in tried]).tolist()
    )
    leaders = _order(tried)[:LEADERS]
    pool = [_mutate_one(space, leaders, rng) for _ in range(POOL)] + [space.sample(rng) for _ in range(POOL)]
    known = {one.candidate.id for one in tried}
    fresh = [one for one in pool if one.id not in known] or pool
    best = fresh[int(predictor.predict([one.features() for one in fresh]).argmax())]
    return replace(best, origin="predictor")


PROPOSERS: Mapping[str, Proposer] = {
    "predictor": propose_predicted,
    "mutation": propose_mutation,
    "neighbor": propose_neighbor,
    "random": propose_random,
}
# After the first candidates, over and over. More random draws or mutations were worse on NAS-Bench-Graph.
TURNS = ("predictor", "predictor", "mutation", "predictor", "predictor", "random")


def propose_candidate(
    space: CandidateSpace, tried: Sequence[Tried], known: set[str], number: int, seed: int
) -> RaceCandidate | None:
    """Candidate ``number`` of a race, counted from 0: new, and with its width; None if the space has no new one.

    First come two hand-made networks and a neighbour of the best one by turns; later the other hand-made networks take turns with
    the proposers. Every third candidate is a genotype of a supernet while there is one that was not tried. The same
    arguments give the same candidate.
    """
    rng = np.random.default_rng([seed, number])
    early, last_of_three = number < FIRST, number % 3 == 2
    zoo, place = space.hand_made(), number - number // 3
    if not early:
        place = FIRST - FIRST // 3 + (number - FIRST) // 3 if number % 3 == 0 else len(zoo)
    first = zoo[place : place + 1] if not (early and last_of_three) else []
    if last_of_three:
        first = [one for one in space.derive() if one.id not in known][:1]
    propose = PROPOSERS["neighbor" if early else TURNS[number % len(TURNS)]]
    for attempt in range(ATTEMPTS):
        drawn = first.pop() if first else (propose if attempt < ATTEMPTS // 2 else propose_random)(space, tried, rng)
        if drawn.id not in known:
            fitted = space.fit_width(drawn)
            if fitted is not None:
                return fitted
    return None


def _order(tried: Sequence[Tried]) -> list[Tried]:
    """What was tried, best first."""
    return sorted(tried, key=lambda one: -one.score)


def _mutate_one(space: CandidateSpace, leaders: Sequence[Tried], rng: np.random.Generator) -> RaceCandidate:
    return space.mutate(_pick(leaders, rng).candidate, rng) if leaders else space.sample(rng)


def _rank(scores: Sequence[float]) -> np.ndarray:
    """Scores as places from 0 to 1: a few failures are then no reason to distrust everything near them."""
    places: np.ndarray = np.argsort(np.argsort(scores, kind="stable"), kind="stable") / max(len(scores) - 1, 1)
    return places


def _encoding(task: Task, name: str) -> str:
    """The name by which a stack chooses an encoding of the task."""
    return "structure" if name in task.structure else name


def _repeat(genotype: Genotype, depth: int) -> Genotype:
    return replace(genotype, cells=genotype.cells[:1] * depth)


def _pick(values: Sequence[Any], rng: np.random.Generator) -> Any:
    return values[int(rng.integers(len(values)))]
