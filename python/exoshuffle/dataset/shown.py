"""Rows and schemas as text and HTML for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from exoshuffle.operators.sql.relational import as_python
from exoshuffle.units import counted

if TYPE_CHECKING:
    import pyarrow as pa

#: Most columns of a schema, and most characters of a value, that are shown.
MAX_COLUMNS = 30
MAX_CHARACTERS = 40


def schema_lines(schema: pa.Schema) -> list[str]:
    """Returns a line for each column, and one for those that are too many."""
    lines = [f"{name}: {kind}" for name, kind in _columns(schema)]
    more = len(schema) - len(lines)
    return [*lines, f"and {counted(more, 'column')} more"] if more else lines


def schema_html(title: str, schema: pa.Schema) -> str:
    """Returns a table of the columns, below a title, as HTML."""
    import html

    rows = "".join(
        f"<tr><td>{html.escape(name)}</td><td>{html.escape(kind)}</td></tr>"
        for name, kind in _columns(schema)
    )
    more = len(schema) - min(len(schema), MAX_COLUMNS)
    below = f"<p>and {counted(more, 'column')} more</p>" if more else ""
    head = "<tr><th>column</th><th>type</th></tr>"
    return f"<p>{html.escape(title)}</p><table>{head}{rows}</table>{below}"


def _columns(schema: pa.Schema) -> list[tuple[str, str]]:
    return [
        (schema.field(index).name, str(schema.field(index).type))
        for index in range(min(len(schema), MAX_COLUMNS))
    ]


def table_text(table: pa.Table) -> str:
    """Returns rows as lines, in columns below their names and types."""
    shown = table.select(list(range(min(table.num_columns, MAX_COLUMNS))))
    columns = [
        [field.name, str(field.type), *map(_value, map(as_python, shown.column(index)))]
        for index, field in enumerate(shown.schema)
    ]
    are_numbers = [_is_number(field.type) for field in shown.schema]
    padded = [_padded(texts, right) for texts, right in zip(columns, are_numbers, strict=True)]
    lines = ["  ".join(row).rstrip() for row in zip(*padded, strict=True)]
    more = table.num_columns - shown.num_columns
    end = [f"and {counted(more, 'column')} more"] if more else []
    return "\n".join([*lines, *end, f"({counted(table.num_rows, 'row')})"])


def _value(value: object) -> str:
    text = "null" if value is None else " ".join(str(value).splitlines())
    return text if len(text) <= MAX_CHARACTERS else f"{text[: MAX_CHARACTERS - 1]}…"


def _padded(texts: Sequence[str], right: bool) -> list[str]:
    cut = [_value(text) for text in texts]
    width = max(map(len, cut))
    return [text.rjust(width) if right else text.ljust(width) for text in cut]


def _is_number(kind: pa.DataType) -> bool:
    import pyarrow as pa

    types = pa.types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))
