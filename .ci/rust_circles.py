"""Finds circles of Rust files: more than two that use each other by ``crate::``, ``super::`` or ``self::``.

Usage: ``python .ci/rust_circles.py crates/*``. Exits with 1 if there is a circle, and names the files and what they use.
Two files may use each other: a type and its reader are often apart. Tests do not count, nor does what the ``mod.rs`` of a
folder uses of its own files without a prefix.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

Module = tuple[str, ...]

MOST_FILES = 2
USE = re.compile(r"\buse\s+((?:crate|super|self)::[^;]+);")
PATH = re.compile(r"\b((?:crate|super)(?:::\w+)+)")


def modules(src: Path) -> dict[Module, Path]:
    """The files of a crate by the path of their module."""
    found: dict[Module, Path] = {}
    for file in src.rglob("*.rs"):
        parts = file.relative_to(src).with_suffix("").parts
        found[parts[:-1] if parts[-1] in ("mod", "lib") else parts] = file
    return found


def code(file: Path) -> str:
    """What a file says, without its tests and comments."""
    text, _, _ = file.read_text().partition("#[cfg(test)]\nmod tests")
    return re.sub(r"//[^\n]*", "", text)


def branches(tree: str) -> Iterator[str]:
    """The paths of a tree such as ``crate::{a, b::{c, d}}``."""
    start, brace, rest = tree.partition("{")
    if not brace:
        yield tree.partition(" as ")[0].strip()
        return
    depth, item = 0, ""
    for letter in rest.rpartition("}")[0] + ",":
        depth += (letter == "{") - (letter == "}")
        if letter == "," and depth == 0:
            yield from (start.strip() + path for path in branches(item.strip()) if path)
            item = ""
        else:
            item += letter


def absolute(module: Module, path: str) -> Module:
    """A path from the root of the crate."""
    first, *rest = path.split("::")
    if first == "crate":
        return tuple(rest)
    base = module
    while first in ("super", "self"):
        base = base[:-1] if first == "super" else base
        first, *rest = rest or [""]
    return (*base, first, *rest)


def used(module: Module, file: Path, known: dict[Module, Path]) -> set[Module]:
    """The other files that a file uses."""
    text = code(file)
    paths = [path for tree in USE.findall(text) for path in branches(tree)]
    found = set()
    for path in (absolute(module, one) for one in (*paths, *PATH.findall(text))):
        ends = (path[:length] for length in range(len(path), 0, -1))
        target = next((one for one in ends if one in known), module)
        found.add(target)
    return found - {module}


def reached(start: Module, uses: dict[Module, set[Module]]) -> set[Module]:
    """All that a file uses, and that these use."""
    found: set[Module] = set()
    left = [start]
    while left:
        for module in uses[left.pop()] - found:
            found.add(module)
            left.append(module)
    return found


def circles(uses: dict[Module, set[Module]]) -> list[set[Module]]:
    """Files that reach each other, where these are too many."""
    reach = {module: reached(module, uses) for module in uses}
    groups = {
        frozenset(other for other in reach[module] if module in reach[other]) for module in uses
    }
    return [set(group) for group in groups if len(group) > MOST_FILES]


def main(crates: list[str]) -> int:
    """Looks at each crate."""
    is_sound = True
    for crate in crates:
        known = modules(Path(crate) / "src")
        uses = {module: used(module, file, known) for module, file in known.items()}
        for circle in circles(uses):
            is_sound = False
            print(f"{crate}: {len(circle)} files use each other:")
            for module in sorted(circle):
                names = ", ".join("::".join(other) for other in sorted(uses[module] & circle))
                print(f"  {known[module]} uses {names}")
    return 0 if is_sound else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
