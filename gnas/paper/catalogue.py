"""The paper's tables and figures as data: the lines that it prints, the title of each item, and the runs it needs."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from gnas.errors import InputError, choose
from gnas.model.baselines import budget_for
from gnas.paper.runs import (
    DATASETS,
    NO_CHANGES,
    PAPER,
    Changes,
    DataRun,
    DepthRun,
    PaperRun,
    Scale,
    SearchRun,
    StrategiesRun,
    TrainRun,
)

FILE = Path(__file__).with_name("published.csv")
HAND_MADE = ("mlp", "gcn", "gin", "graphsage", "gat", "gatedgcn", "monet")
TITLES = {
    "mlp": "MLP",
    "gcn": "GCN",
    "gin": "GIN",
    "graphsage": "GraphSage",
    "gat": "GAT",
    "gatedgcn": "GatedGCN",
    "monet": "MoNet",
    "graphnas": "GraphNAS",
    "gnas": "GNAS",
    "algorithm-1": "GNAS, Algorithm 1",
    **{name: name.upper() for name in DATASETS},
}
METRICS = (
    dict.fromkeys(DATASETS, "accuracy") | {"zinc": "mae"} | dict.fromkeys(("pattern", "cluster"), "class_accuracy")
)


@dataclass(frozen=True)
class Entry:
    """One line of a table. ``budget`` is the paper's number of weights; searched networks of ours have no more."""

    table: str
    dataset: str
    model: str
    depth: int
    budget: int
    metric: float | None = None
    std: float | None = None
    train_metric: float | None = None
    search_hours: float | None = None
    train_hours: float | None = None

    @property
    def metric_name(self) -> str:
        return METRICS[self.dataset]


@cache
def read_published() -> tuple[Entry, ...]:
    """The lines of all tables, in the order of the paper."""
    with open(FILE, newline="", encoding="utf-8") as file:
        return tuple(_parse_entry(row) for row in csv.DictReader(file))


def _parse_entry(row: dict[str, str]) -> Entry:
    figures = {name: float(row[name]) if row[name] else None for name in list(row)[5:]}
    budget = round(float(row["millions"]) * 1e6)
    return Entry(row["table"], row["dataset"], row["model"], int(row["depth"]), budget, **figures)


# -- what is requested -----------------------------------------------------------------------------------------------

METHODS = ("gnas", *HAND_MADE, "graphnas")  # in the order of the runs: the paper's own first
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
    "table-strategies": "Search strategies compared (not in the paper)",
}
FIGURES = ("figure-architectures", "figure-operations", "figure-depth", "figure-collapse")
ENTRIES = ("table-zinc", "table-nodes", "table-graphs", "table-deep")  # tables whose lines are in published.csv
SEARCHED_DEPTH = 4  # of the networks whose architectures and operations the paper shows
ALGORITHM_START = 16  # cells of the first search of the table's Algorithm 1
# The paper has no line for Algorithm 1. It is compared with the paper's best network, which has 12 cells.
BEST = next(e for e in read_published() if (e.dataset, e.model, e.depth) == ("zinc", "gnas", 12))


@dataclass(frozen=True)
class Request:
    """The items, lines and runs that a user requests. An empty filter includes everything; ``depths`` are the paper's."""

    items: tuple[str, ...] = tuple(ITEMS)
    datasets: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    depths: tuple[int, ...] = ()
    seeds: tuple[int, ...] = ()
    searches: int = 1
    changes: Changes = field(default_factory=Changes)
    scale: Scale = PAPER

    def __post_init__(self) -> None:
        for names, choices, what in (
            (self.items, ITEMS, "table or figure"),
            (self.datasets, DATASETS, "dataset of the paper"),
            (self.methods, METHODS, "method"),
        ):
            for name in names:
                choose(name, choices, what)
        if self.searches < 1:
            raise InputError(f"searches is {self.searches}; it must be at least 1")
        if len(set(self.training_seeds)) < len(self.training_seeds):
            raise InputError(f"seeds {list(self.training_seeds)} name one of them twice")

    @property
    def training_seeds(self) -> tuple[int, ...]:
        return self.seeds or self.scale.seeds

    def includes(self, dataset: str, method: str, depth: int | None = None) -> bool:
        """Whether a line is requested."""
        return (
            (not self.datasets or dataset in self.datasets)
            and (not self.methods or method in self.methods)
            and (not self.depths or depth is None or depth in self.depths)
        )


def list_entries(item: str, request: Request) -> list[Entry]:
    """The requested lines of a table."""
    lines = [e for e in read_published() if e.table == item]
    if item == "table-zinc":
        values = {**vars(BEST), "model": "algorithm-1", "depth": ALGORITHM_START}
        lines.append(Entry(**values))
    return [e for e in lines if request.includes(e.dataset, "gnas" if e.model == "algorithm-1" else e.model, e.depth)]


