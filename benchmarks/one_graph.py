"""How good are found and hand-made networks on one graph with few labels, beside the two-layer GCN of PyG's tutorial?

    python benchmarks/one_graph.py                                     # graphs 0, 1 and 2; the race and a single-level search
    python benchmarks/one_graph.py --graph-seeds 100 --searches race   # a graph on which choices may be made

A drawn graph like a citation network: 2,700 nodes of 7 classes, words as 0/1 columns of which a fifth depend on the class,
4 neighbours per node, four in five edges within a class. ``race`` is the default search with a limit of time,
``single-level`` the preset ``fast`` with GCN as its baseline; both train from one seed, as they do by default. ``gcn`` is our
GCN alone, trained by the preset ``fast`` without a search. ``pyg`` is
``GCNConv(16)``, ``GCNConv(7)`` with dropout 0.5, Adam at 0.01, weight decay 5e-4 and 200 epochs, from three seeds. Test is
read at the best epoch by validation in all of them. On a machine that does other work, ``cpu_seconds`` is the time to
compare: two idle cores have 360 of them in three minutes. ``--clock cpu`` makes it the time of the race too.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import torch
import torch.nn.functional as F
import yaml
from rows import Rows, parser
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv

import gnas
from gnas.compare.networks import compare
from gnas.run.leaderboard import Leaderboard
from gnas.run.settings import Settings
from gnas.workflow import discover, make_baseline_candidate, train_config

COLUMNS = (
    *("graph_seed", "labels", "search", "network", "seeds", "weights", "val", "test", "std", "seconds"),
    *("total_seconds", "cpu_seconds"),
)
SEARCHES = ("race", "single-level", "gcn")
NODES, CLASSES, WORDS, WORDS_OF_NODE, DEGREE = 2700, 7, 500, 15, 4
WALL = time.perf_counter
TOPICAL, HOMOPHILY, VALIDATION = 0.2, 0.8, 500


def main() -> None:
    chosen = arguments()
    torch.set_num_threads(chosen.threads)
    if chosen.clock == "cpu":
        time.monotonic = time.perf_counter = time.process_time
    rows = Rows(chosen.out, torch.device(chosen.device), COLUMNS)
    for graph_seed in chosen.graph_seeds:
        graph = draw_graph(graph_seed, chosen.labels)
        common = {"graph_seed": graph_seed, "labels": chosen.labels}
        if chosen.pyg_seeds:
            rows.add(**common, **measure_pyg(graph, chosen.pyg_seeds))
        for search in chosen.searches:
            for row in measure_search(graph, search, chosen):
                rows.add(**common, **row)


def arguments() -> argparse.Namespace:
    words = parser(__doc__, "one_graph.csv")
    words.add_argument("--labels", type=int, default=270, help="nodes of the training split")
    words.add_argument("--graph-seeds", type=int, nargs="+", default=[0, 1, 2])
    words.add_argument("--searches", nargs="+", choices=SEARCHES, default=["race", "single-level"])
    words.add_argument("--seconds", type=float, default=165.0, help="limit of the race")
    words.add_argument("--clock", choices=("wall", "cpu"), default="wall", help="time of this process, or by the clock")
    words.add_argument("--seeds", type=int, nargs="+", default=[41], help="of our trainings")
    words.add_argument("--pyg-seeds", type=int, nargs="*", default=[41, 95, 12], help="none: no GCN of PyG")
    words.add_argument("--set", nargs="+", default=[], metavar="KEY=VALUE", help="other settings of both searches")
    words.add_argument("--threads", type=int, default=2)
    return words.parse_args()


def measure_pyg(graph: Data, seeds: list[int]) -> dict[str, object]:
    """The tutorial's GCN, trained from each seed."""
    clock = Clock()
    scores = torch.tensor([train_pyg(graph, seed) for seed in seeds])
    (val, test), std = scores.mean(0).tolist(), scores[:, 1].std(correction=0).item()
    weights = CLASSES * 17 + (WORDS + 1) * 16
    found = {"network": "pyg", "seeds": len(seeds), "weights": weights, "val": val, "test": test, "std": std}
    return {**found, **clock.read()}


