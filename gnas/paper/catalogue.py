"""The paper's tables and figures, declared: what each is called and which runs it needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from gnas.errors import InputError, choose
from gnas.model.baselines import budget_for
from gnas.paper.jobs import Changes, DataJob, DepthJob, Job, SearchJob, StrategiesJob, TrainJob
from gnas.paper.paper import DATASETS, HAND_MADE, Entry, printed
from gnas.paper.scale import PAPER, Scale

METHODS = ("gnas", *HAND_MADE, "graphnas")  # in the order they are run: the paper's own first
STRATEGIES = ("single-level", "darts1", "random", "evolution", "graphnas")
ITEMS = {
    "table-datasets": "Statistics of the datasets",
    "table-zinc": "Graph regression: ZINC",
    "table-nodes": "Node classification: PATTERN and CLUSTER",
    "table-graphs": "Graph classification: MNIST and CIFAR10",
    "table-deep": "Node classification at depth 16 (appendix)",
    "figure-architectures": "Searched architectures of the five datasets",
    "figure-operations": "Distribution of the searched operations",
    "table-operations": "Operations chosen, and what the paper says of them",
    "table-depth": "Algorithm 1 from several initial depths",
    "figure-depth": "Depth found against initial depth, and the metric against depth",
    "figure-collapse": "Aggregators by epoch: alphas by validation loss, and by training loss",
    "table-strategies": "Ways to search compared (not in the paper)",
}
ENTRIES = ("table-zinc", "table-nodes", "table-graphs", "table-deep")  # tables whose lines are in paper.csv
SEARCHED_DEPTH = 4  # of the networks whose architectures and operations the paper shows
ALGORITHM_START = 16  # cells of the first search of the table's Algorithm 1
# The paper has no line of its own for Algorithm 1; its best network, with 12 cells, is what it is held against.
BEST = next(e for e in printed() if (e.dataset, e.model, e.depth) == ("zinc", "gnas", 12))


@dataclass(frozen=True)
class Wanted:
    """What is asked for: empty filters leave nothing out. ``depths`` are the paper's."""

    items: tuple[str, ...] = tuple(ITEMS)
    datasets: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    depths: tuple[int, ...] = ()
    seeds: tuple[int, ...] = ()
    searches: int = 1
    changes: Changes = field(default_factory=Changes)
    scale: Scale = PAPER

    def __post_init__(self) -> None:
        for names, known, what in (
            (self.items, ITEMS, "table or figure"),
            (self.datasets, DATASETS, "dataset of the paper"),
            (self.methods, METHODS, "method"),
        ):
            for name in names:
                choose(name, known, what)
        if self.searches < 1:
            raise InputError(f"searches is {self.searches}; it must be at least 1")
        if len(set(self.training_seeds)) < len(self.training_seeds):
            raise InputError(f"seeds {list(self.training_seeds)} name one of them twice")

    @property
    def training_seeds(self) -> tuple[int, ...]:
        return self.seeds or self.scale.seeds

    def takes(self, dataset: str, method: str, depth: int | None = None) -> bool:
        """Whether a line is asked for."""
        return (
            (not self.datasets or dataset in self.datasets)
            and (not self.methods or method in self.methods)
            and (not self.depths or depth is None or depth in self.depths)
        )


def entries(item: str, wanted: Wanted) -> list[Entry]:
    """The lines of a table that are asked for."""
    lines = [e for e in printed() if e.table == item]
    if item == "table-zinc":
        values = {**vars(BEST), "model": "algorithm-1", "depth": ALGORITHM_START}
        lines.append(Entry(**values))
    return [e for e in lines if wanted.takes(e.dataset, "gnas" if e.model == "algorithm-1" else e.model, e.depth)]


def train_job(entry: Entry, wanted: Wanted, search_seed: int = 0) -> TrainJob:
    """The training behind a line of a table."""
    scale, source = wanted.scale, wanted.scale.sources[entry.dataset]
    depth, budget = scale.depth(entry.depth), scale.budget(entry.budget)
    of: SearchJob | DepthJob | None = None
    if entry.model == "algorithm-1":
        of = DepthJob(source, depth, search_seed, scale, wanted.changes)
    elif entry.model == "graphnas":
        of = SearchJob(source, depth, "graphnas", search_seed, budget, scale, wanted.changes.for_strategy("graphnas"))
    elif entry.model == "gnas":
        of = SearchJob(source, depth, "single-level", search_seed, 0, scale, wanted.changes)
    if of is None:
        return hand_made_job(entry.dataset, entry.model, depth, wanted)
    return TrainJob(source, wanted.training_seeds, of, "gnas", depth, budget, scale, wanted.changes)


