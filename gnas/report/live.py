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
from gnas.report.answer import describe_run
from gnas.report.html import draw_cells, draw_keys, render_page
from gnas.report.pictures import make_live_pictures
from gnas.report.progress import list_progress, list_racers, live_state, racers_table
from gnas.report.tables import trainings_table
from gnas.run import layout
from gnas.run.record import file_signature, read_run, refuse_damaged

HOST = "127.0.0.1"


@refuse_damaged
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
        trainings=trainings_table(run) if run.trainings and not run.is_racing else None,
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
