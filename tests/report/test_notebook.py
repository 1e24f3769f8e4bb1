"""Notebook manners: what IPython asks for is there, is valid and is escaped."""

from pathlib import Path
from xml.etree import ElementTree

import numpy as np
from folders import board
from tiny import ring

import gnas
from gnas.arch.genotype import Genotype
from gnas.arch.hand_made import HandMade
from gnas.arch.space import SearchSpace
from gnas.report.notebook import install
from gnas.run.leaderboard import Leaderboard
from gnas.strategies.base import SearchResult
from gnas.training.train import TrainResult
from gnas.workflow import Discovery

GENOTYPE = SearchSpace().sample(np.random.default_rng(0), 2)


def test_installed_methods_give_valid_markup() -> None:
    install()
    install()
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
    install()
    found = Discovery(Path("runs/<mine>"), SearchResult(GENOTYPE, [], 75.0, "race", 3), board())
    text = "".join(ElementTree.fromstring(found._repr_html_()).itertext())  # type: ignore[attr-defined]
    for words in ("race, 3 epochs", "gatedgcn", "Run folder: runs/<mine>", "Input_2"):
        assert words in text
    model = gnas.GNAS(cells=2)
    assert "GNAS(cells=2)not fitted" in "".join(ElementTree.fromstring(model._repr_html_()).itertext())  # type: ignore[attr-defined]


def test_a_fitted_estimator_shows_its_leaderboard(tmp_path: Path) -> None:
    install()
    small = {"cells": 1, "channels": 4, "search_epochs": 1, "epochs": 1, "seeds": (1,)}
    graphs = [ring(5 + k % 4, k) for k in range(20)]
    model = gnas.GNAS(**small, out=tmp_path / "run", strategy="single-level").fit(graphs)
    text = "".join(ElementTree.fromstring(model._repr_html_()).itertext())  # type: ignore[attr-defined]
    assert "gnas predicts graph" in text
    assert "validation" in text
    assert "Input_1" in text


def test_a_deep_network_is_listed_instead_of_drawn() -> None:
    install()
    deep = SearchSpace().sample(np.random.default_rng(0), 16)
    text = SearchResult(deep, [], 1.0, "x")._repr_html_()  # type: ignore[attr-defined]
    assert "<svg" not in text
    assert text.count("<li>") == 16


def test_other_architectures_are_named() -> None:
    install()
    html = SearchResult(HandMade("gcn", 2), [], 1.0, "x")._repr_html_()  # type: ignore
    assert "gcn, 2 layers" in html
    assert "<li><code>gcn</code></li>" in html


def test_the_classes_keep_their_plain_form() -> None:
    install()
    assert repr(GENOTYPE).startswith("Genotype(")
    assert {"_repr_svg_"} <= set(dir(Genotype))
    assert {"_repr_html_"} <= set(dir(Leaderboard))
