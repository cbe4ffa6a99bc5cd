"""Expressions that make much of little: within a share of the memory, or an error that says so, and no row is lost."""

from __future__ import annotations

import resource

import pyarrow as pa
import pytest

from exoshuffle.errors import InputError
from exoshuffle.operators.sql import databases
from exoshuffle.operators.sql import queries as expression_queries
from exoshuffle.operators.sql.evaluation import evaluated
from exoshuffle.operators.sql.parsing import parse_expression

TABLE = pa.table(
    {
        "s": ["a", "b", "c"],
        "n": [1, 2, 3],
        "huge": [10, 2_000_000_000, 3],
        "items": [[1] * 30_000] * 3,
        "text": ["a" * 30_000] * 3,
        "other": ["b" * 30_000] * 3,
        "form": ["{}", "{:>900000000}", "{}"],
        "bytes": pa.array([b"a"] * 3),
    }
)

#: More than 400 MB of a row, or of a few.
TOO_LARGE = [
    "repeat(s, 1000000000)",
    "repeat(s, huge)",
    "repeat('x', 1000000000)",
    "repeat(bytes, 1000000000)",
    "repeat([n], 1000000000)",
    "repeat(repeat(s, 1000000), 1000000)",
    "length(repeat(s, 1000000000))",
    "range(huge)",
    "list_sum(range(1, huge, 2))",
    "range(timestamp '1900-01-01', timestamp '2900-01-01', interval 1 second)",
    "lpad(s, 500000000, 'x')",
    "rpad(s, huge::int, 'x')",
    "printf('%500000000d', n)",
    "printf('%*d', huge::int, n)",
    "format(form, s)",
    "format('{:{}}', s, huge)",
    "replace(text, 'a', other)",
    "regexp_replace(text, 'a', other, 'g')",
    "list_resize([n], 500000000)",
    "list_transform(items, lambda x: range(30000))",
    "list_transform(items, lambda x: items)",
    "[repeat(s, 1000000) for x in items]",
    "list_reduce([[x] for x in items[1:40]], lambda a, x: list_concat(a, a))",
    "bitstring('1', 2000000000)",
    "bar(n, 0, 10, 1000000000)",
    "text || repeat(other, 100000)",
]


@pytest.mark.parametrize("text", TOO_LARGE)
def test_an_error_that_names_the_expression_and_the_limit(text: str) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(
        InputError, match=r"may take 64\.0 MB; make less of a row, or raise"
    ) as caught:
        list(evaluated([parse_expression(text, TABLE.schema)], TABLE))
    assert text in str(caught.value) or repr(text) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 250_000


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("case when huge < 100 then len(range(huge)) end", [10, None, 3]),
        ("case when huge > 100 then [] else range(n) end", [[0], [], [0, 1, 2]]),
        ("list_sum(range(n))", [0, 1, 3]),
        ("printf('%05d', n)", ["00001", "00002", "00003"]),
        ("format('{} at 20240101', n)", ["1 at 20240101", "2 at 20240101", "3 at 20240101"]),
        ("len(string_split(text, ''))", [30_000] * 3),
        ("list_reduce(items[1:3], lambda a, x: a + x)", [3] * 3),
        ("len(items || items || items)", [90_000] * 3),
    ],
)
def test_what_fits(text: str, wanted: list[object]) -> None:
    found = list(evaluated([parse_expression(text, TABLE.schema)], TABLE))
    assert [value for _, [values] in found for value in values.to_pylist()] == wanted


@pytest.mark.parametrize(
    "text", ["repeat(s, 20000)", "s || repeat('y', 20000)", "concat(s, t, t, t)"]
)
def test_large_results_come_in_parts(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(databases, "UNMANAGED_BYTES", 8_000_000)
    rows = pa.table({"s": [str(number) for number in range(3000)], "t": ["t" * 5000] * 3000})
    expression = parse_expression(text, rows.schema)
    parts = list(evaluated([expression], rows))
    assert sum(part.num_rows for part, _ in parts) == 3000
    assert pa.concat_tables(part for part, _ in parts).equals(rows)
    assert max(values.nbytes for _, [values] in parts) < 24_000_000
    [whole] = [
        pa.chunked_array(
            [chunk for _, [values] in parts for chunk in values.chunks], expression.type
        )
    ]
    first = rows["s"].to_pylist()
    made = {
        "repeat(s, 20000)": lambda s: s * 20_000,
        "s || repeat('y', 20000)": lambda s: s + "y" * 20_000,
        "concat(s, t, t, t)": lambda s: s + "t" * 15_000,
    }[text]
    assert all(value.as_py() == made(s) for value, s in zip(whole, first, strict=True))


def test_a_row_that_finds_no_memory_beside_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB counts what all tasks have: then a row has a database of its own."""
    shared = databases.Database()
    monkeypatch.setattr(expression_queries, "expression_cursor", lambda: shared.cursor(2_000_000))
    rows = pa.table({"s": ["a" * 3_000_000, "b"]})
    expression = parse_expression("upper(s)", rows.schema)
    values = [value for _, [made] in evaluated([expression], rows) for value in made.to_pylist()]
    assert values == ["A" * 3_000_000, "B"]
