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


def long_text(num_bytes: int) -> str:
    """A text of which no codec makes much less."""
    return random.Random(7).randbytes(num_bytes // 2).hex()


def _dictionary(table: pa.Table, path: Path) -> None:
    pq.write_table(table, path)


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


def check(kind: str, way: str, texts: list[str], folder: Path) -> None:
    """Follows the limit that the first error names."""
    table, path = written(kind, texts, folder)
    names = {"folder": str(folder), "path": str(path), "out": str(folder / "out")}
    names |= {"read": FORMATS[kind][1], "made": WAYS[way]}
    enough = named_limit(PROGRAM.format(limit="250MB", **names))
    printed, peak_bytes = measured(PROGRAM.format(limit=enough, **names))
    assert printed.strip() == str(table.num_rows)
    assert peak_bytes <= limit_bytes(enough)
    assert pq.read_table(folder / "out").sort_by("k").equals(table)


@pytest.mark.parametrize("way", WAYS)
def test_a_long_value_in_a_dictionary(way: str, tmp_path: Path) -> None:
    check("dictionary", way, [long_text(100_000_000), "a", "b", "c"], tmp_path)


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
    check(kind, way, [long_text(50_000_000), "a", "b"], tmp_path)
