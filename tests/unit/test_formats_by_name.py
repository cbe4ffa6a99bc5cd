"""Nobody asks a format by its name: what differs is in the registry (CONTRIBUTING, "Adding a format")."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import exoshuffle as xs
from exoshuffle.dataset.files.formats import FORMATS

PACKAGE = Path(xs.__file__).parent
PAGES = Path(__file__).parents[2] / "docs" / "formats"
#: A line of a page: the name of a format, the names of its files, how it is read, and how it is written.
ROW = re.compile(r"^\| [^|]+ \| `(\w+)` \| ([^|]+) \| [^|]+ \| ([^|]+) \|$", re.MULTILINE)


def asked(tree: ast.AST) -> Iterator[ast.Compare]:
    """The comparisons of something that is called a format with the name of one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            text = " ".join(ast.unparse(side) for side in sides)
            names = {
                each.value
                for side in sides
                for each in ast.walk(side)
                if isinstance(each, ast.Constant) and isinstance(each.value, str)
            }
            if "format" in text and names & set(FORMATS):
                yield node


def test_no_module_compares_a_format_with_a_name() -> None:
    found = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}: {ast.unparse(node)}"
        for path in PACKAGE.rglob("*.py")
        for node in asked(ast.parse(path.read_text()))
    ]
    assert not found
    assert list(asked(ast.parse("source.format in ('csv', 'parquet')")))


def test_formats_differ_as_the_registry_says() -> None:
    facts = {
        "is_text": {"csv", "jsonl", "text"},
        "tells_types": {"parquet", "arrow", "records", "text", "binary"},
        "holds_tables": {"parquet", "arrow", "csv", "jsonl"},
        "holds_records": {"records"},
        "names_values": {"jsonl"},
        "packs_values": {"parquet"},
        "skips_rows": {"parquet"},
        "indivisible": {"parquet", "arrow", "binary"},
    }
    ours = {name for names in facts.values() for name in names}
    for fact, names in facts.items():
        assert {name for name in ours if getattr(FORMATS[name], fact)} == names, fact
    usual = {name: FORMATS[name].usual_compression for name in ours}
    assert usual == {**dict.fromkeys(ours, "none"), "parquet": "zstd"}
    for known in FORMATS.values():
        assert known.usual_compression in known.compressions


def test_each_format_has_a_page_with_its_names_and_compressions() -> None:
    rows = [row for page in PAGES.glob("*.md") for row in ROW.findall(page.read_text())]
    assert sorted(name for name, _, _ in rows) == sorted(FORMATS)
    for name, files, written in rows:
        known = FORMATS[name]
        if written != "no":
            assert f"`.{known.ending}`" in files, name
        if len(known.compressions) > 1:
            assert re.findall(r"`(\w+)`", written.partition(";")[0]) == known.compressions
