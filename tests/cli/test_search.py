"""``gnas search``: the whole main job in one command."""

from __future__ import annotations

import json
from pathlib import Path

import yaml
from terminal import TINY, Ended, fingerprint, gnas, one_line

from gnas.cli.settings import data_options
from gnas.run.settings import Settings


def test_the_whole_job_and_what_it_prints(finished: tuple[Path, Ended]) -> None:
    folder, ended = finished
    for file in ("config.yaml", "genotype.yaml", "leaderboard.csv", "report.html", "command.json", "versions.json"):
        assert (folder / file).exists(), file
    text = " ".join(ended.out.split())
    assert "task graph regression" in text
    assert "message-passing depth" in text
    assert "cell 1" in text
    assert "test MAE" in text
    assert "gcn" in text
    assert f"report {folder / 'report.html'}" in text
    lines = ended.err.splitlines()
    assert [line.split(":")[0] for line in lines if "epochs in" in line] == ["search", "train gnas", "train gcn"]


def test_a_benchmark_by_name_with_nothing_but_sizes() -> None:
    sizes = ("--search-epochs", "1", "--epochs", "1", "--channels", "4", "--cells", "1", "--baselines", "mlp")
    ended = gnas("search", "cluster-mini", "--preset", "fast", *sizes, "--json", "--quiet")
    assert ended.code == 0, ended
    found = ended.json
    assert found["run"] == "runs/cluster-mini-single-level-seed0"
    assert {row["name"] for row in found["leaderboard"]["rows"]} == {"gnas", "mlp"}
    assert Path(found["report"]).exists()
    assert ended.err == ""
    assert sorted(path.name for path in Path.cwd().iterdir()) == ["runs"]  # nothing is written elsewhere


def test_json_is_one_object_and_quiet_says_nothing(rings: Path, finished: tuple[Path, Ended]) -> None:
    folder, _ = finished
    ended = gnas("search", rings, "--out", folder, "--resume", "--json")
    assert (ended.code, ended.json["run"], ended.json["depth"]) == (0, str(folder), ended.json["depth"])
    assert len(ended.json["formulas"]) == 2
    ended = gnas("search", rings, "--out", folder, "--resume", "--quiet")
    assert (ended.code, ended.out, ended.err) == (0, "", "")


def test_resume_needs_no_settings_and_refuses_others(rings: Path, finished: tuple[Path, Ended]) -> None:
    folder, _ = finished
    before = fingerprint(folder)
    assert gnas("search", rings, "--out", folder, "--resume").code == 0
    assert fingerprint(folder) == before
    ended = gnas("search", rings, "--out", folder, "--resume", "--channels", "5")
    assert ended.code == 2
    assert "cannot resume with another space.channels (5; the run has 4)" in ended.err
    ended = gnas("search", rings, "--out", folder, "--resume", "--preset", "paper")
    assert ended.code == 2
    assert "cannot resume with the preset 'paper'" in ended.err


def test_the_settings_kept_rerun_the_same_run(rings: Path, finished: tuple[Path, Ended]) -> None:
    folder, _ = finished
    again = Path("again")
    ended = gnas("search", rings, "--settings", folder / "config.yaml", "--out", again)
    assert ended.code == 0, ended
    assert fingerprint(again) == fingerprint(folder)
    assert (again / "config.yaml").read_text() == (folder / "config.yaml").read_text()


SHORT = ("--search-epochs", "1", "--epochs", "1")


def test_the_file_of_a_run_knows_how_its_data_was_loaded(two_targets: Path) -> None:
    data = ("--target", "20", "--data", "split=random", "--data", "seed=3", "--data", "fractions=0.6,0.2,0.2")
    ended = gnas("search", two_targets, *TINY, *SHORT, *data, "--out", "first")
    assert ended.code == 0, ended
    chosen = {"split": "random", "seed": 3, "fractions": [0.6, 0.2, 0.2], "target": ["20"]}
    wanted = {"structure": ["auto"], **chosen}  # the preset's, and what was said
    assert yaml.safe_load(Path("first/config.yaml").read_text())["settings"]["data"] == wanted
    for number, file in enumerate(("first/config.yaml", "first/command.json", "first")):
        ended = gnas("search", two_targets, "--settings", file, "--out", f"again-{number}")
        assert ended.code == 0, ended
        assert fingerprint(Path(f"again-{number}")) == fingerprint(Path("first"))
        assert Path(f"again-{number}/data.json").read_text() == Path("first/data.json").read_text()
    ended = gnas("search", two_targets, "--settings", "first", "--data", "seed=4", *SHORT, "--out", "other")
    assert ended.code == 0, ended
    assert yaml.safe_load(Path("other/config.yaml").read_text())["settings"]["data"] == {**wanted, "seed": 4}
    assert fingerprint(Path("other")) != fingerprint(Path("first"))


def test_a_run_is_not_resumed_on_other_data(two_targets: Path) -> None:
    for job in (("search",), ("depth", "--cells", "1")):
        words = (*job, two_targets, "--out", job[0], "--set", "nodes=2", "--channels", "3", "--epochs", "1")
        short = ("--strategy", "single-level", "--search-epochs", "1", "--baselines", "none")
        more = short if job == ("search",) else ()
        assert gnas(*words, *more, "--target", "10").code == 0
        assert gnas(*words, *more, "--resume").code == 0
        assert gnas(*words, *more, "--target", "10", "--resume").code == 0
        one_line(gnas(*words, *more, "--target", "20", "--resume"), 2, "cannot resume with other data options")


