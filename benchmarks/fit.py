"""Fits what growth.py measured: exponents for people, coefficients for ``gnas.cost``. Run by ``growth.py --fit``.

If several rows measured the same on the same hardware, the last one counts, so a new run replaces an old one. The start of a
process and the cost of an epoch besides its steps come from walltime.csv, the gain of more threads on a CPU from steps.csv.
"""

from __future__ import annotations

import csv
import io
import itertools
import math
import statistics
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import rows
import yaml

from gnas.cost import KINDS, Machine, Workload, memory_terms, time_terms
from gnas.files import write_atomic

Row = dict[str, str]
SIZES = ("cells", "graphs", "nodes", "edges", "channels")
COLUMNS = ("milliseconds", "peak_mb")
PARTS = [f"{name}{part}" for name in ("time", "memory") for part in ("", "_larger_half", "_added")]
EXPONENTS = ("hardware", "what", "varied", "sizes", *PARTS)
HEADER = "# Written by benchmarks/growth.py --fit; see gnas/cost.py for what the numbers multiply.\n"


def main(path: Path, costs: Path | None) -> None:
    """Read the rows, write the exponents beside them, and the coefficients."""
    found = latest(rows.read(path))
    write_atomic(path.with_name(f"{path.stem}_exponents.csv"), table(found))
    if costs is None:
        return
    others = {name: path.with_name(f"{name}.csv") for name in ("walltime", "steps")}
    more = {name: rows.read(file) if file.exists() else [] for name, file in others.items()}
    fitted = {name: machine([r for r in found if r["hardware"] == name], more) for name in hardware(found)}
    write_atomic(costs, HEADER + yaml.safe_dump({"machines": fitted}, sort_keys=False, width=130))
    print(f"wrote {costs} for {', '.join(fitted)}")


def latest(all_rows: Sequence[Row]) -> list[Row]:
    """The last row of each case."""
    return list({tuple(row[key] for key in ("hardware", "what", "varied", *SIZES)): row for row in all_rows}.values())


def hardware(found: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(row["hardware"] for row in found))


