"""TPC-H's tables as uncompressed Parquet, by ``tpchgen-cli``; ``lineitem`` and ``orders`` unless others are asked for.

Guarantee: the same scale gives the same rows. Row groups are small, so that engines can spread a file over threads.

    python -m benchmarks.tpch --scale 10
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

NUM_FILES = 16
TABLES = ("lineitem", "orders")


def tpch_input(scale: float, root: Path, tables: Sequence[str] = TABLES) -> Path:
    """Returns the folder of the tables, a folder of files each, which the first call generates.

    Half-written tables are never taken for whole ones: the folder gets its name when they are complete.

    Args:
        scale: Scale factor.
        root: Where the folder is.
        tables: Their names; another choice needs another ``root``.
    """
    folder = root / f"tpch-sf{scale:g}"
    if folder.exists():
        return folder
    unfinished = root / f"{folder.name}.unfinished"
    program = Path(sys.executable).with_name("tpchgen-cli")
    arguments = [
        f"--scale-factor={scale:g}",
        f"--tables={','.join(tables)}",
        f"--parts={NUM_FILES}",
    ]
    options = ["--compression=UNCOMPRESSED", "--overwrite", "--quiet"]
    command = [str(program), "parquet", *arguments, *options, f"--output-dir={unfinished}"]
    subprocess.run(command, check=True)
    unfinished.rename(folder)
    return folder


def main() -> None:
    """Generates the tables and prints where they are."""
    parser = argparse.ArgumentParser(description="Generate two tables of TPC-H.")
    parser.add_argument("--scale", type=float, default=1, help="scale factor, about gigabytes")
    parser.add_argument("--root", type=Path, default=Path("bench-data"))
    options = parser.parse_args()
    print(tpch_input(options.scale, options.root))


if __name__ == "__main__":
    main()
