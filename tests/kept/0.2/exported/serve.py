"""Predictions over HTTP, on this machine alone: python serve.py, or python serve.py 8000 for a port.

    curl 127.0.0.1:8000 -d '{"smiles": ["CCO", "c1ccccc1"]}'

It needs rdkit, numpy, torch and safetensors.
"""

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import molecules
import torch
from model import load
from torch import Tensor

NAMES = ["logP"]
MOST_BYTES = 2**24  # of a request


def read(request: dict[str, Any]) -> dict[str, Tensor]:
    """The arguments of the network."""
    return molecules.read(request["smiles"])


class Handler(BaseHTTPRequestHandler):
    """Answers a POST of JSON with JSON."""

    model = load()

    def do_POST(self) -> None:
        """Predict; a request that cannot be read is answered with its reason."""
        try:
            size = int(self.headers.get("Content-Length", 0))
            if not 0 < size <= MOST_BYTES:
                raise ValueError(f"the request has {size} bytes; between 1 and {MOST_BYTES} are read")
            given = read(json.loads(self.rfile.read(size)))
            with torch.no_grad():
                out = self.model(**given)
            self.reply(200, {"names": NAMES, "predictions": out.tolist()})
        except (ValueError, TypeError, KeyError, IndexError, RuntimeError) as error:
            self.reply(400, {"error": f"{type(error).__name__}: {error}"})

    def reply(self, code: int, content: dict[str, Any]) -> None:
        """Send JSON."""
        body = json.dumps(content).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    server = HTTPServer(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 8000), Handler)
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()
