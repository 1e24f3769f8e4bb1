"""inputs_report.py: what is selected, compared and shown of the rows of inputs.py."""

from __future__ import annotations

import inputs_report


def row(name: str, network: str, split: int, val: float, test: float, **more: str) -> dict[str, str]:
    fixed = {"dataset": "esol", "metric": "mae", "command": "python benchmarks/inputs.py --epochs 60", **more}
    return {**fixed, "input": name, "network": network, "split": str(split), "val": str(val), "test": str(test)}


def three(name: str, network: str, val: float, tests: list[float], **more: str) -> list[dict[str, str]]:
    return [row(name, network, split, val, test, **more) for split, test in enumerate(tests)]


def test_validation_selects_and_splits_are_compared_in_pairs() -> None:
    rows = [
        *three("rich", "gin", 0.1, [9, 9, 9]),  # measured again below
        *three("rich", "gin", 0.5, [0.3, 0.5, 0.7]),
        *three("element", "gin", 0.6, [0.1, 0.1, 0.1]),  # better on test, but validation selects
        *three("tokens", "gin", 0.9, [0.8, 0.9, 1.3]),
        *three("descriptors", "forest", 0.2, [0.31, 0.48, 0.71]),
        *three("descriptors", "gatedgcn", 0.1, [0, 0, 0])[:2],  # a split is missing
    ]
    text = inputs_report.make_table(rows)
    assert "| ESOL | MAE | GIN | 1.000 ± .216 | .100 ± .000 | .500 ± .163 | – | .500 ± .164 |" in text
    assert "| ESOL | MAE | GatedGCN | – | – | – | – | .500 ± .164 |" in text
    assert (
        "- ESOL: validation selects GIN, rich. On test it is level with the forest (.000 ± .010) and better than "
        in text
    )
    assert "better than its own input of version 0.1 (.500 ± .058)." in text
    assert "- BACE" not in text


def test_rows_of_another_metric_are_not_mixed() -> None:
    bace = {"dataset": "bace"}
    rows = [
        *three("rich", "gatedgcn", 80, [80, 81, 82], metric="accuracy", **bace),
        *three("rich", "gatedgcn", 0.8, [0.9, 0.8, 0.85], metric="roc_auc", **bace),
        *three("descriptors", "forest", 0.9, [0.8, 0.75, 0.8], metric="roc_auc", **bace),
    ]
    text = inputs_report.make_table(rows)
    assert "| BACE | ROC-AUC | GatedGCN | – | – | .850 ± .041 | – | .783 ± .024 |" in text
    assert "BACE: validation selects GatedGCN, rich. On test it is better than the forest (.067 ± .017)." in text


def test_other_numbers_of_epochs_are_said() -> None:
    short, bace, tox21 = {"command": "inputs.py"}, {"dataset": "bace"}, {"dataset": "tox21"}
    rows = [
        *three("rich", "gin", 0.5, [0.3, 0.5, 0.7]),
        *three("tokens", "gin", 0.5, [0.3, 0.5, 0.7]),
        *three("rich", "gin", 0.5, [0.3, 0.5, 0.7], metric="roc_auc", **tox21),
        *three("tokens", "gin", 0.5, [0.3, 0.5, 0.7], metric="roc_auc", **tox21 | short),
        *three("rich", "gin", 0.5, [0.3, 0.5, 0.7], metric="roc_auc", **bace | short),
    ]
    assert "- Epochs of a training: 60; BACE, Tox21 with tokens: 100. The best" in inputs_report.make_table(rows)
    assert "- Epochs of a training: 60. The best" in inputs_report.make_table(rows[:6])


def test_encodings_are_compared_over_the_splits_that_all_have() -> None:
    rows = [
        *three("all columns, none", "gine", 0.5, [0.5, 0.6, 0.7]),
        *three("all columns, auto", "gine", 0.4, [0.4, 0.5, 9.0])[:2],
    ]
    text = inputs_report.make_encodings_table(rows)
    assert "| esol | epochs 60 | MAE | GINE | 2 | .500, .550 |  |  |  | **.400**, .450 |" in text
    assert "esol" not in inputs_report.make_encodings_table(rows[:3]), "one encoding is no comparison"
    assert "ESOL | MAE | GIN | – | – | – | – | – |" in inputs_report.make_table(rows)
