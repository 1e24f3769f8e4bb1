"""``gnas data show``: the description that a search prints, for people and as JSON; bad input gives one line."""

import json

from builders import write_folder, write_tu
from typer.testing import CliRunner

from gnas.cli import app

RUN = CliRunner()


def test_show_prints_the_description_with_the_input_of_a_search(tmp_path):
    folder = write_tu(tmp_path / "TOY")
    found = RUN.invoke(app, ["data", "show", str(folder), "--data", "split=stratified"])
    assert found.exit_code == 0, found.output
    assert "TOY (TU folder)" in found.output
    assert "TOY_A.txt (72 rows)" in found.output
    assert "degree of the node" in found.output  # the default preset adds it, as in gnas search
    paper = RUN.invoke(app, ["data", "show", str(folder), "--data", "split=stratified", "--preset", "paper"])
    assert "degree of the node" not in paper.output


def test_show_as_json(tmp_path):
    folder = write_folder(tmp_path / "tables")
    found = RUN.invoke(app, ["data", "show", str(folder), "--json"])
    content = json.loads(found.output)
    assert content["splits"]["train"] == {"graphs": 8, "targets": 8}
    assert content["task"]["kind"] == "regression"
    assert any("split: as given" in line for line in content["description"]["inferred"])


def test_show_refuses_in_one_line(tmp_path):
    found = RUN.invoke(app, ["data", "show", str(tmp_path)])
    assert found.exit_code != 0
    assert "no nodes.csv here" in found.output
