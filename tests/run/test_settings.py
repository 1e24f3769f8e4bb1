"""Settings: a preset, changed by a file, changed by overrides; anything unknown or of the wrong type is named."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gnas.arch.space import SearchSpace
from gnas.errors import InputError
from gnas.run.protocol import TrainConfig
from gnas.run.settings import PRESETS, Settings, is_setting, upgrade_config
from gnas.strategies import STRATEGIES, make_strategy
from gnas.workflow import strategy_from_settings, train_config


def file(folder: Path, text: str) -> Path:
    (folder / "settings.yaml").write_text(text)
    return folder / "settings.yaml"


def test_the_paper_is_the_default() -> None:
    assert Settings.resolve() == Settings() == Settings.resolve("paper")
    one = Settings()
    assert (one.space.nodes, one.space.cells, one.search.epochs, one.search.batch_size) == (3, 4, 50, 64)
    assert one.training.seeds == (41, 95, 12, 35)
    assert train_config(one) == TrainConfig()
    assert train_config(one, patience=5).patience == 5
    assert train_config(one.changed({"patience": 7}), patience=5).patience == 7


def test_precedence(tmp_path: Path) -> None:
    path = file(tmp_path, "preset: fast\nspace: {channels: 10, cells: 2}\ntraining: {seeds: [1, 2]}\n")
    found = Settings.resolve("paper", path, cells=7, lr=None)
    assert (found.preset, found.space.channels, found.space.cells, found.training.seeds) == ("fast", 10, 7, (1, 2))
    assert (found.search.epochs, found.training.lr) == (40, 3e-3)  # the preset's, where nobody says more
    assert Settings.resolve("fast", file(tmp_path, "cells: 2")).preset == "fast"


def test_groups_and_single_names_mean_the_same(tmp_path: Path) -> None:
    text = "preset: fast\nspace: {cells: 2}\nsearch: {epochs: 3, alpha_lr: 0.5, graphnas: {trials: 7}}\ntraining: {clip: 1.0}\n"
    grouped = Settings.resolve(file=file(tmp_path, text))
    old = "preset: fast\ncells: 2\nsearch_epochs: 3\ntrain_settings: {clip: 1.0}\n"
    old += "strategy_settings: {alpha_lr: 0.5, graphnas.trials: 7}\n"
    assert Settings.resolve(file=file(tmp_path, old)) == grouped
    words = {
        "space.cells": "2",
        "search.epochs": "3",
        "search.alpha_lr": "0.5",
        "search.graphnas.trials": "7",
        "clip": 1,
    }
    assert Settings.resolve("fast").changed(words) == grouped
    assert grouped.search.options_for("single-level") == {"alpha_lr": 0.5, "lr": 0.1}
    assert grouped.search.options_for("graphnas") == {"trials": 7}
    assert grouped.search.options_for("random") == {}


def test_presets_are_those_of_before_settings_had_groups() -> None:
    """Value for value, and the file that a run wrote then is read as the same settings."""
    kept = json.loads((Path(__file__).parents[1] / "kept" / "0.1" / "presets.json").read_text())
    for key, before in kept.items():
        preset, name = key.split()
        found = Settings.resolve(preset, strategy=name).for_data(one_graph=False)
        later = {"epoch_steps": 1}  # settings that came since, with what was done before
        assert json.loads(json.dumps(asdict(train_config(found)))) == {
            **before["protocol"],
            **later,
            "cycles": 4,
            "ends": [],
        }
        assert json.loads(json.dumps(asdict(strategy_from_settings(found)))) == {**before["strategy"], **later}
        assert Settings.from_values("paper", before["config"], {}) == found
        config = {"job": "search", "dataset": "zinc"}
        assert upgrade_config({**config, **before["config"]}) == {**config, "settings": found.to_dict()}
        assert upgrade_config({**config, "settings": found.to_dict()}) == {**config, "settings": found.to_dict()}


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("preset", PRESETS)
def test_presets_suit_every_strategy(preset: str, name: str, tmp_path: Path) -> None:
    for found in (
        Settings.resolve(preset, strategy=name),
        Settings.resolve(preset, file(tmp_path, f"strategy: {name}")),
    ):
        assert found.search.strategy == name
        make_strategy(name, **found.search.options)
        assert train_config(found).lr == found.training.lr


@pytest.mark.parametrize("preset", PRESETS)
def test_the_paper_alone_has_the_paper_s_space(preset: str) -> None:
    added = set(Settings.resolve(preset).space.search_space().aggregators) - set(SearchSpace().aggregators)
    assert added == {"paper": set(), "wide": {"symmetric", "std"}}.get(preset, {"symmetric"})


def test_strong_is_more_than_the_paper() -> None:
    strong = Settings.resolve("strong")
    assert strong.search.options_for("single-level")["derive"] == "best"
    config = train_config(strong)
    assert (config.schedule, config.optimizer, config.warmup) == ("cosine", "adamw", 5)
    assert config.ema > 0.9
    assert config.clip > 0


def test_unknown_names_suggest_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"unknown setting 'chanels'.*did you mean 'channels'"):
        Settings.resolve(chanels=3)
    with pytest.raises(InputError, match=r"unknown setting 'cell'.*did you mean 'cells'"):
        Settings.resolve(file=file(tmp_path, "cell: 3"))
    with pytest.raises(InputError, match=r"unknown training setting 'clp'.*did you mean 'clip'"):
        Settings.resolve(file=file(tmp_path, "training: {clp: 3}"))
    with pytest.raises(InputError, match=r"unknown preset 'fats'.*did you mean 'fast'"):
        Settings.resolve("fats")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("cells", value) for value in ("four", 2.5, None, [4], "nan", "inf", 1e400, {})),
        *(("lr", value) for value in ("fast", [1], {})),
        *(("seeds", value) for value in ("a b", [1.5, "x"], None, {"a": 1})),
        *((group, value) for value in (3, "lr", [1]) for group in ("strategy_settings", "search", "data")),
        *(("dropout", value) for value in (1, -0.1, "nan")),
        *(("output", value) for value in ("last", [1])),
        *(("seeds", value) for value in ([], [1, 1])),
    ],
)
def test_wrong_types_are_named(name: str, value: object, tmp_path: Path) -> None:
    path = file(tmp_path, yaml.safe_dump({name: value}))
    with pytest.raises(
        InputError, match=rf"({name} is .*; (it must be|name at least one)|unknown training.output)"
    ) as error:
        Settings.resolve(file=path)
    assert "\n" not in str(error.value)


def test_text_becomes_what_it_means() -> None:
    found = Settings.resolve(
        cells="3",
        lr="1e-2",
        epochs="1e3",
        seeds="1, 2 3",
        baselines="gcn,gin",
        strategy_settings={"alpha_lr": "0.5", "share_alphas": "true", "stop_on_collapse": "null", "precision": "tf32"},
    )
    assert (found.space.cells, found.training.lr, found.training.epochs) == (3, 0.01, 1000)
    assert (found.training.seeds, found.training.baselines) == ((1, 2, 3), ("gcn", "gin"))
    wanted = {"alpha_lr": 0.5, "share_alphas": True, "stop_on_collapse": None, "precision": "tf32"}
    assert found.search.options == wanted
    assert isinstance(found.space.cells, int)


@pytest.mark.parametrize("text", ["a: [", "- 1", "", "just text", "\x00", "{" * 3000])
def test_other_files_are_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"settings\.yaml") as error:
        Settings.resolve(file=file(tmp_path, text))
    assert "\n" not in str(error.value)


def test_tags_are_not_obeyed(tmp_path: Path) -> None:
    found = Settings.resolve(file=file(tmp_path, "strategy: !!python/name:os.system"))
    assert found.search.strategy == ""
    with pytest.raises(InputError, match=r"space.variant is \['x'\]"):
        Settings.resolve(file=file(tmp_path, "variant: !!python/object/apply:os.getcwd [x]"))


def test_lists_of_numbers_stay_numbers(tmp_path: Path) -> None:
    """As GraphNAS's heads: what YAML writes it reads, and a folder with it can be resumed."""
    found = Settings.resolve(strategy="graphnas", strategy_settings={"heads": (1, 2), "widths": ["4", 8]})
    assert found.search.options == {"heads": [1, 2], "widths": [4, 8]}
    assert Settings.resolve(file=file(tmp_path, yaml.safe_dump(found.to_dict()))) == found
    assert yaml.safe_load(yaml.safe_dump(found.to_dict())) == found.to_dict()
    make_strategy(found.search.strategy, **found.search.options)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nothing\.yaml: cannot be read"):
        Settings.resolve(file=tmp_path / "nothing.yaml")


