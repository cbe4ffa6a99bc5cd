"""Finds the values of which a column must have one to equal literals: what Bloom filters are asked for.

Guarantee: a row whose value equals one of the literals, as DuckDB compares them, has one of these values. DuckDB brings
the column and the literals to one type. That type must tell all values of the column apart, or a literal would equal
several. So integers and decimals that would become doubles are left out, and decimals of many digits, which might.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from exoshuffle.errors import InputError, SchemaError
from exoshuffle.operators.sql.evaluation import evaluated
from exoshuffle.operators.sql.parsing import parse_expression
from exoshuffle.operators.sql.spreads import LOW, OfColumn

if TYPE_CHECKING:
    import pyarrow as pa

#: Two decimals of so many digits have a common type, whatever their scales: the widest has 38.
MOST_DIGITS = 18


def equal_values(leaf: OfColumn, spread: pa.Table) -> pa.Array | None:
    """Returns values, of which a row must have one for a condition to be true; None if nobody knows.

    Args:
        leaf: The condition, with literals that the column must equal.
        spread: The spread of the column, whose bounds have its type.

    Cost: two queries, 1.5 ms each, beside parsing.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    line = pa.table({LOW: pa.nulls(1, spread.schema.field(LOW).type)})
    made = [f"cast_to_type({literal}, {LOW})" for literal in leaf.equals]
    kinds = [f"typeof({literal})" for literal in leaf.equals]
    try:
        found = _values([*made, *kinds], line)
        values = pa.concat_arrays([pa.concat_arrays(part.chunks) for part in found[: len(made)]])
        kind_names = {str(part[0].as_py()) for part in found[len(made) :]}
        if values.null_count or not _tells_apart(line.schema.field(LOW).type, kind_names):
            return None
        [is_equal] = _values([f"{LOW} IN ({', '.join(leaf.equals)})"], pa.table({LOW: values}))
    except (SchemaError, InputError, pa.ArrowException):  # a literal of no value of that type
        return None
    return values if pc.all(is_equal).as_py() is True else None


def _values(texts: list[str], rows: pa.Table) -> list[pa.ChunkedArray]:
    expressions = [parse_expression(text, rows.schema) for text in texts]
    [(_, found)] = evaluated(expressions, rows)
    return found


def _tells_apart(column: pa.DataType, literals: set[str]) -> bool:
    """Whether values of a column that differ also differ in the type in which it is compared with these literals."""
    import pyarrow as pa

    if pa.types.is_decimal(column) and column.precision > MOST_DIGITS:
        return False
    if not (pa.types.is_integer(column) or pa.types.is_decimal(column)):
        return True
    return all(_is_exact(name) for name in literals)


def _is_exact(name: str) -> bool:
    """Whether a literal of this type of DuckDB is brought to one type with integers and decimals without rounding."""
    if name.startswith("DECIMAL("):
        return int(name.removeprefix("DECIMAL(").partition(",")[0]) <= MOST_DIGITS
    return name not in ("DOUBLE", "FLOAT", "HUGEINT", "UHUGEINT", "BIGNUM")
