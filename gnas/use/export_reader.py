"""The files of an exported folder that read new data: ``molecules.py`` reads SMILES, ``serve.py`` answers over HTTP.

``atoms.py`` of the folder is the text of ``gnas.data.atoms``, so that molecules are read in the same way.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence

from gnas.data import atoms
from gnas.data.encoding import Encoding, is_descriptor
from gnas.model.export_code import list_lines, quote_text
from gnas.model.task import Task
from gnas.training.prediction import list_output_names

OWN_IMPORTS = {
    "\nfrom gnas.data.encoding import Array\nfrom gnas.data.smiles import import_rdkit\n": "from rdkit import Chem\n",
    "import_rdkit()": "Chem",
    ": Array": ": np.ndarray",
    "-> Array": "-> np.ndarray",
    "str, Array]": "str, np.ndarray]",
}

MOLECULES = '''\
"""SMILES as this network reads them. It needs rdkit, numpy and torch.

To use it::

    from model import load
    from molecules import read

    out = load()(**read(["CCO", "c1ccccc1"]))
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from atoms import AtomTable, featurise_smiles<IMPORTS>
from torch import Tensor

ENCODING = json.loads((Path(__file__).parent / "model.json").read_text(encoding="utf-8"))["encoding"]
READS = <READS>


def read(smiles: Sequence[str]) -> dict[str, Tensor]:
    """The arguments of the network for some molecules."""
    table = featurise_smiles(list(smiles))
    for text, count in zip(smiles, table.node_counts, strict=True):
        if not count:
            raise ValueError(f"the SMILES {text!r} does not parse")
    return {name: torch.from_numpy(part) for name, part in _arrays(table, smiles).items() if name in READS}


def _arrays(table: AtomTable, smiles: Sequence[str]) -> dict[str, np.ndarray]:
    first = table.node_counts.cumsum() - table.node_counts
    return {
        "x": _columns(ENCODING["nodes"], table.node_columns()),
        "edge_index": table.edge_index + np.repeat(first, table.edge_counts),
        "edge_attr": _columns(ENCODING["edges"], table.edge_columns()),
        "batch": np.repeat(np.arange(len(smiles)), table.node_counts),<FEATURES>
    }


def _columns(columns: Sequence[dict[str, Any]], table: dict[str, np.ndarray]) -> np.ndarray:
    """Categories as numbers, or one-hot beside columns of numbers."""
    parts = [_read(column, table[column["name"]]) for column in columns]
    if all(column["size"] for column in columns):
        return np.stack(parts, axis=1) if parts else np.zeros((0, 0), np.int64)
    blocks = [_one_hot(column, part) if column["size"] else part[:, None] for column, part in zip(columns, parts)]
    return np.concatenate(blocks, axis=1).astype(np.float32)


def _read(column: dict[str, Any], values: np.ndarray) -> np.ndarray:
    """Numbers of categories, or standardised values."""
    if not column["size"]:
        return (values.astype(np.float64) - column["center"]) / column["scale"]
    seen = column["values"] or range(column["size"] - column["other"])
    places = {value: place if column["kind"] == "vocabulary" else value for place, value in enumerate(seen)}
    raw = [value.decode() if isinstance(value, bytes) else value for value in values.tolist()]
    unknown = sorted({str(value) for value in raw if value not in places})
    if unknown and not column["other"]:
        raise ValueError(f"{column['name']} {', '.join(unknown)}: not in the data that the network was trained on")
    return np.array([places.get(value, column["size"] - 1) for value in raw], np.int64)


def _one_hot(column: dict[str, Any], codes: np.ndarray) -> np.ndarray:
    """One column per category; zeros for a value that the training data does not have."""
    hot = np.eye(column["size"], dtype=np.float32)
    if column["other"]:
        hot[-1] = 0
    return hot[codes]
'''

FEATURES = '''

def _features(smiles: Sequence[str]) -> np.ndarray:
    """Descriptors of whole molecules, standardised as in training; one that rdkit cannot compute is the mean."""
    functions = dict(Descriptors.descList)
    rows = np.zeros((len(smiles), len(ENCODING["graphs"])), np.float32)
    for row, text in zip(rows, smiles, strict=True):
        molecule = parse_canonical(text)[0]
        for place, feature in enumerate(ENCODING["graphs"]):
            found = _call(functions[feature["name"].removeprefix("rdkit:")], molecule)
            value = (found - feature["center"]) / feature["scale"]
            row[place] = np.clip(value, -10, 10) if np.isfinite(value) else 0
    return rows


def _call(function: Callable[[Any], float], molecule: Any) -> float:
    try:
        return float(function(molecule))
    except (ValueError, RuntimeError, ZeroDivisionError, OverflowError):
        return float("nan")
'''

SERVE = '''\
"""Predictions over HTTP, on this machine alone: python serve.py, or python serve.py 8000 for a port.

<HOW>
"""

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import torch
from model import load
from torch import Tensor

<NAMES>
MOST_BYTES = 2**24  # of a request


def read(request: dict[str, Any]) -> dict[str, Tensor]:
    """The arguments of the network."""
