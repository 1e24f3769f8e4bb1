"""Small data of every form the loaders take, written once for all their tests."""

from __future__ import annotations

import csv
import dataclasses
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch_geometric.data import Data

from gnas.data.benchmarks import DATASETS
from gnas.errors import InputError
from gnas.graph import GraphSet

SMILES = (
    *("CCO", "c1ccccc1", "CC(=O)[O-]", "C[N+](C)(C)C", "CCN", "Oc1ccccc1", "C#N", "CC=O", "C1CCCCC1", "CCCl"),
    *("NC1CCCCC1", "c1ccncc1", "CCCC", "OCCO", "Brc1ccccc1", "C1CCNCC1", "CSC", "FC(F)F", "CC(C)C", "COC"),
)


def path_graph(seed: int, nodes: int = 4, **fields: Any) -> Data:
    """A path walked both ways, with one categorical column."""
    ends = torch.arange(nodes - 1)
    forth = torch.stack([ends, ends + 1])
    generator = torch.Generator().manual_seed(seed)
    x = torch.randint(0, 3, (nodes, 1), generator=generator)
    return Data(**{"x": x, "edge_index": torch.cat([forth, forth.flip(0)], 1), **fields})


def path_graphs(
    count: int = 20, y: Callable[[int], Any] = lambda i: torch.tensor([i / 10]), **fields: Any
) -> list[Data]:
    return [path_graph(i, 3 + i % 3, y=y(i), **fields) for i in range(count)]


def citation_graph(nodes: int = 30, classes: int = 3, columns: int = 0) -> Data:
    """One graph whose nodes are split by masks: 0, 1, 2 mod 3, every fifth node in none."""
    number = torch.arange(nodes)
    shape = (nodes, columns) if columns else (nodes,)
    masks = {}
    for code, name in enumerate(("train", "val", "test")):
        rows = (number // classes % 3 == code) & (number % 5 != 4)
        masks[f"{name}_mask"] = rows.reshape(-1, *[1] * bool(columns)).expand(shape).clone()
    ring = torch.stack([number, (number + 1) % nodes])
    x = torch.rand(nodes, 6, generator=torch.Generator().manual_seed(0))
    return Data(x=x, edge_index=torch.cat([ring, ring.flip(0)], 1), y=number % classes, **masks)


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)
    return path


def write_folder(folder: Path, graphs: int = 12) -> Path:
    """Paths as tables: text, integer and float columns, bond features, targets and splits."""
    folder.mkdir(exist_ok=True)
    splits = ["train"] * 8 + ["val", "test"] * 2
    write_csv(
        folder / "graphs.csv", ("graph_id", "y", "split"), [(i, i / 4, splits[i % len(splits)]) for i in range(graphs)]
    )
    nodes = [(g, n, "CNO"[(g + n) % 3], n % 4, g * 0.5 - n) for g in range(graphs) for n in range(3 + g % 3)]
    write_csv(folder / "nodes.csv", ("graph_id", "node_id", "atom", "ring", "charge"), nodes)
    forth = [(g, n, n + 1, n % 2) for g in range(graphs) for n in range(2 + g % 3)]
    edges = forth + [(g, b, a, kind) for g, a, b, kind in forth]
    write_csv(folder / "edges.csv", ("graph_id", "source", "target", "bond"), edges)
    return folder


def write_tu(folder: Path, graphs: int = 12) -> Path:
    """Paths as TU text files with every kind of column; classes 1 and -1."""
    folder.mkdir(exist_ok=True)
    sizes = [3 + g % 3 for g in range(graphs)]
    starts = [sum(sizes[:g]) + 1 for g in range(graphs)]
    forth = [(start + n, start + n + 1) for start, size in zip(starts, sizes, strict=True) for n in range(size - 1)]
    edges = [pair for a, b in forth for pair in ((a, b), (b, a))]
    nodes = range(1, sum(sizes) + 1)
    texts = {
        "A": [f"{a}, {b}" for a, b in edges],
        "graph_indicator": [g + 1 for g, size in enumerate(sizes) for _ in range(size)],
        "graph_labels": [-1 if g % 2 == 0 else 1 for g in range(graphs)],
        "node_labels": [n % 3 for n in nodes],
        "node_attributes": [f" {n / 8}, {-n % 5}.5" for n in nodes],
        "edge_labels": [(a + b) % 4 // 2 for a, b in edges],
        "edge_attributes": [(a * b) / 4 for a, b in edges],
    }
    for name, rows in texts.items():
        (folder / f"{folder.name}_{name}.txt").write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    return folder


def write_smiles(path: Path, extra: Sequence[tuple[str, float]] = ()) -> Path:
    rows = [(text, i / 2) for i, text in enumerate(SMILES)]
    return write_csv(path, ("smiles", "y"), [*rows, *extra])


def replace_line(path: Path, line: int, text: str) -> None:
    """Line numbers count from 1, as in an editor."""
    lines = path.read_text(encoding="utf-8").splitlines()
    lines[line - 1] = text
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def tensors(graphs: GraphSet) -> list[Any]:
    """All tensors but ``rows``, which say where the graphs came from."""
    other = ("level", "sample_neighbors", "draw_negatives", "rows")
    return [getattr(graphs, f.name) for f in dataclasses.fields(graphs) if f.name not in other]


def assert_equal(a: GraphSet, b: GraphSet) -> None:
    """The same tensors, or none, in the same places."""
    for one, other in zip(tensors(a), tensors(b), strict=True):
        assert (one is None) == (other is None)
        assert one is None or torch.equal(one, other)


def outcome(call: Callable[[], Any]) -> tuple[Any, str]:
    """What a call gives, or the line of its InputError."""
    try:
        return call(), ""
    except InputError as error:
        return None, str(error)


class one_line:
    """``with one_line("words")``: an InputError of one line that holds these words."""

    def __init__(self, *words: str) -> None:
        self.words = words
        self.raises = pytest.raises(InputError)

    def __enter__(self) -> None:
        self.found = self.raises.__enter__()

    def __exit__(self, *error: Any) -> bool:
        handled = bool(self.raises.__exit__(*error))
        text = str(self.found.value)
        assert "\n" not in text
        for word in self.words:
            assert word in text, text
        return handled


def change_facts(monkeypatch: pytest.MonkeyPatch, name: str, **changes: object) -> None:
    """Replace published facts of a benchmark until the test ends."""
    dataset = DATASETS[name]
    facts = dataclasses.replace(dataset.facts, **changes)
    monkeypatch.setitem(DATASETS, name, dataclasses.replace(dataset, facts=facts))
