"""Hive partitions of an input: folders ``key=value`` that are columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from exoshuffle import _native

if TYPE_CHECKING:
    import pyarrow as pa


def partitions_of(source: _native.Source) -> pa.Table:
    """Returns the partition columns of files, with a row for each file; no columns if there are none."""
    import pyarrow as pa

    return pa.ipc.open_stream(source.partitions_ipc()).read_all()
