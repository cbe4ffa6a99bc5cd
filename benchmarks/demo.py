"""``make demo``: sort 2 GB of records within 512 MB, check the result, and show the time beside the disk's bound.

python -m benchmarks.demo --gb 2 --memory-limit 512MB
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.disk import mixed_bandwidth
from benchmarks.records import RecordsJob, records_input


def main() -> None:
    """Generates, sorts, checks, measures the disk, and prints the summary."""
    parser = argparse.ArgumentParser(description="Sort records within a memory limit.")
    parser.add_argument("--gb", type=float, default=2, help="how much to sort")
    parser.add_argument("--memory-limit", default="512MB", help="for the whole program")
    parser.add_argument("--root", type=Path, default=Path("demo-data"), help="where data is")
    options = parser.parse_args()

    print(f"generating {options.gb:g} GB of records ...", flush=True)
    source = records_input(options.gb, options.root)
    job = RecordsJob(source, options.root / "sorted", options.memory_limit)
    print(f"sorting within {options.memory_limit} ...", flush=True)
    measured, report = job.run()
    print("checking with valsort ...", flush=True)
    summary = job.check()
    print("measuring the disk ...", flush=True)
    bandwidth = mixed_bandwidth(options.root, round(options.gb * 1e9))
    shutil.rmtree(job.output)

    num_bytes = options.gb * 1e9
    bound = 4 * num_bytes / bandwidth
    table = Table(show_header=False)
    table.add_row(
        "sorted",
        f"{summary['records']:,} records, {options.gb:g} GB, in order, checksum {summary['checksum']}",
    )
    table.add_row("time", f"{measured.synced_seconds:.1f} s until everything is on disk")
    table.add_row("throughput", f"{num_bytes / measured.synced_seconds / 1e6:.0f} MB/s")
    table.add_row("peak memory", f"{measured.peak_bytes / 1e6:.0f} MB of {options.memory_limit}")
    table.add_row("spilled", f"{report['spilled_bytes'] / 1e9:.2f} GB")
    table.add_row("disk", f"{bandwidth / 1e9:.2f} GB/s, reading and writing at once")
    table.add_row(
        "bound", f"4 x {options.gb:g} GB / disk = {bound:.1f} s: read, spill, restore, write"
    )
    table.add_row("time / bound", f"{measured.synced_seconds / bound:.2f}")
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