def jobs(wanted: Wanted) -> list[Job]:
    """Every run that is asked for, each once, in the order they are done: what a run needs stands before it."""
    found: dict[str, Job] = {}
    for item in wanted.items:
        for job in jobs_of(item, wanted):
            found.setdefault(job.key, job)
    return list(found.values())


def jobs_of(item: str, wanted: Wanted) -> Iterator[Job]:
    """The runs one table or figure needs."""
    if item == "table-datasets":
        named = [name for name in DATASETS if not wanted.datasets or name in wanted.datasets]
        yield from (DataJob(wanted.scale.sources[name]) for name in named)
    elif item == "table-depth":
        yield from depth_jobs(wanted)
    elif item == "figure-depth":
        yield from depth_jobs(wanted)
        yield from deep_jobs(wanted)
    elif item == "table-strategies":
        if wanted.takes("zinc", "gnas", SEARCHED_DEPTH):
            yield strategies_job(wanted)
    elif item in ENTRIES:
        for entry in sorted(entries(item, wanted), key=_first_first):
            seeds = range(wanted.searches if entry.model == "gnas" else 1)
            yield from _with_needs(train_job(entry, wanted, seed) for seed in seeds)
    else:
        strategies = ("single-level", "darts1") if item == "figure-collapse" else ("single-level",)
        for name in DATASETS:
            if wanted.takes(name, "gnas"):
                yield from (search_job(name, wanted, strategy) for strategy in strategies)


def strategies_job(wanted: Wanted) -> StrategiesJob:
    """Ways to search ZINC under one budget."""
    return StrategiesJob(wanted.scale.sources["zinc"], wanted.scale.depth(SEARCHED_DEPTH), STRATEGIES, wanted.scale)


def search_job(dataset: str, wanted: Wanted, strategy: str = "single-level", depth: int = SEARCHED_DEPTH) -> SearchJob:
    return SearchJob(
        wanted.scale.sources[dataset], wanted.scale.depth(depth), strategy, 0, 0, wanted.scale, wanted.changes
    )


def gnas_entry(dataset: str, depth: int) -> Entry:
    return next(e for e in printed() if (e.dataset, e.model, e.depth) == (dataset, "gnas", depth))


def grid(wanted: Wanted) -> list[int]:
    """Depths of the figure on depth; ``depths`` picks among them."""
    return [depth for depth in wanted.scale.grid if not wanted.depths or depth in wanted.depths]


def depth_jobs(wanted: Wanted) -> Iterator[DepthJob]:
    """Algorithm 1 from every depth of the grid. ZINC alone, as in the paper."""
    if wanted.takes("zinc", "gnas"):
        for depth in grid(wanted):
            yield DepthJob(wanted.scale.sources["zinc"], depth, 0, wanted.scale, wanted.changes)


def deep_jobs(wanted: Wanted) -> Iterator[TrainJob]:
    """Hand-made networks of every depth of the grid."""
    for model in HAND_MADE[1:]:
        if wanted.takes("zinc", model):
            yield from (hand_made_job("zinc", model, depth, wanted) for depth in grid(wanted))


def hand_made_job(dataset: str, model: str, depth: int, wanted: Wanted) -> TrainJob:
    """A hand-made network of the benchmark's size, or smaller where the scale is."""
    scale, seeds = wanted.scale, wanted.training_seeds
    budget = 0 if scale.weights == 1 else scale.budget(budget_for(depth))
    return TrainJob(scale.sources[dataset], seeds, None, model, depth, budget, scale, wanted.changes)


def _first_first(entry: Entry) -> tuple[int, int]:
    order = ("gnas", "algorithm-1", *METHODS[1:])
    return DATASETS.index(entry.dataset), order.index(entry.model)


def _with_needs(lines: Iterable[TrainJob]) -> Iterator[Job]:
    for job in lines:
        if job.of is not None:
            yield job.of
        yield job
