"""The paths that a pattern would find, against those that it finds once the path exists."""

from __future__ import annotations

import glob
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exoshuffle import _native


def finds(pattern: str, path: Path) -> bool:
    """Whether the pattern would find the path."""
    return _native.pattern_finds(pattern, str(path))


names = st.sampled_from(["a", "b", "ab", "c.x"])
pieces = st.sampled_from(["*", "**", "?", "a*", "[ab]", "[!a]", "*.x", "a", "ab", "c.x"])


@settings(max_examples=300)
@given(st.lists(names, min_size=1, max_size=4), st.lists(pieces, min_size=1, max_size=4))
def test_as_the_file_system_says(path: list[str], pattern: list[str]) -> None:
    with tempfile.TemporaryDirectory() as root:
        made = Path(root, *path)
        made.mkdir(parents=True)
        found = {
            os.path.normpath(one) for one in glob.glob(os.path.join(root, *pattern), recursive=True)
        }
        assert finds(os.path.join(root, *pattern), made) == (str(made) in found)


def test_relative_patterns_and_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    monkeypatch.chdir(tmp_path)
    assert finds("link/*", tmp_path / "real" / "out")
    assert finds("*/out", tmp_path / "real" / "out")
    assert not finds("*", tmp_path / "real" / "out")
    assert not finds("elsewhere/*", tmp_path / "real" / "out")
