"""Records of a run for TensorBoard, MLflow and Weights & Biases, behind one small interface, and for the log.

A run folder always keeps its history as JSON lines. TensorBoard is written beside it when it is installed; MLflow and
Weights & Biases if requested, with their own settings (``MLFLOW_TRACKING_URI``,
``WANDB_MODE``, ...), else inside the run folder too.
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from gnas.errors import InputError, choose
from gnas.files import read_json, write_json
from gnas.printed import mask_address, to_printable
from gnas.run.layout import TRACKING

Record = dict[str, Any]
NAMES = ("tensorboard", "mlflow", "wandb")
LOGGER = logging.getLogger("gnas")


class Tracker(Protocol):
    """A tracking tool: it gets one record per epoch, and the end."""

    def log(self, record: Record) -> None: ...

    def close(self) -> None: ...


def find_trackers(names: str | None) -> list[str]:
    """The trackers in a text, such as ``mlflow,wandb`` or ``none``. None: TensorBoard if it is installed."""
    if names is None:
        return ["tensorboard"] if is_installed("tensorboard") else []
    found = [] if names.strip() == "none" else list(dict.fromkeys(names.replace(",", " ").split()))
    for name in found:
        choose(name, NAMES, "tracker")
        if not is_installed(name):
            raise InputError(f"tracking with {name} needs the package: pip install {name}")
    return found


def open_trackers(names: Sequence[str], folder: str | Path, config: dict[str, Any]) -> Tracker:
    """The trackers of these names for a run folder, as one."""
    kinds: dict[str, Callable[..., Tracker]] = {"tensorboard": TensorBoard, "mlflow": MLflow, "wandb": WandB}
    opened = []
    for name in names:
        try:
            opened.append(kinds[name](Path(folder), config))
        except Exception as error:
            reason = " ".join(str(error).split())[:300] or type(error).__name__
            raise InputError(f"tracking with {name} cannot start: {reason}; fix it, or use --track none") from error
    return Several(opened)


def is_installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def list_scalars(record: Record) -> Iterator[tuple[str, float]]:
    """The numbers of a record with full names, such as ``train/gin/seed-41/val_metric``."""
    parts = [str(record.get("stage", "train" if "model" in record else "search"))]
    parts += [str(record["model"])] if "model" in record else []
    parts += [f"seed-{record['seed']}"] if "seed" in record else []
    for name, value in record.items():
        if name in ("epoch", "trial", "seed"):
            continue
        for inner, number in value.items() if isinstance(value, dict) else [("", value)]:
            if isinstance(number, int | float) and not isinstance(number, bool):
                yield "/".join([*parts, name, *([str(inner)] if inner else [])]), float(number)


class Several:
    """Several trackers as one. A tracker that fails is dropped with a warning: the run matters more."""

    def __init__(self, trackers: Sequence[Tracker]) -> None:
        self.trackers = list(trackers)

    def log(self, record: Record) -> None:
        self._each(lambda tracker: tracker.log(record))

    def close(self) -> None:
        self._each(lambda tracker: tracker.close())

    def _each(self, call: Callable[[Tracker], None]) -> None:
        for tracker in list(self.trackers):
            try:
                call(tracker)
            except Exception as error:
                self.trackers.remove(tracker)
                reason = to_printable(" ".join(str(error).split())[:200])
                warnings.warn(f"tracking with {type(tracker).__name__} failed and is turned off: {reason}")


class TensorBoard:
    """Event files in the run folder: ``tensorboard --logdir RUN``."""

    def __init__(self, folder: Path, config: dict[str, Any]) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.writer = SummaryWriter(str(folder / "tensorboard"))

    def log(self, record: Record) -> None:
        for name, value in list_scalars(record):
            self.writer.add_scalar(name, value, int(record["epoch"]))

    def close(self) -> None:
        self.writer.close()


class MLflow:
    """One MLflow run per run folder; a resumed run continues it."""

    def __init__(self, folder: Path, config: dict[str, Any]) -> None:
        import mlflow

        self.mlflow = mlflow
        if "MLFLOW_TRACKING_URI" not in os.environ:
            mlflow.set_tracking_uri(f"sqlite:///{(folder / 'mlflow.db').resolve()}")  # in the run folder, as all else
        known = _remembered(folder).get("mlflow")
        run = mlflow.start_run(run_id=known) if known else mlflow.start_run(run_name=folder.name)
        if not known:
            mlflow.log_params({name: str(value)[:500] for name, value in config.items()})
            _remember(folder, "mlflow", run.info.run_id)

    def log(self, record: Record) -> None:
        self.mlflow.log_metrics(dict(list_scalars(record)), step=int(record["epoch"]))

    def close(self) -> None:
        self.mlflow.end_run()


class WandB:
    """One W&B run per run folder; the epoch is the axis of every metric."""

    def __init__(self, folder: Path, config: dict[str, Any]) -> None:
        import wandb

        known = _remembered(folder).get("wandb")
        more = {"id": known, "resume": "allow"} if known else {}
        with _masked_arguments():  # W&B keeps the words of the command and sends them
            self.run = wandb.init(project="gnas", name=folder.name, dir=str(folder), config=config, **more)
        _remember(folder, "wandb", self.run.id)
        self.run.define_metric("*", step_metric="epoch")

    def log(self, record: Record) -> None:
        self.run.log({"epoch": int(record["epoch"]), **dict(list_scalars(record))})

    def close(self) -> None:
        self.run.finish()


@contextlib.contextmanager
def _masked_arguments() -> Iterator[None]:
    """Inside, ``sys.argv`` has no secrets."""
    before = sys.argv
    sys.argv = [mask_address(word) for word in before]
    try:
        yield
    finally:
        sys.argv = before


def _remembered(folder: Path) -> dict[str, str]:
    """Which run of a tracker belongs to a folder."""
    file = folder / TRACKING
    try:
        found = read_json(file) if file.exists() else {}
    except InputError:
        return {}
    return found if isinstance(found, dict) else {}


def _remember(folder: Path, name: str, run: str) -> None:
    write_json(folder / TRACKING, {**_remembered(folder), name: run})


# -- the log ----------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def log_records(verbose: int) -> Iterator[Callable[[Record], None] | None]:
    """Inside, the value logs each record if ``verbose`` is 1. At 0 it is None, at -1 it does nothing."""
    if verbose <= 0:
        yield None if verbose == 0 else lambda record: None
        return
    handler, level = logging.StreamHandler(), LOGGER.level
    alone = not LOGGER.hasHandlers()
    if alone:
        LOGGER.addHandler(handler)
    LOGGER.setLevel(logging.INFO)
    try:
        yield lambda record: LOGGER.info("%s", _line(record))
    finally:
        LOGGER.setLevel(level)
        if alone:
            LOGGER.removeHandler(handler)


def _line(record: Record) -> str:
    """A record for people: its short entries."""
    shown = {
        k: f"{v:.4g}" if isinstance(v, float) else str(v) for k, v in record.items() if not isinstance(v, list | dict)
    }
    return ", ".join(f"{name} {value}" for name, value in shown.items() if len(value) < 30)
