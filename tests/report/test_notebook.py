"""Notebook manners: what IPython asks for is there, is valid and is escaped."""

from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from folders import board
from tiny import ring

import gnas
from gnas.arch.genotype import Genotype
from gnas.arch.hand_made import HandMade
from gnas.arch.space import SearchSpace
from gnas.report.notebook import Bars, install_displays
from gnas.run.leaderboard import Leaderboard
from gnas.strategies.base import SearchResult
from gnas.training.stages import Stage, show_jobs, show_progress
from gnas.training.train import TrainResult
from gnas.workflow import Discovery

GENOTYPE = SearchSpace().sample(np.random.default_rng(0), 2)


def test_installed_methods_give_valid_markup() -> None:
    install_displays()
    install_displays()
    search = SearchResult(GENOTYPE, [], 75.0, "<b>own</b>", 3)
    train = TrainResult(41, 0.25, 0.26, 0.2, 0.25, 7, 9, 65.0, 12345, "mae")
    for text, words in (
        (GENOTYPE._repr_svg_(), "Input_2"),  # type: ignore[attr-defined]
        (search._repr_html_(), "<b>own</b>, 3 epochs"),  # type: ignore[attr-defined]
        (train._repr_html_(), "7 of 9"),  # type: ignore[attr-defined]
        (board()._repr_html_(), "gatedgcn"),  # type: ignore[attr-defined]
    ):
        assert words in "".join(ElementTree.fromstring(text).itertext())


def test_whole_jobs_and_estimators_show_their_network_and_table() -> None:
    install_displays()
    found = Discovery(Path("runs/<mine>"), SearchResult(GENOTYPE, [], 75.0, "race", 3), board())
    text = "".join(ElementTree.fromstring(found._repr_html_()).itertext())  # type: ignore[attr-defined]
    for words in ("race, 3 epochs", "gatedgcn", "Run folder: runs/<mine>", "Input_2"):
        assert words in text
    model = gnas.GNAS(cells=2)
    assert "GNAS(cells=2)not fitted" in "".join(ElementTree.fromstring(model._repr_html_()).itertext())  # type: ignore[attr-defined]


def test_a_fitted_estimator_shows_its_leaderboard(tmp_path: Path) -> None:
    install_displays()
    small = {"cells": 1, "channels": 4, "search_epochs": 1, "epochs": 1, "seeds": (1,)}
    graphs = [ring(5 + k % 4, k) for k in range(20)]
    model = gnas.GNAS(**small, out=tmp_path / "run", strategy="single-level").fit(graphs)
    text = "".join(ElementTree.fromstring(model._repr_html_()).itertext())  # type: ignore[attr-defined]
    assert "gnas predicts graph" in text
    assert "validation" in text
    assert "Input_1" in text


def test_a_deep_network_is_listed_instead_of_drawn() -> None:
    install_displays()
    deep = SearchSpace().sample(np.random.default_rng(0), 16)
    text = SearchResult(deep, [], 1.0, "x")._repr_html_()  # type: ignore[attr-defined]
    assert "<svg" not in text
    assert text.count("<li>") == 16


def test_other_architectures_are_named() -> None:
    install_displays()
    html = SearchResult(HandMade("gcn", 2), [], 1.0, "x")._repr_html_()  # type: ignore
    assert "gcn, 2 layers" in html
    assert "<li><code>gcn</code></li>" in html


def test_the_classes_keep_their_plain_form() -> None:
    install_displays()
    assert repr(GENOTYPE).startswith("Genotype(")
    assert {"_repr_svg_"} <= set(dir(Genotype))
    assert {"_repr_html_"} <= set(dir(Leaderboard))


@pytest.fixture
def pictures() -> Iterator[list[tuple[str, str, bool]]]:
    """What jobs show while they run: the HTML, the name of the place, and whether it is drawn again."""
    seen: list[tuple[str, str, bool]] = []
    show_jobs(lambda: Bars(lambda *picture: seen.append(picture)))
    yield seen
    show_jobs(None)


def rows(picture: tuple[str, str, bool]) -> dict[str, tuple[float, str]]:
    """The stages of a picture: the length of the bar and the words."""
    found = {}
    for row in ElementTree.fromstring(picture[0]).iter("tr"):
        label, bar, words = row
        found[str(label.text)] = (float(bar[0].attrib["value"]), words.text or "")
    return found


