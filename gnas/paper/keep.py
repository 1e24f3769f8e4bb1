"""The small files of finished runs, copied to where they can be kept: settings, genotypes, histories, results.

Weights and checkpoints stay behind. Of the architecture parameters in the history of a search, which are most of its
size, every tenth epoch is kept and the last.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from gnas.errors import InputError, located
from gnas.files import write_atomic

FILES = (
    *("config.yaml", "command.json", "versions.json", "data.json", "genotype.yaml", "result.json", "round.json"),
    *("leaderboard.csv", "leaderboard.json", "leaderboard.md", "history.jsonl"),
    *("strategies.csv", "strategies.json", "strategies.md"),
)
EVERY = 10


def copy_run(folder: Path, target: Path, *, trained: bool = True) -> int:
    """Copy what is finished in a run folder; returns the number of files written."""
    count = 0
    for part in _finished(folder, trained):
        for name in FILES:
            file = part / name
            if not file.exists() or (name.startswith("leaderboard") and not trained):
                continue
            content = file.read_bytes()
            if name == "history.jsonl":
                with located(str(file)):
                    content = thinned(content.decode(errors="replace")).encode()
            write_atomic(target / part.relative_to(folder) / name, content)
            count += 1
    return count


def thinned(history: str) -> str:
    """A history whose records keep their alphas in every tenth epoch and the last only."""
    lines = history.splitlines()
    kept = []
    for number, line in enumerate(lines, start=1):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            record = None
        if not isinstance(record, dict):
            raise InputError(f"line {number} is not a record")
        if "alphas" in record and number % EVERY and number != len(lines):
            del record["alphas"]
            line = json.dumps(record)
        kept.append(line + "\n")
    return "".join(kept)


def _finished(folder: Path, trained: bool) -> Iterator[Path]:
    """The folder itself and its finished parts: the search, rounds, trainings."""
    yield folder
    patterns = ("search", "round-*", *(["trained/*/seed-*"] if trained else []))
    for pattern in patterns:
        for part in sorted(folder.glob(pattern)):
            if (part / "result.json").exists():
                yield part
