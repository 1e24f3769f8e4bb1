"""Do a race, a comparison and a reproduction survive the loss of a machine, and of the head, of a Ray cluster?

    python benchmarks/clusters.py [--commands race ...] [--faults node ...]

The cluster has two Ray nodes on this machine, with processes and folders of their own. They share no folder: what they write
goes to an FTP server on the loopback address (``--sync ftp://``). ``node``: all processes of a node are killed while it works
on a job. ``head``: all processes of the head are killed; the command ends, the cluster is started again, and so is the command
(with ``--resume``, which reproduce does by itself). The result, here and at the server, must equal that of one process without
Ray, bit for bit. One row per command and fault is added to results/clusters.csv.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from pathlib import Path

from rows import RESULTS, append, today

sys.path.append(str(Path(__file__).parents[1] / "tests" / "helpers"))
from machine_trials import COMMANDS, lose_a_node, lose_the_head, undisturbed
from machines import MARK, machines, marked

FAULTS = {"node": lose_a_node, "head": lose_the_head}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--commands", nargs="*", default=list(COMMANDS), choices=list(COMMANDS))
    parser.add_argument("--faults", nargs="*", default=list(FAULTS), choices=list(FAULTS))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        for command in options.commands:
            wanted = undisturbed(command, place)
            for fault in options.faults:
                with machines("head", "node") as cluster:
                    ended = FAULTS[fault](cluster, command, place)
                row = {
                    **today(),
                    "command": command,
                    "killed": fault,
                    "exit_code": ended.code,
                    "jobs_moved": ended.moved,
                    "files_compared": len(wanted),
                    "same_here": ended.result == wanted,
                    "same_at_server": ended.served == wanted,
                    "processes_left": len(marked(MARK, cluster.mark)),
                    "seconds": round(ended.seconds),
                    "said": re.sub(r"[\d.]{7,15}:\d+", "HEAD", " | ".join(line[:150] for line in ended.lines)),
                }
                append(RESULTS / "clusters.csv", list(row), [row])
                print(row, flush=True)


if __name__ == "__main__":
    main()
