"""Comparisons that are computed without DuckDB have its values, and are those that DuckDB reads so."""

from __future__ import annotations

import dataclasses

import duckdb
import pyarrow as pa
import pytest

from exoshuffle.errors import SchemaError
from exoshuffle.operators.sql import syntax
from exoshuffle.operators.sql.comparisons import RESERVED, compared, read_comparisons
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
        comparisons = read_comparisons(text, TABLE.schema)
        is_text = column.strip('"') in ("t", "big")
        if (literal[0] == "'") != is_text or column in ("I64", '"f32"'):
            assert not comparisons
            continue
        if not comparisons:  # no value of the column's type
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
        assert compared(comparisons, TABLE).to_pylist() == wanted.to_pylist()
        assert read_comparisons(f" ({text})", TABLE.schema) == comparisons


JOINED = """
i64 > 1 and i64 < 3
(i64 > 1) AND (i64 < 3)
(("f64" >= 0.1) AND (("t" <> 'a') AND ("i64" > -1)))
(f64 > 0 and t = 'a') and i8 < 5
t > '(' and t < ')' and i8 != 0
i64 > 0\tAnd f64 < 5
"a b" > 3 and "a b" > 4
"""


@pytest.mark.parametrize("text", JOINED.strip().splitlines())
def test_all_of_several_comparisons_are_those_of_duckdb(text: str) -> None:
    found = parse_expression(text, TABLE.schema)
    by_duckdb = typed(text, syntax.parse(text), TABLE.schema)
    assert found == dataclasses.replace(by_duckdb, comparisons=read_comparisons(text, TABLE.schema))
    assert found.comparisons
    ((_, [values, wanted]),) = evaluated([found, by_duckdb], TABLE)
    assert values.to_pylist() == wanted.to_pylist()


OTHERS = """
t = 'it''s'
i64 > 1.5
i64 > 1 or i64 < 3
i64 > 1 and i64 < i8
i64 > 1) and (i64 < 3
(i64 > 1 and i64 < 3
t = 'a and i64 > 1 and t = a'
i64 between 1 and 3
not i64 > 1 and i64 < 3
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
(i64) > 1
"""


@pytest.mark.parametrize("text", OTHERS.strip().splitlines())
def test_others_are_left_to_duckdb(text: str) -> None:
    assert not read_comparisons(text, TABLE.schema)


def test_columns_that_differ_in_case_alone_are_left_to_duckdb() -> None:
    schema = pa.schema([("x", pa.int64()), ("X", pa.int64())])
    assert not read_comparisons("x > 1", schema)


def test_words_that_duckdb_reserves_are_no_columns() -> None:
    words = duckdb.sql(
        "SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category IN ('reserved', 'type_function')"
    ).fetchall()
    assert {word for (word,) in words} <= RESERVED
    schema = pa.schema([("order", pa.int64())])
    assert not read_comparisons("order > 1", schema)
    assert read_comparisons('"order" > 1', schema)
    with pytest.raises(SchemaError, match="cannot read expression"):
        parse_expression("order > 1", schema)