def measure_search(graph: Data, search: str, chosen: argparse.Namespace) -> list[dict[str, object]]:
    """A row for each network of the leaderboard; ``total_seconds`` and ``cpu_seconds`` are those of everything."""
    clock = Clock()
    if search == "race":
        limit = {"max_seconds": chosen.seconds}
        settings = Settings.resolve("wide", seeds=tuple(chosen.seeds), baselines=("gcn",), search=limit)
    else:
        settings = Settings.resolve("fast", seeds=tuple(chosen.seeds), baselines=("gcn",))
    settings = settings.changed(
        {name: yaml.safe_load(value) for name, _, value in (one.partition("=") for one in chosen.set)}
    )
    with tempfile.TemporaryDirectory() as folder:
        benchmark = gnas.load(graph, name="one graph")
        if search == "gcn":
            board = train_gcn(benchmark, settings, folder, chosen.device)
        else:
            board = discover(benchmark, settings, f"{folder}/run", device=chosen.device).leaderboard
    total = clock.read()
    return [
        {
            "search": search,
            "network": row.name,
            "seeds": row.seeds,
            "weights": row.num_weights,
            "val": row.val,
            "test": row.mean,
            "std": row.std,
            "seconds": row.seconds,
            **total,
        }
        for row in board.rows
    ]


def train_gcn(benchmark: gnas.Benchmark, settings: Settings, folder: str, device: str) -> Leaderboard:
    """Our GCN with two layers, as ``gnas train gcn`` makes it."""
    settings = settings.for_data(benchmark.has_one_graph)
    gcn = make_baseline_candidate("gcn", benchmark, 2, dropout=settings.training.dropout or 0.0)
    return compare(benchmark, [gcn], train_config(settings), settings.training.seeds, Path(folder), device=device)


class Clock:
    """The time since it was made, on the wall and of this process."""

    def __init__(self) -> None:
        self.started = WALL(), time.process_time()

    def read(self) -> dict[str, float]:
        wall, busy = self.started
        return {"total_seconds": WALL() - wall, "cpu_seconds": time.process_time() - busy}


def draw_graph(seed: int, labels: int) -> Data:
    """The graph, the same for every machine."""
    random = torch.Generator().manual_seed(seed)

    def below(bound: int | Tensor, *shape: int) -> Tensor:
        return (torch.rand(shape, generator=random) * bound).long()

    y = below(CLASSES, NODES)
    shape = (NODES, WORDS_OF_NODE)
    of_class = WORDS // CLASSES
    topical = torch.rand(shape, generator=random) < TOPICAL
    word = torch.where(topical, y[:, None] * of_class + below(of_class, *shape), below(WORDS, *shape))
    x = torch.zeros(NODES, WORDS).scatter_(1, word, 1.0)
    source, edges = below(NODES, NODES * DEGREE // 2), NODES * DEGREE // 2
    counts = torch.bincount(y, minlength=CLASSES)
    first = counts.cumsum(0) - counts
    fellow = torch.argsort(y, stable=True)[first[y[source]] + below(counts[y[source]], edges)]
    target = torch.where(torch.rand(edges, generator=random) < HOMOPHILY, fellow, below(NODES, edges))
    edge_index = torch.stack([source, target])[:, source != target]
    edge_index = torch.cat([edge_index, edge_index.flip(0)], 1).unique(dim=1)
    order = torch.randperm(NODES, generator=random)
    place = torch.empty(NODES, dtype=torch.long).index_copy_(0, order, torch.arange(NODES))
    train, val = place < labels, (place >= labels) & (place < labels + VALIDATION)
    return Data(x=x, edge_index=edge_index, y=y, train_mask=train, val_mask=val, test_mask=~(train | val))


class TutorialGCN(nn.Module):
    """The two layers of PyG's tutorial."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.first, self.second = GCNConv(features, 16), GCNConv(16, classes)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h = self.first(F.dropout(x, 0.5, self.training), edge_index).relu()
        return self.second(F.dropout(h, 0.5, self.training), edge_index)


def train_pyg(graph: Data, seed: int, epochs: int = 200) -> tuple[float, float]:
    """Accuracy on validation and test at the best epoch by validation, in percent."""
    torch.manual_seed(seed)
    model = TutorialGCN(graph.x.size(1), CLASSES)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    best = (0.0, 0.0)
    for _ in range(epochs):
        model.train()
        optimizer.zero_grad()
        out = model(graph.x, graph.edge_index)
        F.cross_entropy(out[graph.train_mask], graph.y[graph.train_mask]).backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            right = model(graph.x, graph.edge_index).argmax(1) == graph.y
        val, test = (100 * right[mask].float().mean().item() for mask in (graph.val_mask, graph.test_mask))
        best = max(best, (val, test), key=lambda pair: pair[0])
    return best


if __name__ == "__main__":
    main()
