"""A batch that does not fit into the memory: every way to use gnas says in one line what to lower.

Memory that is full is simulated: batches of more than ``FIT`` graphs raise the errors of PyTorch and Python.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
import small
import torch
from terminal import gnas as command
from terminal import write_graphs

import gnas
from gnas.errors import OutOfMemory, RunError, explain_memory, is_out_of_memory
from gnas.jobs.perform import describe_error
from gnas.strategies import Darts, Evolution, GraphNAS, Race, RandomSearch, SearchStrategy, SingleLevel
from gnas.training.evaluation import evaluate
from gnas.training.prediction import infer
from gnas.training.store import GraphStore

BENCH = small.benchmark()
SPACE = gnas.SearchSpace(1, 1)
FIT = 3
ERRORS = [
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
    RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported"),
    RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    RuntimeError(
        "[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory: you tried to allocate"
    ),
    MemoryError(),
]


@pytest.fixture(params=ERRORS[:1])
def full(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of more than ``FIT`` graphs do not fit."""
    batch = GraphStore.batch

    def limited(self: GraphStore, ids: torch.Tensor, *rest: object) -> object:
        if ids.numel() > FIT:
            raise request.param
        return batch(self, ids, *rest)

    monkeypatch.setattr(GraphStore, "batch", limited)


def line(call, *arguments, **options) -> str:
    with pytest.raises(OutOfMemory) as error:
        call(*arguments, **options)
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("full", ERRORS, indirect=True, ids=lambda error: type(error).__name__)
def test_a_training(full: None) -> None:
    said = line(gnas.train, small.builder(BENCH), BENCH, gnas.TrainConfig(epochs=1, batch_size=8))
    assert said == "out of memory; lower training.batch_size (now 8), the channels or the layers of the network"
    assert gnas.train(small.builder(BENCH), BENCH, gnas.TrainConfig(epochs=1, batch_size=FIT)).epochs == 1


def test_a_library_that_does_not_fit() -> None:
    """It was told as an unexpected ImportError."""
    assert is_out_of_memory(ImportError("/a/_image.so: failed to map segment from shared object"))
    assert is_out_of_memory(ImportError("/a/_image.so: Cannot allocate memory"))
    assert not is_out_of_memory(ImportError("No module named 'matplotlib'"))


