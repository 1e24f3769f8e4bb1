"""The front for three lines: parameters as scikit-learn wants them, fitting, predicting, scores, keeping."""

import copy
import inspect
import logging
from pathlib import Path

import numpy as np
import pytest
import torch
from samples import random_edges
from tiny import ring
from torch_geometric.data import Data

from gnas.data import load
from gnas.errors import InputError
from gnas.run.settings import RACE_SECONDS, Settings
from gnas.use.estimator import GNAS, NotFittedError
from gnas.use.export import export_run
from gnas.use.predict import predict
from gnas.use.targets import flatten_targets, measure_accuracy, measure_label_accuracy, measure_r_squared, with_targets

pytestmark = pytest.mark.filterwarnings("ignore:.*collapse")

TINY = {"search_epochs": 1, "epochs": 2, "cells": 1, "channels": 4, "seeds": (1, 2)}
GRAPHS = [ring(5 + k % 4, seed=k) for k in range(30)]


def labelled(count: int = 30) -> list[Data]:
    """Graphs of class 3 where most nodes are of category 0, else of class 7."""
    return [Data(x=g.x, edge_index=g.edge_index, y=torch.tensor([7 if g.y > 1 else 3])) for g in GRAPHS[:count]]


@pytest.fixture(scope="module")
def regression() -> GNAS:
    return GNAS(**TINY, settings={"nodes": 2}).fit(GRAPHS)


@pytest.fixture(scope="module")
def classification() -> GNAS:
    return GNAS("classification", **TINY).fit(labelled())


# -- parameters -----------------------------------------------------------------------------------------------------


def test_the_constructor_keeps_its_arguments_as_they_are() -> None:
    names = list(inspect.signature(GNAS).parameters)
    values = {name: object() for name in names}
    made = GNAS(**values)
    assert all(getattr(made, name) is values[name] for name in names)
    assert made.get_params() == values
    assert set(vars(made)) == set(names), "nothing but arguments before fit"


def test_a_clone_has_equal_parameters_and_is_not_fitted(regression: GNAS) -> None:
    try:
        from sklearn.base import clone
    except ImportError:

        def clone(estimator: GNAS) -> GNAS:
            """What scikit-learn's clone does with its default ``safe=True``."""
            given = {name: copy.deepcopy(value) for name, value in estimator.get_params(deep=False).items()}
            made = type(estimator)(**given)
            assert all(made.get_params(deep=False)[name] is value for name, value in given.items())
            return made

    again = clone(regression)
    assert again.get_params() == regression.get_params()
    assert not [name for name in vars(again) if name.endswith("_")]


def test_parameters_are_set_by_name() -> None:
    made = GNAS()
    assert made.set_params(cells=7, task="regression") is made
    assert (made.cells, made.task) == (7, "regression")
    with pytest.raises(InputError, match=r"unknown parameter 'cell'.*did you mean 'cells'"):
        made.set_params(cell=3)


def test_its_text_shows_what_was_changed() -> None:
    assert repr(GNAS()) == "GNAS()"
    assert repr(GNAS("regression", cells=3, seeds=(1, 2))) == "GNAS(task='regression', cells=3, seeds=(1, 2))"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"task": "clasification"}, "did you mean 'classification'"),
        ({"preset": "quick"}, "unknown preset"),
        ({"strategy": "dart"}, "did you mean 'darts'"),
        ({"settings": {"chanels": 3}}, "did you mean 'channels'"),
        ({"data_options": {"levels": "graph"}}, "did you mean 'level'"),
        ({"device": "gpu"}, "device 'gpu'"),
    ],
)
def test_a_wrong_argument_is_named_by_fit(arguments: dict, expected: str) -> None:
    with pytest.raises(InputError, match=expected):
        GNAS(**{**TINY, **arguments}).fit(GRAPHS)


def test_without_a_strategy_it_is_the_race_of_the_command_line() -> None:
    usual = GNAS()._settings()
    assert (usual.preset, usual.search.strategy, usual.search.options) == (
        "wide",
        "race",
        {"max_seconds": RACE_SECONDS},
    )
    assert set(usual.space.messages) == {"plain", "edge", "gated", "attention", "pair"}
    assert GNAS(time="1h30m")._settings().search.options == {"max_seconds": 5400}
    assert GNAS(time=90)._settings().search.options == {"max_seconds": 90}
    assert GNAS(trials=3)._settings().search.options == {"trials": 3}
    assert GNAS(settings={"search.max_epochs": 9})._settings().search.options == {"max_epochs": 9}
    with pytest.raises(InputError, match="'soon' is no time"):
        GNAS(time="soon").fit(GRAPHS)
    with pytest.raises(InputError, match="trials"):
        GNAS(strategy="single-level", trials=3).fit(GRAPHS)


