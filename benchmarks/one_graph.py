"""How good are found and hand-made networks on one graph with few labels, beside the two-layer GCN of PyG's tutorial?

    python benchmarks/one_graph.py
    python benchmarks/one_graph.py --labels 140 --graph-seed 1

A drawn graph like a citation network: 2,700 nodes of 7 classes, words as 0/1 columns of which a fifth depend on the class,
4 neighbours per node, four in five edges within a class. ``gnas`` is a search with the preset ``fast`` and its
baselines, all trained from each seed; ``pyg`` is ``GCNConv(16)``, ``GCNConv(7)`` with dropout 0.5, Adam at 0.01, weight decay
5e-4 and 200 epochs. Test is read at the best epoch by validation in both.
"""

from __future__ import annotations

import tempfile
import time

import torch
import torch.nn.functional as F
from rows import Rows, parser
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv

import gnas
from gnas.run.settings import Settings
from gnas.workflow import discover

COLUMNS = ("graph_seed", "labels", "network", "seeds", "weights", "val", "test", "std", "seconds", "total_seconds")
NODES, CLASSES, WORDS, WORDS_OF_NODE, DEGREE = 2700, 7, 500, 15, 4
TOPICAL, HOMOPHILY, VALIDATION = 0.2, 0.8, 500


def main() -> None:
    words = parser(__doc__, "one_graph.csv")
    words.add_argument("--labels", type=int, default=270, help="nodes of the training split")
    words.add_argument("--graph-seed", type=int, default=0)
    words.add_argument("--seeds", type=int, nargs="+", default=[41, 95, 12])
    words.add_argument("--threads", type=int, default=2)
    chosen = words.parse_args()
    torch.set_num_threads(chosen.threads)
    graph = draw_graph(chosen.graph_seed, chosen.labels)
    rows = Rows(chosen.out, torch.device(chosen.device), COLUMNS)
    common = {"graph_seed": chosen.graph_seed, "labels": chosen.labels, "seeds": len(chosen.seeds)}
    started = time.perf_counter()
    scores = torch.tensor([train_pyg(graph, seed) for seed in chosen.seeds])
    mean, std = scores.mean(0).tolist(), scores.std(0, correction=0).tolist()
    seconds = time.perf_counter() - started
    weights = CLASSES * 17 + (WORDS + 1) * 16
    rows.add(
        **common,
        network="pyg",
        weights=weights,
        val=mean[0],
        test=mean[1],
        std=std[1],
        seconds=seconds,
        total_seconds=seconds,
    )
    started = time.perf_counter()
    settings = Settings.resolve("fast", seeds=tuple(chosen.seeds))
    with tempfile.TemporaryDirectory() as folder:
        board = discover(
            gnas.load(graph, name="one graph"), settings, f"{folder}/run", device=chosen.device
        ).leaderboard
    total = time.perf_counter() - started
    for row in board.rows:
        rows.add(
            **common,
            network=row.name,
            weights=row.num_weights,
            val=row.val,
            test=row.mean,
            std=row.std,
            seconds=row.seconds,
            total_seconds=total,
        )


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
