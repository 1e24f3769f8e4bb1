"""A greedy ensemble of everything that a run has trained.

Members are selected with replacement, from the best network on: each step adds the network with which the mean of the predictions
is best on validation (Caruana et al., Ensemble Selection from Libraries of Models, ICML 2004). It ends when no network improves
it. The test split is evaluated once, for the ensemble that was selected.
"""

from __future__ import annotations

import math
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gnas import distributed
from gnas.compare.finalists import pick_finalists
from gnas.data.benchmark import Benchmark
from gnas.errors import InputError
from gnas.graph import GraphSet
from gnas.model.ensemble import Ensemble
from gnas.model.metrics import compute_metric, compute_metrics, name_per_target
from gnas.model.network import GraphModule
from gnas.printed import format_count
from gnas.run.checkpoint import explain_state
from gnas.run.folder import Run, same_settings
from gnas.run.layout import (
    ENSEMBLE,
    MODEL,
    PREDICTIONS,
    is_finished,
    list_trainings,
    member_folder,
    search_folder,
    training_folder,
)
from gnas.run.leaderboard import Leaderboard, Row
from gnas.run.models import describe_model, find_model, load_model
from gnas.strategies.base import SearchResult
from gnas.strategies.candidate import RaceCandidate
from gnas.strategies.trials import TRIALS
from gnas.training.loop import Record
from gnas.training.prediction import find_known, infer, list_output_names, predict_splits

STEPS = 50  # most networks that are added, each counted as often as it is
GAIN = 1e-9  # a smaller gain is rounding


@dataclass(frozen=True)
class LibraryNetwork:
    """A trained network that an ensemble may choose: one of the leaderboard, or a candidate of a race."""

    name: str
    seed: int
    epochs: int
    seconds: float
    load: Callable[[], GraphModule]

    @property
    def key(self) -> str:
        return f"{self.name}, seed {self.seed}, {self.epochs} epochs"


def select_members(values: Sequence[Tensor], score: Callable[[Tensor], float], most: int) -> list[int]:
    """The numbers of the selected members, in the order of selection, each as often as it counts.

    ``values`` are what each network predicts for the same rows, ``score`` says how good a prediction is, higher is better.
    At most ``most`` distinct members are selected.
    """
    scores = [score(one) for one in values]
    best = max(range(len(values)), key=scores.__getitem__)
    chosen, total, now = [best], values[best].clone(), scores[best]
    while len(chosen) < STEPS:
        known = sorted(set(chosen))
        allowed = range(len(values)) if len(known) < most else known
        tried = {one: score((total + values[one]) / (len(chosen) + 1)) for one in allowed}
        best = max(tried, key=tried.__getitem__)
        if not tried[best] > now + GAIN * max(abs(now), 1.0):
            break
        chosen.append(best)
        total, now = total + values[best], tried[best]
    return chosen


def add_ensemble(
    board: Leaderboard,
    benchmark: Benchmark,
    most: int,
    folder: Path,
    *,
    seed: int,
    search: SearchResult | None = None,
    device: torch.device | str = "cpu",
    batch_size: int = 128,
) -> Leaderboard:
    """The leaderboard with an ensemble of at most ``most`` networks of the run; as it is if ``most`` is 0.

    The ensemble lies in ``trained/ensemble``. One of the same networks is not made again. ``seed`` is the first seed of the
    trainings, ``search`` the result of a race, whose other candidates take part.
    """
    if not most:
        return board
    maker = _Maker(benchmark, most, device, batch_size)
    row = distributed.from_first(lambda: _make_row(maker, board, folder, seed, search))
    rows = sorted((*board.rows, row), key=lambda one: one.mean, reverse=benchmark.task.higher_is_better)
    found = replace(board, rows=tuple(rows))
    distributed.from_first(lambda: found.save(folder))
    return found


def _make_row(maker: _Maker, board: Leaderboard, folder: Path, seed: int, search: SearchResult | None) -> Row:
    library = list_trained(folder, [row.name for row in board.rows])
    library += list_raced(folder, search, maker.benchmark, seed) if search is not None else []
    place = training_folder(folder, ENSEMBLE, seed)
    config = {"model": ENSEMBLE, **maker.benchmark.identity, "seed": seed, "most": maker.most}
    config["from"] = [one.key for one in library]
    if not (is_finished(place) and same_settings(Run(place).config, config)):
        shutil.rmtree(place, ignore_errors=True)
        with Run(place, config) as run:
            maker.write(run, library)
    result = Run(place).read_json("result", ("test", "val", "num_weights", "depth", "members"))
    count = int(result["members"])
    remark = f"not on equal terms: {format_count(count, 'network')} together"
    return replace(Row.from_results(ENSEMBLE, result["depth"], [result], remark=remark), members=count)


# -- what there is to choose from ------------------------------------------------------------------------------------


