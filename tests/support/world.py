"""A directory with files good and bad, for commands that must leave it as it is."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.oracle import write_files
from tests.support.tables import distributed


def fill(root: Path) -> None:
    """Files good and bad."""
    write_files(root / "good", distributed("uniform", 2000), 2)
    (root / "empty").mkdir()
    (root / "only_hidden").mkdir()
    (root / "only_hidden" / "_SUCCESS").write_text("")
    for name, columns in (
        ("other_type", {"key": ["a"], "text": ["x"]}),
        ("other_name", {"kei": [1], "text": ["x"]}),
        ("more_columns", {"key": [1], "text": ["x"], "extra": [1]}),
    ):
        write_files(root / name, distributed("uniform", 10), 1)
        pq.write_table(pa.table(columns), root / name / "z.parquet")
    pq.write_table(
        pa.table({"key": [[1]], "twice": [1], "point": [{"x": 1}]}), root / "nested.parquet"
    )
    content = (root / "good" / "part-000.parquet").read_bytes()
    (root / "truncated.parquet").write_bytes(content[: len(content) // 2])
    (root / "corrupt.parquet").write_bytes(content[:4] + b"\xaa" * 200 + content[204:])
    (root / "zero_bytes.parquet").write_bytes(b"")
    (root / "text.parquet").write_text("this is no Parquet file, but it is long enough to be one")
    (root / "text.arrow").write_text("this is no Arrow file, but it is long enough to be one")
    (root / "odd.dat").write_bytes(b"x" * 250)
    (root / "values.csv").write_text("key,v\n" + "1,2\n" * 10_050 + "1,oops\n")
    (root / "ragged.csv").write_text("key,v\n1,2\n1,2,3\n")
    (root / "semicolons.csv").write_text("key;price;v\n1;2,50;3\n")
    (root / "tabs.csv").write_text("key\tv\n1\n" + "1\t2\n" * 10_049 + "1\t2,5\n")
    (root / "pipes.csv").write_text("key|v\n1|a\n2|\n")
    (root / "twice.csv").write_text("key,key\n1,2\n")
    (root / "broken.jsonl").write_text('{"key": 1}\n{"key": \n')
    for name in ("empty.csv", "empty.jsonl"):
        (root / name).write_bytes(b"")
    write_files(root / "with_readme", distributed("uniform", 10), 2)
    (root / "with_readme" / "README.txt").write_text("not data")
    (root / "data.unknown").write_text("key\n1\n")
    (root / "mixed").mkdir()
    (root / "mixed" / "a.csv").write_text("key\n1\n")
    (root / "mixed" / "b.jsonl").write_text('{"key": 1}\n')
    (root / "taken").mkdir()
    (root / "taken" / "precious").write_text("data")
    (root / "file").write_text("data")


def contents(root: Path) -> dict[str, bytes]:
    """Every file with its bytes, to see whether anything changed."""
    return {
        str(path.relative_to(root)): path.read_bytes() if path.is_file() else b"directory"
        for path in root.rglob("*")
    }
