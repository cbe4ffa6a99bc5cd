"""Proves that engines made the same result of the same input, up to the order of rows.

Guarantee: results are compared by numbers that no order changes. These are the number of rows, sums of columns, and the
sum of hashes over rows (always DuckDB's). Rows in random order are also checked. About half of the first ones come
after a greater row number, and their mean is about that of all. This holds in all but one of a thousand million
permutations.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import duckdb

#: The compared numbers; with casts, because engines choose other types for the same numbers.
SUMMARIES = {
    "random_shuffle": "count(*) AS rows, sum(key) AS sum_of_keys, sum(row) AS sum_of_rows",
    "group_by": (
        "count(*) AS rows, sum(n) AS sum_of_n, sum(total) AS sum_of_total, "
        "sum(hash(k::BIGINT, n::BIGINT, total::BIGINT, lowest::BIGINT)) AS sum_of_hashes"
    ),
    "join": (
        "count(*) AS rows, sum(hash(l_orderkey, l_linenumber, l_extendedprice::DECIMAL(15, 2), l_shipdate, l_comment, "
        "o_orderkey, o_custkey, o_totalprice::DECIMAL(15, 2), o_orderdate, o_comment)) AS sum_of_hashes"
    ),
}
#: No mean of a permutation is so many standard deviations off.
MAX_DEVIATIONS = 6.0

#: Numbers by name, modulo 2**64, like sums of 64-bit integers that wrap around.
Summary = dict[str, int]


def summary_of_files(operator: str, path: Path) -> Summary:
    """Summarises Parquet files: the output of an operator, or the input of ``random_shuffle``; takes one scan."""
    return summary(SUMMARIES[operator], path)


def summary(columns: str, path: Path) -> Summary:
    """Summarises Parquet files, by SQL aggregates with names."""
    files = [path] if path.is_file() else sorted(path.rglob("*.parquet"))
    with duckdb.connect(config={"memory_limit": "1GB"}) as connection:
        found = connection.execute(
            f"SELECT {columns} FROM read_parquet($files)",
            {"files": [str(file) for file in files]},
        )
        names = [column[0] for column in found.description or ()]
        values = found.fetchone() or ()
    return {name: int(value or 0) % 2**64 for name, value in zip(names, values, strict=True)}


def summary_of_consumed(printed: str) -> Summary:
    """Returns the summary that the program of ``random_shuffle`` printed of the rows it read.

    Raises:
        AssertionError: The first rows are in no random order.
    """
    found = json.loads(printed.strip().splitlines()[-1])
    check_random(found.pop("first_rows"), found["rows"])
    return Summary(found)


def check_random(first: Sequence[int], num_rows: int) -> None:
    """Checks that the numbers could begin a random permutation of ``range(num_rows)``.

    Raises:
        AssertionError: They could not; the message says why.
    """
    count = len(first)
    if count < 2:
        return
    ascents = sum(one < other for one, other in pairwise(first))
    deviation = math.sqrt((count + 1) / 12)
    if abs(ascents - (count - 1) / 2) > MAX_DEVIATIONS * deviation:
        raise AssertionError(
            f"{ascents} of the first {count} row numbers are greater than the one before"
        )
    mean = sum(first) / count
    deviation = num_rows / math.sqrt(12 * count)
    if abs(mean - (num_rows - 1) / 2) > MAX_DEVIATIONS * deviation:
        raise AssertionError(
            f"the first {count} of {num_rows} row numbers have the mean {mean:.0f}"
        )


def check_agree(summaries: dict[str, Summary]) -> None:
    """Checks that all summaries are equal.

    Raises:
        AssertionError: Two differ; the message says whose and how.
    """
    for (one, first), (other, second) in pairwise(summaries.items()):
        if first != second:
            raise AssertionError(f"{one} made {first}, {other} {second}")
