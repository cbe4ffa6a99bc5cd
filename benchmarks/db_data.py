"""The tables of db-benchmark (h2oai, now duckdblabs): one to be grouped, four to be joined, as Parquet.

Guarantee: the columns, types and cardinalities of the original generators (``groupby-datagen.R`` with K = 100 and
``join-datagen.R``, without nulls, in random order). The rows are the same on every machine with the same DuckDB. The
original rows are others, made of R's random numbers. Where R shuffles a list of keys, row numbers are multiplied by a
prime modulo the number of keys. That reorders them without sorting a hundred million rows.

    python -m benchmarks.db_data join --rows 1e7
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import duckdb

#: The original's K: the number of values in columns with few of them.
NUM_LARGE_GROUPS = 100
NUM_FILES = 16
#: Small enough that an engine can spread one file over its threads.
ROW_GROUP_ROWS = 122_880
#: Primes greater than any number of keys: for the keys, and for the rows of each table.
KEY_PRIME, LEFT_PRIME, RIGHT_PRIME = 3_266_489_917, 2_654_435_761, 2_246_822_519

GROUPED = """
    format('id{{:03d}}', {id1}) AS id1,
    format('id{{:03d}}', {id2}) AS id2,
    format('id{{:010d}}', {id3}) AS id3,
    ({id4})::INTEGER AS id4,
    ({id5})::INTEGER AS id5,
    ({id6})::INTEGER AS id6,
    (1 + {random7} % 5)::INTEGER AS v1,
    (1 + {random8} % 5)::INTEGER AS v2,
    ({random9} % 1000001) / 10000 AS v3
"""


@dataclass(frozen=True)
class Keys:
    """Keys of one size that two tables share: nine of ten are in both.

    Attributes:
        column: 1, 2 or 3; each column has random numbers of its own.
        number: Keys in each table, a multiple of ten.
    """

    column: int
    number: int

    def left(self, row: str) -> str:
        """Returns SQL for the key of a row of ``x``: rows below ``number`` have one each, further rows any."""
        return self._key(self._index(row, LEFT_PRIME, self.column))

    def right(self, row: str) -> str:
        """Returns SQL for the key of a row of another table."""
        index = self._index(row, RIGHT_PRIME, 8 + self.column)
        common = self.number * 9 // 10
        return self._key(f"({index} + if({index} < {common}, 0, {self.number // 10}))")

    def _index(self, row: str, prime: int, random: int) -> str:
        whole = f"({row} * {prime} % {self.number})"
        drawn = f"({_random(row, random)} % {self.number})::BIGINT"
        return f"if({row} < {self.number}, {whole}, {drawn})"

    def _key(self, index: str) -> str:
        return f"(1 + {index} * {KEY_PRIME} % {self.number * 11 // 10})::INTEGER"


def group_input(num_rows: int, root: Path) -> Path:
    """Returns the folder of the table to be grouped, which the first call generates.

    Args:
        num_rows: N of the original: 1e7 make its 0.5 GB, 1e8 its 5 GB.
        root: Where the folder is.
    """
    small = max(1, num_rows // NUM_LARGE_GROUPS)
    counts = [NUM_LARGE_GROUPS, NUM_LARGE_GROUPS, small, NUM_LARGE_GROUPS, NUM_LARGE_GROUPS, small]
    ids = {
        f"id{index}": f"1 + ({_random('i', index)} % {count})::BIGINT"
        for index, count in enumerate(counts, 1)
    }
    values = {f"random{index}": _random("i", index) for index in (7, 8, 9)}
    folder = root / f"db-group-{num_rows}"
    return _generated(folder, {"x": (num_rows, GROUPED.format(**ids, **values))})


def join_input(num_rows: int, root: Path) -> Path:
    """Returns the folder of the tables to be joined: ``x``, ``small``, ``medium`` and ``big``, a folder of files each.

    The first call generates it.

    Args:
        num_rows: Rows of ``x`` and ``big``, a multiple of ten; ``medium`` has a thousandth, ``small`` a millionth.
        root: Where the folder is.
    """
    sizes = (max(10, num_rows // 10**6), max(10, num_rows // 10**3), num_rows)
    keys = [Keys(column, number) for column, number in enumerate(sizes, 1)]
    tables = {
        name: (keys[count - 1].number, _joined([one.right("i") for one in keys[:count]], "v2"))
        for count, name in enumerate(("small", "medium", "big"), 1)
    }
    tables["x"] = (num_rows, _joined([one.left("i") for one in keys], "v1"))
    return _generated(root / f"db-join-{num_rows}", tables)


def _joined(keys: list[str], value: str) -> str:
    """Returns SQL for the columns of a table: integer keys, the same as text, and a value with six digits."""
    numbers = [f"{key} AS id{index}" for index, key in enumerate(keys, 1)]
    texts = [f"format('id{{}}', {key}) AS id{index}" for index, key in enumerate(keys, 4)]
    values = f"({_random('i', 15)} % 100000001) / 1000000"
    return ", ".join([*numbers, *texts, f"{values} AS {value}"])


def _random(row: str, number: int) -> str:
    """Returns SQL for the ``number``-th of sixteen random numbers of a row.

    Hashes of two arguments would differ by an XOR.
    """
    return f"hash(16 * {row} + {number})"


def _generated(folder: Path, tables: dict[str, tuple[int, str]]) -> Path:
    """Returns the folder of tables, each given by its number of rows and its columns.

    A half-written data set is never taken for a whole one: the folder gets its name when it is complete.
    """
    if folder.exists():
        return folder
    unfinished = folder.with_name(f"{folder.name}.unfinished")
    with duckdb.connect(config={"memory_limit": "1GB"}) as connection:
        for name, (num_rows, columns) in tables.items():
            (unfinished / name).mkdir(parents=True, exist_ok=True)
            num_files = NUM_FILES if num_rows >= ROW_GROUP_ROWS else 1
            for index in range(num_files):
                first, last = (num_rows * i // num_files for i in (index, index + 1))
                connection.execute(
                    f"COPY (SELECT {columns} FROM range({first}, {last}) numbers(i)) "
                    f"TO '{unfinished / name}/part-{index:05}.parquet' "
                    f"(FORMAT parquet, COMPRESSION snappy, ROW_GROUP_SIZE {ROW_GROUP_ROWS})"
                )
    unfinished.rename(folder)
    return folder


def main() -> None:
    """Generates the tables of one task and prints where they are."""
    parser = argparse.ArgumentParser(description="Generate the tables of db-benchmark.")
    parser.add_argument("task", choices=["group", "join"])
    parser.add_argument("--rows", type=float, default=1e7, help="1e7: 0.5 GB, 1e8: 5 GB")
    parser.add_argument("--root", type=Path, default=Path("bench-data"))
    options = parser.parse_args()
    generate = {"group": group_input, "join": join_input}[options.task]
    print(generate(round(options.rows), options.root))


if __name__ == "__main__":
    main()
