"""``exoshuffle gensort`` and ``exoshuffle valsort``, which import what they run: it took 5 ms of other commands."""

from __future__ import annotations

import dataclasses
import json
import re

import click

from exoshuffle.cli.options import overwrite_option
from exoshuffle.cli.running import progress_of
from exoshuffle.dataset.write.existing import Overwrite
from exoshuffle.errors import OptionsError
from exoshuffle.units import counted, format_bytes, parse_bytes


@click.command(name="gensort")
@click.argument("size_or_count")
@click.argument("directory")
@click.option(
    "--partitions", type=int, help="Number of files. Default: one per GB, at least one per CPU."
)
@click.option("--start", type=int, default=0, show_default=True, help="Number of the first record.")
@click.option("--ascii", "ascii_", is_flag=True, help="Printable records instead of binary ones.")
@click.option("--skew", is_flag=True, help="Skewed keys.")
@overwrite_option
@click.option("--json", "as_json", is_flag=True, help="Print a machine-readable summary.")
def gensort_command(
    size_or_count: str,
    directory: str,
    partitions: int | None,
    start: int,
    ascii_: bool,
    skew: bool,
    overwrite: Overwrite,
    as_json: bool,
) -> None:
    """Make 100-byte records with 10-byte keys, as Ordinal's gensort does.

    SIZE_OR_COUNT is a number of records (1000000) or a size with a unit (2GB).

    \b
    Example:
      exoshuffle gensort 2GB records/ --partitions 8
    """
    from exoshuffle.cloudsort import gensort

    result = gensort(
        directory,
        _num_records(size_or_count),
        start=start,
        partitions=partitions,
        ascii=ascii_,
        skew=skew,
        overwrite=overwrite,
        progress=progress_of("gensort"),
    )
    if as_json:
        click.echo(json.dumps(dataclasses.asdict(result)))
        return
    rate = format_bytes(result.bytes / max(result.seconds, 1e-9))
    click.echo(
        f"{counted(result.records, 'record')}, {format_bytes(result.bytes)} in {counted(result.files, 'file')} -> "
        f"{result.path} "
        f"({result.seconds:.2f} s, {rate}/s)"
    )


def _num_records(text: str) -> int:
    """Returns the number of records for a count, or for a size with a unit."""
    from exoshuffle.cloudsort.gensort import RECORD_BYTES

    if re.fullmatch(r"[0-9]{1,30}", text):
        return int(text)
    if re.fullmatch(r"[0-9.]+ *[A-Za-z]+", text):
        num_records = parse_bytes(text) // RECORD_BYTES
        if num_records == 0:
            raise OptionsError(f"{text!r} is less than one record of {RECORD_BYTES} bytes")
        return num_records
    raise OptionsError(
        f"{text!r} is neither a number of records, for example 1000000, nor a size, for example 100MB"
    )


@click.command(name="valsort")
@click.argument("paths", nargs=-1, required=True, metavar="DIR_OR_FILES...")
@click.option("--record-size", type=int, default=100, show_default=True, help="Bytes per record.")
@click.option("--key-size", type=int, default=10, show_default=True, help="Bytes of the key.")
@click.option("--json", "as_json", is_flag=True, help="Print a machine-readable summary.")
def valsort_command(paths: tuple[str, ...], record_size: int, key_size: int, as_json: bool) -> int:
    """Check that records are sorted, across all files; print their checksum and duplicates.

    Exit code 1 if they are not sorted.

    \b
    Example:
      exoshuffle valsort sorted/
    """
    from exoshuffle.cloudsort import valsort

    result = valsort(
        list(paths), record_size=record_size, key_size=key_size, progress=progress_of("valsort")
    )
    if as_json:
        click.echo(json.dumps(dataclasses.asdict(result) | {"sorted": result.is_sorted}))
    else:
        click.echo(f"Records: {result.records}")
        click.echo(f"Checksum: {result.checksum}")
        click.echo(f"Duplicate keys: {result.duplicates}")
    if result.is_sorted:
        if not as_json:
            click.echo("SUCCESS - all records are in order")
        return 0
    click.echo(
        f"exoshuffle: {counted(result.unordered, 'record')} out of order; the first is record "
        f"{result.first_unordered_index} of {result.first_unordered_file} (record {result.first_unordered} of all)",
        err=True,
    )
    return 1
