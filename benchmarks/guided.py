"""Does every reader answer every input with a value or one line of error? Inputs are found by coverage.

    pip install -e ".[fuzz]"
    python benchmarks/guided.py [--minutes 10] [--readers csv ...] [--inputs 1000000]

Atheris (libFuzzer for Python) mutates the inputs of a corpus, and keeps what reaches new lines of the package. Every reader is a
process of its own, and gets its share of the time. What reached new lines is kept in tests/kept/corpus, one archive per reader;
later runs begin with it, and a test reads all of it. One row per reader and run is added to results/guided.csv.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
CORPUS = ROOT / "tests" / "kept" / "corpus"
HELPERS = ROOT / "tests" / "helpers"
COLUMNS = ("date", "machine", "reader", "inputs", "failures", "kept", "seconds")
READERS = ("csv", "smiles", "tu", "npz", "yaml", "text", "formula", "settings", "checkpoint", "packed", "order")
MOST_BYTES = 16_384  # of an input
KEPT = 200  # inputs of a corpus, the smallest first
DICTIONARY = (
    *(
        "graph_id",
        "node_id",
        "source",
        "target",
        "split",
        "smiles",
        "train",
        "val",
        "test",
        "nan",
        "inf",
        "1e309",
        "pos_x",
    ),
    *(
        "\\x00",
        "\\xff\\xfe",
        "\\xef\\xbb\\xbf",
        "formulas",
        "nodes",
        "sum",
        "gnas-bundle",
        "!!python/object",
        "&a",
        "*a",
    ),
)
sys.path.append(str(HELPERS))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--inputs", type=int, default=10**6, help="at most so many in all")
    parser.add_argument("--readers", nargs="*", default=READERS, choices=READERS)
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)  # a reader, and the file for its counts
    options, rest = parser.parse_known_args()
    if options.child:
        fuzz(options.child[0], Path(options.child[1]), rest)
        return
    from corpora import seeds
    from rows import RESULTS, append, read, today

    for reader in options.readers:
        with tempfile.TemporaryDirectory() as name:
            corpus, counts = Path(name) / "corpus", Path(name) / "counts.json"
            corpus.mkdir()
            for number, data in enumerate([*seeds(reader), *kept(reader)]):
                (corpus / f"seed-{number}").write_bytes(data)
            words = Path(name) / "words"
            words.write_text("".join(f'"{word}"\n' for word in DICTIONARY))
            limits = [f"-max_total_time={round(60 * options.minutes / len(options.readers))}", f"-max_len={MOST_BYTES}"]
            limits += [
                f"-runs={options.inputs // len(options.readers)}",
                f"-dict={words}",
                "-timeout=60",
                "-verbosity=0",
            ]
            started = time.monotonic()
            run(reader, counts, str(corpus), *limits)
            said = json.loads(counts.read_text())
            inputs = sorted({file.read_bytes() for file in corpus.iterdir()}, key=lambda data: (len(data), data))[:KEPT]
            keep(reader, inputs)
            row = (
                *today().values(),
                reader,
                said["inputs"],
                said["failures"],
                len(inputs),
                round(time.monotonic() - started),
            )
            print(dict(zip(COLUMNS, row, strict=True)), flush=True)
            append(RESULTS / "guided.csv", COLUMNS, [dict(zip(COLUMNS, row, strict=True))])
    every = [row for name in ("fuzz.csv", "guided.csv") for row in read(RESULTS / name)]
    print(f"{sum(int(row['inputs']) for row in every):,} inputs in the kept files of fuzz.py and guided.py")


def run(reader: str, counts: Path, *words: str) -> None:
    command = [sys.executable, __file__, "--child", reader, str(counts), *words]
    subprocess.run(command, check=True, cwd=counts.parent, env={**os.environ, "OMP_NUM_THREADS": "1"})


def fuzz(reader: str, counts: Path, words: list[str]) -> None:
    """Call the reader with what Atheris makes; a failure is printed, counted, and not the end."""
    import atheris

    with atheris.instrument_imports(include=["gnas"]):
        from corpora import FORMS, import_all, refusal

        import_all()
    warnings.simplefilter("ignore")
    said = {"inputs": 0, "failures": 0}
    seen = set[str]()
    place = Path(tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None))

    def one(data: bytes) -> None:
        said["inputs"] += 1
        failure = refusal(FORMS[reader], data, place)
        if failure:
            said["failures"] += 1
            if failure.splitlines()[-1] not in seen:
                seen.add(failure.splitlines()[-1])
                print(f"{reader}: {data!r}\n{failure}", file=sys.stderr, flush=True)
        if said["inputs"] % 100 == 0 or failure:
            counts.write_text(json.dumps(said))

    counts.write_text(json.dumps(said))
    atheris.Setup([sys.argv[0], *words], one)
    atheris.Fuzz()


def kept(reader: str) -> Iterator[bytes]:
    """The inputs of earlier runs."""
    file = CORPUS / f"{reader}.zip"
    if file.exists():
        with zipfile.ZipFile(file) as archive:
            yield from (archive.read(name) for name in archive.namelist())


def keep(reader: str, inputs: list[Any]) -> None:
    """The same inputs give the same file."""
    CORPUS.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(CORPUS / f"{reader}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for number, data in enumerate(inputs):
            archive.writestr(zipfile.ZipInfo(f"{number:03}"), data, zipfile.ZIP_DEFLATED)


if __name__ == "__main__":
    main()
