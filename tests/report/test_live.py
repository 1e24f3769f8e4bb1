"""The live view: only with its token, follows a run in progress, in a real browser; the report renews itself."""

import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from browser import BROWSER, QUIET
from folders import made_up_job
from terminal import write_graphs

from gnas.cli.job import _Renewal
from gnas.report import write_report
from gnas.report.live import LiveServer, render_state
from gnas.report.progress import list_progress, live_state
from gnas.run.folder import Run
from gnas.run.record import read_run

KEPT = Path(__file__).parents[1] / "kept" / "race"
RACE = ("--strategy", "race", "--time", "20s", "--cells", "2", "--channels", "8", "--epochs", "300", "--seeds", "41")


def get(address: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(address, timeout=20) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_only_the_token_opens_the_page(tmp_path: Path) -> None:
    with LiveServer(made_up_job(tmp_path / "job", stage="searching")) as live:
        root = live.address.removesuffix(f"{live.token}/")
        assert root.startswith("http://127.0.0.1:")
        for wrong in ("", "state", "x" * len(live.token) + "/", live.token[:-1] + "/state"):
            code, text = get(root + wrong)
            assert code == 403
            assert live.token not in text
        assert get(live.address)[0] == 200
        assert get(live.address + "config.yaml")[0] == 404
    with pytest.raises(OSError):  # the server has ended
        urllib.request.urlopen(live.address, timeout=2)


def test_the_state_changes_with_the_folder(tmp_path: Path) -> None:
    folder = made_up_job(tmp_path / "job", stage="searching", age=3600)
    with LiveServer(folder) as live:
        assert json.loads(get(live.address + "state")[1])["state"] == "stopped"
        with open(folder / "search" / "history.jsonl", "a") as file:  # another machine writes: there is no lock here
            file.write((folder / "search" / "history.jsonl").read_text().splitlines()[-1] + "\n")
        now = json.loads(get(live.address + "state")[1])
        assert now["state"] == "running"
        assert "Architecture now" in now["html"]
        (folder / "config.yaml").rename(folder / "away")
        assert "config.yaml" in json.loads(get(live.address + "state")[1])["note"]
        (folder / "away").rename(folder / "config.yaml")
        (folder / "result.json").write_text("{}")
        assert json.loads(get(live.address + "state")[1])["state"] == "finished"


def test_a_run_elsewhere_with_long_epochs_is_running(tmp_path: Path) -> None:
    """Nothing has changed for ten minutes, but an epoch takes five."""
    folder = made_up_job(tmp_path / "job", stage="searching", epochs=3, age=600)
    assert live_state(read_run(folder)) == "stopped"
    file = folder / "search" / "history.jsonl"
    records = [{**json.loads(line), "seconds": 300.0 * k} for k, line in enumerate(file.read_text().splitlines(), 1)]
    changed = file.stat().st_mtime
    file.write_text("".join(json.dumps(record) + "\n" for record in records))
    os.utime(file, (changed, changed))
    assert live_state(read_run(folder)) == "running"


def test_a_page_that_is_closed_too_early_is_no_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, closed = threading.Event(), threading.Event()

    def state(live: LiveServer) -> dict[str, str]:
        asked.set()
        assert closed.wait(10)
        return {"state": "running", "title": "", "html": "x" * 10_000_000}

    with LiveServer(made_up_job(tmp_path / "job", stage="searching")) as live:
        monkeypatch.setattr(LiveServer, "state", state)
        host, port = live.address.split("/")[2].split(":")
        with socket.create_connection((host, int(port))) as page:
            page.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # closed at once
            page.sendall(f"GET /{live.token}/state HTTP/1.1\r\n\r\n".encode())
            assert asked.wait(10)
        closed.set()
        monkeypatch.undo()
        assert get(live.address)[0] == 200
        for thread in threading.enumerate():  # the answer to the closed page has ended
            if "process_request_thread" in thread.name:
                thread.join(10)
    assert "Exception" not in capsys.readouterr().err


def test_time_left_of_a_search_by_epochs(tmp_path: Path) -> None:
    folder = made_up_job(tmp_path / "job", stage="searching", epochs=12)
    lines = (folder / "search" / "history.jsonl").read_text().splitlines()[:9]  # 9 of 12 epochs, 2 s each
    (folder / "search" / "history.jsonl").write_text("\n".join(lines) + "\n")
    run = read_run(folder)
    assert live_state(run) == "running"
    facts = {fact.label: fact.value.replace("\u00a0", " ") for fact in list_progress(run, "running")}
    assert facts["left"] == "6.0 s"
    assert facts["epochs of the search"] == "9"


def test_the_report_renews_itself_while_a_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = made_up_job(tmp_path / "job", stage="searching")
    with _Renewal(folder) as renew:
        renew.on_epoch({})
        assert not (folder / "report.html").exists()  # too early
        renew.due = 0.0
        renew.on_epoch({})
        assert 'http-equiv="refresh"' in (folder / "report.html").read_text()
        assert renew.due > time.monotonic() + renew.EVERY - 1
    assert 'http-equiv="refresh"' not in (folder / "report.html").read_text()


def race_under_way(folder: Path) -> Path:
    """A race as it is before its end."""
    shutil.copytree(KEPT, folder)
    for name in ("result.json", "search/result.json", "leaderboard.md"):
        (folder / name).unlink(missing_ok=True)
    return folder


def test_a_race_under_way_shows_its_candidates_and_no_test_results(tmp_path: Path) -> None:
    folder = race_under_way(tmp_path / "race")
    test = f"{json.loads((folder / 'leaderboard.json').read_text())['rows'][0]['mean']:.4f}"
    with Run(folder, Run(folder).config, resume=True):
        told = read_run(folder)
        page = write_report(folder, out=tmp_path / "page.html").read_text()
        live = render_state(folder)["html"]
    last = told.history[-1]
    assert f"The race goes on: {last['tried']} networks tried, {last['dropped']} dropped." in page
    for text in (page, live):
        assert "Candidates" in text
        assert "networks tried" in text
        assert "The best network that was found so far" in text
        assert test not in text
    assert "<button" not in live, "nothing on the live page sorts"
    (folder / "leaderboard.json").unlink()
    stopped = write_report(folder, out=tmp_path / "stopped.html").read_text()
    assert f"The race stopped: {last['tried']} networks tried" in stopped
    assert test in write_report(KEPT, out=tmp_path / "end.html").read_text()


@pytest.mark.skipif(BROWSER is None, reason="no chromium on PATH")
def test_a_race_in_progress_in_a_browser(tmp_path: Path) -> None:
    data, folder = write_graphs(tmp_path / "rings"), tmp_path / "run"
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "gnas"]
    race = subprocess.Popen(
        [*command, "search", data, *RACE, "--out", folder],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=environment,
    )
    watcher = None
    try:
        history, limit = folder / "search" / "history.jsonl", time.monotonic() + 60
        while not history.exists() or history.read_text().count("\n") < 3:
            assert race.poll() is None, race.communicate()[1]
            assert time.monotonic() < limit
            time.sleep(0.05)
        race.send_signal(signal.SIGSTOP)  # the page opens while the race is in progress, however slow the browser is
        watcher = subprocess.Popen(
            [*command, "watch", folder, "--until-finished", "--no-browser"],
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        assert watcher.stdout is not None
        found = re.search(r"http://127\.0\.0\.1:\d+/\S+/", watcher.stdout.readline())
        assert found
        first = browse(found[0], tmp_path)
        assert 'data-state="running"' in first
        assert "left</span>" in first
        assert "Candidates" in first
        assert "<svg" in first
        race.send_signal(signal.SIGCONT)
        assert race.wait(timeout=90) == 0
        last = browse(found[0], tmp_path) if watcher.poll() is None else ""
        assert not last or 'data-state="finished"' in last
        assert watcher.wait(timeout=20) == 0
    finally:
        for process in filter(None, (race, watcher)):
            process.kill()
            process.wait()


def browse(address: str, folder: Path) -> str:
    """The page as a browser shows it after a few seconds, without complaints on its console."""
    done = subprocess.run(
        [str(BROWSER), *QUIET, f"--user-data-dir={folder / 'profile'}", "--dump-dom", address],
        capture_output=True,
        text=True,
        timeout=90,
        check=True,
    )
    assert not [line for line in done.stderr.splitlines() if "CONSOLE" in line and "ERR_CONNECTION" not in line]
    return done.stdout