def list_trained(folder: Path, names: Sequence[str]) -> list[LibraryNetwork]:
    """The networks of a run that are trained and can be built again, all seeds."""
    found = []
    for name in names:
        if name == ENSEMBLE:
            raise InputError(f"a network of the run is called {ENSEMBLE!r}, as the ensemble is; give it another name")
        for seed, place in list_trainings(folder, name).items():
            if is_finished(place) and (place / MODEL).is_file() and find_model(place).description["kind"] != "own":
                result = Run(place).read_json("result")
                found.append(
                    LibraryNetwork(name, seed, result["epochs"], result["seconds"], partial(_load_trained, place))
                )
    return found


def list_raced(folder: Path, search: SearchResult, benchmark: Benchmark, seed: int) -> list[LibraryNetwork]:
    """The candidates of a race whose trainings are kept, without those that are trained networks of the run."""
    taken = {one.key for one in pick_finalists(search.finalists)} if search.finalists else set()
    latest = {record["candidate_id"]: record for record in search.history if "candidate_id" in record}
    found = []
    for key, record in sorted(latest.items()):
        place = search_folder(folder) / TRIALS / key
        if key in taken or record["val_metric"] is None or not place.is_dir():
            continue
        state = Run(place).load_state()
        if state is None:
            continue
        with explain_state(place):
            raced = RaceCandidate.from_dict({**record["candidate"], "architecture": record["genotype"]})
            position = state["position"]
            name = f"{raced.title} ({key})"
            load = partial(_load_raced, raced, place, benchmark)
            found.append(LibraryNetwork(name, seed, position["epoch"], round(position["seconds"], 3), load))
    return found


def _load_trained(place: Path) -> GraphModule:
    return load_model(place)[0]


def _load_raced(raced: RaceCandidate, place: Path, benchmark: Benchmark) -> GraphModule:
    model, state = raced.build(benchmark.task), Run(place).load_state()
    assert state is not None
    with explain_state(place):
        model.load_state_dict(state["own"]["best"])
    return model.eval()


# -- the ensemble ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Maker:
    """Selects members on validation, and writes their ensemble."""

    benchmark: Benchmark
    most: int
    device: torch.device | str
    batch_size: int

    def write(self, run: Run, library: Sequence[LibraryNetwork]) -> None:
        """Select on validation, then write the members, the predictions and the figures. The result is written last."""
        if not library:
            raise InputError("an ensemble needs a trained network that can be built again, and the run has none")
        task = self.benchmark.task
        known, y = _known_targets(self.benchmark.val)
        values = [self._predict(one.load(), self.benchmark.val)[known] for one in library]

        def measure(one: Tensor) -> float | None:
            return compute_metric(task.metric, one, y).value

        def score(one: Tensor) -> float:
            value = measure(one)
            return -math.inf if value is None else value if task.higher_is_better else -value

        counts = Counter(select_members(values, score, self.most))
        chosen = [library[number] for number in counts]
        ensemble = Ensemble([one.load() for one in chosen], list(counts.values()))
        members = [
            {"name": one.name, "seed": one.seed, "weight": share, "val": measure(values[number])}
            for number, one, share in zip(counts, chosen, ensemble.weights, strict=True)
        ]
        about: dict[str, Any] = {"kind": ENSEMBLE, "members": members}
        for number, member in enumerate(ensemble.networks(), start=1):
            described = describe_model(member, self.benchmark)
            run.write_network(member.cpu().state_dict(), described, member_folder(Path(), number).name)
            about |= {name: described[name] for name in ("task", "encoding", "dataset")}
        predictions = predict_splits(ensemble, self.benchmark, self.device, self.batch_size)
        if predictions is not None:
            run.write_csv(PREDICTIONS, predictions)
        run.write_json("model", about)
        run.write_json("result", {"seed": run.config["seed"], **self._measure(ensemble, chosen)})

    def _predict(self, network: GraphModule, graphs: GraphSet) -> Tensor:
        return infer(network, graphs, self.device, self.batch_size, in_split=True).cpu()

    def _measure(self, ensemble: Ensemble, chosen: Sequence[LibraryNetwork]) -> Record:
        """The figures of an ensemble, as those of a training."""
        task, metrics, per_target = self.benchmark.task, dict[str, Mapping[str, float | None]](), {}
        for split in ("val", "test"):
            graphs = getattr(self.benchmark, split)
            known, y = _known_targets(graphs)
            found = compute_metrics(task.metric_kind, self._predict(ensemble, graphs)[known], y)
            metrics[split] = {name: one.value for name, one in found.items()}
            per_target[split] = name_per_target(found, list_output_names(task, self.benchmark.encoding))
        depths = [one.architecture.depth() for one in ensemble.networks() if one.architecture is not None]
        return {
            "test": metrics["test"][task.metric],
            "val": metrics["val"][task.metric],
            "metric": task.metric,
            "epochs": sum(one.epochs for one in chosen),
            "seconds": round(sum(one.seconds for one in chosen), 3),
            "num_weights": ensemble.num_weights(),
            "depth": max(depths, default=0),
            "members": len(chosen),
            "metrics": metrics,
            "per_target": per_target,
        }


def _known_targets(graphs: GraphSet) -> tuple[Tensor, Tensor]:
    """Which rows of a split have a target, and their targets."""
    y = graphs.targets()
    known = find_known(y)
    return known, y[known]
