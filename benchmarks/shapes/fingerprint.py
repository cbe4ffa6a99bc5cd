"""Says whether two results have the same rows, and where the query orders them, in the same order.

Guarantee: columns are compared by their place. Their kinds are those of DuckDB's result, to which others are cast.
Floats and decimals may differ by a thousand-millionth of their sum, since engines add them up in another order; all
else is exact. Every such number counts with a weight that comes from the rest of its row, and from the row's number
where rows are ordered. So values that change places are seen.

Why no ``EXCEPT ALL``: it has no tolerance, and keeps all rows of both results.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb

TOLERANCE = 1e-9
#: Weights are whole numbers from 1 to this.
MAX_WEIGHT = 1000


@dataclass(frozen=True)
class Column:
    """A column of DuckDB's result.

    Attributes:
        name: Its name.
        kind: Its type in SQL.
    """

    name: str
    kind: str

    @property
    def is_approximate(self) -> bool:
        """Whether engines may differ in the last digits."""
        return self.kind in {"FLOAT", "DOUBLE"} or self.kind.startswith("DECIMAL")

    def value(self, name: str) -> str:
        """Returns SQL for the value of a column of this kind."""
        quoted = '"' + name.replace('"', '""') + '"'
        if self.is_approximate:
            return f"{quoted}::DOUBLE"
        if self.kind.endswith("]") or self.kind.startswith(("STRUCT", "MAP")):
            return f"{quoted}::{self.kind}::VARCHAR"
        return f"{quoted}::{self.kind}"


@dataclass(frozen=True)
class Fingerprint:
    """The numbers of a result.

    Attributes:
        rows: Number of rows.
        exact: Sum of the hashes of the exact columns.
        finite: For each approximate column, the number of its finite values.
        sums: Likewise, their weighted sum.
        sizes: Likewise, the weighted sum of their absolute values.
    """

    rows: int
    exact: int
    finite: tuple[int, ...]
    sums: tuple[float, ...]
    sizes: tuple[float, ...]

    def differs_from(self, other: Fingerprint) -> str | None:
        """Returns what differs in words, or None."""
        if self.rows != other.rows:
            return f"{self.rows} rows and {other.rows}"
        if self.exact != other.exact:
            return "exact columns differ, or the order of rows"
        if self.finite != other.finite:
            return f"approximate columns have {self.finite} finite values and {other.finite}"
        for index, (one, two, size) in enumerate(
            zip(self.sums, other.sums, self.sizes, strict=True)
        ):
            if not math.isclose(one, two, rel_tol=0, abs_tol=TOLERANCE * size):
                return f"approximate column {index} has the weighted sum {one!r} and {two!r}"
        return None


def columns_of(path: Path) -> list[Column]:
    """Returns the columns of DuckDB's result."""
    with duckdb.connect() as connection:
        found = connection.sql(f"DESCRIBE SELECT * FROM {_scan(path, [])}").fetchall()
    return [Column(row[0], row[1]) for row in found]


def fingerprint(path: Path, columns: list[Column], ordered: bool) -> Fingerprint:
    """Computes the numbers of a result that has these columns.

    Args:
        path: A file, or a folder of files, in the order of their names.
        columns: See ``columns_of``.
        ordered: Whether the order of rows counts.
    """
    with duckdb.connect(config={"memory_limit": "1GB"}) as connection:
        scan = _scan(path, columns)
        names = _names(connection, scan)
        values = list(zip(columns, names, strict=True))
        exact = [one.value(name) for one, name in values if not one.is_approximate]
        near = [one.value(name) for one, name in values if one.is_approximate]
        # Files are read in the order of their names, and rows numbered as they come.
        hashed = [*(["row_number() OVER ()"] if ordered else []), *exact]
        numbers = [f"hash({', '.join(hashed or ['0'])}) AS h"]
        numbers += [f"{value} AS v{index}" for index, value in enumerate(near)]
        aggregates = ["count(*)", "coalesce(sum(h), 0)", *_aggregates(len(near))]
        query = f"SELECT {', '.join(aggregates)} FROM (SELECT {', '.join(numbers)} FROM {scan})"
        rows, total, *rest = connection.sql(query).fetchall()[0]
    return Fingerprint(rows, int(total), tuple(rest[::3]), tuple(rest[1::3]), tuple(rest[2::3]))


def difference(path: Path, columns: list[Column], ordered: bool, wanted: Fingerprint) -> str | None:
    """Returns how a result differs from DuckDB's in words, or None; see ``fingerprint``."""
    try:
        with duckdb.connect() as connection:
            number = len(_names(connection, _scan(path, columns)))
        if number != len(columns):
            return f"{number} columns, not {len(columns)}"
        return fingerprint(path, columns, ordered).differs_from(wanted)
    except duckdb.Error as error:
        return str(error).splitlines()[0]


def _aggregates(number: int) -> Iterator[str]:
    """Yields SQL for the three numbers of each approximate column; sums take finite values alone."""
    for index in range(number):
        value, finite = f"v{index}", f"FILTER (isfinite(v{index}))"
        weighted = f"({value} * (1 + h % {MAX_WEIGHT}))"
        yield f"count({value}) {finite}"
        yield f"coalesce(sum({weighted}) {finite}, 0)"
        yield f"coalesce(sum(abs({weighted})) {finite}, 0)"


def _names(connection: duckdb.DuckDBPyConnection, scan: str) -> list[str]:
    return [row[0] for row in connection.sql(f"DESCRIBE SELECT * FROM {scan}").fetchall()]


def _scan(path: Path, columns: list[Column]) -> str:
    """Returns SQL that reads a result; the types of CSV are those of ``columns``, if there are any."""
    files = (
        [path] if path.is_file() else sorted(path.rglob("*.parquet")) or sorted(path.rglob("*.csv"))
    )
    listed = f"[{', '.join(repr(str(file)) for file in files)}]"
    if files and files[0].suffix == ".csv":
        types = ", ".join(f"'{one.name}': '{one.kind}'" for one in columns)
        return f"read_csv({listed}{f', header=true, columns={{{types}}}' if types else ''})"
    return f"read_parquet({listed})"
