"""Sorts on the engine of this folder."""

from __future__ import annotations

import tempfile
from pathlib import Path

import exoshuffle as xs
from examples.engine_in_line.engine import InLineEngine
from exoshuffle.cloudsort import gensort, valsort


def main() -> None:
    """Sorts a hundred thousand records and checks the result."""
    xs.init(InLineEngine())
    with tempfile.TemporaryDirectory() as folder:
        records, output = Path(folder, "records"), Path(folder, "sorted")
        gensort(records, 100_000)
        result = xs.read_records(records).sort(num_partitions=4).write_records(output)
        checked = valsort(output)
        assert checked.is_sorted
        assert checked.checksum == valsort(records).checksum
        print(f"{result.rows} records in {len(result.files)} files, sorted")
    xs.shutdown()


if __name__ == "__main__":
    main()
