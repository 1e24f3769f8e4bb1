"""``gnas depth``: rounds until the depth settles."""

from __future__ import annotations

from pathlib import Path

from terminal import gnas

SEARCHES = ("--preset", "fast", "--epochs", "1", "--channels", "4", "--set", "nodes=2", "--device", "cpu")


def test_depth_settles_and_is_told(rings: Path) -> None:
    ended = gnas("depth", rings, *SEARCHES, "--cells", "2", "--out", "run")
    assert ended.code == 0, ended
    assert "round 1 (2 cells): 1 epoch in" in ended.err
    found = gnas("depth", rings, "--out", "run", "--resume", "--json").json
    assert found["trajectory"][0] == 2
    assert found["explanation"] in " ".join(ended.out.split())
    assert Path("run/report.html").exists()
