"""Nobody asks a format by its name: what differs is in the registry (CONTRIBUTING, "Adding a format")."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import exoshuffle as xs
from exoshuffle.dataset.files.formats import FORMATS

PACKAGE = Path(xs.__file__).parent


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