<READ>

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
            self.reply(200, {"names": NAMES, "predictions": <VALUES>.tolist()})
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
'''

READ_SMILES = """    return molecules.read(request["smiles"])
"""

READ_GRAPHS = """    parts: dict[str, list[Tensor]] = {name: [] for name in READS}
    first = 0
    for number, graph in enumerate(request["graphs"]):
        count = len(graph["x"])
        for name, place in parts.items():
            if name == "batch":
                place.append(torch.full((count,), number))
            elif name.endswith("index"):
                ends = torch.tensor(graph[name], dtype=torch.long).reshape(2, -1)
                if ends.numel() and not 0 <= int(ends.min()) <= int(ends.max()) < count:
                    raise ValueError(f"graph {number}: {name} must hold numbers of nodes, 0 to {count - 1}")
                place.append(ends + first)
            else:
                place.append(torch.tensor(graph[name]))
        first += count
    return {name: torch.cat(part, dim=1 if name.endswith("index") else 0) for name, part in parts.items()}
"""

HOW = {
    True: (
        """    curl 127.0.0.1:8000 -d '{"smiles": ["CCO", "c1ccccc1"]}'""",
        "It needs rdkit, numpy, torch and safetensors.",
    ),
    False: (
        """    curl 127.0.0.1:8000 -d '{"graphs": [{"x": [[0], [0]], "edge_index": [[0, 1], [1, 0]]}]}'""",
        "A graph has <INPUTS>, as lists of rows. It needs torch and safetensors.",
    ),
}


def write_reader(task: Task, encoding: Encoding | None, names: Sequence[str], card: str) -> dict[str, str]:
    """Files that read new data and a longer card; ``names`` are the network's arguments after x and edge_index."""
    reads = ["x", "edge_index", *names]
    molecules = encoding is not None and _reads_smiles(encoding)
    files = {"serve.py": _serve_source(task, encoding, reads, molecules)}
    if molecules and encoding is not None:
        files |= {"atoms.py": _atoms_source(), "molecules.py": _molecules_source(encoding, reads)}
    return {**files, "README.md": f"{card}\n{_describe(reads, molecules)}"}


def _reads_smiles(encoding: Encoding) -> bool:
    """Whether atoms are read as named columns and nothing but the SMILES is needed."""
    columns = {column.name for column in encoding.nodes} <= set(atoms.ATOM_COLUMNS)
    return encoding.source == "smiles" and columns and all(is_descriptor(one.name) for one in encoding.graphs)


def _atoms_source() -> str:
    """The text of ``gnas.data.atoms`` with rdkit's own import."""
    source = inspect.getsource(atoms)
    for own, plain in OWN_IMPORTS.items():
        source = source.replace(own, plain)
    return source


def _molecules_source(encoding: Encoding, reads: Sequence[str]) -> str:
    described = bool(encoding.graphs) and "graph_attr" in reads
    source = _fill(
        MOLECULES,
        READS=f"({', '.join(map(quote_text, reads))})",
        IMPORTS=", parse_canonical\nfrom rdkit.Chem import Descriptors" if described else "",
        FEATURES='\n        "graph_attr": _features(smiles),' if described else "",
    )
    if described:
        source = source.replace("import Sequence", "import Callable, Sequence") + FEATURES
    return source


def _serve_source(task: Task, encoding: Encoding | None, reads: Sequence[str], molecules: bool) -> str:
    values = {"regression": "out", "classification": "out.softmax(-1)"}.get(task.kind, "out.sigmoid()")
    how, needs = HOW[molecules]
    source = _fill(
        SERVE,
        HOW=f"{how}\n\n{needs}".replace("<INPUTS>", ", ".join(name for name in reads if name != "batch")),
        NAMES="\n".join(list_lines("NAMES = [", map(quote_text, list_output_names(task, encoding)), "]")),
        READ=READ_SMILES if molecules else READ_GRAPHS,
        VALUES=values,
    )
    if molecules:
        return source.replace("import torch\nfrom model", "import molecules\nimport torch\nfrom model")
    return source.replace("\nMOST_BYTES", f"\nREADS = ({', '.join(map(quote_text, reads))})\nMOST_BYTES")


def _fill(source: str, **texts: str) -> str:
    for name, text in texts.items():
        source = source.replace(f"<{name}>", text)
    return source


def _describe(reads: Sequence[str], molecules: bool) -> str:
    """A section of the card."""
    how = HOW[molecules][0].strip()
    lines = ["## New data", ""]
    if molecules:
        lines += ["`molecules.py` reads SMILES, where rdkit is installed:", "", "```python", "from model import load"]
        lines += ["from molecules import read", "", 'out = load()(**read(["CCO", "c1ccccc1"]))', "```", ""]
    named = ", ".join(f"`{name}`" for name in reads if name != "batch")
    lines += ["`serve.py` answers JSON over HTTP on 127.0.0.1:", "", "```sh", "python serve.py 8000 &", how, "```", ""]
    return "\n".join([*lines, *([] if molecules else [f"A graph has {named}, as lists of rows.", ""])])
