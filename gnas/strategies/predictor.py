"""A cheap predictor of candidates: ridge regression on their choices and pairs of choices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

PENALTY = 1.0


@dataclass(frozen=True)
class RidgePredictor:
    """A linear function of named features, fitted with a penalty on the squares of its coefficients."""

    names: Mapping[str, int]
    coefficients: np.ndarray
    intercept: float

    @staticmethod
    def fit(
        rows: Sequence[Mapping[str, float]], targets: Sequence[float] | np.ndarray, penalty: float = PENALTY
    ) -> RidgePredictor:
        """Fit to named features and their targets. It solves for one number per row: there are more features than rows."""
        names = {name: place for place, name in enumerate(sorted({name for row in rows for name in row}))}
        x, y = _as_matrix(rows, names), np.asarray(targets, dtype=float)
        center, mean = x.mean(axis=0), y.mean()
        x = x - center
        weights = np.linalg.solve(x @ x.T + penalty * np.eye(len(y)), y - mean)
        coefficients = x.T @ weights
        return RidgePredictor(names, coefficients, float(mean - center @ coefficients))

    def predict(self, rows: Sequence[Mapping[str, float]]) -> np.ndarray:
        """The predicted targets; a feature that was never seen counts nothing."""
        predicted: np.ndarray = _as_matrix(rows, self.names) @ self.coefficients + self.intercept
        return predicted


def _as_matrix(rows: Sequence[Mapping[str, float]], names: Mapping[str, int]) -> np.ndarray:
    x = np.zeros((len(rows), len(names)))
    for number, row in enumerate(rows):
        for name, value in row.items():
            if name in names:
                x[number, names[name]] = value
    return x
