"""Comparisons that are computed without DuckDB have its values, and are those that DuckDB reads so."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest

from exoshuffle.errors import SchemaError
from exoshuffle.operators.sql import syntax
from exoshuffle.operators.sql.comparisons import RESERVED, compared, read_comparison
from exoshuffle.operators.sql.evaluation import evaluated
from exoshuffle.operators.sql.parsing import parse_expression
from exoshuffle.operators.sql.types import typed

TEXTS = ["", "a", "A", "ä", "z", "aa", "\x00", "\U0001f600", "\uffff", None, "5"]
NUMBERS = [None, 0, 1, -1, 5, 127, -128]
NAN, INF = float("nan"), float("inf")
COLUMNS = {
    "t": pa.array(TEXTS, pa.string()),
    "big": pa.array(TEXTS, pa.large_string()),
    "i8": pa.array([*NUMBERS, 5, 5, 5, 5], pa.int8()),
    "i64": pa.array([*NUMBERS, 2**63 - 1, -(2**63), 10**18, 7], pa.int64()),
    "u16": pa.array([*(abs(n) if n else n for n in NUMBERS), 65535, 1, 2, 3], pa.uint16()),
    "u64": pa.array([*(abs(n) if n else n for n in NUMBERS), 2**64 - 1, 1, 2, 3], pa.uint64()),
    "a b": pa.array(range(11), pa.int32()),
    "f64": pa.array([None, NAN, -NAN, INF, -INF, 0.1, -0.0, 0.0, -1.0, 5.0, 0.3]),
}
COLUMNS["f32"] = COLUMNS["f64"].cast(pa.float32())
TABLE = pa.table(COLUMNS)
LITERALS = ["0", "-1", "5", "127", "65535", "0.1", "0.30000", "-0.0", "'a'", "''", "'ä'", "'zz'"]


@pytest.mark.parametrize("sign", ["=", "==", "<>", "!=", "<", "<=", ">", ">="])
@pytest.mark.parametrize("column", [*(f'"{name}"' for name in COLUMNS), "t", "I64"])
def test_values_are_those_of_duckdb(column: str, sign: str) -> None:
    for literal in LITERALS:
        text = f"{column}{sign} {literal}"
        comparison = read_comparison(text, TABLE.schema)
        is_text = column.strip('"') in ("t", "big")
        if (literal[0] == "'") != is_text or column in ("I64", '"f32"'):
            assert comparison is None
            continue
        if comparison is None:  # no value of the column's type
            assert column in ('"i8"', '"u16"', '"u64"') or ("." in literal and column != '"f64"')
            continue
        by_duckdb = typed(text, syntax.parse(text), TABLE.schema)
        found = parse_expression(text, TABLE.schema)
        assert (found.columns, found.type, found.sql, found.reads, found.growth, found.zone) == (
            by_duckdb.columns,
            by_duckdb.type,
            by_duckdb.sql,
            by_duckdb.reads,
            by_duckdb.growth,
            by_duckdb.zone,
        )
        ((_, [wanted]),) = evaluated([by_duckdb], TABLE)
        assert compared(comparison, TABLE).to_pylist() == wanted.to_pylist()
        assert read_comparison(f" ({text})", TABLE.schema) == comparison


OTHERS = """
t = 'it''s'
i64 > 1.5
i64 > 1 and i64 < 3
i64 > i8
1 < i64
i64 + 1 > 2
i64 > 99999999999999999999
f64 > 0.1234567890123456
f64 > 1234567890123456
f64 > 1e3
f64 > 1.
f64 > .5
f32 > 1
t > 5
nothing > 1
i64 >
i64 = 1 = 1
i64 > 1 --
i64 !=-1
(i64 > 1
((i64 > 1))
(i64 > 1) and (i64 < 3)
"""


@pytest.mark.parametrize("text", OTHERS.strip().splitlines())
def test_others_are_left_to_duckdb(text: str) -> None:
    assert read_comparison(text, TABLE.schema) is None


def test_columns_that_differ_in_case_alone_are_left_to_duckdb() -> None:
    schema = pa.schema([("x", pa.int64()), ("X", pa.int64())])
    assert read_comparison("x > 1", schema) is None


def test_words_that_duckdb_reserves_are_no_columns() -> None:
    words = duckdb.sql(
        "SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category IN ('reserved', 'type_function')"
    ).fetchall()
    assert {word for (word,) in words} <= RESERVED
    schema = pa.schema([("order", pa.int64())])
    assert read_comparison("order > 1", schema) is None
    assert read_comparison('"order" > 1', schema) is not None
    with pytest.raises(SchemaError, match="cannot read expression"):
        parse_expression("order > 1", schema)
