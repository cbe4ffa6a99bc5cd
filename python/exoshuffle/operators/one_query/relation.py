"""Rows inside the one query: the SQL that makes them, and about how many they are.

DuckDB gets no sizes with streams of Arrow data, so its optimizer could only guess which side of a join is small. We
know the sizes of files. So joins are written in the order in which they run: the right side becomes the hash table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.one_query.columns import PREFIX, Unfit, duck_type, name_of, row_bytes
from exoshuffle.operators.sql.parsing import parse_expression
from exoshuffle.operators.sql.relational import quoted
from exoshuffle.operators.sql.types import Expression
from exoshuffle.operators.sql.zones import UTC

if TYPE_CHECKING:
    import pyarrow as pa

    from exoshuffle.operators.core.shuffle import Aggregation
    from exoshuffle.operators.join.join import Join
    from exoshuffle.operators.join.outputs import Output
    from exoshuffle.operators.steps.step import Step

#: The share of rows that a condition is taken to keep.
KEPT = 0.25
#: Groups are taken to have so many rows. Where they have fewer, the query may find no memory, and its time is lost.
GROUP_ROWS = 8
#: A value of a group takes so much beside its columns.
GROUP_VALUE_BYTES = 16


@dataclass(frozen=True)
class Relation:
    """Rows inside the query.

    Attributes:
        sql: A SELECT whose columns have the names of ``columns.name_of``.
        schema: Their names and types outside the query, in the same order.
        num_rows: About how many rows there are.
        hashed_bytes: About the bytes of all hash tables, and of rows that are kept for several readers.
        doubtful_bytes: How much more these hash tables take if keys of groups do not repeat.
        num_joins: How many joins make them.
        share: About the share of rows that conditions have left; a side of a join lets through as many of the other.
        is_open: Whether DuckDB reads all of its files itself, and so chooses the side of a join that is hashed.
    """

    sql: str
    schema: pa.Schema
    num_rows: float
    hashed_bytes: float = 0
    doubtful_bytes: float = 0
    num_joins: int = 0
    share: float = 1.0
    is_open: bool = False

    @property
    def num_bytes(self) -> float:
        """About how much its rows take in a hash table."""
        return self.num_rows * row_bytes(self.schema)

    def column(self, name: str) -> str:
        """Returns the name of a column in the query, as SQL."""
        return name_of(self.schema.get_field_index(name))


def scanned(
    table: str, schema: pa.Schema, num_rows: float, num_streams: int, *, is_open: bool = False
) -> Relation:
    """Returns the rows of streams, or of open files, which the query calls ``table_0``, ``table_1`` … ."""
    names = _unique(schema)
    listed = ", ".join(name_of(index) for index in range(len(names)))
    parts = [f"SELECT * FROM {table}_{i} AS {table}_{i}({listed})" for i in range(num_streams)]  # noqa: S608  names of ours
    for field in schema:
        duck_type(field.type)
    return Relation(" UNION ALL ".join(parts), schema, num_rows, is_open=is_open)


def kept(name: str, rows: Relation) -> Relation:
    """Returns rows that the query keeps under a name for several readers; for the first of these."""
    held = rows.hashed_bytes + rows.num_bytes
    return replace(rows, sql=f"SELECT * FROM {name}", hashed_bytes=held)  # noqa: S608  a name of ours


def stepped(rows: Relation, step: Step) -> Relation:
    """Returns the rows after a step.

    Raises:
        Unfit: The step is none that keeps rows by a condition or computes columns from one row.
    """
    computed = step.computed(rows.schema)
    if computed is None:
        raise Unfit(f"{type(step).__name__.lower()} is no expression")
    expressions = list(computed.values())
    condition = None
    if step.condition_sql is not None:
        condition = parse_expression(step.condition_sql, rows.schema)
        expressions.append(condition)
    read = _read_by(expressions, rows.schema)
    given = [
        *(f"{name_of(i)}" for i in range(len(rows.schema))),
        *(f"{rows.column(name)} AS {quoted(name)}" for name in read),
    ]
    selected = [
        f"{_sql(one, rows)} AS {name_of(index)}" for index, one in enumerate(computed.values())
    ]
    where = f" WHERE {_sql(condition, rows)}" if condition is not None else ""
    sql = f"SELECT {', '.join(selected)} FROM (SELECT {', '.join(given)} FROM ({rows.sql})){where}"  # noqa: S608  parsed before
    kept = KEPT if condition is not None else 1.0
    return replace(
        rows,
        sql=sql,
        schema=_schema(computed),
        num_rows=max(1.0, rows.num_rows * kept),
        share=rows.share * kept,
    )


def joined(left: Relation, right: Relation, join: Join) -> Relation:
    """Returns the rows of a join.

    Raises:
        Unfit: A kind of join, or a key, that the query does not compute as tasks do.
    """
    import pyarrow as pa

    is_cross = join.how == "cross" and min(left.num_rows, right.num_rows) <= 1
    if not is_cross and join.how not in ("inner", "left", "semi", "anti"):
        raise Unfit(f"a {join.how} join")
    sides = {"l": left, "r": right}
    # The rows of a side that stays whole have to be seen one by one, and those of the other side looked up.
    swaps = join.how in ("inner", "cross") and left.num_bytes < right.num_bytes
    probed, hashed = ("r", "l") if swaps else ("l", "r")
    equal = " AND ".join(
        f"{compared('l', left, key.left, key.type)} = {compared('r', right, key.right, key.type)}"
        for key in join.keys
    )
    selected = ", ".join(
        f"{_output(output, sides)} AS {name_of(index)}" for index, output in enumerate(join.outputs)
    )
    sql = (
        f"SELECT {selected} FROM ({sides[probed].sql}) AS {probed} {join.how.upper()} JOIN "  # noqa: S608  names of ours
        f"({sides[hashed].sql}) AS {hashed}{f' ON {equal}' if equal else ''}"
    )
    table = sides[hashed]
    kept = table.share if join.how in ("inner", "semi") else 1.0
    is_open = left.is_open and right.is_open
    held = min(left.num_bytes, right.num_bytes) if is_open else table.num_bytes
    return Relation(
        sql,
        pa.schema([(output.field.name, output.field.type) for output in join.outputs]),
        max(1.0, sides[probed].num_rows * kept),
        left.hashed_bytes + right.hashed_bytes + held,
        left.doubtful_bytes + right.doubtful_bytes,
        left.num_joins + right.num_joins + 1,
        sides[probed].share * kept,
        is_open,
    )


def united(parts: Sequence[Relation], names: Sequence[str]) -> Relation:
    """Returns these columns of several relations that have them with the same types, all rows of all."""
    import pyarrow as pa

    schema = pa.schema([parts[0].schema.field(name) for name in names])
    selected = [
        ", ".join(f"{part.column(name)} AS {name_of(i)}" for i, name in enumerate(names))
        for part in parts
    ]
    queries = [
        f"SELECT {columns} FROM ({part.sql})"  # noqa: S608  names of ours
        for columns, part in zip(selected, parts, strict=True)
    ]
    return Relation(
        " UNION ALL ".join(queries),
        schema,
        sum(part.num_rows for part in parts),
        sum(part.hashed_bytes for part in parts),
        sum(part.doubtful_bytes for part in parts),
        sum(part.num_joins for part in parts),
        is_open=all(part.is_open for part in parts),
    )


def aggregated(rows: Relation, aggregation: Aggregation, schema: pa.Schema) -> Relation:
    """Returns groups of rows, to go on with in the query; ``schema`` is theirs."""
    names = {name: rows.column(name) for name in aggregation.columns}
    listed = ", ".join(f'"{i}"' for i in range(len(schema)))
    typed = (
        f'CAST("{i}" AS {duck_type(field.type)}) AS {name_of(i)}' for i, field in enumerate(schema)
    )
    sql = f"SELECT {', '.join(typed)} FROM ({aggregation.sql(names, rows.sql)}) AS g({listed})"  # noqa: S608  names of ours
    num_groups = max(1.0, rows.num_rows / GROUP_ROWS) if aggregation.keys else 1.0
    a_group = group_bytes(aggregation, rows.schema)
    held = num_groups * a_group
    more = rows.num_rows * a_group - held if aggregation.keys else 0.0
    return Relation(
        sql,
        schema,
        num_groups,
        rows.hashed_bytes + held,
        rows.doubtful_bytes + more,
        rows.num_joins,
        is_open=rows.is_open,
    )


def group_bytes(aggregation: Aggregation, schema: pa.Schema) -> int:
    """Returns about how much a group takes in a hash table."""
    return row_bytes(schema) + GROUP_VALUE_BYTES * aggregation.num_values


def compared(alias: str, rows: Relation, name: str, kind: pa.DataType) -> str:
    """Returns a column of rows that the query calls ``alias``, in the type in which it is compared."""
    value = f"{alias}.{rows.column(name)}"
    wanted, own = duck_type(kind), duck_type(rows.schema.field(name).type)
    return value if wanted == own else f"CAST({value} AS {wanted})"


def _output(output: Output, sides: Mapping[str, Relation]) -> str:
    # A key comes from the left side: in these joins every row of the result has one.
    side, name = ("l", output.left) if output.left is not None else ("r", output.right)
    assert name is not None
    return compared(side, sides[side], name, output.field.type)


def _sql(expression: Expression, rows: Relation) -> str:
    if expression.is_column:
        return rows.column(expression.text)
    return f"CAST(({expression.sql}\n) AS {duck_type(expression.type)})"


def _read_by(expressions: Sequence[Expression], schema: pa.Schema) -> list[str]:
    """Returns the columns that computed expressions read, under their own names."""
    computed = [expression for expression in expressions if not expression.is_column]
    for one in computed:
        if one.growth or one.parts or one.microseconds or one.zone != UTC:
            raise Unfit(f"{one.text!r} may make much of little, or works in a time zone")
    read = {name for one in computed for name in one.reads}
    if any(name.lower().startswith(PREFIX) for name in read):
        raise Unfit(f"a column has a name that begins with {PREFIX!r}")
    return [name for name in schema.names if name in read]


def _schema(computed: Mapping[str, Expression]) -> pa.Schema:
    import pyarrow as pa

    return pa.schema([(name, expression.type) for name, expression in computed.items()])


def _unique(schema: pa.Schema) -> list[str]:
    names = list(schema.names)
    if len(set(names)) < len(names):
        raise Unfit("two columns have one name")
    return names