def test_a_whole_job_has_a_bar_for_each_stage(tmp_path: Path, pictures: list[tuple[str, str, bool]]) -> None:
    small = {"cells": 1, "channels": 4, "search_epochs": 2, "epochs": 3, "seeds": (1,), "baselines": ("gin",)}
    gnas.GNAS(**small, out=tmp_path / "run", strategy="single-level").fit([ring(5 + k % 4, k) for k in range(20)])
    assert [again for _, _, again in pictures] == [False, *[True] * (len(pictures) - 1)]
    assert len({name for _, name, _ in pictures}) == 1, "search and trainings share one table"
    assert rows(pictures[0]) == {
        name: (0.0, f"epoch 0 of {k}") for name, k in (("search", 2), ("train gnas", 3), ("train gin", 3))
    }
    last = rows(pictures[-1])
    assert all(share == 1.0 for share, _ in last.values())
    assert last["search"][1].startswith("2 epochs in ")
    assert "best val" in last["train gin"][1]


def test_a_search_and_a_training_of_their_own_have_bars(pictures: list[tuple[str, str, bool]]) -> None:
    data = gnas.load([ring(5 + k % 4, k) for k in range(20)])
    found = gnas.search(data, strategy=gnas.SingleLevel(epochs=2), channels=4, num_cells=1)
    assert rows(pictures[-1])["search"][1].startswith("2 epochs in ")
    pictures.clear()
    gnas.train_seeds(found.network, data, gnas.TrainConfig(epochs=2, batch_size=16), seeds=(1, 2))
    assert rows(pictures[-1])["training"][1].startswith("4 epochs in ")


def test_progress_is_not_shown_to_who_reads_the_records(tmp_path: Path, pictures: list[tuple[str, str, bool]]) -> None:
    data, records = gnas.load([ring(5 + k % 4, k) for k in range(20)]), []
    gnas.search(data, strategy=gnas.SingleLevel(epochs=1), channels=4, num_cells=1, on_epoch=records.append)
    assert len(records) == 1
    small = {"cells": 1, "channels": 4, "search_epochs": 1, "epochs": 1, "seeds": (1,), "strategy": "single-level"}
    gnas.GNAS(**small, out=tmp_path / "run", verbose=-1).fit(data)
    assert pictures == []


def test_a_failed_job_keeps_its_bars_where_they_were(pictures: list[tuple[str, str, bool]]) -> None:
    def job() -> None:
        with show_progress(None, lambda: [Stage("search", "<search>", 4)], "mae") as on_epoch:
            assert on_epoch is not None
            on_epoch({"stage": "search", "epoch": 1, "val_metric": 0.5})
            raise RuntimeError

    with pytest.raises(RuntimeError):
        job()
    share, words = rows(pictures[-1])["<search>"]
    assert share == 0.25
    assert words.startswith("epoch 1 of 4; ")
    assert "val 0.5" in words


def test_results_hold_their_networks_as_modules(tmp_path: Path) -> None:
    data = gnas.load([ring(5 + k % 4, k) for k in range(20)])
    graph = data.test[0]
    found = gnas.search(data, strategy=gnas.SingleLevel(epochs=1), channels=4, num_cells=1)
    trained = gnas.train(found.network, data, gnas.TrainConfig(epochs=1, batch_size=16))
    settings = gnas.Settings.resolve(
        "fast", cells=1, channels=4, search_epochs=1, epochs=1, strategy="single-level", baselines=()
    )
    for resume in (False, True):  # a search that is read from the folder, too
        job = gnas.discover(data, settings, tmp_path / "run", resume=resume)
        assert job.network is job.network
        for network in (found.network, trained.network, job.search.network, job.network):
            assert isinstance(network, torch.nn.Module)
            assert network(graph.x, graph.edge_index).shape == (1, 1)
    again = gnas.load_model(tmp_path / "run")[0]
    assert all(
        torch.equal(a, b) for a, b in zip(job.network.state_dict().values(), again.state_dict().values(), strict=True)
    )
    with pytest.raises(gnas.InputError, match=r"gnas.Network\(result.genotype, task\)"):
        SearchResult(GENOTYPE, [], 1.0, "x").network  # noqa: B018
