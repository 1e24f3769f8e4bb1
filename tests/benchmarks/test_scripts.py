"""The benchmark scripts run at a tiny size and leave rows that say where they come from; the fit finds what made its rows."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import aggregators
import fit
import hand_made
import memory
import norms
import precision
import pytest
import recipes
import reduction
import rows
import several
import steps
import time_limit
import torch

from gnas.cost import Machine, memory_terms, read_machines, time_terms

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch):
    """A script's ``main`` with words of the command line."""

    def call(script, *words: str) -> None:
        monkeypatch.setattr(sys, "argv", [script.__file__, "--device", "cpu", *words])
        script.main()

    return call


def read(path: Path) -> list[dict[str, str]]:
    with open(path, newline="") as file:
        found = list(csv.DictReader(file))
    for row in found:
        assert row["hardware"].startswith("CPU, ")
        assert row["torch"] == torch.__version__
        assert row["command"].startswith(f"python benchmarks/{path.stem}.py --device cpu")
    return found


def test_steps(call, tmp_path: Path) -> None:
    out = tmp_path / "steps.csv"
    call(steps, "--out", str(out), "--graphs", "256", "--cells", "1", "--budget", "0.01")
    found = read(out)
    assert [(row["what"], row["mode"]) for row in found] == [
        (what, mode) for what in ("search", "training") for mode in ("plain", "eager")
    ]
    for row in found:
        assert float(row["speedup"]) == pytest.approx(float(row["plain_ms"]) / float(row["milliseconds"]), rel=0.01)


def test_hand_made(call, tmp_path: Path) -> None:
    out = tmp_path / "hand_made.csv"
    call(hand_made, "--out", str(out), "--shapes", "zinc", "--models", "mlp", "gat", "--batch", "4")
    found = read(out)
    assert [(row["model"], row["batch"], row["mode"]) for row in found] == [
        ("mlp", "4", "eager"),
        ("gat", "4", "eager"),
    ]
    assert all(float(row["milliseconds"]) > 0 and int(row["weights"]) > 90_000 for row in found)