def table(found: Sequence[Row]) -> str:
    """Exponents as CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(EXPONENTS)
    for name in hardware(found):
        for what in KINDS:
            for varied in SIZES:
                mine = [r for r in found if (r["hardware"], r["what"], r["varied"]) == (name, what, varied)]
                mine.sort(key=lambda r: int(r[varied]))
                if len(mine) < 3:
                    continue
                x = [float(r[varied]) for r in mine]
                line = [name, what, varied, f"{x[0]:g} to {x[-1]:g}"]
                for column in COLUMNS:
                    line += exponents(x, [float(r[column]) for r in mine])
                writer.writerow(line)
                print("  ".join(line))
    return text.getvalue()


def exponents(x: Sequence[float], y: Sequence[float]) -> list[str]:
    """Over all sizes, over the larger half, and of what is added to the smallest: that has no fixed cost in it."""
    half = len(x) // 2 - 1
    added = [(b - x[0], v - y[0]) for b, v in zip(x[1:], y[1:], strict=True)]
    grown = f"{slope(*zip(*added, strict=True)):.2f}" if min(v for _, v in added) > 0 else ""  # noise, or no growth
    return [f"{slope(x, y):.2f}", f"{slope(x[half:], y[half:]):.2f}", grown]


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """Of log y against log x."""
    return float(np.polyfit(np.log(x), np.log(np.maximum(y, 1e-9)), 1)[0])


def machine(found: Sequence[Row], more: dict[str, list[Row]]) -> dict[str, object]:
    """The coefficients of one machine."""
    first = found[-1]
    cuda = first["mode"] == "graph"
    values: dict[str, object] = {
        "device": "cuda" if cuda else "cpu",
        "measured": f"{first['date']}, torch {first['torch']}, {first['threads']} threads",
    }
    for kind in KINDS:
        values[kind] = coefficients([row for row in found if row["what"] == kind])
    if not cuda:
        values["process_mb"] = round(statistics.median(float(row["before_mb"]) for row in found), 1)
        values["all_threads"] = all_threads(first, more["steps"])
    values.update(overheads(Machine(first["hardware"], str(values["device"]), values), more["walltime"]))
    return values


def all_threads(row: Row, steps: Sequence[Row]) -> float:
    """Time with all cores over that with the threads the rows were measured with, from steps.csv."""
    cores, ratios = row["hardware"].split()[1], []
    ours = [r for r in steps if r["hardware"] == row["hardware"] and r["mode"] == "eager"]
    for what in KINDS:
        best = [
            min((float(r["milliseconds"]) for r in ours if (r["what"], r["threads"]) == (what, threads)), default=None)
            for threads in (cores, row["threads"])
        ]
        if best[0] and best[1]:
            ratios.append(best[0] / best[1])
    return round(statistics.median(ratios), 2) if ratios else 1.0


def coefficients(mine: Sequence[Row]) -> dict[str, object]:
    sizes = [[float(row[key]) for key in ("nodes", "edges", "cells", "channels")] for row in mine]
    found: dict[str, object] = {}
    for name, terms, column in (("time", time_terms, "milliseconds"), ("memory", memory_terms, "reserved_mb")):
        known, wanted = [terms(*s) for s in sizes], [float(row[column]) for row in mine]
        found[name] = nonnegative(known, wanted)
        found[f"{name}_off"] = round(statistics.median(map(abs, left_out(known, wanted))), 2)
    shares = [float(row["evaluation_ms"]) / float(row["milliseconds"]) for row in mine]
    found["evaluation"] = float(f"{statistics.median(shares):.3g}")
    return found


def nonnegative(terms: Sequence[Sequence[float]], wanted: Sequence[float]) -> list[float]:
    """Coefficients >= 0 with the least sum of squared relative errors: the best of all choices of terms."""
    matrix = np.array(terms) / np.array(wanted)[:, None]
    ones, count = np.ones(len(wanted)), matrix.shape[1]
    best, chosen = math.inf, np.zeros(count)
    for size in range(1, count + 1):
        for kept in map(list, itertools.combinations(range(count), size)):
            found = np.linalg.lstsq(matrix[:, kept], ones, rcond=None)[0]
            error = float(np.square(matrix[:, kept] @ found - ones).sum())
            if found.min() >= 0 and error < best:
                best, chosen = error, np.zeros(count)
                chosen[kept] = found
    return [float(f"{value:.4g}") for value in chosen]


def left_out(terms: Sequence[Sequence[float]], wanted: Sequence[float]) -> list[float]:
    """Relative error of each row when the others alone are fitted."""
    errors = []
    for k, true in enumerate(wanted):
        others = [row for n, row in enumerate(terms) if n != k]
        found = nonnegative(others, [value for n, value in enumerate(wanted) if n != k])
        errors.append(float(np.dot(terms[k], found)) / true - 1)
    return errors


def overheads(known: Machine, starts: Sequence[Row]) -> dict[str, float]:
    """Seconds to the first step of a process whose kernels are compiled, and of an epoch besides its steps."""
    mine = [row for row in starts if row["hardware"] == known.name and row["what"] == "search"]
    warm = [float(row["first_step_s"]) for row in mine if row["start"] == "warm"]
    found = {}
    if warm:
        found["start_seconds"] = round(statistics.median(warm), 1)
    more = [float(r["later_epoch_s"]) - predicted_epoch(known, r) for r in mine if r["later_epoch_s"]]
    if more:
        found["epoch_seconds"] = round(max(0.0, statistics.median(more)), 3)
    return found


def predicted_epoch(known: Machine, row: Row) -> float:
    """What the model says of an epoch of a search that walltime.py measured."""
    work = Workload(int(row["graphs"]), int(row["val_graphs"]), float(row["nodes"]), float(row["edges"]))
    return known.epoch_seconds("search", work, 64, int(row["cells"]), 64)