names = st.text("abcdefghij_", min_size=1, max_size=6).filter(lambda name: not is_setting(name))
changes = st.fixed_dictionaries(
    {},
    optional={
        "strategy": st.sampled_from(["single-level", "random", "darts2"]),
        "cells": st.integers(1, 99),
        "lr": st.floats(1e-6, 1.0),
        "dropout": st.floats(0, 0.9),
        "seeds": st.lists(st.integers(0, 99), min_size=1, unique=True).map(tuple),
        "baselines": st.lists(names).map(tuple),
        "search": st.dictionaries(names, st.one_of(st.integers(), st.floats(0, 1), st.booleans(), st.none())),
    },
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(sorted(PRESETS)), changes)
def test_round_trip_through_a_file(tmp_path: Path, preset: str, values: dict) -> None:
    found = Settings.resolve(preset, **values)
    assert Settings.resolve(file=file(tmp_path, yaml.safe_dump(found.to_dict()))) == found


def test_data_goes_option_by_option() -> None:
    """A preset's options stay unless named; those of a whole run are its own."""
    auto = {"structure": ["auto"]}
    assert Settings.resolve("paper").data == {}
    assert Settings.resolve("fast").data == Settings.resolve("strong").data == auto
    assert Settings.resolve("fast", data={"target": "y"}).data == {**auto, "target": ["y"]}
    assert Settings.resolve("fast", data={"structure": "none"}).data == {"structure": ["none"]}
    named = {"data": {"readout": "sum"}}
    assert Settings.from_values("fast", named, {"data": {"seed": "3"}}).data == {**auto, "readout": "sum", "seed": 3}
    kept = Settings.resolve("fast", data={"structure": "none"}).to_dict()
    assert Settings.from_values("fast", kept, {}).data == {"structure": ["none"]}
    assert Settings.from_values("fast", {**kept, "data": {}}, {}).data == {}
