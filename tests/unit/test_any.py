"""``Any`` stays where a value really may be anything: its lines in the package are bounded."""

from __future__ import annotations

import re
from pathlib import Path

import exoshuffle as xs

PACKAGE = Path(xs.__file__).parent
#: 133 when this was written: users' values and rows, frames of other libraries, and texts of SQL as trees.
MOST_LINES = 150


def test_few_lines_of_the_package_take_anything() -> None:
    lines = [
        f"{path.relative_to(PACKAGE)}: {line.strip()}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for line in path.read_text().splitlines()
        if re.search(r"\bAny\b", line) and "import" not in line
    ]
    assert 0 < len(lines) <= MOST_LINES, "write object or a type instead:\n" + "\n".join(lines)
