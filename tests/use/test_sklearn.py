"""scikit-learn's own checks and tools on the estimators.

scikit-learn's checks pass tables of numbers, and an estimator whose tags refuse such tables is not checked at all. The checks
run on subclasses whose rows become graphs of one node, so that ``fit``, ``predict``, ``score`` and pickling of gnas are used.
"""

import pickle
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import validate_data
from tiny import ring
from torch_geometric.data import Data

from gnas import GNAS, GNASClassifier, GNASRegressor, InputError

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.slow]

TINY = {"search_epochs": 1, "epochs": 2, "cells": 1, "channels": 4, "seeds": (1,), "settings": {"nodes": 1}}
GRAPHS = [ring(5 + k % 4, seed=k) for k in range(24)]
BARE = [Data(x=graph.x, edge_index=graph.edge_index) for graph in GRAPHS]
VALUES = np.array([graph.y.item() for graph in GRAPHS])
NAMES = np.array(["many" if value > np.median(VALUES) else "few" for value in VALUES])
SMILES = ["C" * (1 + k % 6) + "O" * (k % 2) + "N" * (k // 12) for k in range(24)]


class OnRows:
    """Rows of a table as graphs of one node, checked as scikit-learn asks."""

    def fit(self, X: Any, y: Any = None) -> Any:
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        X, y = validate_data(self, X, y, multi_output=True, y_numeric=isinstance(self, GNASRegressor))
        return super().fit(graphs_of(X), y)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array, tags.no_validation, tags.target_tags.required = True, False, True
        for kind in (tags.classifier_tags, tags.regressor_tags):
            if kind is not None:
                kind.poor_score = True  # two epochs learn little
        return tags

    def _predictions(self, X: Any) -> Any:
        self._check_fitted()
        return super()._predictions(graphs_of(validate_data(self, X, reset=False)))


def graphs_of(rows: np.ndarray) -> list[Data]:
    empty = torch.zeros(2, 0, dtype=torch.long)
    return [Data(x=torch.tensor(row, dtype=torch.float)[None], edge_index=empty) for row in rows]


class RowClassifier(OnRows, GNASClassifier):
    pass


class RowRegressor(OnRows, GNASRegressor):
    pass


EXCEPTIONS = {
    "check_supervised_y_2d": "a column of targets is one target; gnas reads it without a warning",
    "check_fit2d_1sample": "the error for a single graph names the empty split, not the number of samples",
}


@parametrize_with_checks(
    [RowClassifier(**TINY), RowRegressor(**TINY)], expected_failed_checks=lambda estimator: EXCEPTIONS
)
def test_the_checks_of_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


# -- scikit-learn's tools -------------------------------------------------------------------------------------------


def test_tags_name_the_kind() -> None:
    assert is_classifier(GNASClassifier())
    assert is_regressor(GNASRegressor())
    assert is_classifier(GNAS("classification"))
    assert not is_classifier(GNAS())
    assert hasattr(GNASClassifier(), "predict_proba")
    assert not hasattr(GNASRegressor(), "predict_proba")
    with pytest.raises(InputError, match="GNASRegressor learns regression, not classification"):
        GNASRegressor("classification").fit(BARE, VALUES)
    with pytest.raises(InputError, match="continuous numbers in y are not classes; use GNASRegressor"):
        GNASClassifier(**TINY).fit(BARE, VALUES + 0.5)


def test_cross_validation_of_graphs() -> None:
    scores = cross_val_score(GNASClassifier(**TINY), BARE, NAMES, cv=2, scoring="roc_auc", error_score="raise")
    assert scores.shape == (2,)
    assert ((scores >= 0) & (scores <= 1)).all()
    found = cross_val_predict(GNASRegressor(**TINY), BARE, VALUES, cv=2)
    assert found.shape == VALUES.shape
    assert np.isfinite(found).all()


def test_cross_validation_in_other_processes() -> None:
    model = GNASRegressor(**TINY)
    there = cross_val_score(model, BARE, VALUES, cv=2, n_jobs=2, error_score="raise")
    assert there == pytest.approx(cross_val_score(model, BARE, VALUES, cv=2, error_score="raise"), rel=1e-4)


def test_a_grid_search_keeps_the_best() -> None:
    grid = GridSearchCV(GNASClassifier(**TINY), {"channels": [4, 8]}, cv=2, error_score="raise").fit(BARE, NAMES)
    assert grid.best_params_["channels"] in (4, 8)
    assert grid.best_estimator_.network_.channels == grid.best_params_["channels"]
    assert set(grid.predict(BARE)) <= {"few", "many"}


def test_a_pipeline_of_smiles() -> None:
    pipe = make_pipeline(FunctionTransformer(lambda texts: [text.strip() for text in texts]), GNASRegressor(**TINY))
    padded = [f" {text} " for text in SMILES]
    y = [float(len(text)) for text in SMILES]
    assert pipe.fit(padded, y).predict(padded[:5]).shape == (5,)


@pytest.mark.parametrize("form", ["list", "array", "series", "frame"])
def test_forms_of_smiles(form: str) -> None:
    y = np.array([text.count("O") > 0 for text in SMILES])
    forms = {
        "list": SMILES,
        "array": np.array(SMILES),
        "series": pd.Series(SMILES, index=range(7, 31)),
        "frame": pd.DataFrame({"smiles": SMILES}, index=range(7, 31)),
    }
    model = GNASClassifier(**TINY).fit(forms[form], pd.Series(y, index=range(7, 31)))
    assert model.classes_.tolist() == [False, True]
    found = model.predict(forms[form])
    assert found.dtype == bool
    np.testing.assert_allclose(model.predict_proba(forms[form]).sum(1), 1, atol=1e-6)
    assert model.score(forms[form], y) == pytest.approx((found == y).mean())


@pytest.mark.parametrize("y", [NAMES, (NAMES == "few") * 2.0, np.where(NAMES == "few", -1, 10), NAMES == "few"])
def test_classes_are_the_values_of_y(y: np.ndarray, tmp_path: Path) -> None:
    model = GNASClassifier(**TINY).fit(BARE, y)
    assert model.classes_.tolist() == np.unique(y).tolist()
    assert model.predict(BARE).dtype == y.dtype
    saved = GNASClassifier.load(model.save(tmp_path / "run"))
    np.testing.assert_array_equal(saved.predict_proba(BARE), model.predict_proba(BARE))


def test_several_columns_are_labels() -> None:
    y = np.stack([NAMES == "few", VALUES > 1], 1).astype(int)
    assert GNASClassifier(**TINY).fit(BARE, y).predict(BARE).shape == (24, 2)


# -- pickles --------------------------------------------------------------------------------------------------------


def test_a_pickle_holds_plain_state_and_predicts_the_same(tmp_path: Path) -> None:
    model = GNASClassifier(**TINY).fit(BARE, NAMES)
    wanted = model.predict_proba(BARE)
    state = model.__getstate__()
    assert set(state) == {*model.get_params(), "files", "classes_"}
    assert all(isinstance(content, bytes) for content in state["files"].values())
    assert not any("checkpoints" in name for name in state["files"])
    joblib.dump(model, tmp_path / "model.joblib")
    text = pickle.dumps(model)
    del model
    for again in (joblib.load(tmp_path / "model.joblib"), pickle.loads(text)):
        np.testing.assert_array_equal(again.predict_proba(BARE), wanted)
        assert again.classes_.tolist() == ["few", "many"]
        assert again.folder_.exists()
        assert not hasattr(clone(again), "network_")


def test_another_kind_of_run_is_refused(tmp_path: Path) -> None:
    folder = GNASRegressor(**TINY).fit(BARE, VALUES).save(tmp_path / "run")
    with pytest.raises(InputError, match="a regression; GNASClassifier learns classification or multilabel"):
        GNASClassifier.load(folder)
