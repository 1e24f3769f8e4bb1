"""The whole job in three lines, in scikit-learn's manner: ``GNAS().fit(graphs).predict(new_graphs)``.

The classes follow scikit-learn's rules without inheriting from it, because it takes a second to import.
"""

from __future__ import annotations

import inspect
import shutil
import sys
import tempfile
import time as clock
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch

from gnas.cost import warn_if_too_large
from gnas.data import Benchmark, load
from gnas.errors import InputError, choose
from gnas.model.task import KINDS, LEVELS
from gnas.run import layout
from gnas.run.folder import Run
from gnas.run.leaderboard import Leaderboard
from gnas.run.models import load_model
from gnas.run.record import read_history, read_leaderboard
from gnas.run.settings import Settings, config_settings, default_preset, find_setting, is_setting
from gnas.run.words import parse_duration
from gnas.training.loop import Record
from gnas.training.prediction import Predictions, find_device, infer, list_output_names
from gnas.use.predict import is_benchmark, predict_graphs, read_graphs
from gnas.use.targets import (
    SCORES,
    count_columns,
    find_known_rows,
    flatten_targets,
    read_class_values,
    with_class_names,
    with_targets,
)
from gnas.use.tracking import log_records
from gnas.workflow import discover

if TYPE_CHECKING:
    from typing_extensions import Self

TASKS = (*KINDS, *(f"{level}-{kind}" for level in LEVELS if level != "link" for kind in KINDS), "link")


class NotFittedError(InputError, AttributeError):
    """An estimator was used before it was fitted."""


@lru_cache
def _not_fitted_type(theirs: Any) -> type[NotFittedError]:
    """``NotFittedError``, which is also that of scikit-learn's module ``theirs`` if it is loaded."""
    return NotFittedError if theirs is None else type("NotFittedError", (NotFittedError, theirs.NotFittedError), {})


