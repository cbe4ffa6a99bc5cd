"""Comparisons of columns with literals, joined by AND or alone, read and computed without DuckDB.

Guarantee: the values are those of DuckDB. Only integers, doubles, days and plain text are compared so, with literals of
the same kind. Arrow orders them as DuckDB does, text by its bytes, and NaN is the greatest double here, too. Other
types have casts. BETWEEN is two comparisons. Lists of IN have no doubles, since Arrow tells both zeros apart.

Why: most filters of a first program are such a comparison. DuckDB takes 0.1 s of a start, a third of all. A filter of
16 million floats in memory took 0.31 s of CPU with its queries, and takes 0.06. One of 8 million rows by two columns
took 0.28 s, and takes 0.1. DuckDB parses a query anew for each batch: an IN of 1,000 numbers on 16 million rows took
6.5 s of CPU, and takes 3.7.
"""

from __future__ import annotations

import datetime as dt
import functools
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.arrow_values import array_of, scalar_of
from exoshuffle.operators.exact_keys import is_exact
from exoshuffle.operators.kernels import call, places_of

if TYPE_CHECKING:
    import pyarrow as pa

#: Arrow's functions by the signs of SQL.
_KERNELS = {
    "=": "equal",
    "==": "equal",
    "<>": "not_equal",
    "!=": "not_equal",
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
}
#: Arrow says of NaN that no comparison is true but ``not_equal``. So these are the contrary of others.
_CONTRARY = {"greater": "less_equal", "greater_equal": "less"}
#: Numbers of so many digits are exact in a double, and so are the powers of ten that they are divided by.
_MOST_DIGITS = 15
_EPOCH = dt.date(1970, 1, 1)
_COLUMN = re.compile(r'\s*(?:"(?P<quoted>[^"]+)"|(?P<name>[a-z_][a-z0-9_]*))\s*', re.IGNORECASE)
_SIGN = re.compile(r"==?|<>|!=|<=|>=|<|>")
_BETWEEN = re.compile(r'(?<=[\s"])between(?=[\s(])', re.IGNORECASE)
_IN = re.compile(r'(?<=[\s"])in\s*\(', re.IGNORECASE)
#: A sign that follows ``!=`` at once makes another operator of both.
_LITERAL = re.compile(
    r"""\s*(?P<opened>\()?(?:(?P<number>(?:(?<=[\s(,])-)?[0-9]{1,18}(?P<part>\.[0-9]{1,18})?)"""
    r"""|(?P<date>date\s*)?'(?P<text>[^'\\]*)')(?(opened)\))\s*""",
    re.IGNORECASE,
)
_OPENED, _COMMA, _CLOSED = re.compile(r"\s*\("), re.compile(","), re.compile(r"\)\s*")
_AND = re.compile(r"(?<=[\s)])and(?=[\s(])", re.IGNORECASE)
#: Comparisons, and brackets, of what is read here. Longer texts are left to DuckDB: each looks through all columns.
_MOST = 64
#: Words that are no names of columns where they stand alone; a test compares them with DuckDB's.
_WORDS = (
    "all analyse analyze and anti any array as asc asof asymmetric at authorization binary both by case cast "
    "check collate collation column columns concurrently constraint create cross default deferrable desc describe "
    "distinct do else end except exists false fetch for foreign freeze from full generated glob grant group "
    "having ilike in initially inner intersect into is isnull join lambda lateral leading left like limit "
    "localtime localtimestamp map natural not notnull null offset on only or order outer overlaps pivot "
    "pivot_longer pivot_wider placing positional primary qualify references returning right row select semi show "
    "similar some struct summarize symmetric table tablesample then to trailing true try_cast tuple union unique "
    "unpack unpivot using variadic verbose when where window with"
)
RESERVED = frozenset(_WORDS.split())


@dataclass(frozen=True)
class Comparison:
    """A comparison.

    Attributes:
        column: The column.
        kernel: Arrow's function.
        literal: The literal that it is compared with; a value of the column's type.
    """

    column: str
    kernel: str
    literal: pa.Scalar

    def of(self, rows: pa.Table) -> pa.ChunkedArray:
        """Returns whether it is true of each row."""
        return with_literal(self.kernel, rows.column(self.column), self.literal)


@dataclass(frozen=True)
class Listed:
    """Whether the value of a column is in a list.

    Attributes:
        column: The column.
        literals: The list; values of the column's type. A scalar, since arrays cannot be hashed.
    """

    column: str
    literals: pa.ListScalar

    def of(self, rows: pa.Table) -> pa.ChunkedArray:
        """Returns whether it is true of each row; null where the value is."""
        import pyarrow as pa

        values = rows.column(self.column)
        found = call("is_valid", places_of(values, pa.chunked_array([self.literals.values])))
        if not values.null_count:
            return found
        return call("if_else", call("is_valid", values), found, scalar_of(None, pa.bool_()))


Condition: TypeAlias = Comparison | Listed


class _Read(NamedTuple):
    """A condition as it is written: a column, one of ``_KERNELS`` or ``_LIST``, and literals."""

    column: re.Match[str]
    kernel: str
    literals: list[re.Match[str]]


#: In the place of a kernel: the value is one of several.
_LIST = "list"


