"""Workers and nodes of a Ray cluster die under a comparison: ``python ray_faults.py FOLDER TRIALS SEED``.

The cluster has a head and two nodes on this machine. A line of JSON per trial says what was done, whether it took effect, and
whether the trainings are those of this process, bit for bit.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import random
import signal
import sys
import time
import warnings
from pathlib import Path
from typing import Any

os.environ["RAY_AUTH_MODE"] = "disabled"  # a cluster of ray.cluster_utils
os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112 - else workers get nothing of a busy machine

import ray
from farm import EPOCHS, SEEDS, candidates, events, train_all, trained
from ray.cluster_utils import Cluster

from gnas.jobs import Runner, on_ray

FAULTS = ("KILL of a Ray worker", "KILL of a Ray node", "STOP of a Ray worker")
SILENT = 12.0  # seconds without a sign of life after which a worker is given up


class Injector:
    """Listens to epochs, and does its harm at one of them."""

    def __init__(self, fault: str, folder: Path, cluster: Any, nodes: list[Any], rng: random.Random) -> None:
        self.fault, self.folder, self.cluster, self.nodes, self.rng = fault, folder, cluster, nodes, rng
        self.at, self.heard, self.done = rng.randrange(1, EPOCHS * len(SEEDS) * len(candidates()) - 20), 0, False

    def __call__(self, record: dict[str, Any]) -> None:
        self.heard += 1
        if self.heard < self.at or self.done:
            return
        if "node" in self.fault:
            self.cluster.remove_node(self.nodes.pop(self.rng.randrange(2)), allow_graceful=False)
            self.done = True
            return
        told = events(self.folder)
        ended = {event["job"] for event in told if event["event"] == "finished"}
        at_work = [event["about"]["pid"] for event in told if event["event"] == "began" and event["job"] not in ended]
        if at_work:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.rng.choice(at_work), signal.SIGSTOP if "STOP" in self.fault else signal.SIGKILL)
                self.done = True


def main() -> None:
    folder, trials, rng = Path(sys.argv[1]), int(sys.argv[2]), random.Random(int(sys.argv[3]))
    warnings.simplefilter("ignore")
    on_ray.SILENT_SECONDS = SILENT
    train_all(folder / "reference")
    wanted = trained(folder / "reference")
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
    ray.init(address=cluster.address, log_to_driver=False, logging_level=logging.ERROR, configure_logging=False)
    for number in range(trials):
        place = folder / f"run-{number}"
        injector = Injector(FAULTS[number % len(FAULTS)], place, cluster, nodes, rng)
        error, began = "", time.monotonic()
        try:
            with Runner(place, on_ray.RayTasks()) as runner:
                train_all(place, runner, on_epoch=injector)
        except Exception as failure:
            error = f"{type(failure).__name__}: {failure}"
        same = not error and trained(place) == wanted
        moved = sum(event["event"] == "died" for event in events(place))
        said = {"fault": injector.fault, "hit": injector.done, "moved": moved, "same": same, "error": error}
        print(json.dumps({**said, "seconds": round(time.monotonic() - began, 1)}), flush=True)
        nodes += [cluster.add_node(num_cpus=1) for _ in range(2 - len(nodes))]
    ray.shutdown()
    cluster.shutdown()


if __name__ == "__main__":
    main()
