"""Every kind of file has a version: files of a newer gnas are refused with the version that reads them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch
from folders import made_up_job
from terminal import TINY, gnas, leave_out_plots, one_line, write_graphs

import gnas as package
from gnas.data.storage import load_benchmark, save_benchmark
from gnas.errors import InputError
from gnas.files import (
    FORMATS,
    NewerFormat,
    add_format,
    check_format,
    dump_config,
    own_version,
    parse_yaml,
    read_json,
    write_json,
)
from gnas.run import checkpoint
from gnas.run.folder import Run
from gnas.run.record import read_run_json
from gnas.tensors import write_tensors

NEWER = "99.1.0"


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("searched")
    with pytest.MonkeyPatch.context() as patch:
        leave_out_plots(patch)
        ended = gnas("search", write_graphs(folder / "rings"), *TINY, "--out", folder / "run")
    assert ended.code == 0, ended
    assert gnas("export", folder / "run", "--out", folder / "exported").code == 0
    return folder


def test_every_file_of_a_run_and_of_an_export_names_its_version(searched: Path) -> None:
    without = []
    for file in searched.rglob("*"):
        if file.suffix == ".json":
            values = json.loads(file.read_text())
        elif file.suffix == ".yaml":
            values = parse_yaml(file.read_text(), file.name, typed=True)
        elif file.suffix == ".safetensors":
            header = file.read_bytes()
            values = json.loads(header[8 : 8 + int.from_bytes(header[:8], "little")])["__metadata__"]
        else:
            continue
        assert isinstance(values, dict)
        known = re.fullmatch(r"gnas-[a-z]+(-\d+)?", str(values.get("format")))
        if not known or ("version" not in values and not known[1]):
            without.append(str(file.relative_to(searched)))
    assert without == ["exported/weights.safetensors"]  # plain tensors for torch; model.json beside it has the version
    assert read_json(searched / "run" / "result.json").keys().isdisjoint({"format", "written_by"})


def test_a_form_is_added_once_and_taken_off() -> None:
    written = add_format("result", {"test": 1.0})
    assert written == {"format": "gnas-result-1", "written_by": own_version(), "test": 1.0}
    assert add_format("result", written) == written
    assert check_format(written, "here") == {"test": 1.0}
    assert add_format("notes", {"a": 1}) == {"a": 1}
    assert add_format("result", [1]) == [1]
    assert check_format({"format": "png", "written_by": 1}, "here") == {
        "format": "png",
        "written_by": 1,
    }  # a value of its own
    packages = {"gnas": "0.1", "torch": "2"}
    assert check_format(add_format("versions", packages), "here") == packages


@pytest.mark.parametrize("kind", FORMATS)
def test_newer_files_are_refused_with_the_version_that_reads_them(tmp_path: Path, kind: str) -> None:
    file = tmp_path / f"{kind}.json"
    file.write_text(json.dumps({"format": f"gnas-{kind}-{FORMATS[kind] + 1}", "written_by": NEWER, "a": 1}))
    with pytest.raises(
        NewerFormat, match=rf"{kind}.json: gnas {NEWER} wrote it, as version 2 .*pip install gnas>={NEWER}"
    ):
        read_json(file)
    file.write_text(json.dumps({"format": f"gnas-{kind}-7", "written_by": {"odd": "\x1b"}}))
    with pytest.raises(
        NewerFormat, match=r"a later version of gnas wrote it, as version 7 .*pip install --upgrade gnas"
    ):
        read_json(file)


@pytest.mark.parametrize("name", ["config.yaml", "command.json", "result.json", "leaderboard.json", "data.json"])
def test_commands_refuse_a_run_of_a_newer_version(tmp_path: Path, name: str) -> None:
    run = made_up_job(tmp_path / "run")
    kind = "run" if name == "config.yaml" else name.removesuffix(".json")
    file = run / name
    values = parse_yaml(file.read_text(), name, typed=True) if file.exists() else {}
    newer = {"format": f"gnas-{kind}-2", "written_by": NEWER, **dict(values)}  # type: ignore[call-overload]
    file.write_text(dump_config(newer) if name == "config.yaml" else json.dumps(newer))
    before = file.read_bytes()
    resumed = ("search", "cluster-mini", "--out", run, "--resume")
    for words in [resumed] if name == "command.json" else [("runs", "show", run), ("report", run, "--force")]:
        one_line(gnas(*words), 2, name, f"gnas {NEWER} wrote it", f"gnas>={NEWER}")
    assert file.read_bytes() == before
    assert gnas("runs", "list", tmp_path).code == 0


def test_newer_genotypes_checkpoints_and_graphs_are_refused(tmp_path: Path, searched: Path) -> None:
    text = (searched / "run" / "genotype.yaml").read_text()
    (tmp_path / "genotype.yaml").write_text(re.sub(r"version: \d+", f"version: 9\nwritten_by: {NEWER}", text, count=1))
    with pytest.raises(InputError, match=rf"gnas {NEWER} wrote it, as version 9 of genotype files.*gnas>={NEWER}"):
        package.load_genotype(tmp_path / "genotype.yaml")
    write_tensors(tmp_path / "a.safetensors", "gnas-checkpoint-2", "{}", {"0": torch.zeros(1)})
    with pytest.raises(InputError, match=r"wrote it, as version 2 of checkpoint files; this gnas .* reads up to 1"):
        checkpoint.load(tmp_path / "a.safetensors")
    write_tensors(tmp_path / "b.safetensors", "gnas-benchmark-3", "{}", {"0": torch.zeros(1)})
    with pytest.raises(InputError, match="wrote it, as version 3 of benchmark files"):
        load_benchmark(tmp_path / "b.safetensors")
    save_benchmark(package.load("digits"), tmp_path / "c.safetensors")
    with pytest.raises(InputError, match="not a gnas checkpoint"):
        checkpoint.load(tmp_path / "c.safetensors")


def test_files_without_a_form_are_those_of_the_first_version(tmp_path: Path) -> None:
    with Run(tmp_path, {"job": "search"}) as run:
        (tmp_path / "result.json").write_text('{"test": 1.0}')
        assert run.read_json("result") == {"test": 1.0}
        write_json(tmp_path / "result.json", {"test": 2.0})
        assert read_run_json(tmp_path, "result") == {"test": 2.0}
    (tmp_path / "config.yaml").write_text("job: search\n")
    with Run(tmp_path, {"job": "search"}, resume=True) as run:
        assert run.config == {"job": "search"}
