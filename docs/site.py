"""Pages of the site that live elsewhere in the repository: the README is its home; links between them are kept whole."""

import importlib
import re
from dataclasses import fields, is_dataclass
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
    if page.file.generated_by is not None:
        return markdown
    return relinked(with_field_tables(markdown) if page.file.src_path == "api.md" else markdown, Path("docs"))


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


def field_table(name: str) -> list[str]:
    """The arguments of a class whose fields explain themselves, such as a strategy, as a table; else nothing."""
    module, _, attribute = name.rpartition(".")
    kind = getattr(importlib.import_module(module), attribute, None)  # None: the line names a module
    explained = [one for one in fields(kind) if "help" in one.metadata] if is_dataclass(kind) else []
    rows = [f"| `{one.name}` | `{one.default}` | {one.metadata['help']} |" for one in explained]
    return ["", "| argument | default | meaning |", "|---|---|---|", *rows, ""] if rows else []


def with_field_tables(markdown: str) -> str:
    """The page of the API, with a table of arguments below each class that has one."""
    lines = []
    for line in markdown.splitlines():
        lines.append(line)
        if line.startswith("::: "):
            lines += field_table(line.removeprefix("::: ").strip())
    return "\n".join(lines)
