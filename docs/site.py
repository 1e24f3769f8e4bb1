"""Pages of the site that live elsewhere in the repository: the README is its home; links between them are kept whole."""

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
PAGES = {
    "README.md": "index.md",
    "benchmarks/README.md": "benchmarks.md",
    "examples/README.md": "examples.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}


def on_files(files: Files, config: Any) -> Files:
    """Add them."""
    for source, name in PAGES.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, name, content=relinked(text, Path(source).parent)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """A page of docs/ that links to a file of the repository outside it."""
    return relinked(markdown, Path("docs")) if page.file.generated_by is None else markdown


def relinked(text: str, folder: Path) -> str:
    """Links as they are on the site: to its pages, or for files that are not on it the name alone."""

    def link(found: re.Match[str]) -> str:
        label, target, rest = found["label"], found["target"], found["rest"] or ""
        path = Path(*_plain((folder / target).parts)).as_posix()
        if path in PAGES:
            return f"{label}({PAGES[path]}{rest})"
        if path.startswith("docs/"):
            return f"{label}({path.removeprefix('docs/')}{rest})"
        return label.strip("[]") if label.startswith("[") else found[0]

    return re.sub(r"(?P<label>!?\[[^\]]*\])\((?!\w+://|#)(?P<target>[^)#\s]+)(?P<rest>#[^)]*)?\)", link, text)


def _plain(parts: tuple[str, ...]) -> list[str]:
    kept: list[str] = []
    for part in parts:
        if part == "..":
            kept.pop()
        elif part != ".":
            kept.append(part)
    return kept
