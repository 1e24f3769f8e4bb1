"""How notebooks show results and progress: drawings, small tables, bars. ``install`` turns all of it on."""

from __future__ import annotations

import sys
import time
import uuid
from collections.abc import Callable, Sequence
from html import escape

from gnas.arch.architecture import Architecture
from gnas.arch.genotype import Genotype
from gnas.printed import format_count
from gnas.report.draw import draw_genotype
from gnas.report.graphs import draw_explanation
from gnas.run.leaderboard import Leaderboard
from gnas.run.table import Table
from gnas.run.words import duration, format_metric, label_metric
from gnas.strategies.base import SearchResult
from gnas.training.stages import Stage, View, show_jobs
from gnas.training.train import TrainResult
from gnas.use.estimator import Estimator
from gnas.use.explain import Explanation
from gnas.workflow import Discovery

SHOWN = 8  # cells drawn below a search result


def search_html(result: SearchResult) -> str:
    """The result of a search: one line, and a drawing of the network."""
    genotype, formulas = result.genotype, result.genotype.formulas()
    effort = f"{result.strategy}, {format_count(result.trained_epochs, 'epoch')}, {duration(result.seconds)}, seed {result.seed}"
    line = f"{format_count(len(formulas), 'cell')}, message-passing depth {genotype.depth()}, {genotype.title}"
    listed = "".join(f"<li><code>{escape(formula)}</code></li>" for formula in formulas)
    shown = _drawing(genotype) or f"<ol>{listed}</ol>"
    return f"<div><p><b>Search result</b>: {escape(line)} ({escape(effort)})</p>{shown}</div>"


def _drawing(architecture: Architecture) -> str:
    """The drawing of an architecture, unless it has no cells or too many."""
    few = 0 < len(architecture.cells) <= SHOWN
    return f'<div style="overflow-x:auto">{draw_genotype(architecture)}</div>' if few else ""


def train_html(result: TrainResult) -> str:
    """The figures of one training."""
    metric, splits = result.metric, {"test": result.test, "validation": result.val, "train": result.train}
    values = {
        **{f"{split} {label_metric(metric)}": format_metric(metric, value) for split, value in splits.items()},
        "best epoch": f"{result.best_epoch} of {result.epochs}",
        "time": duration(result.seconds),
        "weights": f"{result.num_weights:,}",
        "seed": str(result.seed),
    }
    return Table.from_tuples(list(values), [list(values.values())]).to_html()


def leaderboard_html(board: Leaderboard) -> str:
    """The leaderboard and the other metrics as tables. Networks that a search found are bold."""
    others = board.metrics_table()
    return board.table().to_html() + (others.to_html() if others is not None else "")


def discovery_html(found: Discovery) -> str:
    """What the main job gives: the network found, how it compares, and where the report is."""
    place = escape(str(found.folder))
    parts = [search_html(found.search), leaderboard_html(found.leaderboard)]
    return f"<div>{''.join(parts)}<p>Run folder: <code>{place}</code></p></div>"


def estimator_html(model: Estimator) -> str:
    """An estimator: its arguments, and after a fit the network that predicts and the leaderboard."""
    first = f"<p><code>{escape(repr(model))}</code></p>"
    if not model.__sklearn_is_fitted__():
        return f"<div>{first}<p>not fitted</p></div>"
    task = model.task_
    line = f"{model.network_name_} predicts {task.level} {task.kind}, message-passing depth {model.depth_}"
    shown = _drawing(model.genotype_) + leaderboard_html(model.leaderboard_)
    return f"<div>{first}<p>{escape(line)}</p>{shown}</div>"


class Bars(View):
    """A row per stage below the cell of a notebook: a bar, the count, the time left, and the last figure."""

    EVERY = 0.2  # seconds between two pictures

    def __init__(self, publish: Callable[[str, str, bool], None] | None = None) -> None:
        self.publish, self.name = publish or _publish, uuid.uuid4().hex
        self.plan: list[Stage] = []
        self.drawn, self.published, self.closed = 0.0, False, False

    def begin(self, plan: Sequence[Stage]) -> None:
        self.plan = list(plan)
        self._draw()

    def show(self, stage: Stage) -> None:
        if time.monotonic() - self.drawn >= self.EVERY:
            self._draw()

    def step(self, stage: Stage) -> None:
        self.show(stage)

    def end(self, stage: Stage) -> None:
        self._draw()

    def close(self, failed: bool) -> None:
        self.closed = not failed
        self._draw()

    def _draw(self) -> None:
        rows = "".join(_stage_row(stage, self.closed) for stage in self.plan)
        self.publish(f"<table>{rows}</table>", self.name, self.published)
        self.drawn, self.published = time.monotonic(), True


def _stage_row(stage: Stage, closed: bool) -> str:
    """A stage as a row. The colours are the notebook's own, light or dark."""
    if stage.ended is not None:
        share, words = 1.0, [stage.summary()]
    elif closed and not stage.done:
        share, words = 1.0, ["done before"]
    else:
        left = stage.seconds_left(time.monotonic())
        share = min(stage.reached / max(stage.total, 1), 1.0)
        words = [f"{stage.unit} {stage.done} of {stage.total}", f"{duration(left)} left" if left else ""]
        words += [stage.note, stage.where]
    bar = f'<progress value="{share:.3f}" max="1" aria-label="{escape(stage.label)}"></progress>'
    cells = (escape(stage.label), bar, escape("; ".join(filter(None, words))))
    return "<tr>" + "".join(f'<td style="text-align:left">{cell}</td>' for cell in cells) + "</tr>"


def _publish(html: str, name: str, again: bool) -> None:
    from IPython.display import HTML, display

    display(HTML(html), display_id=name, update=again)  # type: ignore[no-untyped-call]


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    from IPython import get_ipython

    shell = get_ipython()  # type: ignore[no-untyped-call]
    return shell is not None and hasattr(shell, "kernel")


def install_displays() -> None:
    """Add the methods that notebooks call to the classes of results; in a notebook jobs show their progress.

    A second call changes nothing.
    """
    Genotype._repr_svg_ = draw_genotype  # type: ignore[attr-defined]
    SearchResult._repr_html_ = search_html  # type: ignore[attr-defined]
    TrainResult._repr_html_ = train_html  # type: ignore[attr-defined]
    Explanation._repr_svg_ = draw_explanation  # type: ignore[attr-defined]
    Leaderboard._repr_html_ = leaderboard_html  # type: ignore[attr-defined]
    Discovery._repr_html_ = discovery_html  # type: ignore[attr-defined]
    Estimator._repr_html_ = estimator_html  # type: ignore[attr-defined]
    if "IPython" in sys.modules and in_notebook():
        show_jobs(Bars)
