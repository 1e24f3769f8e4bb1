"""Does every command answer a run folder, or an exported model, with any of its files changed, with a result or one line?

    python benchmarks/mutations.py [--each 2] [--minutes 30] [--seed 0]

A race with an ensemble on tiny data, its export, a comparison, a training and a depth search are copied; one file of the copy is
changed, and a command opens it. Every file meets every command ``--each`` times, each time with another change: bytes flipped,
put in, cut out or doubled, an odd value in JSON or YAML, the content of another file, nothing at all. The command must end
within a minute with a result or with one line of error. One row per folder and command is added to results/mutations.csv; what
fails is printed.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import yaml
from rows import RESULTS, append, today

sys.path.append(str(Path(__file__).parents[1] / "tests" / "helpers"))
from terminal import HUNG, Nursery, nursery
from trials import JOBS, Words, is_clear, last_line, make_place, warming

NUMBERS = ("inputs", "results", "refused", "failures")
SECONDS = 60.0  # after them a command hangs
DATA, UNTRACKED = ("--batch", "16", "--device", "cpu", "--quiet"), ("--track", "none")
SMALL = ("--preset", "fast", "--cells", "1", "--channels", "4", "--epochs", "2", "--seeds", "41", *DATA, *UNTRACKED)
# The words RUN, DATA and OUT are replaced by the copy, by the graphs, and by a place to write to.
OF_MODELS: dict[str, tuple[str, ...]] = {
    "predict": ("predict", "RUN", "DATA", "-o", "OUT", "--quiet"),
    "evaluate": ("evaluate", "RUN", "DATA", "--quiet"),
    "explain": ("explain", "RUN", "DATA", "--row", "3", "-o", "OUT.csv", "--quiet"),
    "draw": ("draw", "RUN", "-o", "OUT.svg"),
    "train --genotype": ("train", "DATA", "--genotype", "RUN", *SMALL, "--out", "OUT"),
    "compare --found": ("compare", "DATA", "--found", "RUN", "--baselines", "none", *SMALL, "--out", "OUT"),
}
OF_RUNS: dict[str, tuple[str, ...]] = {
    "runs list": ("runs", "list", "RUN", "--quiet"),
    "runs show": ("runs", "show", "RUN"),
    "runs delete": ("runs", "delete", "RUN", "--force"),
    "report": ("report", "RUN", "--force", "--quiet"),
    "report of two": ("report", "RUN", "RUN", "--out", "OUT.html", "--quiet"),
    "watch": ("watch", "RUN", "--until-finished", "--no-browser", "--quiet"),
    "resume": ("--resume",),  # with the words of the run itself
    "force": ("--force",),
}
OF_SEARCHES: dict[str, tuple[str, ...]] = {
    "draw --race": ("draw", "RUN", "--race", "-o", "OUT.svg"),
    "export": ("export", "RUN", "--out", "OUT", "--quiet"),
    "search --settings": ("search", "DATA", "--settings", "RUN", "--epochs", "1", *DATA, *UNTRACKED, "--out", "OUT"),
    "reproduce --from": ("reproduce", "--quick", "--no-run", "--only", "table-zinc", "--from", "RUN", "--out", "OUT"),
}
COMMANDS = OF_MODELS | OF_RUNS | OF_SEARCHES
KINDS = {
    "race": (*OF_MODELS, *OF_RUNS, *OF_SEARCHES),
    "export": (*OF_MODELS,),
    **dict.fromkeys(("comparison", "training", "depth search"), (*OF_RUNS,)),
}
NASTY = (
    *(b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"nan", b"1e999", b"-1", b"[]", b"{}", b"null", b"true", b'"', b"\n"),
    *(b"!!python/object:os.system", b"*a", b"../../../etc/passwd", b"\x1b[2J", b"9" * 400, b"[" * 2000),
)
ODD: tuple[Any, ...] = (
    None,
    -1,
    0,
    10**30,
    float("inf"),
    True,
    "",
    "x",
    "\x1b[2J",
    [],
    {},
    [[1]],
    {"a": None},
    "../..",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--each", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--commands", nargs="*", default=list(COMMANDS), choices=list(COMMANDS))
    parser.add_argument("--kinds", nargs="*", default=list(KINDS), choices=list(KINDS))
    options = parser.parse_args()
    rng, end = random.Random(options.seed), time.monotonic() + 60 * options.minutes
    counts = {
        (kind, name): Counter[str]() for kind in options.kinds for name in KINDS[kind] if name in options.commands
    }
    with (
        tempfile.TemporaryDirectory() as name,
        nursery(Path(name) / "log", warm=warming(Path(name) / "warm")) as starter,
    ):
        place = make_place(Path(name) / "place", starter)
        sound = make_sound(place, starter)
        files = {kind: sorted(file for file in folder.rglob("*") if file.is_file()) for kind, folder in sound.items()}
        todo = [(*pair, file) for pair in counts for file in files[pair[0]]]
        for kind, command, file in [one for _ in range(options.each) for one in rng.sample(todo, len(todo))]:
            if time.monotonic() > end:
                break
            try_one(place, starter, kind, sound[kind], file, command, rng, counts[kind, command])
    rows = [
        {**today(), "folder": kind, "files": len(files[kind]), "command": command}
        | {name: count[name] for name in NUMBERS}
        for (kind, command), count in counts.items()
    ]
    append(RESULTS / "mutations.csv", list(rows[0]), rows)
    print({name: sum(count[name] for count in counts.values()) for name in NUMBERS})


def make_sound(place: Path, starter: Nursery) -> dict[str, Path]:
    """A finished folder of each kind."""
    sound = {kind: place / f"sound-{kind.replace(' ', '-')}" for kind in KINDS}
    for kind, folder in sound.items():
        if kind == "export":
            words: Words = ["export", sound["race"], "--out", folder, "--quiet"]
        else:
            words = words_of(kind, place, folder.name)
        starter.start(*words, pictures=False)
        assert starter.wait() == 0, starter.said()
    return sound


def words_of(kind: str, place: Path, name: str) -> Words:
    return [*JOBS[kind].words(place, name), *(["--ensemble", "2"] if kind == "race" else [])]


def try_one(
    place: Path,
    starter: Nursery,
    kind: str,
    sound: Path,
    whole: Path,
    command: str,
    rng: random.Random,
    count: Counter[str],
) -> None:
    """Change one file of a copy, and let a command open it."""
    copy, out, file = place / "copy", place / "written", str(whole.relative_to(sound))
    shutil.copytree(sound, copy)
    others = [one for one in sorted(sound.rglob("*")) if one.is_file()]
    data = change(whole.read_bytes(), file, rng.choice(others).read_bytes(), rng)
    (copy / file).write_bytes(data)
    names = {"RUN": str(copy), "DATA": str(place / "rings")}
    words: Words = [names.get(word, word.replace("OUT", str(out), 1)) for word in COMMANDS[command]]
    if command in ("resume", "force"):
        words = [*words_of(kind, place, copy.name), *words]
    starter.start(*words, small=True, pictures=False)
    code = starter.wait(seconds=SECONDS)
    said = starter.said()
    count["inputs"] += 1
    if code == 0 and "Traceback" not in said:
        count["results"] += 1
    elif code in (1, 2) and is_clear(said):
        count["refused"] += 1
    else:
        count["failures"] += 1
        what = "hangs" if code == HUNG else f"exit code {code}: {last_line(said)}"
        print(f"{command}, {kind}, {file}: {what}\n{data[:2000]!r}\n{said[-1500:]}", flush=True)
    for path in place.glob("written*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    shutil.rmtree(copy, ignore_errors=True)


def change(data: bytes, file: str, other: bytes, rng: random.Random) -> bytes:
    """Another content for a file."""
    kind = rng.choice(("bytes", "bytes", "value", "value", "value", "cut", "other", "empty"))
    if kind == "value" and file.endswith((".json", ".yaml", ".jsonl")):
        try:
            return change_value(data.decode(), file, rng)
        except (ValueError, yaml.YAMLError):
            pass
    if kind in ("other", "empty"):
        return other if kind == "other" else b""
    if kind == "cut":
        return data[: rng.randrange(len(data) + 1)]
    for _ in range(rng.randint(1, 3)):
        at, length = rng.randrange(len(data) + 1), rng.randint(0, 12)
        new = rng.choice((rng.choice(NASTY), rng.randbytes(3), data[at : at + length] * 2, b""))
        data = data[:at] + new + data[at + length :]
    return data


def change_value(text: str, file: str, rng: random.Random) -> bytes:
    """An odd value somewhere in JSON or YAML."""
    if file.endswith(".jsonl"):
        lines = text.splitlines()
        at = rng.randrange(len(lines))
        lines[at] = json.dumps(with_odd_value(json.loads(lines[at]), rng))
        return "\n".join(lines).encode() + b"\n"
    if file.endswith(".yaml"):
        return yaml.safe_dump(with_odd_value(yaml.safe_load(text), rng)).encode()
    return json.dumps(with_odd_value(json.loads(text), rng)).encode()


def with_odd_value(value: Any, rng: random.Random) -> Any:
    if not isinstance(value, dict | list) or not value or rng.random() < 0.1:
        return rng.choice(ODD)
    if isinstance(value, list):
        at = rng.randrange(len(value))
        return [*value[:at], *([] if rng.random() < 0.2 else [with_odd_value(value[at], rng)]), *value[at + 1 :]]
    key = rng.choice(list(value))
    if rng.random() < 0.2:
        return {name: one for name, one in value.items() if name != key}
    return {**value, key: with_odd_value(value[key], rng)}


if __name__ == "__main__":
    main()
