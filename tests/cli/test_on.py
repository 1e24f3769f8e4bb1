"""``--on`` and ``--sync``: the same run on workers, stopped by Ctrl-C and gone on with, and kept at a URL."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from terminal import TINY, Ended, fingerprint, gnas, one_line, stopped_by_ctrl_c

LONG = ("--search-epochs", "25", "--seeds", "1,2")


def test_workers_give_the_same_run_also_after_ctrl_c(rings: Path) -> None:
    words = ["search", str(rings), *TINY, *LONG, "--on", "local:2", "--out", "stopped"]
    said = stopped_by_ctrl_c(words, Path("stopped/search/history.jsonl"))
    assert said.strip().splitlines()[-1].endswith("--on local:2 --out stopped --resume"), said
    ended = gnas(*words, "--resume")
    assert ended.code == 0, ended
    began = [json.loads(line) for line in Path("stopped/jobs/log.jsonl").read_text().splitlines()]
    assert [e["job"] for e in began if e["event"] == "began"].count("search") == 2  # begun, and gone on with
    assert len({e["job"] for e in began if e["event"] == "result"}) == 5
    assert gnas("search", rings, *TINY, *LONG, "--out", "whole").code == 0
    assert fingerprint(Path("stopped")) == fingerprint(Path("whole"))


def test_a_run_at_a_url_goes_on_elsewhere(rings: Path, finished: tuple[Path, Ended]) -> None:
    url = f"file://{Path.cwd()}/shared"
    words = ["search", rings, *TINY, "--sync", url, "--out", "here"]
    ended = gnas(*words)
    assert ended.code == 0, ended
    for name in ("here", "shared"):
        assert fingerprint(Path(name)) == fingerprint(finished[0])
    assert Path("shared/report.html").exists()
    shutil.rmtree("here")  # another machine
    one_line(gnas(*words), 2, "already holds a run", "--resume")
    assert not Path("here").exists()
    ended = gnas(*words, "--resume")
    assert ended.code == 0, ended
    assert fingerprint(Path("here")) == fingerprint(finished[0])
    assert "search: " not in ended.err  # it was finished


@pytest.mark.parametrize("command", ["search", "train", "depth", "compare"])
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--on", "spark"), ("'spark'", "local:N", "ray")),
        (("--on", "local:0"), ("'local:0'", "local:4")),
        (("--gpus-per-job", "0.5"), ("--on local:N",)),
        (("--on", "local:2", "--gpus-per-job", "1.5"), ("1.5", "0.25")),
        (("--on", "local:2", "--gpus-per-job", "1", "--device", "cpu"), ("--device cpu",)),
        (("--sync", "somewhere"), ("'somewhere'", "s3://")),
    ],
)
def test_wrong_use_is_one_line(command: str, words: tuple[str, ...], said: tuple[str, ...]) -> None:
    network = ("--baseline", "gcn") if command == "train" else ()
    one_line(gnas(command, "cluster-mini", *network, *words), 2, *said)
    assert not list(Path.cwd().iterdir())


def test_reproduce_knows_the_places_too() -> None:
    one_line(gnas("reproduce", "--quick", "--on", "spark"), 2, "'spark'", "local:N", "ray")
    one_line(gnas("reproduce", "--quick", "--sync", "somewhere"), 2, "'somewhere'", "s3://")


@pytest.mark.filterwarnings("ignore:epoch")
def test_a_reproduction_at_a_url_goes_on_elsewhere() -> None:
    words = ["reproduce", "--quick", "--only", "table-zinc", "--depths", "4", "--seeds", "41", "--set", "epochs=1"]
    words += ["--device", "cpu", "--sync", f"file://{Path.cwd()}/shared", "--json"]
    first = gnas(*words, "--methods", "gin", "--out", "here")
    assert (first.code, len(first.json["done"]), first.json["left"]) == (0, 1, []), first
    assert Path("shared/index.md").read_text() == Path("here/index.md").read_text()
    shutil.rmtree("here")  # another machine, with workers of its own
    plan = gnas(*words, "--methods", "gin,gcn", "--out", "there", "--list").json
    assert (plan["done"], plan["left"]) == (1, 1)
    second = gnas(*words, "--methods", "gin,gcn", "--out", "there", "--on", "local:1")
    assert (second.code, len(second.json["done"]), second.json["left"]) == (0, 1, []), second
    rows = {row["model"]: row for row in second.json["tables"]["table-zinc"]}
    assert rows["gin"] == first.json["tables"]["table-zinc"][0]
    for name in ("gin", "gcn"):
        (file,) = Path("there").rglob(f"trained/{name}/seed-41/result.json")
        assert (Path("shared") / file.relative_to("there")).read_bytes() == file.read_bytes()
        assert rows[name]["ours_metric"] == json.loads(file.read_text())["test"]
