"""Does a race pay? It is compared with random search, hand-made networks and the single-level search at one budget of time.

    python benchmarks/pays.py prepare --data-root FOLDER --out PACKED      # once, where RDKit and the data files are
    python benchmarks/pays.py run --data PACKED --seconds 120 --workers 12  # anywhere; goes on where it stopped
    python benchmarks/pays.py run --data PACKED --aside                    # once, at the very end: the two sets kept aside
    python benchmarks/pays.py references --data-root FOLDER                # random forest; --chemprop PYTHON for chemprop
    python benchmarks/pays.py report                                       # the table and the plot of docs/pays.md

Nineteen datasets (pays_data.py), three splits each. Every method (pays_methods.py) runs in a process of its own with one thread
and the same time, and its network is selected by validation. Runs that are in the file already are skipped.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from rows import RESULTS, Rows, read

from gnas.errors import InputError

METHODS = ("race", "random", "hand-made", "single-level")
COLUMNS = (
    "dataset",
    "split",
    "method",
    "seconds",
    "metric",
    "val",
    "test",
    "network",
    "weights",
    "trainings",
    "epochs",
)
COLUMNS += ("spent",)
AROUND = 30.0  # seconds that a run may take beside its time: start, data, the last training
MARK = "RESULT "


@dataclass(frozen=True)
class Case:
    """One run: a dataset, one of its splits, and a method."""

    dataset: str
    split: int
    method: str


def main() -> None:
    chosen = arguments()
    try:
        chosen.action(chosen)
    except InputError as error:
        raise SystemExit(f"pays.py: {error}") from None


# -- prepare -----------------------------------------------------------------------------------------------------------


def prepare(chosen: argparse.Namespace) -> None:
    """Pack the datasets."""
    import pays_data

    for name in chosen.only or pays_data.SOURCES:
        files = pays_data.pack(name, chosen.data_root, chosen.out)
        print(f"{name}: {len(files)} files, {sum(file.stat().st_size for file in files):,} bytes", flush=True)


# -- run -----------------------------------------------------------------------------------------------------------------


def run(chosen: argparse.Namespace) -> None:
    """Run what is missing, several at once; a row is written as soon as it is known."""
    torch.set_num_threads(1)
    rows = Rows(chosen.out, torch.device("cpu"), COLUMNS)
    todo = list_missing(list_cases(chosen), read(chosen.out), chosen.seconds)
    started, running = time.monotonic(), dict[Case, subprocess.Popen[str]]()
    print(f"{len(todo)} runs of about {chosen.seconds:g} seconds, {chosen.workers} at once", flush=True)
    while todo or running:
        while todo and len(running) < chosen.workers and _in_time(chosen, started):
            case = todo.pop(0)
            running[case] = _start(case, chosen)
        if not running:
            break
        for case in [case for case, process in running.items() if process.poll() is not None]:
            _finish(case, running.pop(case), rows, chosen)
        time.sleep(0.2)
    print(f"{len(todo)} runs left", flush=True)


def list_cases(chosen: argparse.Namespace) -> list[Case]:
    """All runs. The methods of one dataset and split follow each other; the first split of every dataset comes first."""
    from pays_data import ASIDE, SOURCES

    names = chosen.only or [name for name in SOURCES if (name in ASIDE) == chosen.aside]
    return [Case(name, split, method) for split in chosen.splits for name in names for method in chosen.methods]


def list_missing(cases: Sequence[Case], rows: Sequence[dict[str, str]], seconds: float) -> list[Case]:
    """The runs whose row is not there yet."""
    known = {(row["dataset"], row["split"], row["method"]) for row in rows if float(row["seconds"]) == seconds}
    return [case for case in cases if (case.dataset, str(case.split), case.method) not in known]


def _in_time(chosen: argparse.Namespace, started: float) -> bool:
    """Whether a run that starts now ends in time."""
    passed = time.monotonic() - started
    return chosen.stop_after is None or passed + chosen.seconds + AROUND <= chosen.stop_after


def _start(case: Case, chosen: argparse.Namespace) -> subprocess.Popen[str]:
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    words = [
        "one",
        case.dataset,
        str(case.split),
        case.method,
        "--data",
        str(chosen.data),
        "--seconds",
        f"{chosen.seconds:g}",
        "--clock",
        chosen.clock,
    ]
    return subprocess.Popen(
        [sys.executable, __file__, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **dict.fromkeys(names, "1"), "CUDA_VISIBLE_DEVICES": ""},
    )


def _finish(case: Case, process: subprocess.Popen[str], rows: Rows, chosen: argparse.Namespace) -> None:
    output, _ = process.communicate()
    found = [line.removeprefix(MARK) for line in output.splitlines() if line.startswith(MARK)]
    if not found:
        print(f"FAILED {case}: {output[-1500:]}", flush=True)
        return
    for row in json.loads(found[-1]):
        history = row.pop("history", None)
        if chosen.histories is not None and history is not None:
            with open(chosen.histories, "a") as file:
                file.write(json.dumps({**asdict(case), "seconds": chosen.seconds, "history": history}) + "\n")
        rows.add(dataset=case.dataset, split=case.split, seconds=chosen.seconds, **row)


def run_one(chosen: argparse.Namespace) -> None:
    """One run, in this process. Its rows are printed as JSON."""
    if chosen.clock == "cpu":  # before anything else reads the clock
        time.monotonic = time.perf_counter = time.process_time
    from pays_data import read_part
    from pays_methods import run_method

    torch.set_num_threads(1)
    benchmark = read_part(chosen.data, chosen.dataset, chosen.split)
    rows = run_method(chosen.method, benchmark, chosen.seconds, chosen.split)
    print(MARK + json.dumps(rows), flush=True)


# -- references and report -------------------------------------------------------------------------------------------------


def references(chosen: argparse.Namespace) -> None:
    """A random forest, or chemprop, on the molecule sets with the same splits."""
    import pays_references
    from pays_data import ASIDE, MOLECULES

    rows = Rows(chosen.out, torch.device("cpu"), COLUMNS)
    names = chosen.only or [name for name in MOLECULES if (name in ASIDE) == chosen.aside]
    method = "forest" if chosen.chemprop is None else "chemprop"
    cases = [Case(name, split, method) for split in chosen.splits for name in names]
    for case in list_missing(cases, read(chosen.out), 0.0):
        figures = pays_references.measure(case.dataset, case.split, chosen.data_root, chosen.chemprop)
        rows.add(dataset=case.dataset, split=case.split, method=method, seconds=0.0, **figures)


def report(chosen: argparse.Namespace) -> None:
    """Write the table and the plot."""
    import pays_report

    pays_report.write(read(chosen.rows), read(RESULTS / "rates.csv"), chosen.page, chosen.plot)


# -- the command line ------------------------------------------------------------------------------------------------------


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    actions = parser.add_subparsers(required=True)
    for name, action in {
        "prepare": prepare,
        "run": run,
        "one": run_one,
        "references": references,
        "report": report,
    }.items():
        part = actions.add_parser(name, help=action.__doc__)
        part.set_defaults(action=action)
        for option, details in _options(name):
            part.add_argument(option, **details)
    return parser.parse_args(words)


def _options(action: str) -> Iterator[tuple[str, dict[str, object]]]:
    docs = Path(__file__).parents[1] / "docs"
    if action == "one":
        yield from (("dataset", {}), ("split", {"type": int}), ("method", {"choices": METHODS}))
    if action in ("prepare", "references"):
        yield (
            "--data-root",
            {"type": Path, "required": True, "help": "folder with molecules/, tu/, zinc/, mnist/, cifar10/"},
        )
    if action in ("run", "one"):
        yield "--data", {"type": Path, "required": True, "help": "the folder that `prepare` wrote"}
        yield "--seconds", {"type": float, "default": 120.0, "help": "time of each method"}
        yield (
            "--clock",
            {"choices": ("wall", "cpu"), "default": "wall", "help": "cpu: processor time, on a shared machine"},
        )
    if action == "prepare":
        yield "--out", {"type": Path, "required": True, "help": "folder of the packed files"}
    if action in ("prepare", "run", "references"):
        yield "--only", {"nargs": "+", "default": [], "metavar": "DATASET"}
    if action in ("run", "references"):
        yield "--out", {"type": Path, "default": RESULTS / "pays.csv", "metavar": "CSV"}
        yield "--splits", {"nargs": "+", "type": int, "default": [0, 1, 2]}
        yield "--aside", {"action": "store_true", "help": "the two datasets that are kept aside, and no others"}
    if action == "run":
        yield "--methods", {"nargs": "+", "choices": METHODS, "default": list(METHODS)}
        yield "--workers", {"type": int, "default": 1, "help": "runs at once, each on one core"}
        yield (
            "--histories",
            {"type": Path, "metavar": "JSONL", "help": "append what every method trained, with its figures"},
        )
        yield "--stop-after", {"type": float, "metavar": "SECONDS", "help": "start no run that would end later"}
    if action == "references":
        yield (
            "--chemprop",
            {"type": Path, "metavar": "PYTHON", "help": "a Python that has chemprop: run it, not the forest"},
        )
    if action == "report":
        yield "--rows", {"type": Path, "default": RESULTS / "pays.csv", "metavar": "CSV"}
        yield "--page", {"type": Path, "default": docs / "pays.md"}
        yield "--plot", {"type": Path, "default": docs / "images" / "pays.svg"}


if __name__ == "__main__":
    main()
