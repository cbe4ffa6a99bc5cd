"""Errors travel: from workers, and to them."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

import exoshuffle as xs
from exoshuffle.errors import InputError, TaskError


def test_errors_can_be_pickled(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        xs.read_parquet(tmp_path / "nowhere")
    copy = pickle.loads(pickle.dumps(caught.value))  # noqa: S301  made in the line itself
    assert str(copy) == str(caught.value)
    failed = TaskError("map", 2, ValueError("no"))
    assert str(pickle.loads(pickle.dumps(failed))) == str(failed)  # noqa: S301  made in the line itself
