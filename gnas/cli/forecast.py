"""What ``gnas doctor DATASET`` says: how long a search and its trainings would take, and what memory they would need."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import torch

from gnas.cli.options import Options
from gnas.cli.prepare import load_data
from gnas.cli.screen import Screen
from gnas.cli.settings import check_settings, data_options, resolve_settings, setting_options, usual_preset
from gnas.cost import Workload, estimate_cost
from gnas.data.benchmarks import PUBLISHED
from gnas.run.words import duration, megabytes
from gnas.training.prediction import find_device


def show_forecast(screen: Screen, options: Options) -> dict[str, Any]:
    """Print the estimate of a run with these options; returns it as plain values."""
    dataset = options.dataset
    # A GPU that this machine lacks is fine: nothing is computed on it.
    device = find_device(options.device or ("cuda" if torch.cuda.is_available() else "cpu"), needed=False)
    chosen = setting_options(options)
    usual, _ = usual_preset("search", dataset, device, chosen)
    settings = resolve_settings(usual, options.preset, None, None, chosen)
    check_settings(settings)
    if dataset in PUBLISHED:
        work, source = Workload.from_facts(dataset), "published figures"
    else:
        given = data_options(options.target, options.data)
        work, source = Workload.of(load_data(screen, dataset, options.data_root, given, show=False)), "the data"
    found = estimate_cost(work, settings, device, dataset)
    where = found.measured_on if found.same_hardware else f"{found.measured_on}, not this machine"
    seeds = len(settings.training.seeds)
    screen.pair(
        "data", f"{dataset}: {work.graphs:,} graphs of {work.nodes:.0f} nodes and {work.edges:,.0f} edges ({source})"
    )
    screen.pair(
        "with", f"preset {settings.preset}, {settings.space.cells} cells, {settings.space.channels} channels, {device}"
    )
    screen.pairs(
        "estimate",
        [
            (
                "search",
                f"{duration(found.search_seconds)}, {megabytes(found.search_mb)}; {settings.search.epochs} epochs",
            ),
            (
                f"{seeds} seed{'s' * (seeds != 1)}",
                f"{duration(found.train_seconds)}, {megabytes(found.train_mb)}; about {found.train_epochs} epochs each",
            ),
            (
                "in all",
                f"{duration(found.seconds)}, {megabytes(found.peak_mb)} at most; without baselines",
            ),
        ],
    )
    screen.pair("from", f"steps measured on {where}; on sizes left out they were off by {found.off:.0%} (median)")
    if settings.search.strategy != "single-level":
        screen.pair("note", f"the search is estimated as single-level; {settings.search.strategy} was not measured")
    return {"dataset": dataset, "device": str(device), "settings": settings.to_dict(), **asdict(found)}