def train_run(entry: Entry, request: Request, search_seed: int = 0) -> TrainRun:
    """The training behind a line of a table."""
    scale, source = request.scale, request.scale.sources[entry.dataset]
    depth, budget = scale.depth(entry.depth), scale.budget(entry.budget)
    of: SearchRun | DepthRun | None = None
    if entry.model == "algorithm-1":
        of = DepthRun(source, depth, search_seed, scale, request.changes)
    elif entry.model == "graphnas":
        of = SearchRun(source, depth, "graphnas", search_seed, budget, scale, request.changes.for_strategy("graphnas"))
    elif entry.model == "gnas":
        of = SearchRun(source, depth, "single-level", search_seed, 0, scale, request.changes)
    if of is None:
        return hand_made_run(entry.dataset, entry.model, depth, request)
    return TrainRun(source, request.training_seeds, of, "gnas", depth, budget, scale, request.changes)


def standard_run(entry: Entry, request: Request) -> TrainRun:
    """The training behind a line, with the settings of the paper."""
    return train_run(entry, replace(request, changes=NO_CHANGES))


def plan_runs(request: Request) -> list[PaperRun]:
    """Every requested run once, in the order in which they are done: after the runs that it needs."""
    found: dict[str, PaperRun] = {}
    for item in request.items:
        for run in list_item_runs(item, request):
            found.setdefault(run.key, run)
    return list(found.values())


def list_item_runs(item: str, request: Request) -> Iterator[PaperRun]:
    """The runs one table or figure needs."""
    if item == "table-datasets":
        named = [name for name in DATASETS if not request.datasets or name in request.datasets]
        yield from (DataRun(request.scale.sources[name]) for name in named)
    elif item == "table-depth":
        yield from list_depth_runs(request)
    elif item == "figure-depth":
        yield from list_depth_runs(request)
        yield from list_deep_runs(request)
    elif item == "table-strategies":
        if request.includes("zinc", "gnas", SEARCHED_DEPTH):
            yield strategies_run(request)
    elif item in ENTRIES:
        for entry in sorted(list_entries(item, request), key=_order):
            for seed in range(request.searches if entry.model == "gnas" else 1):
                run = train_run(entry, request, seed)
                yield from (run,) if run.of is None else (run.of, run)
    else:
        strategies = ("single-level", "darts1") if item == "figure-collapse" else ("single-level",)
        for name in DATASETS:
            if request.includes(name, "gnas"):
                yield from (search_run(name, request, strategy) for strategy in strategies)


def strategies_run(request: Request) -> StrategiesRun:
    """Strategies on ZINC under one budget."""
    return StrategiesRun(request.scale.sources["zinc"], request.scale.depth(SEARCHED_DEPTH), STRATEGIES, request.scale)


def search_run(dataset: str, request: Request, strategy: str = "single-level") -> SearchRun:
    scale = request.scale
    return SearchRun(scale.sources[dataset], scale.depth(SEARCHED_DEPTH), strategy, 0, 0, scale, request.changes)


def gnas_entry(dataset: str, depth: int) -> Entry:
    return next(e for e in read_published() if (e.dataset, e.model, e.depth) == (dataset, "gnas", depth))


def list_depths(request: Request) -> list[int]:
    """Depths of the figure on depth that are requested."""
    return [depth for depth in request.scale.grid if not request.depths or depth in request.depths]


def list_depth_runs(request: Request) -> Iterator[DepthRun]:
    """Algorithm 1 from every depth of the grid. ZINC alone, as in the paper."""
    if request.includes("zinc", "gnas"):
        for depth in list_depths(request):
            yield DepthRun(request.scale.sources["zinc"], depth, 0, request.scale, request.changes)


def list_deep_runs(request: Request) -> Iterator[TrainRun]:
    """Hand-made networks of every depth of the grid."""
    for model in HAND_MADE[1:]:
        if request.includes("zinc", model):
            yield from (hand_made_run("zinc", model, depth, request) for depth in list_depths(request))


def hand_made_run(dataset: str, model: str, depth: int, request: Request) -> TrainRun:
    """A hand-made network of the benchmark's size, or smaller where the scale is."""
    scale, seeds = request.scale, request.training_seeds
    budget = 0 if scale.weights == 1 else scale.budget(budget_for(depth))
    return TrainRun(scale.sources[dataset], seeds, None, model, depth, budget, scale, request.changes)


def _order(entry: Entry) -> tuple[int, int]:
    order = ("gnas", "algorithm-1", *METHODS[1:])  # the paper's own networks first
    return DATASETS.index(entry.dataset), order.index(entry.model)
