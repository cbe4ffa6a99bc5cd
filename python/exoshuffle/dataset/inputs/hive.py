"""Hive partitions of an input: folders ``key=value`` that are columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


def partitions_of(source: Any) -> pa.Table:
    """The partition columns of a ``_native.Source``, with a row for each file; no columns if there are none."""
    import pyarrow as pa

    return pa.ipc.open_stream(source.partitions_ipc()).read_all()
