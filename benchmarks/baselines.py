"""How good are the hand-made networks under our protocol? Trains them and adds a row a model to results/baselines.csv.

python benchmarks/baselines.py zinc --out runs/baselines-zinc
python benchmarks/baselines.py cluster --models gin gatedgcn --seeds 41 95 --out runs/baselines-cluster
"""

from __future__ import annotations

import argparse
import csv
import datetime
import statistics
import time
from pathlib import Path

import torch

import gnas
from gnas.baselines import BASELINES
from gnas.compare import train_candidate
from gnas.training import TrainConfig
from gnas.workflow import hand_made

COLUMNS = (
    "date",
    "hardware",
    "dataset",
    "model",
    "layers",
    "weights",
    "metric",
    "mean",
    "std",
    "tests",
    "epochs",
    "seconds",
)
RESULTS = Path(__file__).parent / "results" / "baselines.csv"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset")
    parser.add_argument("--models", nargs="+", default=list(BASELINES))
    parser.add_argument("--seeds", nargs="+", type=int, default=[41, 95, 12, 35])
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--results", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    benchmark = gnas.load(arguments.dataset)
    hardware = torch.cuda.get_device_name() if arguments.device.startswith("cuda") else "CPU"
    for name in arguments.models:
        candidate = hand_made(name, benchmark, arguments.layers)
        started = time.perf_counter()
        results = train_candidate(
            benchmark,
            candidate,
            TrainConfig.paper(arguments.dataset),
            arguments.seeds,
            arguments.out,
            device=arguments.device,
        )
        tests = [result["test"] for result in results]
        row = {
            "date": datetime.date.today().isoformat(),
            "hardware": hardware,
            "dataset": arguments.dataset,
            "model": name,
            "layers": arguments.layers,
            "weights": results[0]["num_weights"],
            "metric": results[0]["metric"],
            "mean": round(statistics.fmean(tests), 4),
            "std": round(statistics.pstdev(tests), 4),
            "tests": " ".join(f"{test:.4f}" for test in tests),
            "epochs": " ".join(str(result["epochs"]) for result in results),
            "seconds": round(time.perf_counter() - started, 1),
        }
        add_row(arguments.results, row)
        print({key: row[key] for key in ("model", "mean", "std", "tests", "epochs", "seconds")}, flush=True)


def add_row(path: Path, row: dict[str, object]) -> None:
    """Append one row, with a header if the file is new."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = not path.exists()
    with open(path, "a", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerow(row)


if __name__ == "__main__":
    main()
