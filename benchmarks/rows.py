"""Rows of a benchmark's CSV: appended one by one as they are measured, each with its machine, date and command.

python benchmarks/rows.py FOLDER    # append rows measured elsewhere (with --out FOLDER/NAME.csv) to those of results/
"""

from __future__ import annotations

import argparse
import csv
import datetime
import os
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import torch

from gnas.cost import name_hardware
from gnas.files import write_atomic

RESULTS = Path(__file__).parent / "results"
ORIGIN = ("date", "hardware", "torch", "threads", "load", "command")


def parser(description: str | None, results: str) -> argparse.ArgumentParser:
    """The options all benchmarks share: ``--device`` and ``--out``."""
    words = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    words.add_argument("--out", type=Path, default=RESULTS / results, metavar="CSV", help=f"default: results/{results}")
    return words


class Rows:
    """A CSV file that grows row by row: a run that is stopped keeps what it measured."""

    def __init__(self, path: Path, device: torch.device, columns: Sequence[str]) -> None:
        self.path, self.device, self.columns = path, device, (*ORIGIN, *columns)
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and path.stat().st_size:
            with open(path, newline="") as file:
                found = tuple(next(csv.reader(file)))
            if found != self.columns:
                raise SystemExit(f"{path} has other columns ({', '.join(found)}); name another file with --out")

    def add(self, **values: object) -> None:
        """Append one row and show it."""
        row = {**origin(self.device), **{name: shown(value) for name, value in values.items()}}
        append(self.path, self.columns, [row])
        print("  ".join(f"{name}={value}" for name, value in row.items() if name not in ORIGIN), flush=True)


def append(path: Path, columns: Sequence[str], new: Iterable[Mapping[str, object]]) -> None:
    """Add rows to a file, which begins with its columns, and make sure that they are on disk."""
    with open(path, "a", newline="") as file:
        writer = csv.DictWriter(file, columns, restval="", lineterminator="\n")
        if not file.tell():
            writer.writeheader()
        writer.writerows(new)
        file.flush()
        os.fsync(file.fileno())


def today(device: str = "cpu") -> dict[str, object]:
    """Where and when in two columns, for files whose rows do not depend on more."""
    gpu = "" if device == "cpu" else f" + {torch.cuda.get_device_name()}"
    return {"date": datetime.date.today().isoformat(), "machine": f"{os.cpu_count()}-core CPU{gpu}"}


def origin(device: torch.device) -> dict[str, object]:
    """Where, when and how; the load is that of the last minute, of all processes."""
    return {
        "date": datetime.date.today().isoformat(),
        "hardware": name_hardware(device),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "load": round(os.getloadavg()[0], 1),
        "command": shlex.join(["python", *_command()]),
    }


def _command() -> list[str]:
    """As it was typed, but for the place of the file."""
    script, words = Path(sys.argv[0]), list(sys.argv[1:])
    if "--out" in words:
        at = words.index("--out")
        del words[at : at + 2]
    return [str(Path(script.parent.name) / script.name), *words]


def shown(value: object) -> object:
    """Numbers to four digits: more would be noise."""
    return float(f"{value:.4g}") if isinstance(value, float) else value


def read(path: Path) -> list[dict[str, str]]:
    """All rows of a file; none where there is no file."""
    if not path.exists():
        return []
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def merge(folder: Path) -> None:
    """Append the rows of every CSV in ``folder`` to the file of the same name in results/ (not fitted ones)."""
    for file in sorted(folder.glob("*.csv")):
        lines, own = file.read_text().splitlines(keepends=True), RESULTS / file.name
        if "exponents" in file.name or not lines or not lines[0].startswith(",".join(ORIGIN)):
            continue
        known = own.read_text() if own.exists() else lines[0]
        if known.splitlines(keepends=True)[0] != lines[0]:
            raise SystemExit(f"{file} and {own} have other columns")
        write_atomic(own, known + "".join(lines[1:]))
        print(f"{own.name}: {len(lines) - 1} lines more")


if __name__ == "__main__":
    merge(Path(sys.argv[1]))
