"""The budget of trial-based strategies, failed trials, and what is kept between trials."""

from pathlib import Path

import pytest
import torch
from tiny import SPACE, tiny, untimed

from gnas.model.network import GraphModule
from gnas.run.folder import Run
from gnas.strategies import Evolution, RandomSearch, SearchProblem, search
from gnas.strategies.base import SearchContext
from gnas.strategies.random import GenotypeTrials
from gnas.training.meter import NotFinite

SMALL = {"epochs": 2, "batch_size": 6}


def problem(kind: str = "regression") -> SearchProblem:
    benchmark = tiny(kind)
    return SearchProblem(benchmark.train, benchmark.val, benchmark.task, SPACE, 8, 2)


def test_best_so_far_and_cost() -> None:
    history = search(tiny(), SPACE, RandomSearch(trials=4, **SMALL), channels=8, num_cells=1).history
    metrics = [record["val_metric"] for record in history]
    assert [record["best_val_metric"] for record in history] == [min(metrics[: k + 1]) for k in range(4)]
    assert [record["trained_epochs"] for record in history] == [2, 4, 6, 8]
    assert len({record["genotype_id"] for record in history}) == 4


@pytest.mark.parametrize("kind", ["regression", "classification"])
def test_the_best_by_validation_is_the_result(kind: str) -> None:
    result = search(tiny(kind), SPACE, RandomSearch(trials=4, **SMALL), channels=8, num_cells=1)
    pick = max if kind == "classification" else min
    best = pick(result.history, key=lambda record: record["val_metric"])
    assert result.genotype.id == best["genotype_id"]


def test_no_trial_begins_beyond_the_epochs() -> None:
    result = search(tiny(), SPACE, RandomSearch(trials=9, max_epochs=5, **SMALL), channels=8, num_cells=1)
    assert (len(result.history), result.trained_epochs) == (2, 4)


def test_no_trial_begins_beyond_the_seconds() -> None:
    result = search(tiny(), SPACE, RandomSearch(trials=9, max_seconds=1e-6, **SMALL), channels=8, num_cells=1)
    assert len(result.history) == 1


def test_norms_are_taken_anew_where_asked() -> None:
    plain, anew = (
        search(tiny(), SPACE, RandomSearch(trials=2, precise_norms=norms, **SMALL), channels=8, num_cells=1).history
        for norms in (0, 2)
    )
    for one, other in zip(plain, anew, strict=True):
        assert one["genotype_id"] == other["genotype_id"]
        assert one["val_loss"] != other["val_loss"]


class Spoiled(GenotypeTrials):
    """Trials whose numbers are in ``bad`` begin with weights that are not finite."""

    bad: tuple[int, ...] = ()

    def build(self, candidate: object) -> GraphModule:
        model = super().build(candidate)  # type: ignore[arg-type]
        if len(self.history) + 1 in self.bad:
            torch.nn.init.constant_(model.head.layers[-1].bias, float("nan"))
        return model


def test_a_failed_trial_is_recorded_and_charged() -> None:
    trials = Spoiled(RandomSearch(trials=3, **SMALL), problem(), SearchContext())
    trials.bad = (1,)
    result = trials.search("spoiled")
    first, second, _ = result.history
    assert (first["val_metric"], first["best_val_metric"], first["trained_epochs"]) == (None, None, 2)
    assert "not finite at epoch 1" in first["failed"]
    assert second["best_val_metric"] == second["val_metric"]
    assert result.trained_epochs == 6


def test_all_trials_failing_is_an_error() -> None:
    trials = Spoiled(RandomSearch(trials=2, **SMALL), problem(), SearchContext())
    trials.bad = (1, 2)
    with pytest.raises(NotFinite, match="all 2 trials failed: the training loss is not finite"):
        trials.search("spoiled")


def test_a_killed_process_goes_on(tmp_path: Path) -> None:
    """Nothing is saved at the moment of death: the last state on disk must do."""
    settings = RandomSearch(trials=3, **SMALL)
    wanted = GenotypeTrials(settings, problem(), SearchContext()).search("random")

    class Killed(BaseException):
        pass

    def kill(record: dict) -> None:
        if record["trial"] == 2:
            raise Killed

    folder = Run(tmp_path, {})
    with pytest.raises(Killed):
        GenotypeTrials(settings, problem(), SearchContext(run=folder, on_epoch=kill)).search("random")
    with open(tmp_path / "history.jsonl", "a") as file:
        file.write('{"trial": 3, "half')  # written, but not known to a checkpoint
    folder.close()
    folder = Run(tmp_path, {}, resume=True)
    found = GenotypeTrials(settings, problem(), SearchContext(run=folder)).search("random")
    assert untimed(found.history) == untimed(wanted.history)
    folder.close()


def test_a_forced_run_does_not_go_on_with_an_old_trial(tmp_path: Path) -> None:
    def searched(lr: float, **how: bool) -> list[dict]:
        folder = Run(tmp_path, {"lr": lr}, **how)
        settings = Evolution(1, population=1, sample=1, inherit=True, supernet_epochs=1, lr=lr, **SMALL)
        found = search(tiny(), SPACE, settings, channels=8, num_cells=1, run=folder)
        folder.close()
        return untimed(found.history)

    first = searched(1e-3)
    assert searched(1e-3, resume=True) == first
    assert searched(1e-2, force=True) != first
