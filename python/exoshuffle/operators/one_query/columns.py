"""The types and names of columns inside the one query.

Guarantee: a column has one of these types, or there is no query. Its values go into DuckDB and come back as they were,
and compare there as everywhere else. Names are numbers: DuckDB takes ``a`` and ``A`` for one name, and we do not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

#: The beginning of the names of columns in the query. No column of a user that an expression reads may have it.
PREFIX = "exoshuffle "
#: A row of a hash table has so much beside its values: a hash of 8 bytes, nulls, and 2 to 4 pointers. A join of 4.5
#: million rows allocated 128 MiB for pointers.
ROW_BYTES = 36
#: Text of up to 12 bytes takes 16, and longer text its bytes, too: nobody knows how long it is. Groups of 4.5
#: million rows with a comment each were tried within 1 GB when all took 16. That failed, and took 6.6 s of CPU
#: instead of 4.3.
TEXT_BYTES = 40
#: DuckDB keeps decimals of more digits in 16 bytes.
MOST_SMALL_DIGITS = 18


class Unfit(Exception):  # noqa: N818  no error: the rows are computed in another way
    """Something that the one query cannot compute exactly as tasks do; the text says what, for people."""


class NoRoom(Unfit):
    """A query that would probably find no memory."""


def name_of(index: int) -> str:
    """Returns the name of a column in the query, as SQL."""
    return f'"{PREFIX}{index}"'


def duck_type(kind: pa.DataType) -> str:
    """Returns the type of DuckDB in which a column is computed with.

    Raises:
        Unfit: There is none with the same values.
    """
    import pyarrow as pa

    if _is_text(kind):
        return "VARCHAR"
    if pa.types.is_decimal128(kind) and 0 <= kind.scale <= kind.precision:
        return f"DECIMAL({kind.precision}, {kind.scale})"
    known = {
        pa.bool_(): "BOOLEAN",
        pa.int8(): "TINYINT",
        pa.int16(): "SMALLINT",
        pa.int32(): "INTEGER",
        pa.int64(): "BIGINT",
        pa.uint8(): "UTINYINT",
        pa.uint16(): "USMALLINT",
        pa.uint32(): "UINTEGER",
        pa.uint64(): "UBIGINT",
        pa.float32(): "FLOAT",
        pa.float64(): "DOUBLE",
        pa.date32(): "DATE",
        pa.timestamp("us"): "TIMESTAMP",
    }
    if kind not in known:
        raise Unfit(f"a column is {kind}")
    return known[kind]


def row_bytes(schema: pa.Schema) -> int:
    """Returns about how much a row takes in a hash table of DuckDB: text is taken for a few words."""
    return ROW_BYTES + sum(_value_bytes(field.type) for field in schema)


def _is_text(kind: pa.DataType) -> bool:
    """Whether values are text; DuckDB reads dictionaries of it as they are, and the result is encoded again."""
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        return kind.value_type in (pa.string(), pa.large_string())
    return kind in (pa.string(), pa.large_string(), pa.string_view())


def _value_bytes(kind: pa.DataType) -> int:
    import pyarrow as pa

    if _is_text(kind):
        return TEXT_BYTES
    if pa.types.is_decimal128(kind):
        return 8 if kind.precision <= MOST_SMALL_DIGITS else 16
    return int(kind.bit_width + 7) // 8
