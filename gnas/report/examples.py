"""The best and the worst test rows of a run with drawings: from its predictions, and from its data if it is still there."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from gnas.data import Benchmark, load
from gnas.data.own.molecules import find_smiles_column, is_molecule_file, read_molecule_file
from gnas.data.own.options import ReadOptions
from gnas.errors import InputError
from gnas.graph import GraphSet
from gnas.report.graphs import GraphPicture, draw_graph
from gnas.run import layout
from gnas.run.folder import FINGERPRINT
from gnas.run.models import find_model
from gnas.run.record import RunRecord, read_run_config, read_test_rows
from gnas.run.settings import config_settings, read_command

SHOWN = 4  # rows at each end
MOST_NODES = 2_000_000  # of data that is read again for its drawings
INDEX = ("graph", "node", "source", "target")


@dataclass(frozen=True)
class Example:
    """One row of the test split: what it is, its target and prediction, and a drawing if there is one."""

    title: str
    text: str
    smiles: str = ""
    svg: str = ""


@dataclass(frozen=True)
class Examples:
    """The test rows with the smallest and the largest errors. ``note`` says why there are no drawings."""

    network: str
    best: tuple[Example, ...]
    worst: tuple[Example, ...]
    note: str = ""


@dataclass(frozen=True)
class _Row:
    place: dict[str, int]
    error: float
    text: str


def find_examples(run: RunRecord) -> Examples | None:
    """The best and the worst test rows of the network that predictions use; None if its predictions are not there."""
    if run.state != "finished" or run.leaderboard is None:
        return None
    try:
        info = find_model(run.folder)
        rows = sorted(_measure_rows(read_test_rows(info.folder)), key=lambda row: row.error)
    except (InputError, OSError, KeyError, ValueError):
        return None
    count = min(SHOWN, len(rows) // 2)
    if not count:
        return None
    benchmark, dataset = _load_data(run, info.folder)
    draw = None if benchmark is None else _Drawer(benchmark, dataset)

    def show(row: _Row) -> Example:
        title = ", ".join(f"{name} {number}" for name, number in row.place.items())
        svg, smiles = ("", "") if draw is None else draw.draw(row.place)
        return Example(title, row.text, smiles, svg)

    note = "" if draw else "The data of the run is not there any more, or has changed: the rows are not drawn."
    return Examples(info.title, tuple(map(show, rows[:count])), tuple(map(show, rows[: -count - 1 : -1])), note)


# -- predictions ---------------------------------------------------------------------------------------------------


def _measure_rows(lines: Iterable[Mapping[str, str]]) -> Iterator[_Row]:
    """The rows that have a target, with their errors."""
    for line in lines:
        error, text = _measure(line)
        if math.isfinite(error):
            yield _Row({name: int(line[name]) for name in INDEX if name in line}, error, text)


def _measure(line: Mapping[str, str]) -> tuple[float, str]:
    """The error of a row and its description; of classes the error is -log of the target's probability."""
    if "p_" + line.get("y", "") in line:
        chance = float(line["p_" + line["y"]])
        text = f"{line['y']}, predicted {line['prediction']}; probability of {line['y']} {100 * chance:.1f} %"
        return -math.log(max(chance, 1e-12)), text
    targets = {name: name.removeprefix("y_") for name in line if (name == "y" or name.startswith("y_")) and line[name]}
    errors, texts = [], []
    for column, name in targets.items():
        if f"p_{name}" in line:
            chance, positive = float(line[f"p_{name}"]), float(line[column]) > 0.5
            errors.append(-math.log(max(chance if positive else 1 - chance, 1e-12)))
            texts.append(f"{name} {'yes' if positive else 'no'}, predicted {100 * chance:.0f} %")
        else:
            predicted = float(line["prediction" if column == "y" else f"prediction_{name}"])
            errors.append(abs(float(line[column]) - predicted))
            before = "" if column == "y" else f"{name} "
            texts.append(f"{before}{float(line[column]):.4g}, predicted {predicted:.4g}")
    return (sum(errors) / len(errors) if errors else math.nan), "; ".join(texts[:4])


# -- data ----------------------------------------------------------------------------------------------------------


def _load_data(run: RunRecord, trained: Path) -> tuple[Benchmark | None, str]:
    """The data that the network in ``trained`` was tested on, if it is where it was and has the fingerprint of its run.

    Over folds that is the data of the network's own fold.
    """
    folds = [fold for fold in layout.list_folds(run.folder).values() if fold in trained.parents]
    config = read_run_config(folds[0]) if folds else run.config
    splits = (run.data or {}).get("splits") or {}
    if not splits or sum(split.get("nodes", 0) for split in splits.values()) > MOST_NODES:
        return None, ""
    try:
        dataset, settings = str(read_command(run.folder).get("dataset", "")), config_settings(config)
        benchmark = load(dataset, **(settings.data if settings is not None else {}))
        return (benchmark if benchmark.fingerprint == config.get(FINGERPRINT) else None), dataset
    except (InputError, OSError, TypeError, KeyError):
        return None, ""


class _Drawer:
    """Draws the graph of a row of the test split."""

    def __init__(self, benchmark: Benchmark, dataset: str) -> None:
        self.graphs, self.encoding = benchmark.test, benchmark.encoding
        rows = self.graphs.rows if self.graphs.rows is not None else torch.arange(len(self.graphs))
        self.places = {number: k for k, number in enumerate(rows.tolist())}
        self.smiles = _read_smiles(benchmark, Path(dataset).expanduser())

    def draw(self, place: Mapping[str, int]) -> tuple[str, str]:
        """The drawing as SVG, and the SMILES if it is a molecule."""
        number = place["graph"]
        graph: GraphSet = self.graphs.select([self.places[number]])
        smiles = self.smiles[number] if number < len(self.smiles) else ""
        picture = GraphPicture(
            graph.edge_index.long().numpy(),
            graph.num_nodes,
            marked=tuple(place[name] for name in INDEX[1:] if name in place),
            smiles=smiles,
            pos=None if graph.pos is None else graph.pos.numpy(),
        )
        return draw_graph(picture), smiles


def _read_smiles(benchmark: Benchmark, path: Path) -> list[str]:
    """The SMILES of all rows of a file of molecules; of other data none."""
    encoding = benchmark.encoding
    if encoding is None or encoding.source != "smiles" or not is_molecule_file(path):
        return []
    try:
        table = read_molecule_file(path)
        column = find_smiles_column(table, ReadOptions(smiles=encoding.smiles or None))
        return [cell.decode() for cell in table.columns[column].tolist()]
    except (InputError, TypeError):
        return []
