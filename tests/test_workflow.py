"""The main job: every part in its folder, none repeated, the same result whenever it was stopped."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from small import benchmark, stop_after
from tiny import untimed

from gnas import workflow
from gnas.compare import networks as comparison
from gnas.data.graph_encodings import with_encodings
from gnas.errors import InputError, Interrupted
from gnas.model import baselines
from gnas.model.network import Network
from gnas.run.folder import Run
from gnas.run.leaderboard import Leaderboard
from gnas.run.models import load_model
from gnas.run.settings import Settings, config_settings
from gnas.workflow import Discovery, discover

BENCH = benchmark()
SETTINGS = Settings.resolve(
    nodes=2, cells=1, channels=8, search_epochs=2, search_batch=3, epochs=2, batch=6, seeds=(1, 2), baselines=("gcn",)
)
pytestmark = pytest.mark.filterwarnings("ignore:epoch .*collapse")


def told(one: Discovery) -> tuple:
    """What must not depend on when a job was stopped."""
    rows = [replace(row, seconds=0, seconds_per_epoch=0) for row in one.leaderboard.rows]
    return one.genotype, untimed(one.search.history), rows


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> tuple[Discovery, list[dict]]:
    heard: list[dict] = []
    folder = tmp_path_factory.mktemp("whole") / "run"
    return discover(BENCH, SETTINGS, folder, on_epoch=heard.append), heard


@pytest.fixture
def work(monkeypatch) -> list[str]:
    """Every search and training that begins."""
    done: list[str] = []
    search, train = workflow.search, comparison.train_seeds
    monkeypatch.setattr(workflow, "search", lambda *a, **how: (done.append("search"), search(*a, **how))[1])
    monkeypatch.setattr(comparison, "train_seeds", lambda *a, **how: (done.append("train"), train(*a, **how))[1])
    return done


def test_what_a_job_leaves(whole: tuple[Discovery, list[dict]]) -> None:
    found, heard = whole
    folder = found.folder
    names = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    wanted = {f"{name}.json" for name in ("data", "versions", "result", "leaderboard")}
    wanted |= {"config.yaml", "genotype.yaml", "leaderboard.csv", "leaderboard.md", "search/history.jsonl", "split.csv"}
    wanted |= {"search/genotype.yaml", "search/result.json", "search/config.yaml"}
    each = ("config.yaml", "history.jsonl", "model.json", "result.json", "weights.safetensors", "predictions.csv")
    wanted |= {f"trained/{net}/seed-{seed}/{name}" for net in ("gnas", "gcn") for seed in (1, 2) for name in each}
    assert wanted <= names
    assert {name for name in names - wanted if "checkpoints/" not in name and not name.endswith(".lock")} == set()
    stages = [(record["stage"], record.get("model"), record.get("seed")) for record in heard]
    trained = [("train", net, seed) for net in ("gnas", "gcn") for seed in (1, 1, 2, 2)]
    assert stages == [("search", None, None)] * 2 + trained


def test_what_is_in_the_files(whole: tuple[Discovery, list[dict]]) -> None:
    found, _ = whole
    run = Run(found.folder)
    assert run.genotype() == found.genotype == Run(found.folder / "search").genotype()
    result, data, versions = (run.read_json(name) for name in ("result", "data", "versions"))
    assert Leaderboard.from_dict(result["leaderboard"]) == found.leaderboard
    assert result["search"]["genotype"] == found.genotype.id
    assert (data["name"], data["source"], data["task"]["kind"]) == ("small-regression", "tests", "regression")
    assert {name: split["graphs"] for name, split in data["splits"].items()} == {"train": 12, "val": 6, "test": 7}
    assert data["splits"]["train"]["nodes"] == BENCH.train.num_nodes
    assert (data["splits"]["val"]["nodes_min"], data["splits"]["val"]["nodes_max"]) == (5, 8)
    assert versions["torch"].split("+")[0] == torch.__version__.split("+")[0]
    assert versions["device"] == "CPU"
    assert run.config == {"job": "search", **BENCH.identity, "settings": SETTINGS.to_dict()}
    assert config_settings(run.config) == SETTINGS
    assert isinstance(load_model(found.folder)[0], Network)


def test_equal_weights_for_all(whole: tuple[Discovery, list[dict]]) -> None:
    rows = {row.name: row for row in whole[0].leaderboard.rows}
    limit = rows["gnas"].num_weights
    assert limit == Network(whole[0].genotype, BENCH.task, 8).num_weights()
    assert rows["gcn"].num_weights <= limit
    depth = max(whole[0].genotype.depth(), 1)
    wider = baselines.build_baseline("gcn", BENCH.task, num_layers=depth, budget=limit).channels + 1
    assert baselines.build_baseline("gcn", BENCH.task, num_layers=depth, channels=wider).num_weights() > limit
    assert (rows["gnas"].found, rows["gcn"].found, rows["gcn"].depth) == (True, False, depth)


def test_a_budget_is_kept(whole: tuple[Discovery, list[dict]]) -> None:
    genotype = whole[0].genotype
    for budget in (400, 5_000):
        model = workflow.make_candidate(genotype, BENCH, SETTINGS.changed({"budget": budget})).build(BENCH.task)
        assert model.num_weights() <= budget < Network(genotype, BENCH.task, model.channels + 4).num_weights()
        assert model.channels % 4 == 0
    with pytest.raises(InputError, match="no width fits 3 weights"):
        workflow.make_candidate(genotype, BENCH, SETTINGS.changed({"budget": 3}))


@pytest.mark.parametrize("changed", [{}, {"output": "all"}, {"filters": ("dense",)}, {"variant": "reference"}])
def test_a_budget_that_nothing_fits_is_refused_before_the_search(changed: dict, tmp_path: Path) -> None:
    settings = SETTINGS.changed(changed)
    narrowest = [
        Network(workflow.with_chosen_output(genotype, settings), BENCH.task, workflow.WIDTHS).num_weights()
        for genotype in (
            settings.space.search_space().sample(np.random.default_rng(seed), settings.space.cells)
            for seed in range(200)
        )
    ]
    workflow.check_budget(BENCH, settings.changed({"budget": min(narrowest)}))  # what fits is never refused
    with pytest.raises(InputError, match="a budget of 3 weights is too small") as error:
        discover(BENCH, settings.changed({"budget": 3}), tmp_path / "run")
    assert not (tmp_path / "run").exists()
    least = int(str(error.value).rpartition(" ")[2].replace(",", ""))
    assert 0.6 * min(narrowest) <= least <= min(narrowest)  # and it is not far from what can be found


def test_resume_of_a_finished_job_does_nothing(whole: tuple[Discovery, list[dict]], work: list[str]) -> None:
    again = discover(BENCH, SETTINGS, whole[0].folder, resume=True, should_stop=lambda: pytest.fail("it worked"))
    assert work == []
    assert (again.leaderboard, again.search.history) == (whole[0].leaderboard, whole[0].search.history)
    assert again.search == whole[0].search


def test_the_folder_is_not_overwritten(whole: tuple[Discovery, list[dict]]) -> None:
    with pytest.raises(InputError, match="already holds a run"):
        discover(BENCH, SETTINGS, whole[0].folder)
    with pytest.raises(InputError, match=r"cannot resume with another training.epochs \(3; the run has 2\)"):
        discover(BENCH, SETTINGS.changed({"epochs": 3}), whole[0].folder, resume=True)
    with pytest.raises(InputError, match="cannot resume with another dataset"):
        discover(replace(BENCH, name="other"), SETTINGS, whole[0].folder, resume=True)


# One epoch of the search has 2 steps, one of a training 2; then follow the second seed and the second network.
@pytest.mark.parametrize("step", [1, 4, 5, 8, 10, 14])
def test_stopped_anywhere_it_goes_on_to_the_same_result(
    step: int, tmp_path: Path, whole: tuple[Discovery, list[dict]]
) -> None:
    with pytest.raises(Interrupted) as held:
        discover(BENCH, SETTINGS, tmp_path / "run", should_stop=stop_after(step))
    assert held.traceback  # kept by somebody, as in a notebook
    assert not (tmp_path / "run" / "result.json").exists()
    assert (tmp_path / "run" / "search" / "result.json").exists() == (step > 4)
    assert told(discover(BENCH, SETTINGS, tmp_path / "run", resume=True)) == told(whole[0])


def test_stopped_again_and_again(tmp_path: Path, whole: tuple[Discovery, list[dict]]) -> None:
    for _ in range(4 + 8):
        with pytest.raises(Interrupted):
            discover(BENCH, SETTINGS, tmp_path / "run", resume=True, should_stop=stop_after(1))
    assert told(discover(BENCH, SETTINGS, tmp_path / "run", resume=True)) == told(whole[0])


@pytest.mark.parametrize("change", [{}, {"epochs": 1, "seeds": "2", "seed": 5}])
def test_force_starts_over(tmp_path: Path, change: dict, work: list[str]) -> None:
    discover(BENCH, SETTINGS, tmp_path / "run")
    work.clear()
    settings = SETTINGS.changed(change)
    again = discover(BENCH, settings, tmp_path / "run", force=True)
    assert work == ["search", "train", "train"]
    assert told(again) == told(discover(BENCH, settings, tmp_path / "fresh"))
    assert sorted(path.name for path in (tmp_path / "run" / "trained" / "gcn").iterdir()) == [
        f"seed-{seed}" for seed in settings.training.seeds
    ]


@pytest.mark.parametrize(
    ("name", "extra"),
    [("random", {"trials": 2}), ("graphnas", {"trials": 1, "heads": [1], "widths": [4]})],
)
def test_other_strategies(name: str, extra: dict, tmp_path: Path, work: list[str]) -> None:
    settings = SETTINGS.changed({"strategy": name, "strategy_settings": extra, "seeds": "1", "baselines": ()})
    found = discover(BENCH, settings, tmp_path / "run")
    again = discover(BENCH, settings, tmp_path / "run", resume=True)
    assert work == ["search", "train"]
    assert told(again) == told(found)
    assert found.search.strategy == name
    model = json.loads((tmp_path / "run" / "trained" / "gnas" / "seed-1" / "model.json").read_text())
    assert model


def test_the_output_of_the_cells_can_be_chosen_after_the_search(
    tmp_path: Path, whole: tuple[Discovery, list[dict]]
) -> None:
    folder = tmp_path / "run"
    one = discover(BENCH, SETTINGS.changed({"output": "leaves"}), folder)
    searched, kept = Run(folder / "search").genotype(), Run(folder).genotype()
    assert searched == whole[0].genotype  # the search is the paper's
    assert kept == one.genotype == searched.with_output("leaves") != searched
    model, _ = load_model(folder / "trained/gnas/seed-1")
    assert isinstance(model, Network)
    assert model.genotype == kept
    again = discover(BENCH, SETTINGS.changed({"output": "leaves"}), folder, resume=True)
    assert told(again) == told(one)


def test_rivals_take_part(tmp_path: Path) -> None:
    rival = workflow.make_baseline_candidate("gin", BENCH, 2, 900)
    board = discover(BENCH, SETTINGS.changed({"seeds": "1"}), tmp_path / "run", rivals=[rival]).leaderboard
    assert {row.name for row in board.rows} == {"gnas", "gcn", "gin"}


@pytest.mark.parametrize(
    ("loaded", "asked", "read"),
    [("none", "auto", ("size", "degree")), ("size", "auto", ("size",)), ("none", "none", ())],
)
def test_nodes_read_the_structure_of_the_settings(
    loaded: str, asked: str, read: tuple[str, ...], tmp_path: Path
) -> None:
    settings = SETTINGS.changed({"data": {"structure": asked}, "seeds": [1], "search_epochs": 1, "epochs": 1})
    found = discover(with_encodings(BENCH, structure=loaded), settings, tmp_path / "run")
    for name in ("gnas", "gcn"):
        model, _ = load_model(found.folder, name)
        assert model.task.structure == read
