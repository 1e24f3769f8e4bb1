"""Parts from other packages: found by entry point, imported when used, and named when they fail."""

import sys
import types
from importlib.metadata import EntryPoint

import pytest

from gnas import plugins
from gnas.errors import InputError
from gnas.strategies import RandomSearch, SearchStrategy, make_strategy


@pytest.fixture(autouse=True)
def outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed package that offers a strategy, a broken one, a missing one, and one under a name of ours."""
    module = types.ModuleType("outside_package")
    module.Greedy = lambda trials=3: RandomSearch(trials=trials, name="greedy")  # type: ignore[attr-defined]
    module.number = 3  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "outside_package", module)
    offered = {"greedy": "Greedy", "broken": "Missing", "number": "number", "random": "Greedy"}
    points = [EntryPoint(name, f"outside_package:{part}", "gnas.strategies") for name, part in offered.items()]
    points.append(EntryPoint("absent", "absent_package:Part", "gnas.strategies"))
    monkeypatch.setattr(plugins, "entry_points", lambda group: [p for p in points if p.group == group])


def test_a_strategy_from_outside() -> None:
    found: SearchStrategy = make_strategy("greedy", trials=5)
    assert found == RandomSearch(trials=5, name="greedy")
    with pytest.raises(InputError, match="unknown setting of the strategy greedy 'trails'"):
        make_strategy("greedy", trails=5)


def test_ours_win_a_clash() -> None:
    assert make_strategy("random").name == "random"


def test_names_of_all_are_listed() -> None:
    with pytest.raises(InputError, match=r"single-level, .*graphnas, .*greedy, .*did you mean 'greedy'"):
        make_strategy("gredy")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("broken", r"gnas.strategies 'broken' \(outside_package:Missing\) cannot be imported"),
        ("absent", "No module named 'absent_package'"),
        ("number", "is not callable"),
    ],
)
def test_what_cannot_be_used_is_named(name: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make_strategy(name)


def test_other_groups_are_separate() -> None:
    assert plugins.find_plugins("gnas.baselines") == {}
    assert set(plugins.find_plugins("gnas.strategies")) == {"greedy", "broken", "number", "random", "absent"}
