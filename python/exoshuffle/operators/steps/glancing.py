"""Tells at a glance how many bytes a row has that a function or an iterable of users made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: An item of a list, beside its text or bytes.
ITEM_BYTES = 8


def glanced_bytes(row: Mapping[str, object]) -> int:
    """Returns about the bytes of the texts, bytes, arrays and lists of a row; single numbers count as nothing."""
    return sum(map(_bytes_of, row.values()))


def _bytes_of(value: Any) -> int:
    """Returns about the bytes of a value; all items of a list count like the first, so a long one is as quick."""
    if value is None or isinstance(value, int | float):
        return 0
    if isinstance(value, str | bytes | bytearray):
        return len(value)
    if isinstance(value, list | tuple):
        return len(value) * (ITEM_BYTES + _bytes_of(value[0])) if value else 0
    if isinstance(value, Mapping):
        return glanced_bytes(value)
    num_bytes = getattr(value, "nbytes", 0)
    return num_bytes if isinstance(num_bytes, int) else 0
