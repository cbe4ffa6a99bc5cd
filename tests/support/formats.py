"""The formats of tables by the extension of their files: how Exoshuffle reads and writes each."""

from __future__ import annotations

import exoshuffle as xs

READERS = {
    "parquet": xs.read_parquet,
    "arrow": xs.read_ipc,
    "arrows": xs.read_ipc,
    "csv": xs.read_csv,
    "jsonl": xs.read_json,
}

#: Names of the methods of ``Dataset``.
WRITERS = {
    "parquet": "write_parquet",
    "arrow": "write_ipc",
    "csv": "write_csv",
    "jsonl": "write_json",
}