def test_a_depth_run_can_be_rerun_from_its_folder(rings: Path) -> None:
    sizes = ("--set", "nodes=2", "--channels", "3", "--epochs", "2", "--seed", "5")
    assert gnas("depth", rings, "--cells", "3", "--limit", "2", "--rounds", "1", *sizes, "--out", "one").code == 0
    assert gnas("depth", rings, "--settings", "one", "--out", "two").code == 0
    one, two = (json.loads(Path(f"{name}/command.json").read_text()) for name in ("one", "two"))
    for name in ("settings", "start", "limit", "rounds"):
        assert one[name] == two[name]
    assert Path("one/genotype.yaml").read_text() == Path("two/genotype.yaml").read_text()
    one_line(gnas("depth", rings, "--settings", "one/config.yaml"), 2, "one/config.yaml", "name the run folder")


def test_the_command_line_overrides_a_file() -> None:
    Path("mine.yaml").write_text(
        "preset: fast\nchannels: 4\ncells: 1\nsearch_epochs: 1\nepochs: 1\nbaselines: []\nseed: 7\n"
    )
    ended = gnas("search", "molecules-mini", "--settings", "mine.yaml", "--cells", "2", "--set", "training.clip=1.0")
    assert ended.code == 0, ended
    folder = Path("runs/molecules-mini-single-level-seed7")
    kept = yaml.safe_load((folder / "config.yaml").read_text())["settings"]
    assert (kept["space"]["channels"], kept["space"]["cells"], kept["training"]["clip"]) == (4, 2, 1.0)


def test_force_replaces_a_run_with_other_settings(rings: Path) -> None:
    small = ("--search-epochs", "1", "--epochs", "1", "--out", "run")
    assert gnas("search", rings, *TINY, *small).code == 0
    Path("run/notes.txt").write_text("mine")
    ended = gnas("search", rings, *TINY, *small, "--channels", "3", "--force")
    assert ended.code == 0, ended
    assert json.loads(Path("run/command.json").read_text())["settings"]["space"]["channels"] == 3
    assert Path("run/notes.txt").read_text() == "mine"


def test_a_search_by_trials(rings: Path) -> None:
    ended = gnas("search", rings, *TINY, "--strategy", "random", "--set", "strategy_settings.trials=2", "--epochs", "1")
    assert ended.code == 0, ended
    assert "search: 2 trials in" in ended.err
    assert Path("runs/rings-random-seed0").is_dir()


def test_options_of_own_data_reach_the_loader(rings: Path) -> None:
    ended = gnas("search", rings, *TINY, "--target", "nope")
    assert ended.code == 2
    assert "nope" in ended.err
    ended = gnas("search", rings, *TINY, "--data", "levle=graph")
    assert ended.code == 2
    assert "did you mean 'level'" in ended.err


def test_messages_about_the_data_speak_of_options() -> None:
    Path("two.csv").write_text("smiles,logP,name\nCCO,0.1,a\nCCN,0.2,b\n")
    ended = gnas("search", "two.csv")
    assert ended.code == 2
    assert "name it with the data option target; columns:" in ended.err
    texts = ["split=scaffold", "seed=3", "skip_bad=yes", "fractions=0.8,0.1,0.1", "categorical=x,y"]
    assert Settings().changed({"data": data_options(["a"], texts)}).data == {
        "split": "scaffold",
        "seed": 3,
        "skip_bad": True,
        "fractions": [0.8, 0.1, 0.1],
        "categorical": ["x", "y"],
        "target": ["a"],
    }


def test_several_searches_in_one_command(rings: Path, tmp_path: Path) -> None:
    folder = tmp_path / "several"
    few = ("--set", "strategy_settings.trial_epochs=1")
    ended = gnas("search", rings, *TINY, "--searches", "2", *few, "--out", folder)
    assert ended.code == 0, ended
    text = " ".join(ended.out.split())
    assert "had the best validation result after a brief training: MAE" in text
    lines = [line.split(" in ")[0] for line in ended.err.splitlines() if "s in " in line]
    assert lines[:3] == ["search: 12 epochs", "judge what they found: 2 trials", "train gnas: 3 epochs"]
    told = json.loads((folder / "search" / "result.json").read_text())
    assert [one["seed"] for one in told["searches"]] == [0, 1]
    assert told["genotype"] in [one["genotype"] for one in told["searches"]]
    before = fingerprint(folder)
    again = gnas("search", rings, "--out", folder, "--resume", "--json")
    assert (again.code, again.json["searches"]) == (0, told["searches"])
    assert fingerprint(folder) == before
    ended = gnas("search", rings, *TINY, "--strategy", "random", "--searches", "2", "--out", tmp_path / "no")
    one_line(ended, 2, "unknown setting of the strategy random 'searches'")
    assert not (tmp_path / "no").exists()


SEARCHES = ("--preset", "fast", "--epochs", "1", "--channels", "4", "--set", "nodes=2", "--device", "cpu")


def test_depth_settles_and_is_told(rings: Path) -> None:
    ended = gnas("depth", rings, *SEARCHES, "--cells", "2", "--out", "run")
    assert ended.code == 0, ended
    assert "round 1 (2 cells): 1 epoch in" in ended.err
    found = gnas("depth", rings, "--out", "run", "--resume", "--json").json
    assert found["trajectory"][0] == 2
    assert found["explanation"] in " ".join(ended.out.split())
    assert Path("run/report.html").exists()
