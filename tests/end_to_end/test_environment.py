"""Commands take options from the environment, and name the variable that cannot work."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.commands import Outcome


def test_progress_is_shown_unless_the_environment_says_no(
    tmp_path: Path, command: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("exoshuffle.observe.progress.LINE_SECONDS", 0.0)
    shown = command("gensort", "1000", tmp_path / "a")
    assert "gensort" in shown.err
    monkeypatch.setenv("EXOSHUFFLE_PROGRESS", "0")
    quiet = command("gensort", "1000", tmp_path / "b")
    assert "gensort" not in quiet.err


def test_a_variable_that_cannot_work_is_named(
    tmp_path: Path, command: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EXOSHUFFLE_PROGRESS", "maybe")
    refused = command("gensort", "1000", tmp_path / "a")
    assert "EXOSHUFFLE_PROGRESS is 'maybe'; set it to 0 or 1, or unset it" in refused.err
