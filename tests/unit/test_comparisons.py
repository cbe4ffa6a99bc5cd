"""Comparisons that are computed without DuckDB have its values, and are those that DuckDB reads so."""

from __future__ import annotations

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
NAN = float("nan")
NUMBERS = [None, 0, 1, -1, 5, 127, -128]
FLOATS = [None, 0.0, -0.0, NAN, -NAN, float("inf"), float("-inf"), 0.1, -1.5, 5.0, 2.0**60]
COLUMNS = {
    "t": pa.array(TEXTS, pa.string()),
    "big": pa.array(TEXTS, pa.large_string()),
    "i8": pa.array([*NUMBERS, 5, 5, 5, 5], pa.int8()),
    "i64": pa.array([*NUMBERS, 2**63 - 1, -(2**63), 10**18, 7], pa.int64()),
    "u16": pa.array([*(abs(n) if n else n for n in NUMBERS), 65535, 1, 2, 3], pa.uint16()),
    "u64": pa.array([*(abs(n) if n else n for n in NUMBERS), 2**64 - 1, 1, 2, 3], pa.uint64()),
    "a b": pa.array(range(11), pa.int32()),
    "f64": pa.array(FLOATS, pa.float64()),
    "d": pa.array([*range(19780, 19790), None], pa.int32()).cast(pa.date32()),
}
COLUMNS["f32"] = COLUMNS["f64"].cast(pa.float32())
TABLE = pa.table(COLUMNS)
LITERALS = ["0", "-1", "5", "127", "65535", "'a'", "''", "'ä'", "'zz'"]
#: Those of a column alone.
OWN = {
    '"f64"': ["0.1", "-1.5", "1.50", "0.0", "0.12345678901234", "999999999999999", "1234567.89"],
    '"d"': ["date '2024-03-03'", "DATE'2024-03-03'", "date  '1969-12-31'", "date '9999-12-31'"],
}


@pytest.mark.parametrize("sign", ["=", "==", "<>", "!=", "<", "<=", ">", ">="])
@pytest.mark.parametrize("column", [*(f'"{name}"' for name in COLUMNS), "t", "I64"])
def test_values_are_those_of_duckdb(column: str, sign: str) -> None:
    for literal in [*LITERALS, *OWN.get(column, [])]:
        text = f"{column}{sign} {literal}"
        comparisons = read_comparisons(text, TABLE.schema)
        is_text = column.strip('"') in ("t", "big")
        fits = (literal[0] == "'") == is_text and column not in ("I64", '"f32"')
        if column == '"d"':
            fits = literal[0] in "dD"
        if not fits:
            assert not comparisons
            continue
        if not comparisons:  # no value of the column's type
            assert column in ('"i8"', '"u16"', '"u64"')
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
i64 > -5 and i64 < 8
((i64 > -5))
(i64 > -5) AND(i64 < 8) And f64 <> 0
((("i64" > -5) AND (t <> 'a')) AND ("d" >= date '2024-03-01'))
f64 > 0 and f64 <= 5 and i8 <> 127 and t >= 'a'
u64 > 3 and f64 >= 0.1 and big < 'z'
( i64 > -5 and (t='and' and "a b" < 9 ) )
t > '(' and t < ')' and i8 != 0
"a b" > 3 and "a b" > 4
i64 > 0\tAnd f64 < 5
i64 between -1 and 5
(i64 BETWEEN (-1) AND 5) AND f64 between 0.0 and 5
"t" between 'A' and 'a' and d between date '2024-03-01' and DATE '2024-03-03'
f64 between (-1.5) and (999999999999999)
i8 between 5 and 1
i64 in (1)
i64 IN (1, 5,-1 , (-1),(7))
("i8" in (127, 0)) AND t In ('a', '', 'and', ')', '(', ',')
u64 in (5, 0) and big in ('ä') and d in (date '2024-03-01', date '2024-03-02')
"a b" in (3, 4, 3)
"""


@pytest.mark.parametrize("text", JOINED.strip().splitlines())
def test_several_are_those_of_duckdb(text: str) -> None:
    comparisons = read_comparisons(text, TABLE.schema)
    assert len(comparisons) == text.replace("'and'", "").lower().count("and") + 1
    assert hash(comparisons) == hash(read_comparisons(text, TABLE.schema))
    by_duckdb = typed(text, syntax.parse(text), TABLE.schema)
    found = parse_expression(text, TABLE.schema)
    assert (found.columns, found.type, found.reads, found.growth) == (
        by_duckdb.columns,
        by_duckdb.type,
        by_duckdb.reads,
        by_duckdb.growth,
    )
    ((_, [wanted]),) = evaluated([by_duckdb], TABLE)
    ((_, [values]),) = evaluated([found], TABLE)
    assert values.to_pylist() == wanted.to_pylist()


OTHERS = """
i64 > 1 and
and i64 > 1
i64 > 1 and i64 < 3 or t = 'a'
i64 > 1 or i64 < 3
i64 > 1and i64 < 3
i64 > 1 andi64 < 3
not i64 > 1 and i64 < 3
(i64 > 1 and i64 < 3
i64 > 1) and (i64 < 3
i64 > 1 and (i64 < 3))
i64 > 1 and f64
i64 > 1 and nothing > 3
()
(i64 > 1)()
i64 > 1 (i64 > 2)
t = 'it''s'
i64 > 1.5
f64 > 1e3
f64 > .5
f64 > 5.
f64 > 1234567890123456
f64 > 0.1234567890123456
f64 > '5'
f32 > 1
i64 between 1 and
i64 between 1 or 3
i64 between 1 and i8
i64 between 1.5 and 3
i64 not between 1 and 3
i64between 1 and 3
t between 1 and 3
f32 between 1 and 3
i64 in ()
i64 in (1
i64 in (1,)
i64 in (1, 2) in (true)
i64 in (1, null)
i64 in (1, 2.5)
i64 in (1, 'a')
i64 in (1 2)
i64 in ((1, 2))
i64 in (--1
i64 in 1
i64 not in (1, 2)
i8 in (1, 128)
f64 in (0.0)
t in ('a', 'it''s')
d in ('2024-03-01')
in in (1)
(i64) > 1
d > '2024-01-01'
d > date '2024-1-1'
d > date '2024-02-30'
d > date '20240101'
d > date '2024-W01-1'
i64 > date '2024-01-01'
i64 > i8
1 < i64
i64 + 1 > 2
i64 > 99999999999999999999
t > 5
nothing > 1
i64 >
i64 = 1 = 1
i64 > 1 --
i64 !=-1
(i64 > 1
"""


@pytest.mark.parametrize("text", OTHERS.strip().splitlines())
def test_others_are_left_to_duckdb(text: str) -> None:
    assert not read_comparisons(text, TABLE.schema)


@pytest.mark.parametrize("text", ["i64 > {}", "(i64 > {})"])
def test_long_texts_are_left_to_duckdb(text: str) -> None:
    texts = [text.format(number) for number in range(65)]
    assert len(read_comparisons(" and ".join(texts[1:]), TABLE.schema)) == 64
    assert not read_comparisons(" and ".join(texts), TABLE.schema)
    assert not read_comparisons("(" * 10_000 + texts[0], TABLE.schema)


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
