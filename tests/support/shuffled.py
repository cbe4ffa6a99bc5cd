"""Shuffles of few rows: for tests of what only shuffles do."""

from __future__ import annotations

import pytest

from exoshuffle.dataset.jobs import fitting


def always_shuffle(patch: pytest.MonkeyPatch) -> None:
    """Nothing runs in one piece, however few rows there are, unless it is asked for."""
    patch.setattr(fitting, "MAX_READ_BYTES", -1)
    patch.setattr(fitting, "MAX_SORTED_BYTES", -1)
