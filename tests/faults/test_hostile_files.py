"""Whatever a file holds, reading it runs no code, writes nowhere else and ends with a value or one line."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest
from hostile import CODE, MARK, PAYLOADS
from readers import EXPORT, READERS, RUN, files_under, readers_of, refusal, sound

import gnas
from gnas.data.own.load import load_own
from gnas.jobs import Job, Runner
from gnas.jobs.job import FUNCTIONS
from gnas.jobs.messages import Finished, UnknownMessage, read_message
from gnas.run.models import load_model

SLOW = ("resume", "page", "tables of the paper")  # tried with fewer files
# Of a kind that another one stands for: tried with the files of runs, which are many, only when GNAS_FUZZ is set.
VARIANTS = {
    *(
        "old pickle",
        "old torch file",
        "object array",
        "npz of objects",
        "array of petabytes",
        "paths out of the archive",
    ),
    *(
        "yaml name",
        "yaml new",
        "list of code",
        "long header",
        "header of code",
        "png of terapixels",
        "gzip bomb",
        "zip bomb",
    ),
}
RISKY = {"pickle", "cPickle", "dill", "joblib", "shelve", "marshal", "runpy", "tarfile", "imp"}
CALLS = ("exec", "eval", "compile", "__import__", "torch.load", "yaml.load", "yaml.unsafe_load", "os.system")
OPENING = ("np.load", "np.lib.format", "zipfile.ZipFile", "yaml.BaseLoader", "yaml.SafeLoader", "ast.literal_eval")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sound(tmp_path_factory.mktemp("sound"))


@pytest.fixture
def place(whole: Path, tmp_path: Path) -> Iterator[Path]:
    """A copy of the sound files; nothing may appear beside it."""
    root = tmp_path / "inner" / "most"
    shutil.copytree(whole, root)
    MARK.unlink(missing_ok=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a damaged checkpoint is passed over with a warning
        yield root
    assert not MARK.exists(), "a file ran code"
    assert [path.name for path in (tmp_path.glob("*"))] == ["inner"]
    assert [path.name for path in (tmp_path / "inner").glob("*")] == ["most"]


def test_sound_files_are_read(place: Path) -> None:
    """The files the others tests spoil are whole, but for those of datasets that are cut short."""
    short = {"prepared", "superpixels", "new data"}
    told = {name for name, (_, call) in READERS.items() if refusal(lambda call=call: call(place))}
    assert told == short


@pytest.mark.parametrize("name", PAYLOADS)
def test_no_file_runs_code(place: Path, name: str) -> None:
    tried = 0
    few = name in VARIANTS and "GNAS_FUZZ" not in os.environ
    for file in files_under(place):
        if few and file.startswith(("run/", "paper/")):
            continue
        before = (place / file).read_bytes()
        for reader, call in readers_of(file).items():
            if reader not in SLOW:
                (place / file).write_bytes(PAYLOADS[name])
                refusal(lambda call=call: call(place))
                assert not MARK.exists(), f"{reader} ran the code in {file}"
                tried += 1
        (place / file).write_bytes(before)
    assert tried > (30 if few else 150)


@pytest.mark.parametrize("name", ["pickle", "yaml object", "json of code"])
@pytest.mark.parametrize("reader", SLOW)
def test_no_run_that_goes_on_runs_code(whole: Path, place: Path, name: str, reader: str) -> None:
    for file in files_under(whole):
        if reader in readers_of(file):
            (place / file).write_bytes(PAYLOADS[name])
            refusal(lambda file=file: readers_of(file)[reader](place))
            shutil.copyfile(whole / file, place / file)
            if reader == "resume":
                shutil.rmtree(place / RUN)
                shutil.copytree(whole / RUN, place / RUN)


def test_a_worker_runs_nothing_but_jobs(tmp_path: Path) -> None:
    """A real worker is given all of them as orders, and orders to call other functions: one error each, and it lives on."""
    MARK.unlink(missing_ok=True)
    sound_order = asdict(Runner(tmp_path).write_order(Job(FUNCTIONS[0], "one")))
    others = ("os.system", "builtins.exec", "gnas.__main__.main", "gnas.jobs.worker.main", "gnas.files.os.system")
    wrong = [{"function": name, "arguments": {"command": f"touch {MARK}"}} for name in others]
    wrong += [
        {"folder": "../.."},
        {"folder": 3},
        {"also": ["/etc"]},
        {"also": [{}]},
        {"arguments": []},
        {"device": CODE},
    ]
    wrong += [
        {"arguments": {"benchmark": {"$graphs": "../../etc/passwd"}, "settings": []}},
        {"arguments": {"benchmark": {"$class": ["Popen", {"args": f"touch {MARK}"}]}}},
        {"arguments": {"benchmark": {"$class": ["os.system", {"command": f"touch {MARK}"}]}}},
        {"arguments": {"$network": {"description": {"kind": "own", "class": "os.system"}, "weights": "x"}}},
        {"threads": -1},
        {"root": str(tmp_path / "no")},
        {},
    ]
    lines = [data.replace(b"\n", b" ")[:10_000_000] for data in PAYLOADS.values()]
    lines += [json.dumps({**sound_order, **change}).encode() for change in wrong]
    errors = []
    with subprocess.Popen(
        [sys.executable, "-m", "gnas.jobs.worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as worker:
        assert worker.stdin is not None
        assert worker.stdout is not None
        for line in lines:
            worker.stdin.write(line + b"\n")
            worker.stdin.flush()
            said = {"kind": "began"}
            while said["kind"] in ("began", "beat"):  # before the answer
                said = json.loads(worker.stdout.readline())
            errors.append(said["text"])
    assert worker.returncode == 0
    assert all(error.strip() and "\n" not in error for error in errors)
    assert all("cannot call" in error for error in errors[len(PAYLOADS) :][: len(others)])
    assert not MARK.exists()
    assert not list(tmp_path.iterdir())


def test_what_is_no_message_of_a_worker_is_not_taken_for_one() -> None:
    wrong: list[object] = [[], {}, {"kind": "error"}, {"kind": "error", "text": 3}, {"kind": "epoch", "record": []}]
    wrong += [{"kind": CODE}, {"kind": "died", "text": ""}, {"kind": "result", "result": 1, "more": 2}, {"kind": []}]
    for data in [*PAYLOADS.values(), *(json.dumps(value).encode() for value in wrong)]:
        with pytest.raises(UnknownMessage, match=r"^unknown message: "):
            read_message(data)
    assert read_message(b'{"kind": "result", "result": [1]}') == Finished([1])


def test_the_code_of_an_exported_model_is_not_run(place: Path) -> None:
    (place / EXPORT / "model.py").write_text(CODE)
    load_model(place / EXPORT)


@pytest.mark.parametrize("ending", ["pt", "pth", "pkl", "pickle", "PT"])
def test_pickles_are_refused_by_name(place: Path, ending: str) -> None:
    (place / f"graphs.{ending}").write_bytes(PAYLOADS["pickle"])
    assert "pickles can run code" in refusal(lambda: load_own(place / f"graphs.{ending}"))


def _sources() -> Iterator[tuple[str, ast.Module, str]]:
    root = Path(gnas.__file__).parent
    for path in sorted(root.rglob("*.py")):
        text = path.read_text()
        yield str(path.relative_to(root)), ast.parse(text), text


def test_the_package_holds_nothing_that_runs_what_it_reads() -> None:
    """No pickle, no exec or eval of text, no loader that makes objects; imports by name are of our own modules."""
    for file, tree, _ in _sources():
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = [a.name for a in node.names] + [getattr(node, "module", None) or ""]
                assert not RISKY & {name.partition(".")[0] for name in names}, file
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                assert called not in CALLS, f"{file} calls {called}"
                allowed = [k.value for k in node.keywords if k.arg == "allow_pickle"]
                assert all(isinstance(v, ast.Constant) and v.value is False for v in allowed), file
                if called.endswith("np.load"):
                    assert allowed, f"{file}: np.load without allow_pickle=False"


def test_files_are_opened_in_few_places() -> None:
    """A new place that opens a format with more in it than text belongs among the readers of these tests."""
    found = {file for file, _, text in _sources() if any(word in text for word in OPENING)}
    assert found == {"arch/authors.py", "data/cache.py", "data/storage.py", "files.py"}