def read_comparisons(text: str, schema: pa.Schema) -> tuple[Condition, ...]:
    """Returns the comparisons of which a text says that all are true.

    There are none if it is another expression, or one of them is of types that DuckDB compares.
    """
    read = _joined(text, 0, 0)
    if read is None or read[1] < len(text) or len(read[0]) > _MOST:
        return ()
    found = [_comparison(one, schema) for one in read[0]]
    known = tuple(one for one in found if one is not None)
    return known if len(known) == len(found) else ()


def _joined(text: str, start: int, depth: int) -> tuple[list[_Read], int] | None:
    """Returns the comparisons from a place on, and where they end; objects write brackets around each and several."""
    found: list[_Read] = []
    while True:
        if opened := _OPENED.match(text, start):
            inner = _joined(text, opened.end(), depth + 1) if depth < _MOST else None
            closed = inner and _CLOSED.match(text, inner[1])
            if not inner or not closed:
                return None
            found += inner[0]
            start = closed.end()
        elif one := _read(text, start):
            found += one[0]
            start = one[1]
        else:
            return None
        if not (joined := _AND.match(text, start)):
            return found, start
        start = joined.end()


def _read(text: str, start: int) -> tuple[list[_Read], int] | None:
    """Returns what is read of a column from a place on, and where it ends; BETWEEN is two comparisons."""
    if not (column := _COLUMN.match(text, start)):
        return None
    start = column.end()
    if sign := _SIGN.match(text, start):
        literal = _LITERAL.match(text, sign.end())
        return literal and ([_Read(column, _KERNELS[sign[0]], [literal])], literal.end())
    if between := _BETWEEN.match(text, start):
        low = _LITERAL.match(text, between.end())
        joined = low and _AND.match(text, low.end())
        high = joined and _LITERAL.match(text, joined.end())
        if not low or not high:
            return None
        both = [_Read(column, "greater_equal", [low]), _Read(column, "less_equal", [high])]
        return both, high.end()
    listed = _IN.match(text, start)
    read = listed and _list(text, listed.end())
    return read and ([_Read(column, _LIST, read[0])], read[1])


def _list(text: str, start: int) -> tuple[list[re.Match[str]], int] | None:
    """Returns the literals of a list from behind its bracket on, and where it ends."""
    found: list[re.Match[str]] = []
    while literal := _LITERAL.match(text, start):
        found.append(literal)
        if closed := _CLOSED.match(text, literal.end()):
            return found, closed.end()
        if not (comma := _COMMA.match(text, literal.end())):
            return None
        start = comma.end()
    return None


def _comparison(read: _Read, schema: pa.Schema) -> Condition | None:
    import pyarrow as pa

    if (read.column["name"] or "").lower() in RESERVED:
        return None
    name = read.column["quoted"] or read.column["name"]
    alike = [column for column in schema.names if column.lower() == name.lower()]
    if alike != [name]:
        return None
    kind = schema.field(name).type
    values = [_value(found, kind) for found in read.literals]
    if None in values or (read.kernel == _LIST and not is_exact(kind)):
        return None
    literals = array_of(values, pa.int32() if kind == pa.date32() else kind).view(kind)
    if read.kernel != _LIST:
        return Comparison(name, read.kernel, literals[0])
    ends = array_of([0, len(literals)], pa.int32())
    return Listed(name, pa.ListArray.from_arrays(ends, literals)[0])


def compared(comparisons: Sequence[Condition], rows: pa.Table) -> pa.ChunkedArray:
    """Returns whether all comparisons are true of each row; null as in SQL, where a column is and none is false."""
    found = (one.of(rows) for one in comparisons)
    return functools.reduce(functools.partial(call, "and_kleene"), found)


def with_literal(kernel: str, values: pa.ChunkedArray, literal: pa.Scalar) -> pa.ChunkedArray:
    """Returns what a kernel of ``_KERNELS`` says of values and a literal; NaN is the greatest value."""
    import pyarrow as pa

    if pa.types.is_floating(literal.type) and kernel in _CONTRARY:
        return call("invert", call(_CONTRARY[kernel], values, literal))
    return call(kernel, values, literal)


def _value(found: re.Match[str], kind: pa.DataType) -> int | float | str | None:
    """Returns the value of a literal for an array of the type, a day as its number; None if it is left to DuckDB."""
    import pyarrow as pa

    if found["date"] is not None:
        return _day(found["text"]) if kind == pa.date32() else None
    if found["number"] is None:
        return found["text"] if kind in (pa.string(), pa.large_string()) else None
    if kind == pa.float64():
        is_exact_double = sum(map(str.isdigit, found["number"])) <= _MOST_DIGITS
        return float(found["number"]) if is_exact_double else None
    if not pa.types.is_integer(kind) or found["part"] is not None:
        return None
    number, bits = int(found["number"]), kind.bit_width
    low = 0 if pa.types.is_unsigned_integer(kind) else -(1 << (bits - 1))
    # DuckDB takes the wider type of both sides; a number that the column's type holds compares alike.
    return number if low <= number < low + (1 << bits) else None


def _day(text: str) -> int | None:
    """Returns the number of a day that is written in full; DuckDB reads others, too, and refuses some."""
    try:
        day = dt.date.fromisoformat(text)
    except ValueError:
        return None
    return (day - _EPOCH).days if day.isoformat() == text else None