@pytest.mark.parametrize(
    "arguments",
    [
        {"strategy": "single-level"},
        {"search_epochs": 40},
        {"settings": {"strategy": "single-level"}},
        {"preset": "fast"},
    ],
)
def test_another_strategy_has_the_preset_of_before(arguments: dict) -> None:
    assert GNAS(**arguments)._settings() == Settings.resolve("fast", baselines=())


def test_a_race_of_small_networks(tmp_path: Path) -> None:
    made = GNAS(trials=3, epochs=2, cells=1, budget=5000, settings={"search.supernets": 0}).fit(GRAPHS)
    kinds = {record["genotype"].split()[1] for record in made.history_}
    assert kinds == {"gnas-genotype", "gnas-baseline"}, "found networks race with hand-made ones"
    best = min(made.leaderboard_.rows, key=lambda row: row.val)
    assert made.network_name_ == best.name
    assert made.score(GRAPHS) == pytest.approx(
        measure_r_squared(made.predict(GRAPHS), np.array([g.y.item() for g in GRAPHS]))
    )
    again = GNAS.load(made.save(tmp_path / "run"))
    assert again._settings() == made._settings().for_data(one_graph=False)
    assert np.array_equal(again.predict(GRAPHS), made.predict(GRAPHS))


# -- fitting and predicting -----------------------------------------------------------------------------------------


def test_nothing_is_told_before_fit(tmp_path: Path) -> None:
    made = GNAS()
    for ask in (made.predict, made.predict_proba, made.score, made.save):
        with pytest.raises(NotFittedError, match="not fitted yet; call fit first"):
            ask(tmp_path)
    assert issubclass(NotFittedError, ValueError)
    assert issubclass(NotFittedError, AttributeError)


def test_what_is_found_can_be_read(regression: GNAS) -> None:
    assert regression.genotype_ == regression.network_.genotype
    assert regression.genotype_[0].nodes == 2
    assert regression.depth_ == regression.genotype_.depth()
    assert [row.name for row in regression.leaderboard_.rows] == ["gnas"]
    assert [record["epoch"] for record in regression.history_] == [1]
    assert regression.seed_ in (1, 2)
    assert (regression.folder_ / "genotype.yaml").exists()
    assert regression.task_.kind == "regression"
    assert not hasattr(regression, "classes_")


def test_a_regression_predicts_values(regression: GNAS) -> None:
    found = regression.predict(GRAPHS[:4])
    assert found.shape == (4,)
    wanted = [regression.task_.prediction(regression.network_(graph)).item() for graph in GRAPHS[:4]]
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    y = np.array([graph.y.item() for graph in GRAPHS])
    found = regression.predict(GRAPHS)
    wanted_score = 1 - ((found - y) ** 2).sum() / ((y - y.mean()) ** 2).sum()
    assert regression.score(GRAPHS) == pytest.approx(wanted_score, rel=1e-4)
    assert regression.score(GRAPHS, y) == pytest.approx(wanted_score, rel=1e-4)
    with pytest.raises(InputError, match="only classes and labels have probabilities"):
        regression.predict_proba(GRAPHS)


def test_a_classification_predicts_classes(classification: GNAS) -> None:
    data = labelled()
    assert classification.classes_.tolist() == [3, 7]
    found, shares = classification.predict(data), classification.predict_proba(data)
    assert shares.shape == (30, 2)
    np.testing.assert_allclose(shares.sum(1), 1, atol=1e-6)
    assert np.array_equal(found, classification.classes_[shares.argmax(1)])
    y = np.array([graph.y.item() for graph in data])
    assert classification.score(data) == pytest.approx((found == y).mean())
    assert classification.score(data, y) == pytest.approx((found == y).mean())
    assert classification.score(data, found) == 1
    with pytest.raises(InputError, match="2 targets for 30 predictions"):
        classification.score(data, y[:2])


LABELS = np.array([[float(k % 3 == 0), float(k % 2), np.nan if k % 5 == 0 else float(k % 7 < 3)] for k in range(30)])


