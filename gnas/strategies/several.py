"""Searches from several seeds: what each finds is trained briefly, and validation chooses.

One search can go wrong without a sign: the accuracy of a supernet does not vouch for what is derived from it.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable
from dataclasses import replace

from gnas.run.folder import Run
from gnas.strategies.base import SearchContext, SearchProblem, SearchResult, finished_search
from gnas.strategies.brief import TrialSettings
from gnas.strategies.given import GivenTrials
from gnas.strategies.gradient import GradientSettings
from gnas.training.loop import Record, labelled

JUDGED = "judged"  # the part of a run folder in which what was found is trained, and the stage that its records tell
Once = Callable[[SearchContext], SearchResult]


def best_of(settings: GradientSettings, problem: SearchProblem, context: SearchContext, once: Once) -> SearchResult:
    """One search, or the best of ``settings.searches``: from the context's seed and those after it.

    In a run folder each search has a part of its own, ``seed-0``, ``seed-1``, ...; the folder's history is that of the
    search that was chosen. Seconds and epochs are those of all of them, and of the brief trainings.
    """
    if settings.searches == 1:
        return once(context)
    seeds = range(context.seed, context.seed + settings.searches)
    found = [_search(replace(context, seed=seed), once) for seed in seeds]
    tried = _judged(settings, found, problem, context)
    best = tried.best()
    assert best is not None  # else the trials have raised
    chosen = next(one for one in found if one.genotype.id == best["genotype_id"])
    if context.run is not None:
        context.run.truncate(0)  # of a process that was stopped here
        for record in chosen.history:
            context.run.append(record)
    outcome = {record["genotype_id"]: record["val_metric"] for record in tried.history}
    return replace(
        chosen,
        seconds=round(sum(one.seconds for one in found) + tried.seconds, 3),
        trained_epochs=sum(one.trained_epochs for one in found) + tried.trained_epochs,
        searches=tuple(_described(one, outcome[one.genotype.id]) for one in found),
    )


def _search(context: SearchContext, once: Once) -> SearchResult:
    """One of the searches, or its result if it is already there."""
    told = labelled(context.on_epoch, seed=context.seed)
    run = context.run
    if run is None:
        return once(replace(context, on_epoch=told))
    with run.continued(f"seed-{context.seed}", {**run.config, "seed": context.seed}) as part:
        result = finished_search(part)
        if result is None:
            result = once(replace(context, run=part, on_epoch=told))
            part.write_genotype(result.genotype)
            part.write_json("result", result.to_dict())
    if context.device.type == "cuda":
        gc.collect()  # a search and its recorded steps hold each other, and with them the memory of the device
    return result


def _judged(
    settings: GradientSettings, found: list[SearchResult], problem: SearchProblem, context: SearchContext
) -> GivenTrials:
    """The trainings that decide, done: each network once."""
    given = {one.genotype.id: one.genotype for one in found}
    trial = TrialSettings(
        epochs=settings.trial_epochs,
        batch_size=settings.batch_size,
        lr=settings.trial_lr,
        precision=settings.precision,
        precise_norms=settings.precise_norms,
    )
    heard = labelled(context.on_epoch, stage=JUDGED)
    with contextlib.ExitStack() as stack:
        run: Run | None = None
        if context.run is not None:
            run = stack.enter_context(context.run.continued(JUDGED, {**context.run.config, "given": list(given)}))
        trials = GivenTrials(list(given.values()), trial, problem, replace(context, run=run, on_epoch=heard))
        trials.search(JUDGED)
    return trials


def _described(one: SearchResult, val_metric: float | None) -> Record:
    return {"seed": one.seed, "genotype": one.genotype.id, "depth": one.genotype.depth(), "val_metric": val_metric}
