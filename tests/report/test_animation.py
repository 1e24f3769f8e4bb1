"""The animated picture of a race: valid, complete without an animation, and the one in the pages is up to date."""

from pathlib import Path
from xml.etree import ElementTree

import pytest
from trained import refused

from gnas.report.animation import animate_race, save_animation
from gnas.run.record import read_run

ROOT = Path(__file__).parents[2]
RACE = ROOT / "tests" / "kept" / "race"
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def picture() -> ElementTree.Element:
    return ElementTree.fromstring(animate_race(read_run(RACE)))


def test_every_training_is_a_moment_of_the_animation(picture: ElementTree.Element) -> None:
    history = read_run(RACE).history
    texts = [text.text or "" for text in picture.iter(f"{SVG}text")]
    assert sum("tried" in text for text in texts) == len(history) == 15
    assert sum("the best found network" in text for text in texts) >= 2  # it changes
    for animation in picture.iter(f"{SVG}animate"):
        times = [float(time) for time in animation.attrib["keyTimes"].split(";")]
        assert times == sorted(times)
        assert times[0] == 0
        assert times[-1] <= 1
        assert len(animation.attrib["values"].split(";")) == len(times)


def test_without_an_animation_the_end_is_shown(picture: ElementTree.Element) -> None:
    shown = [group for group in picture.iter(f"{SVG}g") if group.attrib.get("opacity") == "1"]
    words = ["".join(group.itertext()) for group in shown]
    assert len(shown) == 2
    assert "9 networks tried, 4 dropped; leader: gin+, 4 layers" in words[0]
    assert "MAE 0.0779" in words[1].replace("\xa0", " ")


def test_the_picture_of_the_pages_is_up_to_date(tmp_path: Path) -> None:
    """``gnas draw tests/kept/race --race -o docs/images/race.svg --force`` writes it."""
    made = save_animation(RACE, tmp_path / "race.svg")
    shown, fresh = (ElementTree.parse(file).getroot() for file in (ROOT / "docs" / "images" / "race.svg", made))
    assert [text.text for text in shown.iter(f"{SVG}text")] == [text.text for text in fresh.iter(f"{SVG}text")]
    assert [one.attrib for one in shown.iter(f"{SVG}animate")] == [one.attrib for one in fresh.iter(f"{SVG}animate")]


def test_other_runs_are_refused(tmp_path: Path) -> None:
    assert "written as .svg" in refused(save_animation, RACE, tmp_path / "race.png")
    (tmp_path / "config.yaml").write_text((RACE / "config.yaml").read_text())
    assert "only a race of several trainings" in refused(save_animation, tmp_path, tmp_path / "race.svg")
