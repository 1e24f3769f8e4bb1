"""A race: candidates from several proposers are trained briefly, and the better third of them goes on from its checkpoints.

Every training begins as a whole one. Its schedule (``restarts``) has a cosine for each rung, which ends after 1/27, 1/9, 1/3 and
all of the epochs. After a rung the better third is promoted to the next as soon as enough candidates have reached it
(asynchronous successive halving: Li et al., A System for Massively Parallel Hyperparameter Tuning, MLSys 2020). At the end the
best found networks and the best hand-made one are trained to the last epoch. Validation decides everywhere, at its best epoch.

With a limit of time, on a CPU, the rungs are others: see ``race_timed.py``.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from gnas import distributed
from gnas.errors import InputError
from gnas.fields import setting
from gnas.run.folder import Run
from gnas.run.protocol import TrainConfig
from gnas.strategies.base import SearchContext, SearchProblem, SearchResult
from gnas.strategies.race_search import RaceSearch
from gnas.strategies.race_timed import TimedRace
from gnas.strategies.trial import TrialSettings


@dataclass(frozen=True)
class Race(TrialSettings):
    """Successive halving: hand-made networks, random draws, mutations of leaders, proposals of supernets and a predictor.

    The architecture, its depth, width and read-out, the learning rate and dropout race. A race ends after ``trials``
    candidates, ``max_epochs`` epochs or ``max_seconds`` seconds, whichever comes first, and the trainings to the end are part of
    it. With ``max_seconds`` it chooses the epochs of a whole training itself, from the speed of the first steps.

    >>> from gnas.strategies import Race
    >>> Race(max_seconds=600).max_seconds  # gnas.Settings.resolve("wide", search={"max_seconds": 600}) for a whole job
    600
    """

    trials: int = setting(40, "candidates to try; with a limit of time, as many as there is time for", at_least=1)
    epochs: int = setting(60, "epochs of a whole training", at_least=1)
    finals: int = setting(2, "found networks that are trained to the end, beside the best hand-made one", at_least=1)
    round_size: int = setting(6, "brief trainings between two decisions; they do not depend on each other", at_least=1)
    supernets: int = setting(
        2, "supernets that are trained briefly after the first round and derive candidates", at_least=0
    )
    max_weights: int = setting(
        0, "most weights of a network; `0`: as many as the heaviest network of the space has", at_least=0
    )
    dropout: float = setting(0.0, "usual dropout rate; a smaller and a larger one race too", at_least=0, below=1)
    training: TrainConfig | None = None  # the protocol, whose epochs, batch and rate replace those above
    train_seed: int = setting(41, "seed of all trainings", at_least=0)
    train_seeds: int = setting(1, "trainings of each finalist that follow the race or are part of it", at_least=1)
    ensemble: int = setting(0, "most networks of an ensemble that follows; the better trainings are kept", at_least=0)
    name: str = "race"

    def protocol(self) -> TrainConfig:
        """How a whole training is done."""
        own = {
            name: getattr(self, name)
            for name in ("epochs", "batch_size", "epoch_steps", "lr", "precision", "precise_norms")
        }
        config = TrainConfig(**own) if self.training is None else self.training
        return replace(config, schedule="restarts", warmup=0, checkpoint_every=max(1, config.epochs // 10))

    def search(self, problem: SearchProblem, context: SearchContext) -> SearchResult:
        if distributed.is_launched():
            raise InputError(
                "a race is many runs, torchrun is for one large run: start it without torchrun, see --on, "
                "or choose another strategy, such as single-level"
            )
        with _run_folder(context) as inside:
            made = TimedRace if self._takes_turns(inside) else RaceSearch
            return made(self, problem, inside).search(self.name)

    def _takes_turns(self, context: SearchContext) -> bool:
        """Whether trainings come one after the other and a limit of time counts; a race that is resumed goes on as it began."""
        assert context.run is not None
        saved = context.run.load_state()
        if self.max_seconds is None:
            return False
        if saved is not None:
            return bool(saved.get("own_ends", saved.get("whole_seconds")))  # older races have the latter
        return context.device.type == "cpu" and context.get_runner().in_process


@contextlib.contextmanager
def _run_folder(context: SearchContext) -> Iterator[SearchContext]:
    """The context with a run folder, a temporary one if it has none: candidates go on from checkpoints."""
    if context.run is not None:
        yield context
        return
    if context.runner is not None and not context.runner.in_process:
        raise InputError("a race on workers needs a run folder; give one (run=...)")
    with tempfile.TemporaryDirectory(prefix="gnas-race-") as folder, Run(Path(folder) / "search", {}) as run:
        yield replace(context, run=run, runner=None)
