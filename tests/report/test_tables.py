"""Tables of a report: what they show is what the records hold."""

from pathlib import Path

from folders import made_up_job

from gnas.report.tables import rounds_table, runs_table, splits_table, trainings_table, values_table
from gnas.run.record import RoundRecord, RunRecord, read_run


def test_trainings_show_the_result_or_the_last_epoch(tmp_path: Path) -> None:
    run = read_run(made_up_job(tmp_path / "run", stage="training"))
    table = trainings_table(run)
    rows = [dict(zip(table.headings(), texts, strict=True)) for texts in table.texts()]
    assert [row["state"] for row in rows].count("finished") == 1
    for row, training in zip(rows, table.rows, strict=True):
        last = training.history[-1]["val_metric"] if training.result is None else training.result.val
        assert (row["network"], row["seed"]) == (training.name, str(training.seed))
        assert row["validation MAE"] == f"{last:.4f}"
        assert (row["test MAE"] == "–") == (training.result is None)


def test_rounds() -> None:
    rounds = (RoundRecord(4, 3, 0.25, 61.0), RoundRecord(3, None, None, None))
    run = RunRecord(Path("depth"), {"dataset": "zinc"}, "running", rounds=rounds)
    texts = [tuple(text.replace("\u00a0", " ") for text in row) for row in rounds_table(run).texts()]
    assert texts == [("1", "4", "3", "0.2500", "1 min 1 s"), ("2", "3", "–", "–", "–")]


def test_splits() -> None:
    split = {"graphs": 2, "nodes": 1001, "edges": 4000, "nodes_min": 1, "nodes_max": 1000}
    (row,) = splits_table({"splits": {"train": split}}).texts()
    assert row == ("train", "2", "1,001", "4,000", "500.5", "1 to 1000")


def test_nested_values_have_dotted_names() -> None:
    table = values_table("", {"seed": 1, "space": {"filters": ["sparse", "dense"], "nodes": None}})
    assert table.texts() == [("seed", "1"), ("space.filters", "sparse, dense"), ("space.nodes", "–")]


def test_runs_stand_side_by_side(tmp_path: Path) -> None:
    runs = [read_run(made_up_job(tmp_path / name, stage=name)) for name in ("finished", "searching")]
    first, second = (dict(zip(runs_table(runs).headings(), row, strict=True)) for row in runs_table(runs).texts())
    assert (first["verdict"], first["test metric"]) == ("better", "0.2760 ± 0.0030 MAE")
    assert (second["verdict"], second["weights"], second["state"]) == ("–", "–", "stopped")
