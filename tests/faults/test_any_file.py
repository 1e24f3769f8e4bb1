"""Any change of any file, and any bytes in its place: it is read, or refused in one line.

``GNAS_FUZZ=20`` tries twenty times as many examples. The datasets' own forms are fuzzed in tests/datasets/test_fuzz.py,
genotypes and formulas beside their tests; benchmarks/fuzz.py runs all of them at length.
"""

from __future__ import annotations

import json
import os
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from odd_values import JSON, NASTY_CELLS, mutate_json
from readers import READERS, SEED, files_under, readers_of, refusal, sound

from gnas.cli.settings import check_settings, with_changes
from gnas.jobs.messages import Failed, Finished, Message, Order
from gnas.jobs.perform import perform_order
from gnas.run.layout import MODEL
from gnas.run.settings import Settings, setting_names

TIMES = max(int(os.environ.get("GNAS_FUZZ", "1")), 1)
# A reader that reads few files and takes no time; the others are met by test_no_file_runs_code.
QUICK = (
    *("genotype", "authors' lines", "authors' lists", "authors' YAML", "graphnas", "settings", "checkpoint", "bundle"),
    *(
        "tables",
        "list",
        "command",
        "report",
        "training",
        "model",
        "exported model",
        "zinc",
        "prepared",
        "digits",
        "part",
        "colour batches",
        "colour sheets",
        "settings from a run",
        "strategies",
        "finished runs",
        "kept",
        "archives",
        "failed runs",
        "orders",
        "trial",
    ),
)
PAPER = ("paper/failed.json", "strategies/strategies.json", "jobs/trial/result.json")
STRUCTURED = ("run/data.json", "run/leaderboard.json", "run/result.json", "run/search/result.json", "run/versions.json")


def fuzz(examples: int) -> settings:
    return settings(
        max_examples=examples * TIMES,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    )


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sound(tmp_path_factory.mktemp("any"))


def read_with(place: Path, file: str, data: bytes, call: Any) -> None:
    """Put other bytes into a file, read it, put the old ones back."""
    before = (place / file).read_bytes()
    try:
        (place / file).write_bytes(data)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            refusal(lambda: call(place))
    finally:
        (place / file).write_bytes(before)


def changed(data: bytes, draw: Any) -> bytes:
    """A few bytes changed, put in, cut out, doubled or swapped for nasty words."""
    for _ in range(draw(st.integers(1, 3))):
        at, length = draw(st.integers(0, max(len(data) - 1, 0))), draw(st.integers(0, 12))
        new = draw(st.binary(max_size=4) | NASTY_CELLS.map(lambda t: t.encode("utf-8", "surrogatepass")))
        kind = draw(st.sampled_from(["replace", "insert", "delete", "twice", "cut"]))
        if kind == "cut":
            data = data[:at]
        elif kind == "twice":
            data = data[: at + length] + data[at:]
        else:
            data = data[:at] + (b"" if kind == "delete" else new) + data[at + (0 if kind == "insert" else length) :]
    return data


@given(st.data())
@fuzz(150)
def test_any_change_of_any_file(place: Path, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(QUICK))
    prefix, call = READERS[name]
    file = data.draw(st.sampled_from([file for file in files_under(place) if file.startswith(prefix)]))
    read_with(place, file, changed((place / file).read_bytes(), data.draw), call)


@given(st.data())
@fuzz(100)
def test_other_values_in_the_files_of_a_run(place: Path, data: st.DataObject) -> None:
    """Sound JSON and YAML with another value somewhere: the list of runs, the report, and what goes on."""
    file = data.draw(st.sampled_from([*STRUCTURED, "run/config.yaml", f"{SEED}/config.yaml", f"{SEED}/result.json"]))
    reader = data.draw(st.sampled_from(["list", "report", "run", "training"]))
    text = (place / file).read_text()
    value = mutate_json(yaml.safe_load(text) if file.endswith("yaml") else json.loads(text), data.draw)
    changed = yaml.safe_dump(value) if file.endswith("yaml") else json.dumps(value)
    read_with(place, file, changed.encode("utf-8", "surrogatepass"), READERS[reader][1])


@given(st.data())
@fuzz(60)
def test_other_values_in_the_files_of_a_reproduction(place: Path, data: st.DataObject) -> None:
    runs = [f for f in files_under(place) if f.startswith("paper/zinc") and f.endswith((".json", ".yaml"))]
    file = data.draw(st.sampled_from([*PAPER, *runs]))
    text = (place / file).read_text()
    value = mutate_json(yaml.safe_load(text) if file.endswith("yaml") else json.loads(text), data.draw)
    changed = yaml.safe_dump(value) if file.endswith("yaml") else json.dumps(value)
    reader = data.draw(st.sampled_from(list(readers_of(file))))
    read_with(place, file, changed.encode("utf-8", "surrogatepass"), READERS[reader][1])


@given(st.data())
@fuzz(60)
def test_other_values_in_the_description_of_a_model(place: Path, data: st.DataObject) -> None:
    folder, reader = data.draw(st.sampled_from([(SEED, "model"), ("exported", "exported model")]))
    value = mutate_json(json.loads((place / folder / MODEL).read_text()), data.draw)
    read_with(place, f"{folder}/{MODEL}", json.dumps(value).encode(), READERS[reader][1])


@given(st.data())
@fuzz(60)
def test_any_order(place: Path, data: st.DataObject) -> None:
    """Whatever a worker is told, it ends with a result or an error in one line; the job told here is done already."""
    line = (place / "jobs" / "orders.jsonl").read_bytes()
    order = json.dumps(mutate_json(json.loads(line), data.draw))
    sent: list[Message] = []
    try:
        refused = refusal(lambda: perform_order(Order.from_json(order), sent.append, lambda: False))
    finally:
        torch.use_deterministic_algorithms(False)  # an order may ask for it
        torch.set_num_threads(1)
    if not refused:
        last = sent[-1]
        assert isinstance(last, Finished) or (isinstance(last, Failed) and "\n" not in last.text)
    refusal(lambda: Order.from_json(changed(line, data.draw)))


NAMES = st.sampled_from(
    [*Settings().to_dict(), *setting_names(), "cells", "train_settings.clip", "search.lr", "cels", ""]
)
VALUES = NASTY_CELLS | st.sampled_from(
    ["1", "0.5", "true", "[1, 2]", "{lr: 1}", "random", "darts2", "gin", "1e999", "nan"]
)


@given(st.lists(st.tuples(NAMES, VALUES), min_size=1, max_size=4), st.booleans())
@fuzz(100)
def test_any_settings(place: Path, pairs: list[tuple[str, str]], strict: bool) -> None:
    """A settings file, the same as --set, and what would be checked before a run begins."""
    lines = "".join(f"{name}: {value}\n" for name, value in pairs)

    def resolved(_: Path) -> object:
        found = Settings.resolve(file=place / "settings.yaml")
        check_settings(found)
        return found

    read_with(place, "settings.yaml", lines.encode("utf-8", "surrogatepass"), resolved)
    refusal(lambda: check_settings(with_changes(Settings(), [f"{name}={value}" for name, value in pairs])))


@given(st.sampled_from(["settings.yaml", "genotype.yaml", "graphnas.yaml", "released.yaml"]), JSON)
@fuzz(60)
def test_any_yaml_value(place: Path, file: str, value: Any) -> None:
    call = next(call for prefix, call in READERS.values() if prefix == file)
    read_with(place, file, yaml.safe_dump(value).encode("utf-8", "surrogatepass"), call)
