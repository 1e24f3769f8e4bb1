"""Ray that is not there, that goes away, and that nobody else reaches: one line within a time limit, nothing left behind.

Clusters are started in processes of their own, because Ray reads its settings once.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import pytest
from machine_trials import lose_a_node, undisturbed
from machines import MARK, machines, marked

from gnas.errors import InputError
from gnas.jobs import Job, Runner, on_ray
from gnas.jobs.messages import Died, Finished, Started
from gnas.jobs.on_ray import check_version, find_address
from gnas.jobs.runner import Receive, Task

HELPERS = Path(__file__).parents[1] / "helpers"
needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed: pip install 'gnas[cluster]'")


def run_python(code: str, *words: object, seconds: float = 300, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    environment |= {"PYTHONPATH": str(HELPERS), "OMP_NUM_THREADS": "1", "RAY_worker_niceness": "0", **variables}
    command = [sys.executable, "-c", code, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=seconds, env=environment)


# -- versions and addresses --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("old", ["2.40.0", "2.51.1", "1.13.0"])
def test_versions_without_authentication_are_refused(old: str) -> None:
    with pytest.raises(InputError, match=rf"Ray {old} is too old: gnas needs 2.52 or later.*pip install 'ray>=2.52'"):
        check_version(old)


def test_the_lowest_version_is_the_one_that_is_installed_with_gnas() -> None:
    for enough in ("2.52.0", "2.60.1", "3.0.0.dev0"):
        check_version(enough)
    lowest = ".".join(map(str, on_ray.LOWEST))
    found = re.findall(r"ray>=([\d.]+)", (Path(__file__).parents[2] / "pyproject.toml").read_text())
    assert found
    assert set(found) == {lowest}


def test_the_address_of_another_user_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    assert find_address() is None
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray" / "ray_current_cluster").write_text("10.0.0.1:6379")
    assert find_address() == "10.0.0.1:6379"
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    if (tmp_path / "ray").stat().st_uid != 0:
        assert find_address() is None


@needs_ray
def test_a_dead_address_is_one_line_at_once(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    began = time.monotonic()
    code = "import sys; from gnas.cli import app; app(sys.argv[1:])"
    words = ("search", "cluster-mini", "--preset", "fast", "--on", "ray", "--out", tmp_path / "run", "--quiet")
    ended = run_python(code, *words, RAY_ADDRESS=address)
    assert ended.returncode == 2
    assert ended.stderr.strip().splitlines() == [
        f"error: no Ray cluster answers at RAY_ADDRESS={address}; start one with: ray start --head, or unset RAY_ADDRESS"
    ]
    assert time.monotonic() - began < 60  # most of it are imports
    assert not (tmp_path / "run").exists() or not list((tmp_path / "run").glob("trained"))


@needs_ray
def test_something_else_that_listens_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_ray, "JOIN_SECONDS", 3.0)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(
            InputError, match=rf"what listens at {address} is no Ray cluster, or did not answer for 3 sec"
        ):
            on_ray._join(None, address, address)


# -- tries count per job -----------------------------------------------------------------------------------------------


class Unlucky:
    """A pool whose machines, or workers, die under each job a number of times."""

    in_process, slots, width = False, 1, 1

    def __init__(self, deaths: int, counts: bool) -> None:
        self.deaths, self.counts, self.key = deaths, counts, 0

    def start(self, task: Task) -> None:
        self.key = task.key

    def wait(self, seconds: float, receive: Receive) -> None:
        receive(self.key, Started(1, "host"))
        self.deaths -= 1
        receive(self.key, Died("gone", counts=self.counts) if self.deaths >= 0 else Finished(None))

    def stop(self) -> None: ...

    def close(self) -> None: ...


@pytest.mark.filterwarnings("ignore:.*resuming from its checkpoint")
def test_a_machine_that_goes_is_no_try_of_its_jobs(tmp_path: Path) -> None:
    job = Job("gnas.compare.networks.training_job", "one")
    assert [o.error for o in Runner(tmp_path, Unlucky(10, counts=False)).run([job])] == [None]
    (outcome,) = Runner(tmp_path, Unlucky(10, counts=True)).run([job])
    assert outcome.error == "its worker died 4 times, the last time: gone"
    (outcome,) = Runner(tmp_path, Unlucky(10**6, counts=False)).run([job])
    assert outcome.error == "its machine died 21 times, the last time: gone"


# -- clusters ----------------------------------------------------------------------------------------------------------

STARTED = """
import os, socket, subprocess, sys
from pathlib import Path
from gnas.jobs import open_runner
from gnas.jobs.on_ray import _is_of_ray, list_descendants

def listening(pids):
    sockets = set()
    for pid in pids:
        for link in Path(f"/proc/{pid}/fd").iterdir():
            try:
                sockets.add(os.readlink(link))
            except OSError:
                pass
    for name in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and f"socket:[{words[9]}]" in sockets:
                yield words[1].rpartition(":")[0]

