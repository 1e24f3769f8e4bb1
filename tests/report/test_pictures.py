"""Pictures of a page: each different cell is drawn once, and every epoch has its frame."""

from pathlib import Path

from folders import made_up_job, put

from gnas.report.pictures import build_frames, make_pictures, save_pictures
from gnas.run.record import read_run


def test_identical_cells_are_drawn_once_and_every_epoch_can_be_shown(tmp_path: Path) -> None:
    job = read_run(made_up_job(tmp_path / "job", epochs=30, cells=4))
    frames = build_frames(job)
    assert [frame.label for frame in frames.frames] == [f"Epoch {n}" for n in range(1, 31)]
    assert len(frames.drawings) == len(set(frames.drawings)) < 30
    assert frames.frames[-1].drawings == frames.frames[-2].drawings
    assert "no change" in frames.frames[-1].text
    assert "1 link changed" in frames.frames[1].text
    assert job.genotype is not None
    shown = [frames.drawings[number][1] for number in frames.frames[-1].drawings]
    assert tuple(shown) == job.genotype.formulas()


def test_a_final_choice_that_is_not_the_last_epochs_is_a_frame_of_its_own(tmp_path: Path) -> None:
    folder = made_up_job(tmp_path / "job", epochs=10)
    first = read_run(folder).history[0]["genotype"]
    put(folder / "genotype.yaml", first)
    frames = build_frames(read_run(folder)).frames
    assert frames[-1].label == "Final architecture"
    assert frames[-1].drawings == frames[0].drawings


def test_every_plot_can_be_saved_as_svg_and_png(tmp_path: Path) -> None:
    folder = made_up_job(tmp_path / "job", epochs=5)
    files = save_pictures(folder, tmp_path / "pictures")
    assert len(files) == 2 * len(make_pictures(read_run(folder))) == len(set(files))
    assert {file.suffix for file in files} == {".svg", ".png"}
    for file in files:
        start = file.read_bytes()[:200]
        assert b"PNG" in start or b"<svg" in start or b"<?xml" in start, file
