"""The best of several searches: what each of them finds is judged, and the best by validation is the result."""

from dataclasses import replace
from pathlib import Path

import pytest
from small import stop_after
from tiny import SPACE, tiny, untimed

from gnas.arch import gap
from gnas.arch.genotype import Genotype
from gnas.errors import InputError, Interrupted
from gnas.run.folder import Run
from gnas.strategies import SearchProblem, SearchResult, SingleLevel, search
from gnas.strategies.base import SearchContext
from gnas.strategies.trial import TrialSettings
from gnas.strategies.trials import ListedTrials

SETTINGS = SingleLevel(epochs=2, batch_size=4, searches=3, trial_epochs=2, trial_lr=0.01)


def run(settings: SingleLevel = SETTINGS, kind: str = "regression", seed: int = 5, **how: object) -> SearchResult:
    return search(tiny(kind), SPACE, settings, channels=8, num_cells=2, seed=seed, **how)  # type: ignore[arg-type]


def problem(kind: str = "regression") -> SearchProblem:
    data = tiny(kind)
    return SearchProblem(data.train, data.val, data.task, SPACE, 8, 2)


@pytest.mark.parametrize(("kind", "pick"), [("regression", min), ("classification", max)])
def test_it_is_the_best_of_the_single_searches(kind, pick):
    alone = [run(replace(SETTINGS, searches=1), kind, seed) for seed in (5, 6, 7)]
    trial = TrialSettings(epochs=2, batch_size=4, lr=0.01)
    judged = ListedTrials([one.genotype for one in alone], trial, problem(kind), SearchContext(seed=5))
    judged.search("judged")
    metrics = [record["val_metric"] for record in judged.history]
    best = alone[metrics.index(pick(metrics))]
    found = run(SETTINGS, kind)
    assert found.genotype == best.genotype
    assert (found.seed, untimed(found.history)) == (best.seed, untimed(best.history))
    assert [(one["seed"], one["val_metric"]) for one in found.searches] == list(zip((5, 6, 7), metrics, strict=True))
    assert [one["genotype"] for one in found.searches] == [one.genotype.id for one in alone]
    assert found.trained_epochs == 3 * 2 + 3 * 2
    assert found.seconds >= found.history[-1]["seconds"]


def test_every_search_is_heard_by_its_seed():
    heard: list[dict] = []
    run(on_epoch=heard.append)
    searched, judged = heard[:6], heard[6:]
    assert [(record["seed"], record["epoch"]) for record in searched] == [(s, e) for s in (5, 6, 7) for e in (1, 2)]
    assert [(record["stage"], record["trial"]) for record in judged] == [("judged", number) for number in (1, 2, 3)]


def test_a_network_that_is_found_twice_is_trained_once():
    one, two = (gap.genotype([formula] * 2) for formula in ("[sum]", "[mean]"))

    class MadeUp(SingleLevel):
        def search_once(self, problem: SearchProblem, context: SearchContext) -> SearchResult:
            return SearchResult({5: one, 6: two, 7: one}[context.seed], [], 1.0, "made up", 2, context.seed)

    settings = MadeUp(epochs=2, batch_size=4, searches=3, trial_epochs=2, trial_lr=0.01)
    found = settings.search(problem(), SearchContext(seed=5))
    assert found.trained_epochs == 3 * 2 + 2 * 2
    assert found.searches[0]["val_metric"] == found.searches[2]["val_metric"] != found.searches[1]["val_metric"]


def test_the_folder_holds_all_of_them_and_the_history_of_the_best(tmp_path: Path):
    with Run(tmp_path / "run", {"seed": 5}) as folder:
        found = run(run=folder)
        assert folder.history() == found.history
        assert folder.read_json("result")["searches"] == list(found.searches)
        assert folder.genotype() == found.genotype
    parts = sorted(file.parent.name for file in (tmp_path / "run").glob("*/config.yaml"))
    assert parts == ["judged", "seed-5", "seed-6", "seed-7"]
    for one in found.searches:
        part = Run(tmp_path / "run" / f"seed-{one['seed']}")
        kept = part.genotype()
        assert isinstance(kept, Genotype)
        assert (kept.id, part.config["seed"], len(part.history())) == (one["genotype"], one["seed"], 2)


@pytest.mark.parametrize("count", [2, 5, 8, 11, 14, 17, 20, 23, 29])
def test_it_goes_on_wherever_it_was_stopped(count: int, tmp_path: Path):
    wanted = run()
    with Run(tmp_path / "run", {"seed": 5}) as folder:
        try:
            run(run=folder, should_stop=stop_after(count))
        except Interrupted:
            assert folder.read_json("result") is None
    ended = {one.parent.name for one in (tmp_path / "run").glob("seed-*/result.json")}
    before = {name: (tmp_path / "run" / name / "history.jsonl").stat().st_mtime_ns for name in ended}
    with Run(tmp_path / "run", {"seed": 5}, resume=True) as folder:
        found = run(run=folder)
        assert untimed(found.history) == untimed(folder.history()) == untimed(wanted.history)
    assert (found.genotype, found.searches) == (wanted.genotype, wanted.searches)
    assert found.trained_epochs == wanted.trained_epochs
    assert before == {name: (tmp_path / "run" / name / "history.jsonl").stat().st_mtime_ns for name in ended}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"searches": 0}, "searches is 0; it must be a whole number of at least 1"),
        ({"searches": 2.5}, "searches is 2.5; it must be a whole number"),
        ({"trial_epochs": 0}, "trial_epochs is 0; it must be a whole number of at least 1"),
        ({"trial_lr": 0.0}, "trial_lr is 0.0; it must be a number above 0"),
    ],
)
def test_wrong_numbers_are_named(settings: dict, message: str):
    with pytest.raises(InputError, match=message):
        SingleLevel(**settings)
