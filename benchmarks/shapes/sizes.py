"""How large the tables of each run are, and the memory limit that goes with them."""

from __future__ import annotations

from dataclasses import dataclass

GB = 1_000_000_000


@dataclass(frozen=True)
class Size:
    """A size of all tables.

    Attributes:
        tpch: Scale factor of TPC-H.
        db_rows: N of db-benchmark, a multiple of ten.
        rows: Rows of the other tables; those with large rows have a share of it.
        columns: Columns of the widest table.
        files: Files of the table with the most.
        limit_bytes: Memory limit of Exoshuffle and DuckDB.
    """

    tpch: float
    db_rows: int
    rows: int
    columns: int
    files: int
    limit_bytes: int


#: ``trial`` only shows that everything runs, and ``small`` takes about two minutes with ``--rounds 1 --warm-up 0``.
SIZES = {
    "trial": Size(0.01, 20_000, 20_000, 60, 50, GB),
    "small": Size(0.05, 500_000, 200_000, 1_000, 1_000, GB),
    "medium": Size(1, 10_000_000, 4_000_000, 3_000, 10_000, GB),
    "large": Size(3, 100_000_000, 16_000_000, 3_000, 10_000, 2 * GB),
}