def test_labels_are_predicted_each_on_its_own() -> None:
    made = GNAS(**TINY, settings={"nodes": 2}).fit(GRAPHS, LABELS)
    assert made.task_.kind == "multilabel"
    assert made.classes_.tolist() == ["y0", "y1", "y2"]
    found, chances = made.predict(GRAPHS), made.predict_proba(GRAPHS)
    wanted = torch.cat([made.network_(graph) for graph in GRAPHS]).detach().sigmoid().numpy()
    np.testing.assert_allclose(chances, wanted, rtol=1e-5)
    assert found.dtype == np.int64
    assert np.array_equal(found, wanted > 0.5)
    rows = ((found == LABELS) | np.isnan(LABELS)).all(1)
    assert made.score(GRAPHS, LABELS) == pytest.approx(rows.mean())
    data, _ = with_targets(GRAPHS, [[None if np.isnan(one) else one for one in row] for row in LABELS])
    assert made.score(data) == pytest.approx(rows.mean())
    assert made.score(data, found) == 1
    again = GNAS.load(made.folder_)
    assert np.array_equal(again.predict(GRAPHS), found)
    assert again.classes_.tolist() == ["y0", "y1", "y2"]
    with pytest.raises(InputError, match="targets have 2 columns, predictions have 3"):
        made.score(GRAPHS, LABELS[:, :2])


def test_one_label_is_a_column() -> None:
    y = [float(k % 2) for k in range(30)]
    made = GNAS("multilabel", **TINY, settings={"nodes": 2}).fit(GRAPHS, y)
    assert made.predict(GRAPHS).shape == made.predict_proba(GRAPHS).shape == (30, 1)
    assert made.score(GRAPHS, y) == pytest.approx((made.predict(GRAPHS)[:, 0] == y).mean())


def test_without_targets_there_is_no_score(classification: GNAS) -> None:
    bare = [Data(x=graph.x, edge_index=graph.edge_index) for graph in GRAPHS]
    assert len(classification.predict(bare)) == 30
    with pytest.raises(InputError, match="graph 0: no targets; set"):
        classification.score(bare)


def test_targets_may_come_beside_the_graphs() -> None:
    bare = [Data(x=graph.x, edge_index=graph.edge_index) for graph in GRAPHS]
    names = ["many" if graph.y > 1 else "few" for graph in GRAPHS]
    made = GNAS(**TINY).fit(bare, names)
    assert made.classes_.tolist() == ["few", "many"]
    assert set(made.predict(bare)) <= {"few", "many"}
    assert made.score(bare, names) == pytest.approx(np.mean(made.predict(bare) == np.array(names)))
    assert "y" not in bare[0]
    assert predict(made.folder_, bare).names == ("few", "many")


@pytest.mark.parametrize("level", ["node", "edge"])
def test_nodes_and_edges_come_in_a_row(level: str) -> None:
    data = []
    for k in range(12):
        edges = random_edges(6, 9, seed=k)
        rows = 6 if level == "node" else 9
        data.append(Data(x=torch.randn(6, 2), edge_index=edges, y=torch.arange(rows) % 2))
    made = GNAS(f"{level}-classification", **TINY).fit(data)
    found = made.predict(data)
    wanted = torch.cat([made.network_(graph).argmax(1) for graph in data])
    assert np.array_equal(found, wanted.numpy())
    y = [graph.y.numpy() for graph in data]
    assert made.score(data) == pytest.approx(made.score(data, y))
    assert made.score(data, y) == pytest.approx(np.mean(found == np.concatenate(y)))


def test_a_benchmark_will_do() -> None:
    made = GNAS(**{**TINY, "seeds": (3,)}, settings={"search_batch": 128, "batch": 128}).fit("molecules-mini")
    test = load("molecules-mini").test
    y, found = test.y.numpy().reshape(-1), made.predict(test)
    assert made.predict("molecules-mini") == pytest.approx(found)
    assert made.score("molecules-mini") == pytest.approx(
        1 - ((found - y) ** 2).sum() / ((y - y.mean()) ** 2).sum(), rel=1e-4
    )
    assert made.leaderboard_.rows[0].mean == pytest.approx(np.abs(found - y).mean(), rel=1e-4)
    with pytest.raises(InputError, match="molecules-mini is a graph-regression task, not classification"):
        made.set_params(task="classification").fit("molecules-mini")
    with pytest.raises(InputError, match="y goes with a list of PyG Data"):
        made.fit("molecules-mini", [1, 2])


def test_another_strategys_architecture_will_do() -> None:
    found = {"strategy_settings": {"trials": 1, "widths": (4,), "heads": (1,)}}
    made = GNAS(**{**TINY, "seeds": (1,)}, strategy="graphnas", settings=found).fit(GRAPHS)
    assert made.depth_ == len(made.genotype_.layers) == 1
    assert made.predict(GRAPHS[:2]).shape == (2,)
    with pytest.raises(
        InputError, match="a network of the class GraphNASNetwork cannot be exported; predict with gnas"
    ):
        export_run(made.folder_, made.folder_ / "exported")


def test_baselines_stand_on_the_leaderboard() -> None:
    made = GNAS(**{**TINY, "seeds": (1,)}, baselines=("mlp",)).fit(GRAPHS)
    assert {row.name for row in made.leaderboard_.rows} == {"gnas", "mlp"}


