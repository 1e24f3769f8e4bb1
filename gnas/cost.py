"""The time and memory of a search or a training, from coefficients that were measured on known machines.

A step over a batch of N nodes and E edges, with a network of L cells and C channels, takes

    time    t0 + L (t1 + t2 N C + t3 N C^2 + t4 E C)
    memory  m0 + L (m1 N C + m2 E + m3 C^2)

t0 and t1 are the price of starting kernels, t2 that of passing over activations, t3 that of linear maps, t4 that of messages.
The measured exponents say that everything is linear in L, N and E (docs/scale.md). ``benchmarks/growth.py --fit``
writes the coefficients to ``costs.yaml`` beside this file.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from gnas.data.benchmark import Benchmark
from gnas.data.benchmarks import find_facts, find_patience
from gnas.distributed import available_cores
from gnas.errors import InputError
from gnas.files import read_config
from gnas.graph import GraphSet
from gnas.run.settings import Settings
from gnas.run.words import megabytes
from gnas.workflow import train_config

FILE = Path(__file__).with_name("costs.yaml")
KINDS = ("search", "training")


@dataclass(frozen=True)
class Workload:
    """What the cost of a dataset depends on: how many graphs, and how large they are on average."""

    graphs: int  # to train on
    val_graphs: int
    nodes: float  # of a graph
    edges: float
    columns: int = 1  # of x
    all_graphs: int = 0  # in all splits; all of them stay on the device
    bytes: int = 0  # of the graphs, where they are known

    @staticmethod
    def of(benchmark: Benchmark) -> Workload:
        """Of a sampled graph, what a batch holds counts: each node to train on brings a small graph of its own."""
        splits = benchmark.splits().values()
        if benchmark.train.sample_neighbors:
            nodes, edges = _sampled_size(benchmark.train)
            train, val = benchmark.train.num_targets, benchmark.val.num_targets
            return Workload(train, val, nodes, edges, benchmark.train.x.size(1), train + val, benchmark.train.nbytes())
        graphs = sum(len(split) for split in splits)
        nodes = sum(split.num_nodes for split in splits) / graphs
        edges = sum(split.num_edges for split in splits) / graphs
        columns = benchmark.train.x.size(1)
        return Workload(len(benchmark.train), len(benchmark.val), nodes, edges, columns, graphs)

    @staticmethod
    def from_facts(name: str) -> Workload:
        """A benchmark by its published figures: the data need not be there."""
        facts = find_facts(name)
        total = sum(facts.graphs)
        columns = facts.task.in_channels or len(facts.task.categories)
        return Workload(facts.graphs[0], facts.graphs[1], facts.nodes / total, facts.edges, columns, total)

    def store_mb(self) -> float:
        """Memory of the graphs on the device: indices both ways, features, targets."""
        if self.bytes:
            return self.bytes / 2**20
        total = max(self.all_graphs, self.graphs + self.val_graphs)
        return total * (self.nodes * (4 * self.columns + 16) + self.edges * 8 + 32) / 2**20


def _sampled_size(graphs: GraphSet) -> tuple[float, float]:
    """Nodes and edges that one node and its sampled neighbours have, at most."""
    edges, reached = 0, 1
    for number in graphs.sample_neighbors:
        if number < 0:  # all of them
            return graphs.num_nodes, graphs.num_edges
        reached *= number
        edges += reached
    return min(1 + edges, graphs.num_nodes), min(edges, graphs.num_edges)


@dataclass(frozen=True)
class Estimate:
    """What a run will cost. ``measured_on`` names the machine the coefficients come from."""

    measured_on: str
    same_hardware: bool
    search_seconds: float
    train_seconds: float  # all seeds
    train_epochs: int  # each seed's, as assumed
    search_mb: float
    train_mb: float
    start_seconds: float
    off: float  # how far off a step's time usually was, of sizes that were left out of the fit

    @property
    def seconds(self) -> float:
        return self.start_seconds + self.search_seconds + self.train_seconds

    @property
    def peak_mb(self) -> float:
        return max(self.search_mb, self.train_mb)


@dataclass(frozen=True)
class Machine:
    """Measured coefficients of one kind of machine."""

    name: str
    device: str
    values: Mapping[str, Any]

    def step_ms(self, kind: str, nodes: float, edges: float, cells: int, channels: int, seeds: int = 1) -> float:
        """Milliseconds of one step.

        Args:
            kind: ``search`` or ``train``.
            nodes: Nodes of the batch.
            edges: Edges of the batch.
            cells: Number of cells of the network.
            channels: Its width.
            seeds: Trainings at the same time. On a GPU they share the fixed part, which is waiting.
        """
        parts = [
            c * v for c, v in zip(self.values[kind]["time"], time_terms(nodes, edges, cells, channels), strict=True)
        ]
        if self.device == "cuda":
            return float(sum(parts[:2]) + seeds * sum(parts[2:]))
        return float(seeds * sum(parts) * self.values.get("all_threads", 1.0))

    def step_mb(self, kind: str, nodes: float, edges: float, cells: int, channels: int) -> float:
        """Peak of one step, without the data."""
        terms = memory_terms(nodes, edges, cells, channels)
        return float(sum(c * v for c, v in zip(self.values[kind]["memory"], terms, strict=True)))

    def epoch_seconds(self, kind: str, work: Workload, batch: int, cells: int, channels: int, seeds: int = 1) -> float:
        """An epoch of steps over the training graphs (a search: half of them), and of evaluation on the validation graphs."""
        graphs = max(work.graphs // 2, 1) if kind == "search" else work.graphs
        size, val_size = min(batch, graphs), min(batch, work.val_graphs)
        step = self.step_ms(kind, size * work.nodes, size * work.edges, cells, channels, seeds)
        evaluation = self.values[kind]["evaluation"] * self.step_ms(
            kind, val_size * work.nodes, val_size * work.edges, cells, channels, seeds
        )
        milliseconds = math.ceil(graphs / size) * step + math.ceil(work.val_graphs / val_size) * evaluation
        return float(milliseconds / 1e3 + seeds * self.values.get("epoch_seconds", 0.0))


def time_terms(nodes: float, edges: float, cells: float, channels: float) -> tuple[float, ...]:
    """What the time coefficients are multiplied with, in millions where it is large."""
    million = 1e-6
    return (
        1.0,
        cells,
        cells * nodes * channels * million,
        cells * nodes * channels**2 * million,
        cells * edges * channels * million,
    )


def memory_terms(nodes: float, edges: float, cells: float, channels: float) -> tuple[float, ...]:
    """What the memory coefficients are multiplied with."""
    million = 1e-6
    return 1.0, cells * nodes * channels * million, cells * edges * million, cells * channels**2 * million


def read_machines(path: Path = FILE) -> list[Machine]:
    """The machines that were measured."""
    found = read_config(path)["machines"]
    return [Machine(name, values["device"], values) for name, values in found.items()]


def name_hardware(device: torch.device) -> str:
    """The machine by its name."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device) if torch.cuda.is_available() else "no GPU"
    return f"CPU, {available_cores()} cores"


