"""Notebook manners: what IPython asks for is there, is valid and is escaped."""

from xml.etree import ElementTree

import numpy as np
from folders import board

from gnas.arch.genotype import Genotype
from gnas.arch.hand_made import HandMade
from gnas.arch.space import SearchSpace
from gnas.report.notebook import install
from gnas.run.leaderboard import Leaderboard
from gnas.strategies.base import SearchResult
from gnas.training.train import TrainResult

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
