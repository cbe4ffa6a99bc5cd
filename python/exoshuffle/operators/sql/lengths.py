"""Says of which types values may be far larger than others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from exoshuffle.operators.sql.relational import plain_type

if TYPE_CHECKING:
    import pyarrow as pa

#: Values of fixed size have no more bits than this, unless they are binary.
SHORT_BITS = 256


def may_be_long(kind: pa.DataType) -> bool:
    """Whether values of a type may have far more bytes than others."""
    try:
        return not 0 < plain_type(kind).bit_width <= SHORT_BITS
    except ValueError:
        return True