def test_it_speaks_when_asked(caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "gnas"):
        GNAS(**{**TINY, "seeds": (1,)}, verbose=1).fit(GRAPHS)
    assert [record.message.split(",")[0] for record in caplog.records] == ["stage search", "stage train", "stage train"]
    caplog.clear()
    GNAS(**{**TINY, "seeds": (1,)}).fit(GRAPHS)
    assert not caplog.records
    assert capsys.readouterr() == ("", "")


# -- keeping --------------------------------------------------------------------------------------------------------


def test_a_saved_estimator_is_loaded_with_what_it_found(classification: GNAS, tmp_path: Path) -> None:
    folder = classification.save(tmp_path / "deep" / "kept")
    again = GNAS.load(folder)
    assert np.array_equal(again.predict_proba(labelled()), classification.predict_proba(labelled()))
    assert (again.genotype_, again.seed_) == (classification.genotype_, classification.seed_)
    assert again.leaderboard_ == classification.leaderboard_
    assert again.classes_.tolist() == [3, 7]
    assert again._settings() == classification._settings().for_data(one_graph=False)  # as the run resolved them
    assert len(predict(folder, labelled())) == 30
    assert (export_run(folder, tmp_path / "exported") / "model.py").exists()
    with pytest.raises(InputError, match="already there; give force"):
        classification.save(folder)
    (folder / "genotype.yaml").write_text("gone")
    classification.save(folder, force=True)
    assert GNAS.load(folder).score(labelled()) == classification.score(labelled())
    assert again.save(folder, force=True) == folder
    assert GNAS.load(folder).seed_ == classification.seed_
    assert sorted(path.name for path in (tmp_path / "deep").iterdir()) == ["kept"]


def test_a_folder_that_is_no_run_is_never_removed(classification: GNAS, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(InputError, match="already there"):
        classification.save(tmp_path, force=True)
    assert (tmp_path / "mine.txt").read_text() == "mine"
    with pytest.raises(InputError, match="not a run folder"):
        GNAS.load(tmp_path)


def test_a_run_folder_is_kept_and_not_overwritten(tmp_path: Path) -> None:
    made = GNAS(**{**TINY, "seeds": (1,)}, out=tmp_path / "run").fit(GRAPHS)
    assert made.folder_ == tmp_path / "run"
    with pytest.raises(InputError, match="already holds a run"):
        made.fit(GRAPHS)
    assert made.set_params(resume=True).fit(GRAPHS).genotype_ == made.genotype_
    assert GNAS.load(tmp_path / "run").score(GRAPHS) == made.score(GRAPHS)


def test_a_temporary_run_folder_goes_with_the_estimator() -> None:
    made = GNAS(**{**TINY, "seeds": (1,)}).fit(GRAPHS)
    folder = made.folder_
    assert folder.exists()
    del made
    assert not folder.exists()


# -- targets and scores ---------------------------------------------------------------------------------------------


def test_scores() -> None:
    y = np.array([[0.0, 5.0], [1.0, 5.0], [2.0, 5.0]])
    assert measure_r_squared(y, y) == 1
    assert measure_r_squared(np.ones(3), y[:, 0]) == 0
    assert measure_r_squared(y + np.array([[0, 0], [0, 0], [0, 1]]), y) == 0.5
    blank = np.array([[0.0, np.nan], [1.0, np.nan], [np.nan, np.nan], [2.0, np.nan]])
    assert measure_r_squared(np.array([[0.0, 9], [1, 9], [7, 9], [3, 9]]), blank) == 0.5, "blank entries do not count"
    labels = np.array([[1, 0], [1, np.nan], [np.nan, np.nan], [0, 1]])
    assert measure_label_accuracy(np.array([[1, 0], [1, 1], [0, 0], [0, 0]]), labels) == pytest.approx(2 / 3)
    assert measure_accuracy(np.array(["a", "b"]), np.array(["a", "c"])) == 0.5
    assert flatten_targets([[1, 2], [3, 4]], "graph").shape == (2, 2)
    assert flatten_targets([[1, 2], [3]], "node").tolist() == [1, 2, 3]


def test_targets_must_fit_the_graphs() -> None:
    with pytest.raises(InputError, match="y has 2 entries for 30 graphs"):
        with_targets(GRAPHS, [1, 2])
    with pytest.raises(InputError, match="y holds values that are not numbers"):
        with_targets(GRAPHS[:2], [[1, None], ["a", object()]])


def test_nodes_read_the_structure_of_the_preset(regression: GNAS) -> None:
    assert regression.task_.structure == ("size", "degree")
    plain = GNAS(**TINY, settings={"nodes": 2}, data_options={"structure": "none"}).fit(GRAPHS)
    assert plain.task_.structure == ()
