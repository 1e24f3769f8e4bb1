"""The report in a real browser: it opens without a complaint, the slider moves the drawing, tables sort.

The page under test is the report's own text with a script appended that acts like a reader and notes what it sees.
"""

import html
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from browser import BROWSER, QUIET
from folders import made_up_job, put

from gnas.report import compare_report, write_report

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no chromium on PATH: the report is not opened in a browser")

READER = """
<script>
window.addEventListener("load", () => {
  const seen = {};
  const cells = () => [...document.querySelectorAll("#cells figure")].map((figure) => figure.dataset.drawing);
  const slider = document.getElementById("scrub");
  const move = (value) => { slider.value = value; slider.dispatchEvent(new Event("input", { bubbles: true })); };
  const column = (table, n) => [...table.tBodies[0].rows].map((row) => row.cells[n].textContent);
  const heading = (table, n) => table.tHead.rows[0].cells[n];
  try {
    ACTIONS
  } catch (error) { seen.error = String(error); }
  const note = document.createElement("pre");
  note.id = "seen";
  note.textContent = JSON.stringify(seen);
  document.body.append(note);
});
</script>
"""


def read(path: Path, actions: str, *options: str) -> dict[str, Any]:
    """What the reader saw, after it was made sure that the console stayed silent."""
    copy = path.with_name("read.html")
    copy.write_text(path.read_text().replace("</body>", READER.replace("ACTIONS", actions) + "</body>"))
    command = [str(BROWSER), *QUIET, f"--user-data-dir={path.parent / 'profile'}", *options]
    done = subprocess.run(
        [*command, "--dump-dom", copy.as_uri()], capture_output=True, text=True, timeout=90, check=True
    )
    assert not [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    found = re.search(r'<pre id="seen">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found, done.stdout[-500:]
    seen = json.loads(html.unescape(found[1]))
    assert "error" not in seen, seen["error"]
    return seen


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = made_up_job(tmp_path_factory.mktemp("jobs") / "job", epochs=10)
    return write_report(folder)


def test_the_slider_moves_the_drawing(report: Path) -> None:
    seen = read(
        report,
        """
        seen.start = cells(); seen.max = slider.max; seen.visible = slider.offsetWidth > 100;
        move(0); seen.first = cells(); seen.text = document.getElementById("moment").textContent;
        seen.spoken = slider.getAttribute("aria-valuetext");
        seen.formula = document.querySelector("#cells code").textContent;
        move(slider.max); seen.last = cells();
        slider.focus(); seen.focused = document.activeElement === slider;
        """,
    )
    assert seen["max"] == "9"
    assert seen["visible"]
    assert seen["focused"]
    assert seen["first"] != seen["start"] == seen["last"]
    assert seen["text"] == seen["spoken"]
    assert seen["text"].startswith("Epoch 1 ·")
    assert "(" in seen["formula"]


def test_play_runs_from_the_first_epoch_to_the_last(report: Path) -> None:
    seen = read(
        report,
        """
        const play = document.getElementById("play");
        play.click(); seen.at = slider.value; seen.pressed = play.getAttribute("aria-pressed");
        play.click(); seen.paused = [play.textContent, play.getAttribute("aria-pressed")];
        """,
    )
    assert seen == {"at": "0", "pressed": "true", "paused": ["Play", "false"]}


def test_tables_sort_by_click(report: Path) -> None:
    seen = read(
        report,
        """
        const table = document.querySelector("table.sortable");
        const click = (n) => heading(table, n).querySelector("button").click();
        seen.before = [column(table, 1), heading(table, 1).ariaSort];
        click(1); seen.worst = [column(table, 1), heading(table, 1).ariaSort];
        click(1); seen.best = [column(table, 1), heading(table, 1).ariaSort];
        click(0); seen.names = column(table, 0); seen.other = heading(table, 1).ariaSort;
        """,
    )
    means = [f"{mean} ± 0.0030" for mean in ("0.2760", "0.3010", "0.3530", "0.4100")]
    assert seen["before"] == seen["best"] == [means, "ascending"]
    assert seen["worst"] == [means[::-1], "descending"]
    assert seen["names"] == ["gatedgcn", "gcn", "gin", "gnas (found)"]
    assert seen["other"] == "none"


def test_code_is_copied_or_selected(report: Path) -> None:
    seen = read(
        report,
        """
        Object.defineProperty(navigator, "clipboard", { value: { writeText: (text) => { seen.text = text; } } });
        document.querySelector(".copy").click();
        """,
    )
    assert seen["text"].startswith("import gnas")


@pytest.mark.parametrize("dark", [False, True])
def test_nothing_overflows_on_a_phone_and_texts_stand_out(report: Path, dark: bool) -> None:
    frame = report.with_name("phone.html")
    inner = html.escape(report.read_text(), quote=True)
    frame.write_text(f'<body><iframe style="width:360px;height:900px" srcdoc="{inner}"></iframe></body>')
    seen = read(
        frame,
        """
        const inside = document.querySelector("iframe").contentDocument;
        const root = inside.documentElement;
        seen.widths = [root.scrollWidth, root.clientWidth];
        const light = (colour) => colour.match(/[\\d.]+/g).slice(0, 3).reduce((sum, v) => sum + Number(v), 0) / 765;
        const style = inside.defaultView.getComputedStyle(inside.body);
        seen.contrast = light(style.color) - light(style.backgroundColor);
        """,
        f"--blink-settings=preferredColorScheme={0 if dark else 1}",
    )
    assert seen["widths"][0] <= seen["widths"][1]
    assert seen["contrast"] > 0.6 if dark else seen["contrast"] < -0.6


def test_a_complaint_of_the_console_would_be_seen(report: Path) -> None:
    with pytest.raises(AssertionError, match="CONSOLE"):
        read(report, "console.error('a complaint');")
    with pytest.raises(AssertionError, match="CONSOLE"):
        read(report, "const image = new Image(); image.src = 'https://example.org/x.png';")


EVIL = "</script></style></title><script>window.ran = 1</script><img src=x onerror='window.ran = 1'>{{ 7 * 7 }}"


def spoilt(value: Any) -> Any:
    """Every text that is not a name of ours, replaced."""
    if isinstance(value, dict):
        return {
            key: item if key in ("level", "kind", "loss", "metric", "readout") else spoilt(item)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [spoilt(item) for item in value]
    return EVIL if isinstance(value, str) else value


def test_nothing_from_outside_runs_in_the_page(tmp_path: Path) -> None:
    folder = made_up_job(tmp_path / "a <b onclick='window.ran = 1'>", dataset=EVIL, epochs=3)
    data = spoilt(json.loads((folder / "data.json").read_text()))
    put(folder / "data.json", {**data, "notes": [EVIL], "task": {**data["task"], "labels": [EVIL]}})
    put(folder / "leaderboard.json", {**spoilt(json.loads((folder / "leaderboard.json").read_text())), "metric": "mae"})
    put(folder / "versions.json", {EVIL: EVIL})
    put(
        folder / "trained" / "gnas" / "seed-41" / "config.yaml",
        json.dumps({"model": EVIL, "describe": EVIL, "seed": 41}),
    )
    config = json.dumps({"job": "search", "dataset": EVIL, "strategy": EVIL, EVIL: EVIL})
    put(folder / "config.yaml", config)
    for path in (write_report(folder), compare_report([folder, folder], tmp_path / "both.html")):
        seen = read(path, "seen.ran = window.ran || 0; seen.shown = document.body.innerText.split('onerror').length;")
        assert seen["ran"] == 0
        assert seen["shown"] > 3


def test_the_comparison_opens_and_sorts(tmp_path: Path) -> None:
    folders = [made_up_job(tmp_path / name, epochs=3, cells=cells) for name, cells in (("b", 2), ("a", 4))]
    seen = read(
        compare_report(folders, tmp_path / "all.html"),
        """
        const table = document.querySelector("table.sortable");
        heading(table, 0).querySelector("button").click();
        seen.runs = column(table, 0);
        """,
    )
    assert seen["runs"] == ["a", "b"]


def test_without_scripts_the_final_drawing_is_there(report: Path) -> None:
    text = report.read_text()
    shown = text[text.index('id="cells"') : text.index('<template id="drawings"')]
    assert shown.count("<figure") == 3