def find_machine(device: torch.device) -> tuple[Machine, bool]:
    """This machine if it was measured, else the first with the same kind of device; and whether it is this machine."""
    alike = [one for one in read_machines() if one.device == device.type]
    if not alike:
        known = ", ".join(one.name for one in read_machines())
        raise InputError(f"no machine with a {device.type} device was measured; known are {known}")
    same = [one for one in alike if one.name == name_hardware(device)]
    return (same or alike)[0], bool(same)


def estimate_cost(work: Workload, settings: Settings, device: torch.device, dataset: str = "") -> Estimate:
    """Time and memory of a single-level search and of the trainings of what it finds, all seeds."""
    known, same = find_machine(device)
    cells, channels, seeds = settings.space.cells, settings.space.channels, len(settings.training.seeds)
    epochs = usual_epochs(settings, dataset)
    # Several searches are each followed by a brief training, which costs next to nothing.
    searches = int(settings.search.options_for(settings.search.strategy).get("searches", 1))
    passes = settings.search.epochs * searches
    search = known.epoch_seconds("search", work, settings.search.batch_size, cells, channels) * passes
    train = known.epoch_seconds("training", work, settings.training.batch_size, cells, channels, seeds) * epochs
    base = work.store_mb() + float(known.values.get("process_mb", 0.0))
    at_once = seeds if known.device == "cuda" else 1
    sizes = {
        kind: known.step_mb(kind, batch * work.nodes, batch * work.edges, cells, channels)
        for kind, batch in (
            ("search", min(settings.search.batch_size, work.graphs)),
            ("training", min(settings.training.batch_size, work.graphs)),
        )
    }
    return Estimate(
        known.name,
        same,
        search,
        train,
        epochs,
        base + sizes["search"],
        base + at_once * sizes["training"],
        float(known.values.get("start_seconds", 0.0)),
        max(float(known.values[kind]["time_off"]) for kind in KINDS),
    )


def warn_if_too_large(benchmark: Benchmark, settings: Settings, device: torch.device) -> None:
    """Say before a run begins that it needs more memory than there is, by the estimate."""
    free = free_mb(device)
    if free is None or device.type not in {one.device for one in read_machines()}:
        return
    needed = estimate_cost(Workload.of(benchmark), settings, device).peak_mb
    if needed > free:
        warnings.warn(
            f"by the estimate of gnas doctor this needs about {megabytes(needed)} of memory, and {megabytes(free)} are free "
            f"on {device}: lower the batch size (now {settings.training.batch_size}), channels or cells"
        )


def free_mb(device: torch.device) -> float | None:
    """Memory that this process has or can get; None where the system does not say."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0] / 2**20
    try:
        about = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
        own = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
        return min(int(about["MemAvailable"].split()[0]) / 2**10, _free_mb_of_container()) + own
    except (OSError, KeyError, ValueError):
        return None


def _free_mb_of_container() -> float:
    """What the limit of a container leaves; without end if there is none."""
    place = Path("/sys/fs/cgroup")
    try:
        limit, used = ((place / name).read_text().strip() for name in ("memory.max", "memory.current"))
        return math.inf if limit == "max" else (int(limit) - int(used)) / 2**20
    except (OSError, ValueError):
        return math.inf


def usual_epochs(settings: Settings, dataset: str = "") -> int:
    """Epochs until the protocol stops: the rate is halved until it is below its least value, each time after ``patience``
    epochs without a gain. Twice the least possible number is what ZINC took (146 to 156 epochs; the rule says 154)."""
    config = train_config(settings, find_patience(dataset))
    if config.schedule != "plateau":
        return config.epochs
    halvings = (
        math.ceil(math.log(config.min_lr / config.lr) / math.log(config.factor)) if config.lr > config.min_lr > 0 else 1
    )
    return min(config.epochs, 2 * halvings * (config.patience + 1))
