"""Every Python block of the README and the docs runs; every path they link to exists."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "benchmarks" / "README.md"]


@pytest.mark.parametrize(
    "page", PAGES, ids=lambda page: page.name if page.parent.name != "benchmarks" else "benchmarks"
)
@pytest.mark.filterwarnings("ignore:epoch")
def test_code_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scope = {"__name__": "docs"}
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL), 1):
        exec(compile(block, f"{page.name}, block {number}", "exec"), scope)
    assert scope["__name__"] == "docs"


@pytest.mark.parametrize(
    "page", PAGES, ids=lambda page: page.name if page.parent.name != "benchmarks" else "benchmarks"
)
def test_links_lead_somewhere(page):
    links = re.findall(r"\]\((?!https?://|#)([^)#]+)", page.read_text())
    missing = [link for link in links if not (page.parent / link).exists()]
    assert not missing
