"""Steps to be timed: our search and training steps and the plain PyG ones, ready to be called; and the clock."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Iterator

import torch
from plain_pyg import PlainSearchStep, PlainSupernet, PlainTrainStep, plain_network
from torch_geometric.data import Batch

import gnas
from gnas.arch.authors import read_first
from gnas.arch.genotype import Genotype
from gnas.data.benchmark import Benchmark
from gnas.graph import GraphSet
from gnas.model import baselines
from gnas.model.network import GraphModule
from gnas.run.protocol import TrainConfig
from gnas.strategies.base import SearchContext, SearchProblem
from gnas.strategies.darts import Darts, DartsSearch
from gnas.strategies.gradient import GradientSearch
from gnas.strategies.single_level import SingleLevel, SingleLevelSearch
from gnas.training.engine import WARMUP
from gnas.training.optim import use_precision
from gnas.training.store import GraphStore, Planned
from gnas.training.train import Trainer

# A genotype the authors published for ZINC.
PUBLISHED = """\
cell 1: I 1 0, s 2 0, d 3 0, d 4 0, sum 5 1, sum 6 2, sum 7 3, sum 8 4, I 9 8, d 10 8, s 11 10, I 12 11
cell 2: s 1 0, s 2 1, I 3 1, s 4 2, sum 5 1, sum 6 2, sum 7 3, sum 8 4, I 9 6, I 10 9, I 11 6, s 12 10
cell 3: s 1 0, s 2 0, s 3 0, s 4 3, sum 5 1, max 6 2, max 7 3, max 8 4, s 9 6, d 10 9, s 11 10, s 12 11
cell 4: I 1 0, s 2 0, s 3 2, s 4 2, max 5 1, max 6 2, sum 7 4, s 8 7, s 9 8, s 10 9, s 11 9
"""
SEARCH_BATCH, TRAIN_BATCH = 64, 128
SEARCH_CHANNELS, TRAIN_CHANNELS = 64, 60

Round = Callable[[], None]  # one step of every replica


class Work:
    """What is timed: ``step`` runs one round; ``kept`` holds what a recorded step reads."""

    def __init__(self, step: Round, kept: object) -> None:
        self.step, self.kept = step, kept


def published(cells: int) -> Genotype:
    """The published ZINC genotype, its cells repeated to the requested number."""
    four = read_first(PUBLISHED, "the published ZINC genotype")
    return Genotype(tuple(itertools.islice(itertools.cycle(four), cells)), four.variant)


def search(
    benchmark: Benchmark,
    cells: int,
    mode: str,
    device: torch.device,
    *,
    kind: str = "single-level",
    channels: int = SEARCH_CHANNELS,
    batch: int = SEARCH_BATCH,
    replicas: int = 1,
    space: gnas.SearchSpace | None = None,
) -> Work:
    """Search steps as a search runs them, batch assembly included."""
    space = space or gnas.SearchSpace()
    problem = SearchProblem(benchmark.train, benchmark.val, benchmark.task, space, channels, cells)
    searches: list[GradientSearch] = []
    for seed in range(replicas):
        context = SearchContext(seed, device, mode)
        if kind == "single-level":
            searches.append(SingleLevelSearch(SingleLevel(batch_size=batch), problem, context))
        else:
            searches.append(DartsSearch(Darts(order=1, batch_size=batch), problem, context))
    plans = [_forever(search) for search in searches]

    def step() -> None:
        for one, plan in zip(searches, plans, strict=True):
            one.engine(*next(plan))

    return Work(step, searches)


def training(
    benchmark: Benchmark,
    cells: int,
    mode: str,
    device: torch.device,
    *,
    channels: int = TRAIN_CHANNELS,
    batch: int = TRAIN_BATCH,
    replicas: int = 1,
    genotype: Genotype | None = None,
    hand_made: str = "",
    build: Callable[[], GraphModule] | None = None,
    config: TrainConfig | None = None,
) -> Work:
    """Training steps as a training runs them, batch assembly included; several replicas share the data.

    What is trained is the published genotype, another one, the ``hand_made`` network of that name with ``cells`` layers, or
    what ``build`` makes.
    """
    config = (config or TrainConfig()).with_(batch_size=batch, engine=mode)
    use_precision(config.precision)
    stores = {name: GraphStore(split, device) for name, split in benchmark.splits().items()}
    trainers = []
    for seed in range(replicas):
        if build is not None:
            network = build()
        elif hand_made:
            network = baselines.build_baseline(hand_made, benchmark.task, num_layers=cells)
        else:
            network = gnas.Network(genotype or published(cells), benchmark.task, channels)
        trainers.append(Trainer(network, config, seed, device, stores))
    plans = [_forever(trainer) for trainer in trainers]

    def step() -> None:
        for one, plan in zip(trainers, plans, strict=True):
            one.engine(*next(plan))

    return Work(step, trainers)


def _forever(loop: GradientSearch | Trainer) -> Iterator[tuple[Planned, ...]]:
    """One epoch's batches again and again; the number of graphs should be a multiple of the batch, so that all are full."""
    plan = loop.plan()
    while True:
        yield from plan
        with loop.engine.on_stream():
            loop.meter.reset()  # it has room for one epoch


