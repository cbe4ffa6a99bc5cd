"""A row of 50 or 100 MB in any format: the first error names a limit that does, and the program stays within it.

A dictionary page of Parquet has a long text once, and each reference to it becomes a copy. Scans of one of 100 MB
peaked at 467 MB within 417, and semi joins at 587.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.memory.measuring import measured
from tests.memory.naming import limit_bytes, named_limit

PROGRAM = """
import exoshuffle as xs
xs.init(memory_limit={limit!r}, num_cpus=2, spill_dirs=[{folder!r}])
rows = xs.{read}({path!r})
print({made}.write_parquet({out!r}).rows)
"""
WAYS = {
    "scan": "rows",
    "filter": "rows.filter('k >= 0')",
    "sort": "rows.sort('k')",
    "semi join": "rows.join(rows.select('k'), on='k', how='semi')",
    "as-of join": "rows.join_asof(rows.rename({'s': 't'}), on='k').select('k', 's')",
    "map_groups": "rows.group_by('k').map_groups(lambda group: group)",
}


#: With 700 MB, readers have room for the row, so that the shuffle is refused by its group.
AMONG_SHORT = [
    ("dictionary", "scan", "250MB"),
    ("pages", "scan", "250MB"),
    ("dictionary", "map_groups", "250MB"),
    ("dictionary", "map_groups", "700MB"),
]


def long_text(num_bytes: int) -> str:
    """A text of which no codec makes much less."""
    return random.Random(7).randbytes(num_bytes // 2).hex()


def _dictionary(table: pa.Table, path: Path) -> None:
    pq.write_table(table, path)


def _plain(table: pa.Table, path: Path) -> None:
    pq.write_table(table, path, use_dictionary=False)


def _ipc(table: pa.Table, path: Path) -> None:
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table)


def _csv(table: pa.Table, path: Path) -> None:
    rows = [f"{row['k']},{row['s']}\n" for row in table.to_pylist()]
    path.write_text("k,s\n" + "".join(rows))


def _json(table: pa.Table, path: Path) -> None:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in table.to_pylist()))


FORMATS: dict[str, tuple[str, str, Callable[[pa.Table, Path], None]]] = {
    "dictionary": ("in.parquet", "read_parquet", _dictionary),
    "pages": ("in.parquet", "read_parquet", _plain),
    "IPC": ("in.arrow", "read_ipc", _ipc),
    "CSV": ("in.csv", "read_csv", _csv),
    "JSON lines": ("in.jsonl", "read_json", _json),
}


def written(kind: str, texts: list[str], folder: Path) -> tuple[pa.Table, Path]:
    """Writes a file of these texts, with their numbers; returns the rows, too."""
    table = pa.table({"k": range(len(texts)), "s": texts})
    path = folder / FORMATS[kind][0]
    FORMATS[kind][2](table, path)
    return table, path


def check(kind: str, way: str, texts: list[str], folder: Path, limit: str = "250MB") -> None:
    """Follows the limit that the first error names."""
    table, path = written(kind, texts, folder)
    names = {"folder": str(folder), "path": str(path), "out": str(folder / "out")}
    names |= {"read": FORMATS[kind][1], "made": WAYS[way]}
    enough = named_limit(PROGRAM.format(limit=limit, **names))
    printed, peak_bytes = measured(PROGRAM.format(limit=enough, **names))
    assert printed.strip() == str(table.num_rows)
    assert peak_bytes <= limit_bytes(enough)
    assert pq.read_table(folder / "out").sort_by("k").equals(table)


@pytest.mark.parametrize("way", WAYS)
def test_a_long_value_in_a_dictionary(way: str, tmp_path: Path) -> None:
    check("dictionary", way, [long_text(100_000_000), "a", "b", "c"], tmp_path)


@pytest.mark.parametrize(("kind", "way", "limit"), AMONG_SHORT)
def test_a_long_row_among_many_short_ones(kind: str, way: str, limit: str, tmp_path: Path) -> None:
    """The decoder holds the page or dictionary meanwhile, and a group comes from a partition with others."""
    texts = [f"short {number % 1000}" for number in range(20_000)]
    texts[10_000] = long_text(100_000_000)
    check(kind, way, texts, tmp_path, limit)


PLACES = {
    "last": ["a", "b", "a", long_text(50_000_000)],
    "alone": [long_text(50_000_000)],
    "repeated": [long_text(50_000_000), "a", long_text(50_000_000), "b"],
}


@pytest.mark.parametrize("place", PLACES)
def test_places_of_a_long_value_in_a_dictionary(place: str, tmp_path: Path) -> None:
    check("dictionary", "scan", PLACES[place], tmp_path)


@pytest.mark.parametrize("way", ["scan", "sort", "as-of join", "map_groups"])
@pytest.mark.parametrize("kind", ["IPC", "CSV", "JSON lines"])
def test_a_long_row_of_other_formats(kind: str, way: str, tmp_path: Path) -> None:
    check(kind, way, [long_text(70_000_000), "a", "b"], tmp_path)


def test_a_long_row_of_one_column_of_text(tmp_path: Path) -> None:
    """Rows of one column are read one by one: two copies more were counted, and one is needed."""
    path, out = tmp_path / "in.csv", tmp_path / "out"
    path.write_text(f"s\na\n{long_text(70_000_000)}\nb\n")
    names = {"folder": str(tmp_path), "path": str(path), "out": str(out)}
    names |= {"read": "read_csv", "made": "rows"}
    enough = named_limit(PROGRAM.format(limit="250MB", **names))
    assert limit_bytes(enough) <= 420_000_000
    printed, peak_bytes = measured(PROGRAM.format(limit=enough, **names))
    assert printed.strip() == "3"
    assert peak_bytes <= limit_bytes(enough)
