"""The sentences: what is better, what is level, what is worse, and for how long."""

from dataclasses import replace
from pathlib import Path

import pytest
from folders import board, made_up_comparison, made_up_job

from gnas.report.answer import describe_run, judge_row, list_facts
from gnas.run.folder import Run
from gnas.run.record import read_run


@pytest.mark.parametrize(
    ("metric", "mine", "theirs", "seeds", "told"),
    [
        ("mae", 0.2, 0.3, 4, "better"),
        ("mae", 0.3, 0.2, 4, "worse"),
        ("accuracy", 0.3, 0.2, 4, "better"),
        ("accuracy", 0.2, 0.3, 1, "worse"),
        ("mae", 0.3, 0.302, 4, "within the spread over the seeds"),
        ("mae", 0.3, 0.302, 1, "better"),
        ("mae", 0.3, 0.3, 1, "the same"),
    ],
)
def test_verdicts(metric: str, mine: float, theirs: float, seeds: int, told: str) -> None:
    row, rival = (replace(one, mean=mean, seeds=seeds) for one, mean in zip(board().rows, (mine, theirs), strict=False))
    assert judge_row(metric, row, rival) == told


def test_a_worse_network_is_called_worse(tmp_path: Path) -> None:
    job = read_run(made_up_job(tmp_path / "job"))
    rows = tuple(replace(row, mean=row.mean + 0.1, seeds=1) if row.found else row for row in board().rows)
    job = replace(job, leaderboard=replace(board(), rows=tuple(sorted(rows, key=lambda row: row.mean))))
    text = " ".join(describe_run(job)).replace("\u00a0", " ")
    assert "with one seed. This is 24.9 % worse than the best hand-made network, gatedgcn" in text
    assert "+24.9 %" in [fact.value.replace("\u00a0", " ") for fact in list_facts(job)]


@pytest.mark.parametrize(("val", "used"), [(0.301, False), (0.302, True)])
def test_of_networks_with_the_same_validation_predictions_use_the_found_one(
    tmp_path: Path, val: float, used: bool
) -> None:
    rows = [replace(row, val=val) if row.found else row for row in board().rows]
    rows.sort(key=lambda row: row.found)  # the hand-made ones first, as if they were better on test
    job = replace(read_run(made_up_job(tmp_path / "job")), leaderboard=replace(board(), rows=tuple(rows)))
    first = describe_run(job)[0].replace("\u00a0", " ")
    assert first.startswith("Predictions use the hand-made network") == used
    assert ("predictions use it" in [fact.remark for fact in list_facts(job)]) == used
    text = " ".join(describe_run(job, with_network=False))
    assert ("The found network reaches" in text) == used
    assert text.count("the best hand-made network, gatedgcn") == (not used)  # named before, by the first sentence
    assert "The search found" not in text


def test_the_best_of_several_searches_is_named(tmp_path: Path) -> None:
    job = read_run(made_up_job(tmp_path / "job"))
    several = [{"seed": seed, "val_metric": value} for seed, value in ((0, 0.31), (1, 0.29), (2, None))]
    assert job.search is not None
    job = replace(job, search=replace(job.search, seed=1, searches=tuple(several)))
    wanted = "seed 1 had the best validation result after a brief training: MAE 0.2900. The others had 0.3100 and –."
    assert f"Of 3 searches, {wanted}" in [sentence.replace("\u00a0", " ") for sentence in describe_run(job)]
    assert "3 searches" in [fact.remark for fact in list_facts(job)]


def test_without_baselines(tmp_path: Path) -> None:
    job = read_run(made_up_job(tmp_path / "job"))
    job = replace(job, leaderboard=replace(board(), rows=board().rows[:1]))
    assert "No other network was trained for comparison" in " ".join(describe_run(job))
    assert not [fact for fact in list_facts(job) if fact.label.startswith("compared")]


def test_the_best_strategy_is_named(tmp_path: Path) -> None:
    one = made_up_comparison()
    texts = one.table().texts()
    assert [row[0] for row in texts] == ["$one_$hot", "random"]
    assert [row[1] for row in texts] == ["0.5000 ± 0.1000", "0.6000 ± 0.1000"]
    assert texts[1][2] == "–"  # at half the budget one seed had nothing
    with Run(tmp_path, {"job": "compare", "dataset": "rings"}) as run:
        one.save(tmp_path)
        run.write_json("result", {})
    (sentence,) = describe_run(read_run(tmp_path))
    assert sentence == (
        "Of 2 strategies, $one_$hot found the best network by validation within 10 epochs: MAE\u00a00.5000 ± 0.1000 over 2 seeds."
    )
