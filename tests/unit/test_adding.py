"""Adding to the project touches few files: the lists of CONTRIBUTING are short, and what they promise holds."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import exoshuffle as xs
from exoshuffle.dataset import names, read

REPOSITORY = Path(__file__).parents[2]
PACKAGE = REPOSITORY / "python" / "exoshuffle"


def lists() -> dict[str, list[str]]:
    """For each kind of thing that may be added, the existing files that its list names."""
    text = (REPOSITORY / "CONTRIBUTING.md").read_text()
    found = {}
    for section in re.split(r"^## ", text, flags=re.MULTILINE):
        title, _, body = section.partition("\n")
        if title.startswith("Adding a"):
            items = re.findall(r"^\d\. .*(?:\n   .*)*", body, re.MULTILINE)
            names = re.findall(r"`([\w./]+\.\w+)`", "\n".join(items))
            found[title.split()[-1]] = names
    return found


@pytest.mark.parametrize(
    ("kind", "most"),
    [("operator", 4), ("strategy", 3), ("format", 3), ("storage", 2), ("engine", 2)],
)
def test_a_list_is_short_and_names_files_that_exist(kind: str, most: int) -> None:
    names = lists()[kind]
    assert 0 < len(names) <= most
    for name in names:
        assert (REPOSITORY / name).is_file(), name


def test_no_list_is_left_out() -> None:
    assert set(lists()) == {"operator", "strategy", "format", "storage", "engine"}


def test_only_one_module_names_the_readers() -> None:
    functions = {
        node.name
        for node in ast.parse(Path(read.__file__).read_text()).body
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
    }
    assert set(read.__all__) == functions
    for file in (PACKAGE / "__init__.py", PACKAGE / "dataset" / "names.py"):
        code = file.read_text().partition('"""\n\n')[2] or file.read_text()
        assert not [name for name in functions if name in code]
    for package in (xs, names):
        assert functions <= set(package.__all__)
        assert all(getattr(package, name) is getattr(read, name) for name in functions)


def test_a_star_import_has_readers_and_keeps_the_functions_of_python() -> None:
    names: dict[str, object] = {}
    exec("from exoshuffle import *", names)  # noqa: S102  a star import is allowed at the top of a module alone
    assert names["read_csv"] is read.read_csv
    assert set(xs.__all__) <= set(names)
    assert not {"len", "range"} & set(names)
    assert set(xs.__all__) <= set(dir(xs))
