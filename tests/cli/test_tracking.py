"""Trackers behind one interface; those that are not installed are played by stand-ins."""

from __future__ import annotations

import sys
import types
import warnings
from pathlib import Path
from typing import Any

import pytest
from terminal import TINY, gnas, one_line

from gnas.errors import InputError
from gnas.use import tracking

RECORD = {"stage": "train", "model": "gin", "seed": 41, "epoch": 3, "val_metric": 0.5, "genotype": "...", "done": True}


class Standin(types.ModuleType):
    """A module in which every function call is written down."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
        self.id = "run-7"
        self.info = types.SimpleNamespace(run_id="run-7")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)

        def call(*args: Any, **more: Any) -> Standin:
            self.calls.append((name, args, more))
            return self

        return call

    def named(self, name: str) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
        return [(args, more) for called, args, more in self.calls if called == name]


@pytest.fixture
def standin(monkeypatch: pytest.MonkeyPatch) -> Any:
    def install(name: str, module: str | None = None) -> Standin:
        one = Standin(name)
        monkeypatch.setitem(sys.modules, module or name, one)
        monkeypatch.setattr(tracking, "is_installed", lambda asked: asked == name)
        return one

    return install


def test_the_numbers_of_a_record_have_full_names() -> None:
    assert dict(tracking.list_scalars(RECORD)) == {"train/gin/seed-41/val_metric": 0.5}
    told = dict(
        tracking.list_scalars({"stage": "search", "epoch": 1, "depth": 2, "operations": {"sum": 3}, "alphas": [[1.0]]})
    )
    assert told == {"search/depth": 2.0, "search/operations/sum": 3.0}


def test_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracking, "is_installed", lambda name: name == "tensorboard")
    assert tracking.find_trackers(None) == ["tensorboard"]
    assert tracking.find_trackers("none") == []
    with pytest.raises(InputError, match="pip install mlflow"):
        tracking.find_trackers("tensorboard,mlflow")
    with pytest.raises(InputError, match="did you mean 'wandb'"):
        tracking.find_trackers("wadnb")


def test_tensorboard(standin: Any, tmp_path: Path) -> None:
    board = standin("tensorboard", "torch.utils.tensorboard")
    tracker = tracking.open_trackers(["tensorboard"], tmp_path, {})
    tracker.log(RECORD)
    tracker.close()
    assert board.named("SummaryWriter") == [((str(tmp_path / "tensorboard"),), {})]
    assert board.named("add_scalar") == [(("train/gin/seed-41/val_metric", 0.5, 3), {})]
    assert board.named("close")


def test_mlflow_goes_on_with_its_run(standin: Any, tmp_path: Path) -> None:
    flow = standin("mlflow")
    for _ in range(2):
        tracker = tracking.open_trackers(["mlflow"], tmp_path, {"cells": 4})
        tracker.log(RECORD)
        tracker.close()
    assert flow.named("start_run") == [((), {"run_name": tmp_path.name}), ((), {"run_id": "run-7"})]
    assert flow.named("log_params") == [(({"cells": "4"},), {})]
    assert flow.named("log_metrics")[0] == (({"train/gin/seed-41/val_metric": 0.5},), {"step": 3})


def test_wandb_goes_on_with_its_run(standin: Any, tmp_path: Path) -> None:
    bandw = standin("wandb")
    for _ in range(2):
        tracker = tracking.open_trackers(["wandb"], tmp_path, {"cells": 4})
        tracker.log(RECORD)
        tracker.close()
    first, second = (more for _, more in bandw.named("init"))
    assert "id" not in first
    assert (second["id"], second["resume"]) == ("run-7", "allow")
    assert bandw.named("log")[0] == (({"epoch": 3, "train/gin/seed-41/val_metric": 0.5},), {})


def test_a_tracker_that_fails_is_left_off() -> None:
    class Broken:
        def log(self, record: dict[str, Any]) -> None:
            raise ConnectionError("no\nnetwork")

        def close(self) -> None:
            raise AssertionError("it was left off")

    several = tracking.Several([Broken()])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        several.log(RECORD)
        several.log(RECORD)
        several.close()
    assert [str(one.message) for one in caught] == ["tracking with Broken failed and is turned off: no network"]


def test_a_search_is_tracked(standin: Any, rings: Path) -> None:
    board = standin("tensorboard", "torch.utils.tensorboard")
    ended = gnas("search", rings, *TINY, "--search-epochs", "2", "--epochs", "1")
    assert ended.code == 0, ended
    tags = {args[0] for args, _ in board.named("add_scalar")}
    assert {"search/val_metric", "search/depth", "train/gnas/seed-41/val_metric"} <= tags
    one_line(gnas("search", rings, "--track", "mlflow", "--out", "other"), 2, "pip install mlflow")
