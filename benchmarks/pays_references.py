"""References of pays.py for molecules: a random forest on fingerprints and descriptors, and chemprop with its default settings.

Both get the rows of the same splits. Neither has a limit of time. The forest chooses nothing; chemprop selects its epoch by
validation.
"""

from __future__ import annotations

import csv
import math
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pays_data import PARTS, SOURCES, Molecules, write_table

from gnas.data.smiles import import_rdkit
from gnas.errors import InputError
from gnas.model.metrics import compute_metric

TREES, BITS, RADIUS = 500, 2048, 2


def measure(name: str, split: int, data_root: Path, chemprop: Path | None = None) -> dict[str, Any]:
    """The figures of a reference on one split of a molecule set."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="gnas-pays-") as folder:
        table = write_table(name, split, data_root, Path(folder))
        with open(table, newline="") as file:
            rows = list(csv.DictReader(file))
        y = read_targets(rows)
        classes = is_classification(y)
        found = run_forest(rows, y, classes) if chemprop is None else run_chemprop(table, rows, y, classes, chemprop)
    part = np.array([row["split"] for row in rows])
    metric = find_metric(name, classes)
    figures = {key: _score(metric, found[part == key], y[part == key]) for key in ("val", "test")}
    return {"metric": metric, **figures, "network": "", "spent": time.monotonic() - started}


def read_targets(rows: list[dict[str, str]]) -> np.ndarray:
    """Every column but the SMILES and the split; NaN for a blank."""
    names = [name for name in rows[0] if name not in ("smiles", "split")]
    return np.array([[float(row[name]) if row[name] else math.nan for name in names] for row in rows])


def is_classification(y: np.ndarray) -> bool:
    return set(np.unique(y[~np.isnan(y)])) <= {0.0, 1.0}


def find_metric(name: str, classes: bool) -> str:
    """The metric by which the networks are compared on this dataset."""
    source = SOURCES[name]
    assert isinstance(source, Molecules)
    return str(dict(source.options).get("metric", "roc_auc" if classes else "mae"))


def _score(metric: str, values: np.ndarray, y: np.ndarray) -> float:
    found = compute_metric(metric, torch.from_numpy(values), torch.from_numpy(y)).value
    return math.nan if found is None else found


# -- random forest ---------------------------------------------------------------------------------------------------


def run_forest(rows: list[dict[str, str]], y: np.ndarray, classes: bool) -> np.ndarray:
    """Predictions of a forest for each target, fitted to the known training rows."""
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    x = describe_molecules([row["smiles"] for row in rows])
    train = np.array([row["split"] == PARTS[0] for row in rows])
    found = np.zeros_like(y)
    for column in range(y.shape[1]):
        known = train & ~np.isnan(y[:, column])
        forest = (RandomForestClassifier if classes else RandomForestRegressor)(TREES, random_state=0)
        forest.fit(x[known], y[known, column])
        if not classes:
            found[:, column] = forest.predict(x)
        elif len(forest.classes_) == 2:
            found[:, column] = forest.predict_proba(x)[:, 1]
    return found


def describe_molecules(smiles: list[str]) -> np.ndarray:
    """Morgan fingerprints and RDKit's 2D descriptors, finite."""
    chem = import_rdkit()
    from rdkit.Chem import Descriptors, rdFingerprintGenerator

    molecules = [chem.MolFromSmiles(text) for text in smiles]
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=RADIUS, fpSize=BITS)
    bits = np.array([generator.GetFingerprintAsNumPy(one) for one in molecules], float)
    values = np.array([list(Descriptors.CalcMolDescriptors(one).values()) for one in molecules], float)
    return np.hstack([bits, np.clip(np.nan_to_num(values, posinf=0, neginf=0), -1e6, 1e6)])


# -- chemprop --------------------------------------------------------------------------------------------------------


def run_chemprop(table: Path, rows: list[dict[str, str]], y: np.ndarray, classes: bool, python: Path) -> np.ndarray:
    """Predictions of chemprop for all rows: its commands ``train`` and ``predict`` with their defaults."""
    folder, program = table.parent, str(python.parent / "chemprop")
    names = [name for name in rows[0] if name not in ("smiles", "split")]
    kind = "classification" if classes else "regression"
    words = ["--task-type", kind, "--splits-column", "split", "--target-columns", *names, "--smiles-columns", "smiles"]
    _call([program, "train", "-i", str(table), "-o", str(folder / "model"), *words])
    out = folder / "predicted.csv"
    model = next((folder / "model").rglob("best.pt"))
    _call(
        [
            program,
            "predict",
            "-i",
            str(table),
            "--model-paths",
            str(model),
            "--smiles-columns",
            "smiles",
            "-o",
            str(out),
        ]
    )
    with open(out, newline="") as file:
        lines = list(csv.DictReader(file))
    columns = [name if name in lines[0] else f"pred_{place}" for place, name in enumerate(names)]
    return np.array([[float(line[name]) for name in columns] for line in lines])


def _call(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise InputError(f"{' '.join(command[:2])} failed: {done.stderr[-600:]}")
