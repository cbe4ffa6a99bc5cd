"""``Shape``: a query over a set of tables, in words and in SQL; ``engines`` has what each engine makes of it."""

from __future__ import annotations

from dataclasses import dataclass

SECTIONS = {
    "small": "Small tables and small answers",
    "shuffles": "All rows",
    "wide": "Many columns",
    "types": "Long and nested values, views, dictionaries",
    "files": "Other files",
    "db": "db-benchmark",
    "tpch": "TPC-H",
}
#: How results are written, by DuckDB's options.
OUTPUTS = {
    "parquet": "FORMAT parquet, COMPRESSION uncompressed",
    "zstd": "FORMAT parquet, COMPRESSION zstd",
    "csv": "FORMAT csv, HEADER",
}


@dataclass(frozen=True)
class Shape:
    """A shape.

    Attributes:
        name: Its name.
        section: The part of the table it stands in: one of ``SECTIONS``.
        text: The words in the table.
        data: The set of tables: one of ``benchmarks.shapes.data.DATA``.
        query: In SQL, over these tables. Sums of integers are BIGINT: Parquet has no HUGEINT.
        ordered: Whether the query orders its rows completely.
        output: How the result is written: one of ``OUTPUTS``.
    """

    name: str
    section: str
    text: str
    data: str
    query: str
    ordered: bool = False
    output: str = "parquet"
