"""Expressions: the columns that one reads, the type of its values, and how it is computed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from exoshuffle.errors import InputError, SchemaError, unknown
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.arrow_values import no_rows
from exoshuffle.operators.sql import syntax
from exoshuffle.operators.sql.comparisons import Condition
from exoshuffle.operators.sql.databases import expression_bytes, is_out_of_memory
from exoshuffle.operators.sql.durations import as_integers
from exoshuffle.operators.sql.literals import literal, quoted
from exoshuffle.operators.sql.queries import readable, select, types_of
from exoshuffle.operators.sql.relational import first_line
from exoshuffle.operators.sql.sizes import growth_of
from exoshuffle.operators.sql.spans import (
    as_intervals,
    difference,
    exact_where_compared,
    has_durations,
    is_interval,
)
from exoshuffle.operators.sql.syntax import Node
from exoshuffle.operators.sql.zones import (
    UTC,
    has_nanoseconds,
    in_microseconds,
    in_zone,
    is_neutral,
    zone_setting,
    zones_in,
    zones_of,
    zones_within,
)
from exoshuffle.units import format_bytes

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Expression:
    """An expression that fits a schema.

    Attributes:
        text: SQL, as the user wrote it.
        columns: The columns that it reads, as the schema spells them.
        type: The type of its values.
        is_column: Whether it is one column and nothing else.
        sql: The SQL to compute: the text, unless there are parts.
        reads: The columns and parts that the SQL reads.
        zone: DuckDB's ``TimeZone`` meanwhile.
        microseconds: Whether times, and timestamps with a zone, go in as microseconds instead of nanoseconds.
        growth: SQL of how many bytes it may make of a row, level by level: see ``sizes.Growth``.
        parts: Names and expressions that it reads beside columns, each computed in its own time zone.
        comparisons: Those of which it says that all are true, if it can be computed without DuckDB.
    """

    text: str
    columns: tuple[str, ...]
    type: pa.DataType
    is_column: bool = False
    sql: str = ""
    reads: tuple[str, ...] = ()
    zone: str = UTC
    microseconds: bool = False
    growth: tuple[str, ...] = ()
    parts: tuple[tuple[str, Expression], ...] = ()
    comparisons: tuple[Condition, ...] = ()


def of_comparisons(text: str, comparisons: tuple[Condition, ...], schema: pa.Schema) -> Expression:
    """Returns the expression of comparisons; its SQL is there for queries that compute it with others."""
    import pyarrow as pa

    read = {one.column for one in comparisons}
    columns = tuple(sorted(read, key=schema.get_field_index))
    return Expression(text, columns, pa.bool_(), sql=text, reads=columns, comparisons=comparisons)


def typed(text: str, node: Node, schema: pa.Schema) -> Expression:
    """Returns the expression, with its type and all that is needed to compute it.

    Args:
        text: The user's text.
        node: Its syntax tree.
        schema: The schema of the rows.

    Raises:
        SchemaError: It does not fit the schema, or would have to work in several time zones at once.
        InputError: A part without columns makes more than a task has memory for.
    """
    columns = columns_of(text, node, schema)
    zones = zones_of(columns, schema)
    whole = _Whole(text, schema, zones)
    growth = _growth(whole, node, columns)
    compared = as_integers(node, whole.schema)
    if len(set(zones.values())) <= 1:
        return replace(_with_durations(whole, node, compared, columns, zones), growth=growth)
    parts: dict[str, Expression] = {}
    rest = cast("syntax.Node", _parted(whole, compared, parts, takes_moments=True))
    read = [*schema, *((name, part.type) for name, part in parts.items())]
    outer = replace(whole, schema=_schema(read))
    made = _in_one_zone(outer, syntax.text_of(rest), columns_of(text, rest, outer.schema), {})
    return replace(
        made, columns=columns, reads=made.columns, growth=growth, parts=tuple(parts.items())
    )


def typed_together(
    expressions: Sequence[tuple[str, Node]], schema: pa.Schema
) -> dict[str, Expression]:
    """Returns what ``typed`` would, by text, of as many as can be typed by one query. It raises no error.

    These have no time zones and no values that DuckDB has in another form. A query for each took 3 ms. None are typed
    together if names of their columns differ in case alone. Halves are typed if all find no memory. One by one, 500
    expressions of three functions took 12.9 s of CPU time, and take 7.0.
    """
    simple: dict[str, tuple[Sequence[str], tuple[str, ...]]] = {}
    for text, node in expressions:
        with contextlib.suppress(SchemaError, InputError):
            columns = columns_of(text, node, schema)
            kinds = [schema.field(name).type for name in columns]
            is_simple = not any(map(_has_other_form, kinds)) and as_integers(node, schema) is node
            if is_simple:
                growth = _growth(_Whole(text, schema, {}), node, columns)
                simple[text] = columns, growth
    if not simple:
        return {}
    read = {name: None for columns, _ in simple.values() for name in columns}
    if len({name.lower() for name in read}) < len(read):
        return {}
    rows = readable(no_rows(_schema(map(schema.field, read))), list(read), microseconds=False)
    try:
        kinds = types_of(
            list(simple), rows, where=" AND ".join(f"({sql}\n) IS NULL" for sql in simple)
        )
    except Exception as error:  # noqa: BLE001  DuckDB's; the one that does not fit says so when it is typed alone
        half = len(expressions) // 2
        if not half or not is_out_of_memory(error):
            return {}
        first, second = expressions[:half], expressions[half:]
        return typed_together(first, schema) | typed_together(second, schema)
    return {
        text: Expression(text, tuple(columns), kind, sql=text, reads=tuple(columns), growth=growth)
        for (text, (columns, growth)), kind in zip(simple.items(), kinds, strict=True)
        if _can_be_stored(kind) and not is_interval(kind)
    }


def _has_other_form(kind: pa.DataType) -> bool:
    return bool(zones_within(kind)) or in_microseconds(kind) != kind


def columns_of(text: str, node: Node, schema: pa.Schema) -> tuple[str, ...]:
    """Returns the columns that an expression reads, in the order of the schema.

    Raises:
        SchemaError: A column is missing, or several differ only in case.
    """
    parameters = {
        name
        for outer in syntax.nodes(node)
        if outer.get("class") == "LAMBDA"
        for name in syntax.lambda_parameters(outer)
    }
    found = set()
    for name in syntax.column_names(node):
        resolved = _resolve(name, schema)
        if resolved is not None:
            found.add(resolved)
        elif name.lower() not in parameters:
            raise does_not_fit(text, f"{unknown_column(name, schema)}{_as_text(text, name)}")
    if len({name.lower() for name in found}) < len(found):
        raise does_not_fit(text, "it reads columns whose names differ only in case; rename one")
    # Not by the list of names, which is made anew each time; a name that several columns have has no place.
    places = {name: schema.get_field_index(name) for name in found}
    if min(places.values(), default=0) >= 0:
        return tuple(sorted(found, key=places.__getitem__))
    return tuple(name for name in schema.names if name in found)


def _as_text(text: str, name: str) -> str:
    """Returns how to write text, where SQL has it in double quotes, which are for names."""
    return f"; text takes single quotes: {literal(name)}" if quoted(name) in text else ""


def unknown_column(name: str, schema: pa.Schema) -> str:
    """Returns the message about a column that a schema does not have."""
    return unknown("column", name, schema.names)


def does_not_fit(text: str, reason: str) -> SchemaError:
    """Returns the error about an expression that cannot be computed from such rows."""
    return SchemaError(f"expression {text!r} does not fit: {reason}")


def _reason(error: Exception) -> str:
    """Returns what DuckDB says, or what to write where it knows no remedy."""
    said = first_line(error)
    if "'+(VARCHAR, VARCHAR)'" in said:
        return "+ adds numbers; write || between texts, as in xs.sql(\"a || ' ' || b\")"
    if "values of type BIGINT and type INTERVAL" in said:
        return f"{said}; a difference of dates is a number of days, as in d2 - d1 > 3"
    return said


def too_large(text: str, what: str, limit: int) -> InputError:
    """Returns the error about an expression that makes more than there is memory for."""
    return InputError(
        f"expression {text!r} {what}, and may take {format_bytes(limit)}; make less of a row, or raise memory_limit"
    )


def _resolve(name: str, schema: pa.Schema) -> str | None:
    """Returns the column that a name means; None if that is not clear."""
    if schema.get_field_index(name) >= 0 or name in schema.names:
        return name
    alike = [column for column in schema.names if column.lower() == name.lower()]
    return alike[0] if len(alike) == 1 else None


@dataclass(frozen=True)
class _Whole:
    """The whole expression to which a part belongs.

    Attributes:
        text: The user's text.
        schema: The schema of the rows.
        zones: Time zones of the columns that it reads.
    """

    text: str
    schema: pa.Schema
    zones: Mapping[str, str]


def _with_durations(
    whole: _Whole, node: Node, compared: Node, columns: Sequence[str], zones: Mapping[str, str]
) -> Expression:
    """Returns the expression with columns of durations as integers; as intervals, if integers do not fit.

    Args:
        whole: The expression.
        node: Its syntax tree.
        compared: The tree in which durations are compared as integers.
        columns: The columns that it reads.
        zones: Their time zones.
    """
    sql = whole.text if compared is node else syntax.text_of(compared)
    try:
        return _in_one_zone(whole, sql, columns, zones)
    except SchemaError:
        if not has_durations(node, whole.schema):
            raise
        with contextlib.suppress(SchemaError):
            spans = syntax.text_of(as_intervals(node, whole.schema))
            return _in_one_zone(whole, spans, columns, zones)
        raise


def _in_one_zone(
    whole: _Whole, sql: str, columns: Sequence[str], zones: Mapping[str, str]
) -> Expression:
    """Returns an expression, or a part of one, whose columns have these time zones, at most one."""
    zone = next((zones[name] for name in columns if name in zones), None)
    setting = UTC if zone is None else zone_setting(zone) or UTC
    # Other columns may be of types that there are no tables of.
    rows = no_rows(_schema(whole.schema.field(name) for name in columns))
    finer = {kind for kind in rows.schema.types if in_microseconds(kind) != kind}
    # Comparisons work with nanoseconds; most functions do not, nor does one with a time of Python's.
    has_them = not any(map(zones_within, finer)) or has_nanoseconds()
    forms = [False, True] if finer and has_them else [bool(finer)]
    for microseconds in forms:
        read = readable(rows, columns, microseconds=microseconds)
        try:
            if zone is not None and "-" in sql:
                sql = exact_where_compared(sql, read, setting)
            # In a WHERE, DuckDB itself refuses anything that is not a function of one row.
            result = select([sql], read, setting, where=f"({sql}\n) IS NULL")
        except Exception as error:  # noqa: BLE001  DuckDB's, which only databases.py may import
            if is_out_of_memory(error):
                raise _without_columns(whole.text, first_line(error)) from None
            if microseconds == forms[-1]:
                raise does_not_fit(whole.text, _reason(error)) from None
            continue
        break
    kind = result.schema.field(0).type
    if is_interval(kind):
        sql, kind = difference(sql, read, setting) or (sql, kind)
    if not _can_be_stored(kind):
        raise does_not_fit(whole.text, f"its type is {kind}, which files cannot hold; cast it")
    kind = kind if zone is None else in_zone(kind, zone)
    names = tuple(columns)
    return Expression(
        whole.text, names, kind, sql=sql, reads=names, zone=setting, microseconds=microseconds
    )


def _parted(
    whole: _Whole, part: object, parts: dict[str, Expression], *, takes_moments: bool
) -> object:
    """Returns a syntax tree with names in place of those parts of it that read columns of one time zone.

    Args:
        whole: The expression.
        part: The part of its tree to look at.
        parts: The dictionary to which found parts are added.
        takes_moments: Whether timestamps of any zone may be here, since they are only compared.
    """
    if isinstance(part, list):
        return [_parted(whole, one, parts, takes_moments=takes_moments) for one in part]
    if not isinstance(part, dict):
        return part
    zones = zones_in(part, whole.zones)
    if "class" in part and len(zones) == 1:
        return _named_part(whole, part, parts, takes_moments=takes_moments)
    if not zones:
        return part
    if part.get("class") == "LAMBDA":
        raise _several_zones(whole)
    if "class" in part:
        takes_moments = is_neutral(part)
    return {
        name: _parted(whole, one, parts, takes_moments=takes_moments) for name, one in part.items()
    }


def _named_part(
    whole: _Whole, part: Node, parts: dict[str, Expression], *, takes_moments: bool
) -> Node:
    import hashlib  # 2 ms of a start

    columns = columns_of(whole.text, part, whole.schema)
    made = _in_one_zone(whole, syntax.text_of({**part, "alias": ""}), columns, whole.zones)
    if zones_within(made.type) and not takes_moments:
        raise _several_zones(whole)
    # Parts of all expressions of a query become columns of one table: only equal parts share a name.
    content = f"{made.sql}\0{made.zone}\0{made.microseconds}".encode()
    name = f"exoshuffle_part_{hashlib.blake2b(content, digest_size=8).hexdigest()}"
    parts[name] = made
    # struct_pack(x := …) and similar functions find the name of an argument there.
    return {**syntax.parse(name), "alias": part["alias"]}


def _several_zones(whole: _Whole) -> SchemaError:
    named = ", ".join(f"{name!r} in {zone}" for name, zone in whole.zones.items())
    return does_not_fit(
        whole.text,
        f"it reads columns of several time zones ({named}) in one function, which works in one; compute their parts "
        "before, or cast them to one zone",
    )


def _growth(whole: _Whole, node: Node, columns: Sequence[str]) -> tuple[str, ...]:
    """Returns how much the expression may make of a row, in the forms that fit the types of columns.

    Raises:
        InputError: A part without columns makes more than a task has memory for.
    """
    import pyarrow as pa

    kinds = {name: whole.schema.field(name).type for name in columns}
    is_list = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    lists = {name.lower() for name, kind in kinds.items() if any(is_a(kind) for is_a in is_list)}
    levels = growth_of(node, frozenset(lists)).levels
    if not levels:
        return ()
    nothing = pa.table(
        {name: pa.nulls(1, kind) for name, kind in kinds.items()} or {"none": pa.nulls(1)}
    )
    rows = readable(nothing, columns, microseconds=True)
    found = []
    for level in levels:
        fitting = [sql for forms in level for sql in _first_that_fits(whole.text, forms, rows)]
        if fitting:
            found.append(" + ".join(fitting))
    return tuple(found)


def _first_that_fits(text: str, forms: Iterable[str], rows: pa.Table) -> list[str]:
    """Returns the first form of a number that fits the rows; there is one row, all null."""
    limit = expression_bytes()
    for sql in forms:
        try:
            [size] = select([sql], rows).read_all().column(0).to_pylist()
        except Exception as error:  # noqa: BLE001  DuckDB's, which only databases.py may import
            if is_out_of_memory(error):
                raise _without_columns(text, first_line(error)) from None
            continue
        if size > limit:
            raise too_large(text, f"makes about {format_bytes(int(size))} of any row", limit)
        return [sql]
    return []


def _without_columns(text: str, reason: str) -> InputError:
    return too_large(text, f"needs more memory before it sees a row ({reason})", expression_bytes())


def _schema(fields: Iterable[pa.Field | tuple[str, pa.DataType]]) -> pa.Schema:
    import pyarrow as pa

    return pa.schema(list(fields))


def _can_be_stored(kind: pa.DataType) -> bool:
    import pyarrow as pa

    if pa.types.is_union(kind) or isinstance(kind, pa.BaseExtensionType):
        return False
    return all(_can_be_stored(kind.field(i).type) for i in range(kind.num_fields))