with open_runner(Path(sys.argv[1]), "ray") as runner:
    print(runner.pool.description)
    children = list(list_descendants(os.getpid()))
    print(" ".join(sorted(set(listening([os.getpid(), *children])))))
    other = {**os.environ, "RAY_AUTH_TOKEN": "0" * 64}
    code = "import ray, sys; ray._raylet.GcsClient(address=sys.argv[1])"
    words = [sys.executable, "-c", code, runner.pool.cluster.address]
    print(subprocess.run(words, capture_output=True).returncode)
    tried = subprocess.run(words, env=other, capture_output=True, text=True)
    print(tried.stderr.strip().splitlines()[-1][:80])
    import ray
    (job,) = ray._raylet.GcsClient(address=runner.pool.cluster.address).get_all_job_info().values()
    print(job.entrypoint.rpartition(" ")[2])
    files = [file for file in Path(ray._private.worker._global_node.get_session_dir_path()).rglob("*") if file.is_file()]
    print(len(files) > 3, [file.name for file in files if b"hunter2" in file.read_bytes()])
print(" ".join(str(pid) for pid in children if _is_of_ray(pid)))
"""
LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}


@needs_ray
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_cluster_that_is_started_listens_on_the_loopback_address_and_knows_its_user(tmp_path: Path) -> None:
    """It takes no note of secrets either."""
    ended = run_python(STARTED, tmp_path, "ftp://me:hunter2@host/run", RAY_ADDRESS="local")
    assert ended.returncode == 0, ended.stderr
    said, addresses, user, stranger, command, secret, left = ended.stdout.splitlines()
    assert re.fullmatch(r"started for this run, listens on 127\.0\.0\.1:\d+ \(only this machine, with a token\)", said)
    assert addresses
    assert set(addresses.split()) <= LOOPBACK
    assert user == "0"
    assert "AuthenticationError" in stranger
    assert command == "ftp://***@host/run"
    assert secret == "True []"
    assert left == ""


LOST = """
import os, signal, sys
from pathlib import Path
from farm import train_all
from gnas.jobs import on_ray, open_runner
from gnas.jobs.on_ray import ClusterLost, _is_of_ray, list_descendants

on_ray.CHECK_SECONDS, on_ray.LOST_SECONDS = 0.5, 2.0
victim, children = sys.argv[2], []

def kill(record):
    if not children and record["epoch"] >= 3:
        children.extend(list_descendants(os.getpid()))
        for pid in children:
            if victim in Path(f"/proc/{pid}/cmdline").read_text().split("\\0")[0]:
                os.kill(pid, signal.SIGKILL)

try:
    with open_runner(Path(sys.argv[1]), "ray") as runner:
        train_all(Path(sys.argv[1]), runner, epochs=3000, on_epoch=kill)
except ClusterLost as error:
    print(error)
print(" ".join(str(pid) for pid in children if _is_of_ray(pid)))
"""


@needs_ray
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    ("victim", "wanted"),
    [
        ("gcs_server", r"the Ray cluster at 127\.0\.0\.1:\d+ has not answered for 2 seconds; .*resume with --resume"),
        ("raylet/raylet", r"this machine's part of the Ray cluster at .* has died; .*resume with --resume"),
    ],
)
def test_a_cluster_that_dies_ends_the_run_with_one_line_and_leaves_no_process(
    tmp_path: Path, victim: str, wanted: str
) -> None:
    ended = run_python(LOST, tmp_path, victim, RAY_ADDRESS="local")
    assert ended.returncode == 0, ended.stderr
    said, left = ended.stdout.splitlines()
    assert re.fullmatch(wanted, said)
    assert left == ""
    assert list(tmp_path.glob("trained/*/*/checkpoints/*"))  # what was done is there


@needs_ray
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_node_dies_and_the_other_one_does_its_job_with_the_same_result(tmp_path: Path) -> None:
    """Two nodes with folders of their own and an FTP server: benchmarks/clusters.py has the other commands and faults."""
    pytest.importorskip("pyftpdlib", reason="pyftpdlib is not installed: pip install -e '.[dev]'")
    if version("ray").startswith("2.52."):
        pytest.skip(
            "in Ray 2.52 the nodes of one machine share a folder, and a command may join the one that is killed"
        )
    wanted = undisturbed("compare", tmp_path)
    with machines("head", "node") as cluster:
        ended = lose_a_node(cluster, "compare", tmp_path)
        mark, place = cluster.mark, cluster.place
    assert ended.code == 0, ended.lines
    assert ended.moved == 1
    assert "its machine has gone" in ended.lines[0]
    assert "try 1 of 4" in ended.lines[0]  # the end of a machine is none of the job's tries
    assert ended.result == wanted
    assert ended.served == wanted
    assert not marked(MARK, mark)
    assert not place.exists()


@needs_ray
def test_ray_workers_import_nothing_from_the_current_folder(tmp_path: Path) -> None:
    place, script = tmp_path / "place", tmp_path / "script.py"
    place.mkdir()
    for name in ("yaml", "json", "numpy", "torch"):
        (place / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\n")
    script.write_text(
        "import sys\nfrom pathlib import Path\nfrom farm import train_all\nfrom gnas.jobs import open_runner\n"
        "with open_runner(Path(sys.argv[1]), 'ray') as runner:\n    train_all(Path(sys.argv[1]), runner, epochs=1)\n"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    environment |= {"PYTHONPATH": str(HELPERS), "OMP_NUM_THREADS": "1", "RAY_ADDRESS": "local"}
    environment["RAY_worker_niceness"] = "0"  # else workers get nothing of a busy machine
    words = [sys.executable, str(script), str(tmp_path / "run")]
    ended = subprocess.run(words, cwd=place, env=environment, capture_output=True, text=True, timeout=300)
    assert not (tmp_path / "ran").exists()
    assert ended.returncode == 0, ended.stderr