def test_memory(call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Computing messages again keeps less, in the supernet and in networks."""
    monkeypatch.setattr(memory.edges, "LARGE", memory.edges.LARGE)
    out = tmp_path / "memory.csv"
    small = ("--batch", "1", "--cells", "2", "--channels", "8", "--budget", "0.01")
    for recompute in ("never", "always"):
        call(memory, "--out", str(out), *small, "--recompute", recompute)
    found = read(out)
    kept = {(row["network"], row["recompute"]): float(row["kept_mb"]) for row in found}
    assert {row["what"] for row in found} == {"search", "training"}
    assert kept["supernet", "always"] < 0.3 * kept["supernet", "never"]
    assert kept["every message", "always"] < 0.7 * kept["every message", "never"]
    assert memory.edges.LARGE == 0


def test_recipes(call, tmp_path: Path) -> None:
    out = tmp_path / "recipes.csv"
    small = ("--graphs", "128", "--budget", "0.01", "--cases", "zinc-gin+", "--networks", "found", "mlp")
    call(recipes, "--out", str(out), *small, "--parts", "recipes", "networks", "--shapes", "zinc")
    found = read(out)
    assert [(row["part"], row["network"], row["seeds"]) for row in found] == [
        ("recipes", "gin+", "1"),
        ("networks", "found", "1"),
        ("networks", "mlp", "1"),
    ]
    for row in found:
        assert float(row["speedup"]) == pytest.approx(float(row["plain_ms"]) / float(row["milliseconds"]), rel=0.01)


def test_aggregators(call, tmp_path: Path) -> None:
    out = tmp_path / "aggregators.csv"
    few = ("--search-epochs", "1", "--epochs", "1", "--budget", "2000")
    call(aggregators, "--out", str(out), "--datasets", "molecules-mini", "--seeds", "0", *few)
    plain, more = read(out)
    assert (plain["added"], more["added"]) == ("", "symmetric")
    assert "symmetric" not in plain["second_level"]
    assert all(int(row["weights"]) <= 2000 and len(row["tests"].split()) == 2 for row in (plain, more))


def test_several(call, tmp_path: Path) -> None:
    out = tmp_path / "several.csv"
    few = ("--search-epochs", "1", "--trial-epochs", "1", "--epochs", "1", "--budget", "2000")
    call(several, "--out", str(out), "--datasets", "molecules-mini", "--seeds", "0", "3", *few)
    found = read(out)
    assert [row["seed"] for row in found] == ["0", "3"]
    assert all(float(row["judged_val"]) > 0 and len(row["tests"].split()) == 2 for row in found)


def test_precision(call, tmp_path: Path) -> None:
    out = tmp_path / "precision.csv"
    call(precision, "--out", str(out), "--rounds", "1")
    assert {row["way"]: float(row["epoch_seconds"]) > 0 for row in read(out)} == dict.fromkeys(precision.WAYS, True)


def test_time_limit(call, tmp_path: Path) -> None:
    out = tmp_path / "time_limit.csv"
    call(time_limit, "--out", str(out), "--datasets", "cluster-mini", "--limit", "4s")
    (row,) = read(out)
    assert (row["limit"], int(row["candidates"]) > 0) == ("4.0", True)
    assert float(row["relative"]) == pytest.approx(float(row["seconds"]) / 4, abs=0.02)


def test_reduction(call, tmp_path: Path) -> None:
    out = tmp_path / "reduction.csv"
    call(reduction, "--out", str(out), "--shapes", "zinc", "--channels", "8", "--batch", "4")
    found = read(out)
    assert len(found) == 10
    for row in found:
        share = float(row["gigabytes_per_s"]) / float(row["copy_gigabytes_per_s"])
        assert float(row["of_copy"]) == pytest.approx(share, rel=0.01)


def test_walltime(tmp_path: Path) -> None:
    out = tmp_path / "walltime.csv"
    small = ("--random", "--graphs", "32", "8", "8", "--cells", "1", "--epochs", "2")
    words = ["--device", "cpu", "zinc", "--out", str(out), *small, "--train", "--train-epochs", "2", "--seeds", "1"]
    command = [sys.executable, str(BENCHMARKS / "walltime.py"), *words]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = read(out)
    assert [(row["start"], row["what"]) for row in found] == [
        ("cold", "search"),
        ("cold", "search and training"),
        ("warm", "search"),
    ]
    cold, both, warm = found
    assert 0 < float(cold["imports_s"]) < float(cold["data_s"]) < float(cold["first_step_s"]) < float(cold["end_s"])
    assert float(both["end_s"]) > float(cold["end_s"])
    assert cold["extrapolated"] == "yes"
    assert float(cold["full_s"]) > float(cold["end_s"])
    assert warm["end_s"] == ""


def test_a_file_with_other_columns_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "steps.csv"
    out.write_text("a,b\n1,2\n")
    with pytest.raises(SystemExit, match="has other columns"):
        rows.Rows(out, torch.device("cpu"), ("x",))
    assert out.read_text() == "a,b\n1,2\n"


def test_rows_from_elsewhere_are_added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = tmp_path / "results", tmp_path / "there"
    monkeypatch.setattr(rows, "RESULTS", here)
    for folder, value in ((here, 1), (there, 2)):
        rows.Rows(folder / "growth.csv", torch.device("cpu"), ("x",)).add(x=value)
    rows.merge(there)
    assert [row["x"] for row in rows.read(here / "growth.csv")] == ["1", "2"]


TIME, MEMORY = (3.0, 0.5, 20.0, 0.0, 4.0), (30.0, 100.0, 0.0, 7.0)


def growth_rows() -> list[dict[str, object]]:
    """Rows of a machine that follows the model exactly."""
    found = []
    for what, scale in (("search", 1.0), ("training", 0.1)):
        for varied in ("cells", "nodes", "edges", "channels"):
            for factor in (1, 2, 4, 8):
                size = {"cells": 2, "nodes": 500, "edges": 3000, "channels": 16}
                size[varied] *= factor
                order = [float(size[name]) for name in ("nodes", "edges", "cells", "channels")]
                time = scale * sum(c * v for c, v in zip(TIME, time_terms(*order), strict=True))
                memory = scale * sum(c * v for c, v in zip(MEMORY, memory_terms(*order), strict=True))
                row = {"varied": varied, "what": what, "mode": "eager", "graphs": 8, **size, "before_mb": 200.0}
                row |= {"milliseconds": time, "evaluation_ms": time / 4, "peak_mb": memory, "reserved_mb": memory}
                found.append({**rows.origin(torch.device("cpu")), **row})
    return found


def test_the_fit_finds_the_coefficients(tmp_path: Path) -> None:
    path, costs, known = tmp_path / "growth.csv", tmp_path / "costs.yaml", growth_rows()
    stale = {**known[0], "milliseconds": 1e6}  # an older measurement of the same case
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, list(known[0]))
        writer.writeheader()
        writer.writerows([stale, *known])
    fit.main(path, costs)
    (found,) = read_machines(costs)
    assert isinstance(found, Machine)
    assert found.values["search"]["time"] == pytest.approx(TIME, rel=1e-2)
    assert found.values["search"]["memory"] == pytest.approx(MEMORY, rel=1e-2)
    assert found.values["training"]["evaluation"] == 0.25
    assert found.values["search"]["time_off"] == 0.0
    assert found.step_ms("search", 1e4, 2e4, 6, 32) == pytest.approx(3 + 6 * (0.5 + 20 * 0.32 + 4 * 0.64), rel=1e-2)
    with open(tmp_path / "growth_exponents.csv", newline="") as file:
        slopes = {(row["what"], row["varied"]): row for row in csv.DictReader(file)}
    assert 0.3 < float(slopes["search", "cells"]["time"]) < 1.0
    assert float(slopes["search", "cells"]["time_larger_half"]) > float(slopes["search", "cells"]["time"])


def test_exponents() -> None:
    assert fit.slope([1, 2, 4], [3, 12, 48]) == pytest.approx(2)
    assert json.dumps(fit.nonnegative([[1.0, 1.0], [1.0, 2.0]], [2.0, 1.0])) == "[1.2, 0.0]"


def test_norms(call, tmp_path: Path) -> None:
    out = tmp_path / "norms.csv"
    tiny = ("--graphs", "12", "--epochs", "2", "--budget", "15000")
    call(norms, "--out", str(out), "--datasets", "cluster", "--outputs", "third", "leaves", *tiny)
    found = read(out)
    assert [(row["output"], row["epoch"]) for row in found] == [
        (output, epoch) for output in ("third", "leaves") for epoch in "12"
    ]
    assert all(0 <= float(row[name]) <= 100 for row in found for name in ("train", "running", "precise"))
    assert all(int(row["weights"]) <= 15000 for row in found)


@pytest.mark.slow
def test_launches() -> None:
    """The kernels of a step stay few. It counts launches of Triton's kernels: a process of its own."""
    pytest.importorskip("triton.backends.nvidia", reason="needs Triton with its NVIDIA backend")
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, BENCHMARKS / "launches.py", "--top", "0"], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
    counts = {line.split(":")[0]: int(line.split()[1]) for line in done.stdout.splitlines()}
    assert counts.keys() == {"zinc-gin+", "zinc-gatedgcn+"}
    assert all(100 < count < 370 for count in counts.values()), counts
