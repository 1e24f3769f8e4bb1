"""Does `gnas search DATA --time T` end within its time? Each search is a process, whose start and report count, too.

    python benchmarks/time_limit.py --datasets cluster-mini molecules-mini esol.csv --limit 60s

A row has the limit, the time from the start of the process to its end, and how many networks were trained.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from rows import Rows, parser

from gnas.run.words import parse_duration

COLUMNS = ("dataset", "limit", "seconds", "relative", "candidates", "epochs")


def main() -> None:
    options = parser(__doc__, "time_limit.csv")
    options.add_argument("--datasets", nargs="+", required=True, help="names or files")
    options.add_argument("--limit", default="60s", metavar="T")
    options.add_argument("--threads", default="1")
    chosen = options.parse_args()
    torch.set_num_threads(int(chosen.threads))
    rows, limit = Rows(chosen.out, torch.device(chosen.device), COLUMNS), parse_duration(chosen.limit)
    for dataset in chosen.datasets:
        with tempfile.TemporaryDirectory() as folder:
            run = Path(folder) / "run"
            words = ["search", dataset, "--time", chosen.limit, "--device", chosen.device, "--out", str(run)]
            begin = time.monotonic()
            environment = {**os.environ, "OMP_NUM_THREADS": chosen.threads}
            subprocess.run(
                [sys.executable, "-m", "gnas", *words], check=True, env=environment, stdout=subprocess.DEVNULL
            )
            spent = time.monotonic() - begin
            text = (run / "search" / "history.jsonl").read_text(encoding="utf-8")
        records = [json.loads(line) for line in text.splitlines()]
        rows.add(
            dataset=Path(dataset).name,
            limit=limit,
            seconds=round(spent, 1),
            relative=round(spent / limit, 3),
            candidates=records[-1]["tried"],
            epochs=records[-1]["trained_epochs"],
        )


if __name__ == "__main__":
    main()
