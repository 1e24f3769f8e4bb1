"""The predictor against scikit-learn's ridge regression."""

import numpy as np
from sklearn.feature_extraction import DictVectorizer
from sklearn.linear_model import Ridge

from gnas.strategies.predictor import RidgePredictor

ROWS = [{"kind=a": 1.0, "share": 0.3}, {"kind=b": 1.0}, {"kind=a": 1.0, "lr=1": 1.0}, {"kind=b": 1.0, "share": 0.9}]
NEW = [{"kind=a": 1.0, "share": 0.5}, {"kind=b": 1.0, "lr=1": 1.0}, {}]


def test_it_is_ridge_regression() -> None:
    targets = [0.5, -1.0, 2.0, 0.25]
    vectors = DictVectorizer(sparse=False).fit(ROWS)
    wanted = Ridge(alpha=0.7).fit(vectors.transform(ROWS), targets).predict(vectors.transform(NEW))
    found = RidgePredictor.fit(ROWS, targets, penalty=0.7).predict(NEW)
    np.testing.assert_allclose(found, wanted, rtol=1e-10)


def test_an_unknown_feature_counts_nothing() -> None:
    predictor = RidgePredictor.fit(ROWS, [1.0, 2.0, 3.0, 4.0])
    np.testing.assert_array_equal(predictor.predict([{"new": 5.0}]), predictor.predict([{}]))
