"""Sentences of docstrings, comments, pages and messages have at most 25 words; all but messages name their subjects."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.sentences import (
    docstrings,
    entries_of,
    long_sentences,
    messages,
    python_comments,
    rust_comments,
    unnamed_subjects,
)

REPOSITORY = Path(__file__).parents[2]
MOST_WORDS = 25
FOLDERS = ["python", "tests", "benchmarks", "examples"]
PAGES = [
    *REPOSITORY.glob("*.md"),
    *(REPOSITORY / "docs").rglob("*.md"),
    *(REPOSITORY / folder / "README.md" for folder in ["tests", "benchmarks"]),
]


def found(file: Path, place: int, text: str) -> list[str]:
    where = f"{file.relative_to(REPOSITORY)}:{place}"
    entries = entries_of(text)
    wrong = [*long_sentences(entries, MOST_WORDS), *unnamed_subjects(entries)]
    return [f"{where}: {one}" for one in wrong]


def test_pages() -> None:
    assert not [line for page in PAGES for line in found(page, 1, page.read_text())]


@pytest.mark.parametrize("folder", FOLDERS)
def test_python(folder: str) -> None:
    files = [*(REPOSITORY / folder).rglob("*.py"), *(REPOSITORY / folder).rglob("*.pyi")]
    assert files
    texts = (
        (file, *place)
        for file in files
        for of in (docstrings, python_comments)
        for place in of(file)
    )
    assert not [line for text in texts for line in found(*text)]


def test_messages() -> None:
    texts = [
        (file, place, text)
        for file in (REPOSITORY / "python").rglob("*.py")
        for place, text in messages(file)
    ]
    assert texts
    assert not [
        f"{file.relative_to(REPOSITORY)}:{place}: {one}"
        for file, place, text in texts
        for one in long_sentences([text], MOST_WORDS)
    ]


def test_rust() -> None:
    files = [file for folder in ("crates", "fuzz") for file in (REPOSITORY / folder).rglob("*.rs")]
    files = [file for file in files if "target" not in file.parts]
    assert files
    assert not [
        line for file in files for place in rust_comments(file) for line in found(file, *place)
    ]


def test_comments_are_found_line_by_line(tmp_path: Path) -> None:
    python, rust = tmp_path / "a.py", tmp_path / "a.rs"
    python.write_text("#: One,\n#: two.\nX = 1  # beside\n\n# Three.\nY = 2\n")
    assert list(python_comments(python)) == [(1, "One,\ntwo."), (5, "Three.")]
    rust.write_text("//! One,\n//! two.\n\nfn f() {\n    // Three.\n}\n")
    assert list(rust_comments(rust)) == [(1, "One,\ntwo."), (5, "Three.")]


def test_messages_are_found(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text(
        'def f(x):\n    """It is; not one."""\n    raise E(f"x is {x:g} or {f(\'y\')}")\n'
        'WORDS = f"{x} is one; call f()"\nOTHER = "x is one"\nPAGE = "<p>a; b</p>"\n'
    )
    assert list(messages(file)) == [(4, "VALUE is one; call f()"), (3, "x is VALUE or VALUE")]


FIVE = "one two three four five"
SIX = f"{FIVE} six"


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        (FIVE, []),
        (SIX, [f"6: {SIX}"]),
        (f"{FIVE}. {FIVE}? {FIVE}!", []),
        (f"{FIVE}; six", [f"6: {FIVE}; six"]),
        (f"{FIVE},\nsix", [f"6: {FIVE}, six"]),
        (f"{FIVE}\n\nsix", []),
        (f"# {FIVE}\nsix", []),
        (f"* {FIVE}\n* six\n  {FIVE}", [f"6: six {FIVE}"]),
        (f"| {FIVE} | six |\n| {SIX} | |", [f"6: {SIX}"]),
        (
            "one `two three four` five [six, seven eight](https://a.b/c d)",
            ["6: one CODE five [six, seven eight]"],
        ),
        (f"Args:\n    a: {FIVE[4:]}\n    b: {FIVE}", [f"6: b: {FIVE}"]),
        (f"{FIVE[4:]}::\n\n    {SIX}\n\n{FIVE}", []),
        (f"{FIVE}\n\n    {SIX}\n\n{FIVE}", []),
        (f"{FIVE}\n\n```\n{SIX}\n```\n{FIVE}", []),
    ],
)
def test_sentences_are_counted(text: str, sentences: list[str]) -> None:
    assert long_sentences(entries_of(text), 5) == sentences


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("What it takes.", ["What it takes."]),
        ("It is one. Who waits, wakes.", ["Who waits, wakes."]),
        ("Args:\n    names: What it reads.", ["names: What it reads."]),
        ("Of a late one, all.", ["Of a late one, all."]),
        ("What is it? The size that it has.", []),
    ],
)
def test_subjects_are_names(text: str, sentences: list[str]) -> None:
    assert unnamed_subjects(entries_of(text)) == sentences
