"""Files that ARCHITECTURE and CONTRIBUTING name exist, links of pages lead somewhere, and tables are whole."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
FOLDERS = ["benchmarks", "crates", "docs", "examples", "fuzz", "python", "tests"]
FILES = [f"/{file.name}" for file in REPOSITORY.iterdir()] + [
    f"/{file.relative_to(REPOSITORY)}"
    for folder in FOLDERS
    for file in (REPOSITORY / folder).rglob("*.*")
]
FILE = re.compile(r"(?<![\w./-])((?:[\w.-]+/)*[\w-]+\.(?:py|pyi|rs|md|toml))\b")
PAGES = [
    *REPOSITORY.glob("*.md"),
    *(REPOSITORY / "docs").rglob("*.md"),
    *(REPOSITORY / folder / "README.md" for folder in ("tests", "benchmarks")),
]
LINK = re.compile(r"\]\((?!https?:)([^)#\s]+)")


def exists(name: str) -> bool:
    """Whether a file of the tree ends with this path: pages leave out the folders that all files have."""
    return any(file.endswith(f"/{name}") for file in FILES)


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_files_that_are_named(page: str) -> None:
    named = set(FILE.findall((REPOSITORY / page).read_text()))
    assert len(named) > 10
    assert not sorted(name for name in named if not exists(name))
    assert not exists("dataset/no_such_file.py")


def test_links_of_pages() -> None:
    links = [(page, link) for page in PAGES for link in LINK.findall(page.read_text())]
    assert links
    assert not [link for page, link in links if not (page.parent / link).exists()]


def test_rows_of_tables_are_one_line_each() -> None:
    rows = [
        line for page in PAGES for line in page.read_text().splitlines() if line.startswith("|")
    ]
    assert rows
    assert not [row for row in rows if not row.endswith("|")]
