"""Intervals of months, days and milliseconds, as DuckDB writes them to Parquet.

Why they are refused: the decoder has one type for them, which has no months. One of a month became one of no time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from exoshuffle.dataset.files.formats import FORMATS
from exoshuffle.dataset.inputs.reading import schema_of
from exoshuffle.operators.steps.refused import Refused

if TYPE_CHECKING:
    import pyarrow as pa

    from exoshuffle import _native

#: The type that the decoder makes of them. pyarrow has no object for it.
_WITHOUT_MONTHS = "day_time_interval"


def refused_intervals(source: _native.Source) -> Refused | None:
    """Returns the step that refuses columns of such intervals; None if files have none."""
    if not FORMATS[source.format].packs_values:
        return None
    names = [field.name for field in schema_of(source) if _has_interval(field.type)]
    reasons = tuple((name, _reason(source.files[0], name)) for name in names)
    return Refused(reasons) if reasons else None


def _reason(file: str, name: str) -> str:
    return (
        f"{file!r} has intervals in column {name!r}, whose months would be lost; leave it out by drop({name!r}), "
        "or write it as text or as a number"
    )


def _has_interval(kind: pa.DataType) -> bool:
    inner = (kind.field(index).type for index in range(kind.num_fields))
    return str(kind) == _WITHOUT_MONTHS or any(map(_has_interval, inner))
