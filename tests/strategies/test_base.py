"""The arguments and the result of a search."""

from pathlib import Path

import pytest
import torch
from small import GENOTYPE
from tiny import tiny

from gnas.errors import InputError
from gnas.jobs import Runner
from gnas.run.folder import Run
from gnas.strategies.base import SearchContext, SearchResult, read_finished_search


def result(**changes: object) -> SearchResult:
    history = [{"epoch": 1, "val_metric": 0.5}]
    return SearchResult(GENOTYPE, history, 1.5, "random", 3, 7, **changes)  # type: ignore[arg-type]


def test_the_network_of_a_result_is_as_wide_as_in_the_search() -> None:
    found = result(task=tiny().task, channels=12).network
    assert found.architecture == GENOTYPE
    assert found.num_weights() > result(task=tiny().task, channels=6).network.num_weights()
    with pytest.raises(InputError, match=r"has no task; build its network with gnas.Network\(result.genotype, task\)"):
        _ = result().network


def test_a_result_is_read_from_the_run_folder(tmp_path: Path) -> None:
    with Run(tmp_path / "search", {}) as run:
        assert read_finished_search(run) is None
        found = result()
        for record in found.history:
            run.append(record)
        run.write_json("result", found.to_dict())
        run.write_genotype(GENOTYPE)
    read = read_finished_search(Run(tmp_path / "search"))
    assert read == found
    assert read is not None
    assert read.history == found.history


def test_without_a_run_folder_jobs_run_in_this_process(tmp_path: Path) -> None:
    context = SearchContext(device=torch.device("cpu"))
    assert context.get_runner().in_process
    assert context.name_folder(context.get_runner(), "trials") == "search/trials"
    given = Runner(tmp_path)
    assert SearchContext(runner=given).get_runner() is given