def evaluation(ready: Work) -> Work:
    """Evaluation of the validation split by the first search or training of this work, batch by batch.

    The model stays in evaluation mode: changing it visits every module, which takes the host longer than a small batch the GPU.
    """
    first = ready.kept[0]  # type: ignore[index]
    evaluator = first.evaluator if isinstance(first, GradientSearch) else first.evaluators["val"]
    evaluator.model.eval()
    turn = itertools.cycle(evaluator.plan)

    def step() -> None:
        with evaluator.engine.on_stream():
            evaluator.meter.reset()
        evaluator.engine(next(turn))

    return Work(step, ready)


def plain_search(benchmark: Benchmark, cells: int, device: torch.device, batch: int = SEARCH_BATCH) -> Work:
    """The yardstick's search step; its batches are ready on the device, which favours it."""
    use_precision("tf32")
    supernet = PlainSupernet(gnas.SearchSpace(), benchmark.task, SEARCH_CHANNELS, cells).to(device)
    return over_batches(PlainSearchStep(supernet.train()), benchmark.train, batch, device)


def plain_training(benchmark: Benchmark, cells: int, device: torch.device) -> Work:
    """The yardstick's training step; its batches are ready on the device, which favours it."""
    use_precision("tf32")
    network = plain_network(published(cells), benchmark.task, TRAIN_CHANNELS).to(device)
    return over_batches(PlainTrainStep(network.train()), benchmark.train, TRAIN_BATCH, device)


def over_batches(step: Callable[[Batch], None], graphs: GraphSet, size: int, device: torch.device) -> Work:
    """A step on one batch of PyG after the other; they are ready on the device."""
    batches = pyg_batches(graphs, size, device)
    turn = itertools.cycle(batches)
    return Work(lambda: step(next(turn)), (step, batches))


def pyg_batches(graphs: GraphSet, size: int, device: torch.device, count: int = 4) -> list[Batch]:
    """A few full batches, made by PyG."""
    starts = range(0, min(count * size, len(graphs) - size + 1), size)
    return [Batch.from_data_list([graphs[k] for k in range(s, s + size)]).to(device) for s in starts]


def milliseconds(work: Work, device: torch.device, budget: float = 1.0, most: int = 60, clock: str = "wall") -> float:
    """Time of a round after warming up and recording: the best of five parts, since other processes can only add to it.

    ``clock="cpu"`` counts the processor's time, which others do not add to: for a machine that is not quiet, and one thread.
    """
    for _ in range(WARMUP + 2 if device.type == "cuda" else 1):
        work.step()
    synchronize(device)
    once = timed(work, device, 1, clock)
    each = max(1, min(most, int(budget / max(once, 1e-6))) // 5)
    return 1e3 * min(timed(work, device, each, clock) for _ in range(5 if once < budget else 2))


def compare(
    works: dict[str, Work], device: torch.device, budget: float = 1.0, parts: int = 7, clock: str = "wall"
) -> dict[str, float]:
    """Median milliseconds of a round of each, measured in turns, so that a change of the machine's load meets all of them.

    ``budget`` is the time in seconds for each of them; ``clock`` as in :func:`milliseconds`.
    """
    counts = {}
    for name, work in works.items():
        for _ in range(WARMUP + 2 if device.type == "cuda" else 2):
            work.step()
        synchronize(device)
        once = timed(work, device, 1, clock)
        counts[name] = max(1, int(budget / parts / max(once, 1e-6)))
    found: dict[str, list[float]] = {name: [] for name in works}
    for part in range(parts):
        for name, work in works.items():
            if part < 3 or counts[name] > 1:  # three times are enough for steps that take seconds
                found[name].append(1e3 * timed(work, device, counts[name], clock))
    return {name: statistics.median(times) for name, times in found.items()}


def timed(work: Work, device: torch.device, count: int, clock: str) -> float:
    """Seconds a round."""
    now = time.perf_counter if clock == "wall" else time.process_time
    started = now()
    for _ in range(count):
        work.step()
    synchronize(device)
    return (now() - started) / count


def synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
