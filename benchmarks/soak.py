"""Do memory, open files or threads grow in a process that lives long?

    python benchmarks/soak.py searches --times 1000      # searches and races by every strategy in turn
    python benchmarks/soak.py predictions --times 10000  # by one estimator
    python benchmarks/soak.py watch --minutes 104        # ``gnas watch``, asked as often as by its page

Every search is a whole search on a few graphs. Its run folder is read and then removed. The run that is watched is a race that
starts again ``--pause`` seconds after it has ended. Each writes a file: results/soak.csv, results/soak_predictions.csv or
results/soak_watch.csv has resident memory, open files, threads and live tensors of the process after so many searches,
predictions or answers.
"""

from __future__ import annotations

import argparse
import gc
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil
import torch

sys.path.append(str(Path(__file__).parents[1] / "tests" / "helpers"))
from terminal import write_graphs
from tiny import SPACE, ring, tiny

from gnas.run.folder import Run
from gnas.strategies import make_strategy, search
from gnas.use.estimator import GNAS

SMALL = {"epochs": 1, "batch_size": 6}
STRATEGIES = {
    "single-level": SMALL,
    "darts2": SMALL,
    "random": {**SMALL, "trials": 2},
    "evolution": {**SMALL, "trials": 2, "population": 2, "sample": 1},
    "graphnas": {**SMALL, "trials": 2, "heads": (1, 2), "widths": (4, 8), "hidden": 8},
    "race": {**SMALL, "trials": 3, "finals": 1, "round_size": 3, "supernets": 1},
}
RACE = (
    *("search", "--cells", "1", "--channels", "4", "--trials", "4", "--epochs", "9", "--track", "none", "--quiet"),
    *("--set", "nodes=1", "--set", "search.supernets=0", "--baselines", "gcn", "--device", "cpu"),
)


@dataclass(frozen=True)
class After:
    """The process after so many searches, predictions or answers."""

    number: int
    kind: str
    megabytes: float
    files: int
    threads: int
    tensors: int | None
    seconds: float


def soak(searches: int) -> Iterator[After]:
    """Search again and again."""
    benchmark, started = tiny(), time.monotonic()
    for number in range(1, searches + 1):
        name = list(STRATEGIES)[number % len(STRATEGIES)]
        with tempfile.TemporaryDirectory() as folder, Run(folder, {"search": number}) as run:
            chosen = make_strategy(name, **STRATEGIES[name])
            search(benchmark, SPACE, chosen, channels=4, num_cells=1, seed=number, run=run)  # type: ignore[arg-type]
            assert run.history()
            assert run.load_state() is not None
        yield look(number, name, started)


def predict(times: int) -> Iterator[After]:
    """Predict again and again, through one fitted estimator, other graphs each time."""
    graphs = [ring(5 + k % 4, seed=k) for k in range(60)]
    made = GNAS(search_epochs=1, epochs=2, cells=1, channels=4, seeds=(1,), settings={"nodes": 2}).fit(graphs[:30])
    started = time.monotonic()
    for number in range(1, times + 1):
        assert made.predict(graphs[number % 30 : number % 30 + 1 + number % 20]).shape[0] == 1 + number % 20
        if number % 100 == 0:
            yield look(number, "estimator", started)


def watch(minutes: float, every: float, pause: float) -> Iterator[After]:
    """Ask a ``gnas watch`` every few seconds, as its page does every two, while races run in its folder."""
    with tempfile.TemporaryDirectory() as name:
        place, over = Path(name), threading.Event()
        data = write_graphs(place / "rings", 40)
        races = threading.Thread(target=_race_on, args=(data, place / "run", pause, over), daemon=True)
        races.start()
        while not (place / "run" / "config.yaml").exists():
            time.sleep(0.2)
        words = [sys.executable, "-m", "gnas", "watch", str(place / "run"), "--no-browser"]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            address = next(found[0] for line in process.stdout if (found := re.search(r"http://\S+/", line)))
            yield from _ask(process.pid, address, 60 * minutes, every)
        finally:
            over.set()
            process.terminate()
            process.wait()
            races.join()


def _race_on(data: Path, run: Path, pause: float, over: threading.Event) -> None:
    while not over.is_set():
        command = [sys.executable, "-m", "gnas", *RACE[:1], str(data), *RACE[1:], "--out", str(run), "--force"]
        subprocess.run(command, check=True)
        over.wait(pause)


def _ask(pid: int, address: str, seconds: float, every: float) -> Iterator[After]:
    started, number = time.monotonic(), 0
    while time.monotonic() - started < seconds:
        for part in ("", "state"):
            with urllib.request.urlopen(f"{address}{part}", timeout=120) as answer:
                assert answer.read()
        number += 1
        if number % 100 == 1:
            yield look(number, "gnas watch", started, pid)
        time.sleep(every)


def look(number: int, kind: str, started: float, pid: int | None = None) -> After:
    """This process now, or another one, whose tensors are not known."""
    if pid is None:
        gc.collect()
    process = psutil.Process(pid)
    return After(
        *(number, kind, round(process.memory_info().rss / 2**20, 2)),
        *(process.num_fds(), process.num_threads()),
        None if pid else sum(issubclass(type(one), torch.Tensor) for one in gc.get_objects()),
        round(time.monotonic() - started, 2),
    )


def main() -> None:
    from rows import RESULTS, append, today

    kinds: dict[str, tuple[str, Callable[[argparse.Namespace], Iterator[After]]]] = {
        "searches": ("soak.csv", lambda options: (one for one in soak(options.times) if one.number % 10 == 0)),
        "predictions": ("soak_predictions.csv", lambda options: predict(options.times)),
        "watch": ("soak_watch.csv", lambda options: watch(options.minutes, options.every, options.pause)),
    }
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("what", choices=kinds)
    parser.add_argument("--times", type=int, default=1000)
    parser.add_argument("--minutes", type=float, default=45)
    parser.add_argument("--every", type=float, default=2.0, help="seconds between two questions to gnas watch")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds between two races that it watches")
    options = parser.parse_args()
    torch.set_num_threads(1)
    name, run = kinds[options.what]
    (RESULTS / name).unlink(missing_ok=True)
    for after in run(options):
        append(RESULTS / name, [*today(), *After.__dataclass_fields__], [{**today(), **asdict(after)}])
        print(after, flush=True)


if __name__ == "__main__":
    main()
