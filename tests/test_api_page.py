"""The API page: every name on it explains its arguments and has an example, and the examples run as they are written."""

import doctest
import importlib.util
import inspect
import re
import shutil
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest
from tiny import ring

import gnas
from gnas.run import models

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "api.md").read_text()
NAMES = re.findall(r"^::: (\S+)$", PAGE, re.M)
SMALL = {"cells": 2, "channels": 4, "search_epochs": 1, "epochs": 1, "seeds": (41,), "baselines": ()}


def listed() -> dict[str, Any]:
    """The classes and functions of the page by name; of a module those that the page lists."""
    found = {}
    for name in NAMES:
        members = re.search(rf"^::: {re.escape(name)}\n    options:\n      members: \[(.*?)\]", PAGE, re.M)
        if members:
            found |= {f"{name}.{one}": getattr(importlib.import_module(name), one) for one in members[1].split(", ")}
        else:
            module, _, attribute = name.rpartition(".")
            found[name] = getattr(importlib.import_module(module), attribute)
    return found


LISTED = listed()
every_name = pytest.mark.parametrize("name", LISTED)


def arguments(value: Callable[..., Any]) -> list[str]:
    """The parameters that need words; those of an exception and of a class that inherits its constructor do not."""
    if inspect.isclass(value) and ("__init__" not in vars(value) or issubclass(value, Exception)):
        return []
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [one.name for one in inspect.signature(value).parameters.values() if one.kind in kinds]


@every_name
def test_the_arguments_are_explained(name: str) -> None:
    value = LISTED[name]
    text, needed = inspect.getdoc(value) or "", arguments(value)
    if is_dataclass(value) and any("help" in one.metadata for one in fields(value)):
        return  # the site makes a table of the fields
    explained = re.findall(r"^    ((?:\*?\*?\w+(?:, )?)+):", text.partition("Args:\n")[2], re.M)
    words = {word.strip("*") for group in explained for word in group.split(", ")}
    if len(needed) > 2:
        missing = [word for word in needed if not re.search(rf"\b{word}\b", text)]
        assert words, "no block Args"
        assert not missing, missing
    assert words <= {*inspect.signature(value).parameters}, "an argument that is not there"


@every_name
def test_there_is_an_example(name: str) -> None:
    assert doctest.DocTestParser().get_examples(inspect.getdoc(LISTED[name]) or "")


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A folder with the files of the examples, and their names."""
    pytest.importorskip("rdkit", reason="the examples read molecules")
    folder = tmp_path_factory.mktemp("examples")
    for file in (ROOT / "examples").glob("*.csv"):
        shutil.copy(file, folder)
    molecules = gnas.load(folder / "molecules.csv", target="logP")
    settings = gnas.Settings.resolve("fast", **SMALL, strategy="single-level", space={"nodes": 2})
    gnas.discover(molecules, settings, folder / "runs" / "mine")
    data, genotype = gnas.load("cluster-mini"), gnas.gap.approximate("gin", num_cells=2)
    network = gnas.Network(genotype, data.task, channels=8)
    graphs = [ring(5 + k % 4, k) for k in range(20)]
    return folder, {"data": data, "genotype": genotype, "network": network, "graphs": graphs}


@every_name
def test_the_example_runs(name: str, scene: tuple[Path, dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    folder, names = scene
    value = LISTED[name]
    monkeypatch.chdir(folder)
    numbers = name.endswith("Regressor")
    given = {**names, "y": [float(k % 3) if numbers else k % 2 for k in range(20)]}
    module = vars(importlib.import_module(value.__module__))
    test = doctest.DocTestFinder(recurse=False).find(value, name, globs={**module, **given, "gnas": gnas})[0]
    said: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL, verbose=False)
    result = runner.run(test, out=said.append)
    assert result.failed == 0, "".join(said)


def test_every_public_name_is_on_the_page() -> None:
    public = [one for name in gnas.__all__ if callable(one := getattr(gnas, name))]
    assert len(public) > 30
    assert not [one for one in public if one not in LISTED.values()]


def test_the_page_says_what_its_names_are() -> None:
    for words in ('gnas.load("cluster-mini")', 'gnas.gap.approximate("gin", num_cells=2)', "runs/mine"):
        assert words in PAGE
    assert models.load_model is LISTED["gnas.run.models.load_model"]


def test_docstrings_are_markdown_on_the_page() -> None:
    pytest.importorskip("griffe", reason="griffe reads docstrings for the page")
    spec = importlib.util.spec_from_file_location("docstrings", ROOT / "docs" / "docstrings.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    text = "See :class:`~gnas.Task`::\n\n    >>> f(1)  # doctest: +SKIP\n    2\n\nMore."
    assert module.as_markdown(text) == "See `gnas.Task`:\n\n    ```pycon\n    >>> f(1)\n    2\n    ```\n\nMore."
