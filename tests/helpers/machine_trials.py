"""A command on two Ray nodes that share only an FTP server: a node dies in the middle, or the head dies and comes back."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from machines import Machines, wait_until
from terminal import write_graphs
from trials import computed, last_line

END_SECONDS = 600.0
SMALL = ("--preset", "fast", "--cells", "1", "--channels", "4", "--batch", "8", "--device", "cpu", "--quiet")
TRACKED = ("--track", "none")
COMMANDS: dict[str, tuple[str, ...]] = {
    "compare": ("compare", "DATA", "--baselines", "gcn,gin", "--epochs", "40", "--seeds", "41,95", *SMALL, *TRACKED),
    "race": (
        *("search", "DATA", "--preset", "wide", "--cells", "1", "--channels", "4", "--trials", "6", "--epochs", "45"),
        *("--set", "nodes=1", "--set", "search.supernets=0", "--baselines", "gcn", "--batch", "8", "--device", "cpu"),
        *("--quiet", *TRACKED),
    ),
    "reproduce": (
        *(
            "reproduce",
            "--quick",
            "--only",
            "table-zinc",
            "--datasets",
            "zinc",
            "--methods",
            "gcn,gin",
            "--depths",
            "4",
        ),
        *("--seeds", "41,95", "--set", "epochs=6", "--device", "cpu", "--quiet"),
    ),
}


@dataclass
class Ended:
    """How a command ended on a cluster that was disturbed."""

    code: int  # of the last start
    moved: int  # jobs that another node did again
    lines: list[str]  # what the command said at its ends
    result: Any  # in the run folder
    served: Any  # in the folder of the server
    seconds: float


def _last_line(log: Path) -> str:
    """The last line that gnas wrote. Ray 2.52 adds lines of its own that begin with the time."""
    return last_line("\n".join(line for line in log.read_text().splitlines() if not line.startswith("[20")))


def words(name: str, place: Path) -> list[object]:
    return [place / "rings" if word == "DATA" else word for word in COMMANDS[name]]


def undisturbed(name: str, place: Path) -> Any:
    """The result without jobs, in one process."""
    if not (place / "rings").exists():
        write_graphs(place / "rings", 40)
    out = place / f"{name}-plain"
    said = subprocess.run(
        [sys.executable, "-m", "gnas", *map(str, words(name, place)), "--out", str(out)], capture_output=True, text=True
    )
    assert said.returncode == 0, said.stderr
    return results(out)


def results(folder: Path) -> Any:
    """What is computed. Reproduce makes its tables of the runs' results."""
    return {name: value for name, value in computed(folder).items() if "jobs" not in Path(name).parts}


def lose_a_node(cluster: Machines, name: str, place: Path) -> Ended:
    """All processes of a node are killed once it has been at work on a job for a moment."""
    out, log, began = place / f"{name}-node", place / "node.log", time.monotonic()
    command = cluster.start(*words(name, place), "--out", out, "--on", "ray", "--sync", cluster.url, log=log)
    wait_until(lambda: command.poll() is not None or _at_work(cluster, out, "node"), "a job on the second node")
    time.sleep(0.5)
    cluster.kill_node("node")
    return _end(cluster, command, out, log, began, [])


def lose_the_head(cluster: Machines, name: str, place: Path) -> Ended:
    """The head dies in the middle, and with it the cluster; it is started again, and the command goes on with --resume."""
    out, log, began = place / f"{name}-head", place / "head.log", time.monotonic()
    command = cluster.start(*words(name, place), "--out", out, "--on", "ray", "--sync", cluster.url, log=log)
    wait_until(lambda: command.poll() is not None or _at_work(cluster, out, "head"), "a job on the head")
    time.sleep(0.5)
    cluster.kill_node("head")
    command.wait(END_SECONDS)
    lines = [f"{command.returncode}: {_last_line(log)}"]
    cluster.kill_node("node")
    for node in ("head", "node"):
        cluster.start_node(node)
    again = [] if name == "reproduce" else ["--resume"]
    command = cluster.start(*words(name, place), "--out", out, "--on", "ray", "--sync", cluster.url, *again, log=log)
    return _end(cluster, command, out, log, began, lines)


def _end(
    cluster: Machines, command: subprocess.Popen[bytes], out: Path, log: Path, began: float, lines: list[str]
) -> Ended:
    command.wait(END_SECONDS)
    moved = sum(event["event"] == "died" for event in events(out))
    lines = [*lines, f"{command.returncode}: {_last_line(log)}"]
    served = results(cluster.served / "run")
    return Ended(command.returncode, moved, lines, results(out), served, time.monotonic() - began)


def _at_work(cluster: Machines, out: Path, node: str) -> bool:
    """Whether a job that has begun on this node has not ended."""
    told = events(out)
    ended = {event["job"] for event in told if event["event"] not in ("began",)}
    began = [event["about"]["pid"] for event in told if event["event"] == "began" and event["job"] not in ended]
    return any(cluster.node_of(pid) == node for pid in began)


def events(out: Path) -> list[dict[str, Any]]:
    """What the logs of jobs below a folder tell."""
    lines = [line for file in sorted(out.rglob("jobs/log.jsonl")) for line in file.read_text().splitlines()]
    return [json.loads(line) for line in lines]
