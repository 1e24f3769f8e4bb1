"""A Ray cluster as of several machines: nodes with processes and folders of their own, and an FTP server that they share.

Every process that belongs to it is known by a mark in its environment, so that none is left.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from gnas.jobs.on_ray import is_listening

MARK, NODE = "GNAS_TEST_MACHINES", "GNAS_TEST_NODE"
START_SECONDS = 120.0
# A node that is gone is noticed in seconds.
NOTICE = {"initial_delay_ms": 500, "period_ms": 500, "timeout_ms": 3000, "failure_threshold": 4}
SERVER = """
import sys
from pyftpdlib.authorizers import DummyAuthorizer
from pyftpdlib.handlers import FTPHandler
from pyftpdlib.servers import ThreadedFTPServer
FTPHandler.authorizer = DummyAuthorizer()
FTPHandler.authorizer.add_user(sys.argv[3], sys.argv[4], sys.argv[1], perm="elradfmwMT")
FTPHandler.banner = "ready"
ThreadedFTPServer(("127.0.0.1", int(sys.argv[2])), FTPHandler).serve_forever()
"""


class Machines:
    """Ray nodes by name, and the folder that the FTP server serves."""

    def __init__(self, place: Path) -> None:
        self.place, self.mark = place, secrets.token_hex(8)
        self.served = place / "served"
        self.served.mkdir()
        self.address, ftp = f"127.0.0.1:{free_port()}", free_port()
        self.url = f"ftp://user:{self.mark}@127.0.0.1:{ftp}/run"
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
        self.environment |= {MARK: self.mark, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
        self.environment |= {"OMP_NUM_THREADS": "1", "RAY_ADDRESS": self.address, "RAY_USAGE_STATS_ENABLED": "0"}
        self.environment["RAY_worker_niceness"] = "0"  # else workers get nothing of a busy machine
        self.environment |= {f"RAY_health_check_{name}": str(value) for name, value in NOTICE.items()}
        self._run([sys.executable, "-c", SERVER, str(self.served), str(ftp), "user", self.mark], "server")
        wait_until(lambda: is_listening(f"127.0.0.1:{ftp}", 1.0), "the FTP server answers")

    def start(self, *words: object, log: Path) -> subprocess.Popen[bytes]:
        """A gnas command whose cluster this is; what it says goes to ``log``."""
        command = [sys.executable, "-m", "gnas", *map(str, words)]
        own = self.place / "driver"
        own.mkdir(exist_ok=True)
        with log.open("wb") as file:
            return subprocess.Popen(command, env={**self.environment, "TMPDIR": str(own)}, stdout=file, stderr=file)

    def start_node(self, name: str) -> None:
        """A node for one job at a time. The first one is the head."""
        shutil.rmtree(self.place / name, ignore_errors=True)
        words = ["--head", f"--port={self.address.rpartition(':')[2]}", "--include-dashboard=false"]
        words = words if name == "head" else [f"--address={self.address}"]
        words += [
            "--block",
            "--num-cpus=1",
            "--num-gpus=0",
            "--node-ip-address=127.0.0.1",
            "--include-log-monitor=false",
        ]
        words += [f"--temp-dir={self.place / name}", "--object-store-memory=100000000", "--disable-usage-stats"]
        ray = [sys.executable, "-c", "import sys; from ray.scripts.scripts import main; sys.exit(main())", "start"]
        before = self._sockets()
        self._run([*ray, *words], name)
        answers = lambda: is_listening(self.address, 1.0) and self._sockets() > before  # noqa: E731
        wait_until(answers, f"the node {name} answers")

    def _sockets(self) -> set[Path]:
        """Those of raylets. In Ray 2.52, all nodes of a machine have theirs in the folder of the head."""
        return set(self.place.glob("*/session_*/sockets/raylet*"))

    def kill_node(self, name: str) -> None:
        """All of its processes at once, as if its machine had gone."""
        kill_marked(NODE, f"{self.mark}-{name}")

    def node_of(self, pid: int) -> str:
        """The node that a process belongs to."""
        return read_mark(pid, NODE).rpartition("-")[2]

    def close(self) -> None:
        kill_marked(MARK, self.mark)
        shutil.rmtree(self.place, ignore_errors=True)

    def _run(self, words: list[str], name: str) -> None:
        own = self.place / f"{name}-tmp"
        own.mkdir(exist_ok=True)
        environment = {**self.environment, NODE: f"{self.mark}-{name}", "TMPDIR": str(own)}
        environment.pop("RAY_ADDRESS")
        with (self.place / f"{name}.log").open("wb") as log:
            subprocess.Popen(words, env=environment, stdout=log, stderr=log, cwd="/", start_new_session=True)


@contextlib.contextmanager
def machines(*names: str) -> Iterator[Machines]:
    """A cluster with these nodes, which is gone afterwards with all its processes and files."""
    place = Path(tempfile.mkdtemp(prefix="gnas-machines-", dir="/tmp"))  # short: sockets have paths of 107 bytes
    cluster = None
    try:
        cluster = Machines(place)
        for name in names:
            cluster.start_node(name)
        yield cluster
    finally:
        if cluster is not None:
            cluster.close()
        shutil.rmtree(place, ignore_errors=True)


def wait_until(holds: object, what: str, seconds: float = START_SECONDS) -> None:
    until = time.monotonic() + seconds
    while not holds():  # type: ignore[operator]
        if time.monotonic() > until:
            raise TimeoutError(f"not in {seconds:g} seconds: {what}")
        time.sleep(0.1)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def read_mark(pid: int, name: str) -> str:
    """A variable of the environment with which a process was started."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
            if line.startswith(f"{name}=".encode()):
                return line.decode().partition("=")[2]
    return ""


def marked(name: str, value: str) -> list[int]:
    """The processes with this value in their environment."""
    found = (int(file.name) for file in Path("/proc").glob("[0-9]*") if int(file.name) != os.getpid())
    return [pid for pid in found if read_mark(pid, name) == value]


def kill_marked(name: str, value: str) -> None:
    """Kill them, and those that they start meanwhile."""
    until = time.monotonic() + 20
    while (found := marked(name, value)) and time.monotonic() < until:
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)