def test_other_errors_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not is_out_of_memory(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
    assert not is_out_of_memory(ValueError("out of memory"))
    with pytest.raises(RuntimeError, match="shapes"), explain_memory("cuda", "nothing"):
        raise RuntimeError("shapes")
    with pytest.raises(OutOfMemory, match="lower A"), explain_memory("cuda", "B"), explain_memory("cuda", "A"):
        raise ERRORS[0]


GRADIENT: dict[str, SearchStrategy] = {
    "single-level": SingleLevel(epochs=1, batch_size=6),
    "darts1": Darts(order=1, epochs=1, batch_size=6),
    "darts2": Darts(order=2, epochs=1, batch_size=6),
}


@pytest.mark.parametrize("name", GRADIENT)
def test_a_search_by_gradients(full: None, name: str) -> None:
    said = line(gnas.search, BENCH, SPACE, GRADIENT[name], channels=4, num_cells=2)
    wanted = "out of memory; lower search.batch_size (now 6), space.channels (now 4) or space.cells (now 2)"
    assert said == wanted


TRIALS: dict[str, SearchStrategy] = {
    "random": RandomSearch(trials=2, epochs=1, batch_size=6),
    "evolution": Evolution(trials=2, population=2, sample=1, epochs=1, batch_size=6),
    "graphnas": GraphNAS(trials=2, epochs=1, batch_size=6),
    "race": Race(trials=3, epochs=9, batch_size=6, round_size=3),
}


@pytest.mark.parametrize("name", TRIALS)
def test_searches_by_trials(full: None, name: str) -> None:
    """A trial that does not fit has failed, and the search goes on; if none fits, the line says what to lower."""
    with pytest.raises(RunError, match=r"all \d (trials|trainings) failed: .*lower .*batch_size \(now 6\)"):
        gnas.search(BENCH, SPACE, TRIALS[name], channels=4, num_cells=1)


def test_a_race_goes_on_without_the_networks_that_do_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    forward = gnas.Network.run

    def limited(self: gnas.Network, batch: object) -> torch.Tensor:
        if self.genotype.stack.mlp > 1:
            raise RuntimeError("CUDA error: out of memory")
        return forward(self, batch)

    monkeypatch.setattr(gnas.Network, "run", limited)
    space = gnas.SearchSpace(1, 1, variant="bare", messages=("edge", "gated"), aggregators=("sum", "mean"))
    race = Race(trials=4, epochs=9, batch_size=6, round_size=3, supernets=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the data has no edge features
        found = gnas.search(BENCH, space, race, channels=4, num_cells=1)
    failed = [record for record in found.history if record.get("failed")]
    assert failed
    assert all("lower training.batch_size (now 6)" in record["failed"] for record in failed)
    assert any(record["val_metric"] is not None for record in found.history)


def test_an_evaluation(full: None) -> None:
    model = small.builder(BENCH)()
    assert "lower the batch size of the evaluation (now 8)" in line(evaluate, model, BENCH.val, 8)
    assert evaluate(model, BENCH.val, FIT)["metric"] > 0


def test_a_prediction_halves_its_batches(full: None, monkeypatch: pytest.MonkeyPatch) -> None:
    model = small.builder(BENCH)()
    with pytest.warns(UserWarning, match=r"^out of memory; batches of 3 are tried$"):
        found = infer(model, BENCH.test)
    monkeypatch.undo()
    np.testing.assert_allclose(found, infer(model, BENCH.test), rtol=1e-6)


def test_a_graph_that_does_not_fit_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ERRORS[0]

    model = small.builder(BENCH)()
    monkeypatch.setattr(GraphStore, "batch", fail)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        said = line(infer, model, BENCH.test)
    assert said == "out of memory; lower the size of the graph, or use the CPU (device cpu)"


def test_one_large_graph_can_be_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ERRORS[0]

    bench = small.transductive()
    monkeypatch.setattr(GraphStore, "batch", fail)
    said = line(gnas.train, small.builder(bench), bench, gnas.TrainConfig(epochs=1))
    assert "lower data.sample_neighbors (such as 10,5), the channels" in said
    said = line(gnas.search, bench, SPACE, GRADIENT["single-level"], channels=4, num_cells=1)
    assert "lower data.sample_neighbors (such as 10,5), space.channels (now 4)" in said


def test_a_worker_sends_the_line() -> None:
    assert describe_error(OutOfMemory("out of memory; lower x")) == "out of memory; lower x"


def test_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Search, training, prediction, evaluation and explanation end with one line and exit code 1."""
    monkeypatch.chdir(tmp_path)
    rings = write_graphs(tmp_path / "rings")
    sizes = ("--preset", "fast", "--channels", "4", "--cells", "1", "--epochs", "1", "--batch", "8", "--device", "cpu")
    trained = command("train", rings, "--baseline", "gcn", *sizes[:4], *sizes[6:], "--out", "run")
    assert trained.code == 0, trained

    def fail(*_: object) -> None:
        raise ERRORS[0]

    monkeypatch.setattr(GraphStore, "batch", fail)
    for words in (
        ("search", rings, *sizes, "--out", "other"),
        ("search", rings, "--trials", "2", *sizes[2:], "--out", "third"),
        ("train", rings, "--baseline", "gcn", *sizes[:4], *sizes[6:], "--out", "fourth"),
    ):
        ended = command(*words)
        assert ended.code == 1
        assert "--batch 8" in ended.err or "batch_size (now 8)" in ended.err, ended.err
    for job in ("predict", "evaluate"):
        ended = command(job, "run", rings, "--device", "cpu")
        assert ended.code == 1
        assert "error: out of memory; lower the size of the graph, or use the CPU" in ended.err
