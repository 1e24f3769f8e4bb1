"""What do the running averages of batch norm cost in evaluation, and what does a cell's output change?

    python benchmarks/norms.py                      # two to four minutes for each of five trainings on a CPU core
    python benchmarks/norms.py --datasets cluster --outputs leaves
    python benchmarks/norms.py --datasets cifar10 --graphs 4000      # needs the dataset

A short training on a part of PATTERN or CLUSTER (2,000 graphs of our generator), or of CIFAR10. After every epoch validation is
measured twice with the same weights: with the running averages of PyTorch, and with statistics computed anew from
the training graphs (``precise_norms``). CLUSTER: the links of a network of results/cluster.jsonl, its output built of the third
level, of all latent nodes, and of those that feed no other. PATTERN: a cell of sum, mean and max, ``formula``, and the same
without max. CIFAR10: a cell of max alone, which searches on superpixels choose.
"""

from __future__ import annotations

import argparse
import copy
import dataclasses

import torch
from rows import RESULTS, Rows, parser

import gnas
from gnas.arch import gap
from gnas.arch.architecture import load_genotype
from gnas.arch.genotype import Genotype
from gnas.data.benchmark import Benchmark
from gnas.data.benchmarks import sbm
from gnas.model.network import Network
from gnas.paper.archive import unpack_archive
from gnas.run.protocol import TrainConfig
from gnas.run.settings import Settings
from gnas.training.evaluation import PreciseNorms, evaluate
from gnas.training.store import GraphStore
from gnas.training.train import train
from gnas.workflow import make_candidate

COLUMNS = ("dataset", "graphs", "network", "output", "weights", "epoch", "train", "running", "precise")
FOUND = "single-level-4-seed0-derivebest-train_share1"  # a run in results/cluster.jsonl
CELLS = {
    "sum, mean, max": "[dense(sum(sparse)) | dense(mean(sparse)) | sparse(max(sparse))]",
    "sum, mean": "[dense(sum(sparse)) | dense(mean(sparse)) | dense]",
}
SUPERPIXELS = {"max": "[sparse(max(sparse)) | dense(max(dense)) | sparse(max)]"}
BATCHES = 16


def main() -> None:
    chosen = arguments()
    torch.set_num_threads(chosen.threads)
    rows = Rows(chosen.out, torch.device(chosen.device), COLUMNS)
    for name in chosen.datasets:
        benchmark = drawn(name, chosen.graphs)
        for network, genotype in networks(name, chosen.outputs).items():
            measure(benchmark, network, genotype, chosen, rows)


def arguments() -> argparse.Namespace:
    words = parser(__doc__, "norms.csv")
    words.add_argument(
        "--datasets", nargs="+", choices=("pattern", "cluster", "cifar10"), default=["pattern", "cluster"]
    )
    words.add_argument("--outputs", nargs="+", choices=("third", "all", "leaves"), default=["third", "all", "leaves"])
    words.add_argument("--graphs", type=int, default=2000, help="to train on; a quarter as many to validate")
    words.add_argument("--epochs", type=int, default=10)
    words.add_argument("--budget", type=int, default=120_000, help="weights of a network")
    words.add_argument("--threads", type=int, default=1)
    return words.parse_args()


def drawn(name: str, graphs: int) -> Benchmark:
    """A part of the dataset: the same model, fewer graphs."""
    counts = (graphs, max(graphs // 4, 1), max(graphs // 4, 1))
    if name == "cifar10":
        whole = gnas.load(name)
        parts = {k: s.select(range(n)) for (k, s), n in zip(whole.splits().items(), counts, strict=True)}
        return dataclasses.replace(whole, **parts)
    splits = {split: sbm.graph_set(part) for split, part in sbm.generate_splits(sbm.MODELS[name], counts).items()}
    task = gnas.load(f"{name}-mini").task
    values = {"pattern": (3, 2), "cluster": (7, 6)}[name]
    task = dataclasses.replace(task, categories=(values[0],), num_outputs=values[1], labels=())
    return Benchmark(name, splits["train"], splits["val"], splits["test"], task, "generator", patience=5)


def networks(name: str, outputs: list[str]) -> dict[str, Genotype]:
    """What is trained, by name."""
    if name == "cluster":
        folder = unpack_archive(RESULTS, "cluster") or RESULTS / "cluster"
        genotype = load_genotype(folder / FOUND / "genotype.yaml")
        return {f"kept, {output}": genotype.with_output(output) for output in outputs}
    cells = SUPERPIXELS if name == "cifar10" else CELLS
    return {about: Genotype((gap.genotype(cell)[0],) * 4) for about, cell in cells.items()}


def measure(benchmark: Benchmark, name: str, genotype: Genotype, chosen: argparse.Namespace, rows: Rows) -> None:
    """Train, and add a row after every epoch."""
    candidate = make_candidate(genotype, benchmark, Settings.resolve(budget=chosen.budget))
    made: list[Network] = []

    def build() -> Network:
        made.append(candidate.build(benchmark.task))  # type: ignore[arg-type]
        return made[-1]

    def row(record: dict[str, float]) -> None:
        rows.add(
            dataset=benchmark.name,
            graphs=len(benchmark.train),
            network=name,
            output=genotype[0].output,
            weights=made[-1].num_weights(),
            epoch=record["epoch"],
            train=record["train_metric"],
            running=record["val_metric"],
            precise=precisely(made[-1], benchmark, chosen.device),
        )

    config = TrainConfig.paper(benchmark).with_(epochs=chosen.epochs, batch_size=64)
    train(build, benchmark, config, 41, device=chosen.device, on_epoch=row)


def precisely(model: Network, benchmark: Benchmark, device: str) -> float:
    """Validation of a copy with statistics of its norms computed anew."""
    model = copy.deepcopy(model)
    PreciseNorms(model, GraphStore(benchmark.train, device), 128, BATCHES, "eager", "float32", None)()
    return evaluate(model.eval(), benchmark.val, device=device)["metric"]


if __name__ == "__main__":
    main()