class Estimator:
    """What the estimators have in common: parameters, ``fit``, ``predict``, ``score``, ``save`` and ``load``.

    Args:
        task: what is learned: ``classification``, ``regression`` or ``multilabel`` (several labels that are 0, 1 or blank),
            with the level in front where it is not plain from the data, such as ``node-classification``; or ``link``.
            None: inferred.
        preset: ``wide``, ``fast``, ``paper`` or ``strong``; what follows changes single settings of it. None: ``wide``, a race
            over the whole space, as on the command line; ``fast`` with another strategy.
        time: how long a race may take in all: seconds, or a text such as ``"10m"``. Without ``time`` and ``trials``: 5 minutes.
        trials: networks to try, for a race and other strategies by trials.
        strategy, cells, channels, budget, epochs, batch, lr, seeds: see :class:`gnas.Settings`.
        search_epochs: epochs of the search of another strategy; without ``strategy``, that is ``single-level``.
        ensemble: the most trained networks in an ensemble; the ensemble predicts if it is best on validation.
        baselines: hand-made networks to train beside the found one, for the leaderboard.
        seed: seed of the search, and of the split if the data has none.
        settings: other settings of the job by name.
        data_options: other options of :func:`gnas.load` by name, such as ``metric`` or ``fractions``.
        device: ``cpu`` or ``cuda``; None: a GPU if there is one.
        out: the run folder; None: a temporary one, which lives as long as this object.
        resume, force: what to do if ``out`` holds a run: resume it, or start again.
        verbose: 1 logs every epoch to the logger ``gnas``; 0 shows the progress in notebooks only; -1 shows nothing.

    After ``fit``: ``genotype_``, ``depth_``, ``network_`` (the one that was best on validation), ``network_name_`` (such as
    ``gnas``, ``gin+`` or ``ensemble``), ``leaderboard_``, ``history_`` (records of the search), ``task_``, ``classes_`` (the
    classes, or the names of the labels), ``seed_`` and ``folder_``, the run folder.

    A fitted estimator can be pickled: its state is the parameters and the files of the run folder, without checkpoints.
    Loading a pickle runs code, so load only your own; ``save`` and ``load`` do the same without a pickle.

    >>> model = gnas.GNAS("classification", cells=2, channels=8, search_epochs=1, epochs=1)
    >>> model.fit(graphs, y).predict(graphs).shape
    (20,)
    """

    kinds: ClassVar[tuple[str, ...]] = KINDS

    def __init__(
        self,
        task: str | None = None,
        preset: str | None = None,
        *,
        time: float | str | None = None,
        trials: int | None = None,
        strategy: str | None = None,
        cells: int | None = None,
        channels: int | None = None,
        budget: int | None = None,
        search_epochs: int | None = None,
        epochs: int | None = None,
        batch: int | None = None,
        lr: float | None = None,
        ensemble: int | None = None,
        seeds: Sequence[int] | None = None,
        baselines: Sequence[str] = (),
        seed: int = 0,
        settings: dict[str, Any] | None = None,
        data_options: dict[str, Any] | None = None,
        device: str | None = None,
        out: str | Path | None = None,
        resume: bool = False,
        force: bool = False,
        verbose: int = 0,
    ) -> None:
        self.task, self.preset = task, preset
        self.time, self.trials = time, trials
        self.strategy, self.cells, self.channels, self.budget = strategy, cells, channels, budget
        self.search_epochs, self.epochs, self.batch, self.lr = search_epochs, epochs, batch, lr
        self.ensemble = ensemble
        self.seeds, self.baselines, self.seed = seeds, baselines, seed
        self.settings, self.data_options = settings, data_options
        self.device, self.out, self.resume, self.force, self.verbose = device, out, resume, force, verbose

    # -- parameters, as scikit-learn's clone and searches read them ---------------------------------------------------

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's arguments by name."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def set_params(self, **params: Any) -> Self:
        """Change arguments; they count from the next ``fit``."""
        for name, value in params.items():
            setattr(self, choose(name, self.get_params(), "parameter"), value)
        return self

    def __repr__(self) -> str:
        default = inspect.signature(type(self)).parameters
        changed = [f"{n}={v!r}" for n, v in self.get_params().items() if v is not default[n].default]
        return f"{type(self).__name__}({', '.join(changed)})"

    # -- fitting ----------------------------------------------------------------------------------------------------

    def fit(self, dataset: Any, y: Any = None) -> Self:
        """Search, train and compare.

        ``dataset`` is anything :func:`gnas.load` takes: a list of PyG ``Data``, a PyG dataset, a file, a benchmark's
        name. ``y`` holds a target for each graph of a list, in the place of ``data.y``, or for each row of a DataFrame or
        list of SMILES. Where the data bring no split, a tenth is kept for validation and a tenth for the leaderboard;
        ``data_options`` can change that.
        """
        started, settings = clock.monotonic(), self._settings()
        benchmark, values = self._benchmark(dataset, y)
        warn_if_too_large(benchmark, settings, self._device())
        temporary = None if self.out is not None else tempfile.TemporaryDirectory(prefix="gnas-")
        folder = Path(self.out) if self.out is not None else Path(temporary.name) / "run"  # type: ignore[union-attr]
        with log_records(self.verbose) as on_epoch:
            found = discover(
                benchmark,
                settings,
                folder,
                device=self._device(),
                resume=self.resume,
                force=self.force,
                on_epoch=on_epoch,
                started=started,
            )
        self._temporary = temporary  # gone with this object
        self._adopt(folder, found.leaderboard, found.search.history)
        if values is not None:
            self.classes_ = values
        return self

    def _benchmark(self, dataset: Any, y: Any) -> tuple[Benchmark, np.ndarray | None]:
        """The data, and the values in ``y`` that stand for its classes."""
        level, kind = self._task(y)
        options: dict[str, Any] = {"seed": self.seed, **self._settings().data, **(self.data_options or {})}
        if y is not None:
            dataset, values = with_targets(dataset, y, kind == "classification" and level in (None, "graph"))
            kind = kind if values is None else "classification"
            return with_class_names(load(dataset, level=level, kind=kind, **options), values)
        if not is_benchmark(dataset):
            return load(dataset, level=level, kind=kind, **options), None
        benchmark = load(dataset, **options)
        task = benchmark.task
        if (level or task.level, kind or task.kind) != (task.level, task.kind):
            raise InputError(f"{benchmark.name} is a {task.level}-{task.kind} task, not {self.task or kind}")
        return benchmark, None

    def _task(self, y: Any = None) -> tuple[str | None, str | None]:
        """The level and the kind of the task; None where the data decide."""
        level, kind = _parse_task(self.task)
        if kind is None and self.kinds != KINDS:
            kind = "multilabel" if "multilabel" in self.kinds and count_columns(y) > 1 else self.kinds[0]
        if kind is not None and kind not in self.kinds:
            raise InputError(
                f"{type(self).__name__} learns {' or '.join(self.kinds)}, not {kind}; GNAS learns all tasks"
            )
        return level, kind

    def _settings(self) -> Settings:
        given = {name: value for name, value in self.get_params().items() if name != "preset" and is_setting(name)}
        given |= self.settings or {}
        preset = default_preset(given) if self.preset is None else self.preset
        given |= {} if self.time is None else {"search.max_seconds": parse_duration(str(self.time))}
        given |= {} if self.trials is None else {"search.trials": self.trials}
        settings = Settings.resolve(preset, **given).with_limit()
        own = {name: value for name, value in (self.data_options or {}).items() if name in ("encodings", "structure")}
        return settings.changed({"data": own})

    def _device(self) -> torch.device:
        return find_device(self.device or ("cuda" if torch.cuda.is_available() else "cpu"))

    def _adopt(self, folder: Path, leaderboard: Leaderboard, history: list[Record]) -> None:
        """Take the network of a finished run as this estimator's own."""
        self.network_, info = load_model(folder)
        self.network_name_ = info.name
        self._encoding = info.encoding
        self.task_, self.seed_, self.folder_ = self.network_.task, info.seed, folder
        network: Any = self.network_
        found: Any = Run(folder).architecture() if info.members else network.architecture
        self.genotype_ = found
        self.depth_ = self.genotype_.depth()
        self.leaderboard_, self.history_ = leaderboard, history
        if self.task_.kind != "regression":
            self.classes_ = read_class_values(list_output_names(self.task_, self._encoding))

    # -- predicting -------------------------------------------------------------------------------------------------

    def predict_std(self, graphs: Any) -> np.ndarray:
        """The standard deviation over the members of an ensemble: of each probability of :meth:`predict_proba`, or value."""
        found = self._predictions(graphs).spread
        if found is None:
            raise InputError(f"{self.network_name_} is a single network; only an ensemble has a spread (ensemble=5)")
        return found[:, 0] if self.task_.kind == "regression" and found.shape[1] == 1 else found

    def predict(self, graphs: Any) -> np.ndarray:
        """Classes, or targets in their own unit: one for each graph, or for each node or edge of all graphs in a row.

        For labels a row of 0 and 1, in the order of ``classes_``: 1 where the probability is above one half. For links a
        0 or 1 for each pair of nodes in ``edge_label_index``.
        """
        found = self._predictions(graphs)
        if found.kind == "classification":
            return np.asarray(self.classes_[found.classes])
        if found.kind == "multilabel":
            labels = (found.values > 0.5).astype(np.int64)
            return labels[:, 0] if self.task_.level == "link" else labels
        return found.values[:, 0] if found.values.shape[1] == 1 else found.values

    def score(self, graphs: Any, y: Any = None) -> float:
        """How good predictions are, at most 1: the share of right classes, or the R² of a regression.

        For labels it is the share of rows whose known labels are all right. This is scikit-learn's score, whatever the
        task's own metric. ``y`` replaces the targets the graphs bring.
        """
        self._check_fitted()
        kind = self.task_.kind
        if y is not None:
            found, wanted = self.predict(graphs), flatten_targets(y, self.task_.level)
        else:
            rows = read_graphs(graphs, self.task_, self._encoding, targets=True).graphs
            values = infer(self.network_, rows, self._device())
            answers = {"classification": values.argmax(1), "multilabel": values > 0.5, "regression": values}
            found, wanted = find_known_rows(answers[kind], rows)
        if not len(wanted) or len(found) != len(wanted):
            raise InputError(f"{len(wanted)} targets for {len(found)} predictions; a score needs one for each")
        return SCORES[kind](found, wanted)

    def _predictions(self, graphs: Any) -> Predictions:
        self._check_fitted()
        new = read_graphs(graphs, self.task_, self._encoding)
        return predict_graphs(self.network_, new, self._encoding, self._device())

    def _check_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            kind = _not_fitted_type(sys.modules.get("sklearn.exceptions"))
            raise kind(f"this {type(self).__name__} is not fitted yet; call fit first")

    def __sklearn_is_fitted__(self) -> bool:
        return "network_" in vars(self)

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn may expect: lists of graphs or texts in, classes or numbers out."""
        from sklearn.utils import ClassifierTags, InputTags, RegressorTags, Tags, TargetTags

        kinds = {"classification": "classifier", "multilabel": "classifier", "regression": "regressor"}
        kind = kinds.get(str(self._task()[1]))
        return Tags(
            estimator_type=kind,
            target_tags=TargetTags(required=False, multi_output=kind == "regressor"),
            classifier_tags=ClassifierTags(multi_label=True) if kind == "classifier" else None,
            regressor_tags=RegressorTags() if kind == "regressor" else None,
            input_tags=InputTags(two_d_array=False, string=True),
            no_validation=True,
        )

    # -- keeping ----------------------------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        """The parameters and, if fitted, the files of the run folder: texts and bytes."""
        if not self.__sklearn_is_fitted__():
            return dict(vars(self))
        files = {}
        for path in self.folder_.rglob("*"):
            name = path.relative_to(self.folder_)
            if path.is_file() and not path.is_symlink() and not {layout.LOCK, layout.CHECKPOINTS} & set(name.parts):
                files[name.as_posix()] = path.read_bytes()
        return {**self.get_params(), "files": files, "classes_": getattr(self, "classes_", None)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        files, classes = state.pop("files", None), state.pop("classes_", None)
        vars(self).update(state)
        if files is None:
            return
        self._temporary = tempfile.TemporaryDirectory(prefix="gnas-")
        folder = Path(self._temporary.name) / "run"
        for name, content in files.items():
            _make_folder((folder / name).parent)
            (folder / name).write_bytes(content)
        self._adopt_run(folder)
        if classes is not None:
            self.classes_ = classes

    def save(self, folder: str | Path, force: bool = False) -> Path:
        """Copy the run folder; ``GNAS.load`` reads it, as do ``gnas predict``, ``export`` and ``report``."""
        self._check_fitted()
        folder = Path(folder)
        holds_run = layout.is_run(folder)
        if folder.exists() and not (force and holds_run) and (not folder.is_dir() or any(folder.iterdir())):
            raise InputError(f"{folder}: already there; give force to replace a run, or name another folder")
        if folder.resolve() != self.folder_.resolve():
            with tempfile.TemporaryDirectory(dir=_make_folder(folder.parent), prefix=f".{folder.name}.") as made:
                copied = shutil.copytree(self.folder_, Path(made) / "run", ignore=shutil.ignore_patterns(layout.LOCK))
                if holds_run and layout.remove_own(folder):  # what others put there stays
                    shutil.copytree(copied, folder, dirs_exist_ok=True)
                else:
                    copied.rename(folder)
        return folder

    @classmethod
    def load(cls, folder: str | Path, device: str | None = None) -> Self:
        """The fitted estimator of a run folder: one that ``save`` wrote, or of any finished search."""
        run = Run(folder)
        settings = config_settings(run.config) or Settings()
        own = {name: settings.get(name) for name in inspect.signature(cls).parameters if is_setting(name)}
        other = settings.to_dict()
        for name in own:
            group, _, inner = find_setting(name).partition(".")
            (other[group] if inner else other).pop(inner or group)
        found = cls(**own, settings=other, device=device, out=folder)
        found._adopt_run(Path(folder))
        return found

    def _adopt_run(self, folder: Path) -> None:
        board = read_leaderboard(folder)
        if board is None:
            raise InputError(f"{folder}: the run is not finished; resume it first")
        self._adopt(folder, board, read_history(layout.search_folder(folder)))
        if self.task_.kind not in self.kinds:
            raise InputError(f"{folder}: a {self.task_.kind}; {type(self).__name__} learns {' or '.join(self.kinds)}")


class GNAS(Estimator):
    """Find a graph neural network for your graphs, train it, predict with it; the data decide the task.

    >>> model = GNAS(task="classification").fit(graphs)  # doctest: +SKIP
    >>> model.predict(new_graphs)  # doctest: +SKIP
    """

    def predict_proba(self, graphs: Any) -> np.ndarray:
        """Probabilities of the classes or labels, in the order of ``classes_``; those of classes sum to 1."""
        found = self._predictions(graphs)
        if found.kind == "regression":
            raise InputError("only classes and labels have probabilities; this is a regression")
        return found.values


class GNASClassifier(GNAS):
    """:class:`GNAS` for classes, or for several labels where ``y`` has several columns or ``task`` is ``multilabel``.

    >>> model = gnas.GNASClassifier(cells=2, channels=8, search_epochs=1, epochs=1)
    >>> model.fit(graphs, y).predict_proba(graphs).shape  # y: a class for each graph
    (20, 2)
    """

    kinds = ("classification", "multilabel")


class GNASRegressor(Estimator):
    """:class:`GNAS` for one or several numbers; it has no ``predict_proba``.

    >>> model = gnas.GNASRegressor(cells=2, channels=8, search_epochs=1, epochs=1)
    >>> model.fit(graphs, y).predict(graphs).shape  # y: a number for each graph
    (20,)
    """

    kinds = ("regression",)


def _make_folder(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _parse_task(task: str | None) -> tuple[str | None, str | None]:
    if task is None:
        return None, None
    if task == "link":
        return "link", None
    level, _, kind = choose(task, TASKS, "task").rpartition("-")
    return level or None, kind
