"""A benchmark so small that a search takes a fraction of a second, with a test split nobody may look at."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch_geometric.data import Data

from gnas.arch.space import SearchSpace
from gnas.graph import GraphSet
from gnas.model.task import Task

SPACE = SearchSpace(nodes=2, outputs=1)


class TouchedTest(AssertionError):
    """Somebody read the test split."""


@dataclass(frozen=True)
class Guarded:
    """Shaped like a Benchmark; reading ``test`` fails."""

    name: str
    train: GraphSet
    val: GraphSet
    task: Task
    source: str = "tests"

    @property
    def identity(self) -> dict[str, str]:
        return {"dataset": self.name, "fingerprint": "of no test split"}

    @property
    def test(self) -> GraphSet:
        raise TouchedTest("a search must not see the test split")

    def splits(self) -> dict[str, GraphSet]:
        raise TouchedTest("a search must not see the test split")


def ring(num_nodes: int, seed: int) -> Data:
    """A ring with random categories and a few chords; the target is the mean category."""
    generator = torch.Generator().manual_seed(seed)
    here = torch.arange(num_nodes)
    chords = torch.randint(num_nodes, (2, 2), generator=generator)
    source = torch.cat([here, chords[0]])
    target = torch.cat([(here + 1) % num_nodes, chords[1]])
    x = torch.randint(3, (num_nodes, 1), generator=generator)
    edge_index = torch.stack([torch.cat([source, target]), torch.cat([target, source])])
    return Data(x=x, edge_index=edge_index, y=x.float().mean()[None])


def tiny(kind: str = "regression") -> Guarded:
    """12 graphs to train on and 6 to choose by; ``classification`` asks for each node's category."""
    splits = [[ring(5 + k % 4, 100 * part + k) for k in range(count)] for part, count in enumerate((12, 6))]
    if kind == "classification":
        for graph in (graph for split in splits for graph in split):
            graph.y = graph.x.flatten()
        task = Task("node", "classification", 3, categories=(3,))
    else:
        task = Task("graph", "regression", 1, categories=(3,))
    train, val = (GraphSet.from_data(split, level=task.level) for split in splits)
    return Guarded(f"tiny-{kind}", train, val, task)


def untimed(history: list[dict]) -> list[dict]:
    """A history without its clock."""
    return [{name: value for name, value in record.items() if not name.endswith("seconds")} for record in history]
