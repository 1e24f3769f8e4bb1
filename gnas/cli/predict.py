"""``gnas predict``, ``evaluate``, ``explain`` and ``export``: what a trained network is for."""

from __future__ import annotations

from functools import partial
from typing import Any

from gnas.cli.options import Options, refuse_existing
from gnas.cli.prepare import choose_device
from gnas.cli.progress import count_progress
from gnas.cli.screen import Screen
from gnas.printed import format_count
from gnas.run.models import choose_network, find_model
from gnas.run.table import Column, Table, show_count
from gnas.run.words import describe_direction, format_metric, label_metric
from gnas.use.evaluate import Evaluation
from gnas.use.evaluate import evaluate as compute_evaluation
from gnas.use.predict import predict as write_predictions


def predict(options: Options, screen: Screen) -> None:
    """Write the predictions for new graphs."""
    out = options.out
    refuse_existing(out, options.overwrite)
    with count_progress(screen, options.data) as on_progress:
        found = write_predictions(
            options.run, options.data, out, force=options.overwrite, on_progress=on_progress, **_network(options)
        )
    screen.pair("network", found.network)
    for note in found.notes:
        screen.pair("note", note)
    screen.pair("written", f"{out}: {len(found):,} predictions, columns {', '.join(found.columns)}")
    facts = {"predictions": str(out), "rows": len(found), "columns": list(found.columns), "model": str(options.run)}
    screen.result({**facts, "network": found.network, "notes": list(found.notes)})


def evaluate(options: Options, screen: Screen) -> None:
    """Compute every metric on labelled data."""
    with count_progress(screen, options.data) as on_progress:
        found = compute_evaluation(options.run, options.data, on_progress=on_progress, **_network(options))
    if screen.talks:
        _show_evaluation(screen, found)
    screen.result({"model": str(options.run), "data": options.data, **found.to_dict()})


def _network(options: Options) -> dict[str, Any]:
    """The options that say which network reads new graphs, and where."""
    names = [one for one in ("network", "seed", "average_seeds", "data_root", "skip_bad") if one in options]
    return {**{name: options[name] for name in names}, "device": choose_device(options.device)}


def _show_evaluation(screen: Screen, found: Evaluation) -> None:
    screen.pair("network", found.network)
    left_out = f"; {format_count(found.left_out, 'row')} without a target left out" if found.left_out else ""
    screen.pair("rows", f"{found.rows:,}{left_out}")
    for note in found.notes:
        screen.pair("note", note)
    columns = (
        Column[str]("metric", label_metric),
        Column[str]("value", found.metrics.get, text=lambda name: format_metric(name, found.metrics[name])),
        Column[str]("", describe_direction),
    )
    screen.say(Table(columns, list(found.metrics), strong=lambda name: name == found.metric).to_rich())
    if not found.per_target:
        return

    per_target = (
        Column[Any](label_metric(metric), values.__getitem__, partial(format_metric, metric), align="right")
        for metric, values in found.per_target.items()
    )
    first = (Column[Any]("target", str), Column[Any]("rows", found.counts.__getitem__, show_count))
    screen.say(Table((*first, *per_target), list(found.counts)).to_rich())


def explain(options: Options, screen: Screen) -> None:
    """Write drawings and scores of some predictions."""
    from gnas.report.graphs import list_files, save_explanations
    from gnas.use.explain import explain as explain_rows

    rows, out = options.rows or [0], options.out
    with screen.waiting("explaining"):
        scores = out.with_suffix(".csv")
        for file in {*list_files(out, rows), scores}:
            refuse_existing(file, options.overwrite)
        found = explain_rows(options.run, options.data, rows, output=options.output, **_network(options))
        written = [*save_explanations(found, out), *save_explanations(found, scores)]
    screen.pair("network", found[0].network)
    for one in found:
        screen.pair("row", one.title.removeprefix("row "))
    files = list(dict.fromkeys(map(str, written)))
    screen.pair("written", ", ".join(files))
    facts = [{"row": one.row, "output": one.output, "value": one.value, "baseline": one.baseline} for one in found]
    screen.result({"network": found[0].network, "rows": facts, "files": files})


def export(options: Options, screen: Screen) -> None:
    """Write a folder that needs no gnas."""
    from gnas.use.export import export_run

    run, network = options.run, options.network
    with screen.waiting("exporting"):
        out, kind = options.out or run / "export", options.format
        path = export_run(run, out, network=network, seed=options.seed, format=kind, force=options.overwrite)
        info, best = find_model(path), choose_network(run)
    files = sorted(file.name for file in path.iterdir())
    screen.pair("exported", str(path))
    screen.pair("network", info.title)
    if network is None and best not in (info.name, "gnas"):
        screen.pair("note", f"{best} is better on validation, but its class has no export_code; gnas predict uses it")
    screen.pair("files", ", ".join(files))
    screen.result({"export": str(path), "files": files})
