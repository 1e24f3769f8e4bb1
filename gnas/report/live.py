"""The live view of a run: a local page that follows the run folder, and its small web server."""

from __future__ import annotations

import json
import secrets
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from gnas.errors import InputError
from gnas.report.answer import Fact, describe_run
from gnas.report.html import draw_cells, draw_keys, render_page
from gnas.report.pictures import make_live_pictures
from gnas.report.race_view import list_racers, racers_table
from gnas.report.tables import trainings_table
from gnas.run import layout
from gnas.run.record import RunRecord, file_signature, read_run
from gnas.run.settings import config_value
from gnas.run.words import duration, format_metric, label_metric

HOST = "127.0.0.1"
FRESH = 120.0  # seconds after its last change that a folder without a lock, as of another machine, counts as running


def live_state(run: RunRecord) -> str:
    """``finished``, ``running`` or ``stopped``. A folder that another machine writes has no lock here: its files decide."""
    if run.state != "stopped":
        return run.state
    return "running" if time.time() - _last_change(run.folder) < FRESH else "stopped"


def _last_change(folder: Path) -> float:
    return max((time_ns / 1e9 for _, _, time_ns in file_signature(folder)), default=0.0)


def list_progress(run: RunRecord, state: str) -> list[Fact]:
    """The numbers at the top of the live view: how far, how good, how long still."""
    facts = []
    values = [record["val_metric"] for record in run.history if record.get("val_metric") is not None]
    last = run.history[-1] if run.history else {}
    best = last.get("best_val_metric", values[-1] if values else None)
    if best is not None:
        facts.append(
            Fact(format_metric(run.metric, best), f"validation {label_metric(run.metric)}", str(last.get("leader", "")))
        )
    if "tried" in last:
        facts.append(Fact(str(last["tried"]), "networks tried", f"{last.get('dropped', 0)} dropped"))
    elif run.history:
        total = config_value(run.config, "search.epochs") if run.step == "epoch" else None
        facts.append(Fact(str(len(run.history)), f"{run.step}s of the search", f"of {total}" if total else ""))
    if run.trainings and not _races(run):
        done = sum(one.result is not None for one in run.trainings)
        facts.append(Fact(f"{done} of {len(run.trainings)}", "trainings finished"))
    begin = (run.folder / layout.CONFIG).stat().st_mtime
    passed = max((time.time() if state == "running" else _last_change(run.folder)) - begin, 0.0)
    facts.append(Fact(duration(passed), "so far" if state == "running" else "in all"))
    left = _seconds_left(run, passed) if state == "running" else None
    if left is not None:
        facts.append(
            Fact(duration(left), "left", "by the limit of the race" if _limit(run) else "of the search, about")
        )
    return facts


def _races(run: RunRecord) -> bool:
    """Whether a race is under way: its trainings so far are those of the leaders, and change."""
    return run.search is None and bool(run.history) and "candidate_id" in run.history[-1]


def _limit(run: RunRecord) -> float | None:
    value = config_value(run.config, "search.max_seconds")
    return float(value) if isinstance(value, int | float) and value > 0 else None


def _seconds_left(run: RunRecord, passed: float) -> float | None:
    """Seconds to the limit of a race; of a search by epochs, at the speed so far."""
    limit = _limit(run)
    if limit is not None:
        return max(limit - passed, 0.0)
    total, done = config_value(run.config, "search.epochs"), len(run.history)
    if run.search is not None or run.step != "epoch" or not done or not isinstance(total, int):
        return None
    return max(total - done, 0) * float(run.history[-1].get("seconds") or 0.0) / done


def render_state(folder: str | Path) -> dict[str, str]:
    """The state of a run, its title, and the content of the page as HTML."""
    run = read_run(folder)
    state, racers = live_state(run), list_racers(run)
    content = render_page(
        "live_state.html",
        run=run,
        state=state,
        answer=[] if state == "running" else describe_run(run),  # test results are shown at the end
        facts=list_progress(run, state),
        keys=draw_keys(run.genotype),
        cells=draw_cells(run.genotype),
        pictures=make_live_pictures(run, racers),
        racers=racers_table(racers, run.metric) if racers else None,
        trainings=trainings_table(run) if run.trainings and not _races(run) else None,
    )
    return {"state": state, "title": f"{run.dataset} · {state} · gnas", "html": content}


class LiveServer:
    """Serves the live view of one run folder on this machine alone, at an address with a random token.

    The folder is read when the page asks, and drawn again if its files have changed. Nothing is written.
    """

    def __init__(self, folder: str | Path, port: int = 0) -> None:
        self.folder, self.token = Path(folder), secrets.token_urlsafe(18)
        self.shown = ""  # the state that a page has last received
        self._content: dict[str, str] = render_state(self.folder)
        self._seen: Any = None
        self._lock = threading.Lock()
        handler = type("Handler", (_Handler,), {"live": self})
        try:
            self._server = _Server((HOST, port), handler)
        except OSError as error:
            raise InputError(
                f"port {port} cannot be used ({error.strerror}); choose another, or leave it out"
            ) from None
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)

    @property
    def address(self) -> str:
        return f"http://{HOST}:{self._server.server_address[1]}/{self.token}/"

    def state(self) -> dict[str, str]:
        """The content of the page now. A file that is being replaced does not end the view: the last content stays."""
        with self._lock:
            seen = (file_signature(self.folder), layout.run_state(self.folder), int(time.time() / 10))
            if seen != self._seen:
                try:
                    self._content, self._seen = render_state(self.folder), seen
                except (InputError, OSError) as error:
                    self._content = {**self._content, "note": str(error)}
            return self._content

    def __enter__(self) -> LiveServer:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    """A page that was closed before its answer came is no error."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    """Answers with the page or the state; any address without the token is forbidden."""

    live: LiveServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        _, token, *rest = self.path.partition("?")[0].split("/")
        if not secrets.compare_digest(token.encode(), self.live.token.encode()):
            self._send(403, "text/plain", "forbidden: the address needs the token that gnas watch printed\n")
        elif rest == ["state"]:
            content = self.live.state()
            self._send(200, "application/json", json.dumps(content))
            self.live.shown = content["state"]
        elif rest == [""]:
            self._send(200, "text/html; charset=utf-8", render_page("live.html", title=self.live.state()["title"]))
        else:
            self._send(404, "text/plain", "not found\n")

    def _send(self, code: int, kind: str, text: str) -> None:
        content = text.encode()
        self.send_response(code)
        headers = {"Content-Type": kind, "Content-Length": str(len(content)), "Cache-Control": "no-store"}
        headers |= {"Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY"}
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Requests are not printed: the token is part of them."""
