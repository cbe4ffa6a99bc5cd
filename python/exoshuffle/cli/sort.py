"""``exoshuffle sort`` and ``exoshuffle explain``: the same arguments, one runs and one tells what would run."""

from __future__ import annotations

import functools
import json
import signal
from collections.abc import Callable
from typing import Any

import click

from exoshuffle.dataset.dataset import Dataset
from exoshuffle.dataset.read import open_dataset
from exoshuffle.dataset.write import COMPRESSIONS, WriteOptions, WriteResult
from exoshuffle.errors import OptionsError
from exoshuffle.futures import init
from exoshuffle.futures.session import ENGINE_NAMES
from exoshuffle.observe.progress import Progress
from exoshuffle.operators.sort import parse_by
from exoshuffle.units import format_bytes

FORMATS = list(COMPRESSIONS)


def _sort_arguments(command: Callable[..., Any]) -> Callable[..., Any]:
    """The arguments that ``sort`` and ``explain`` share."""
    decorators = [
        click.argument("inputs", nargs=-1, required=True, metavar="INPUT..."),
        click.argument("output", metavar="OUTPUT"),
        click.option("--by", help='Columns to sort by: "ts desc nulls last, id".'),
        click.option(
            "--format",
            "format_",
            type=click.Choice(FORMATS),
            help="Input format; default: by extension.",
        ),
        click.option(
            "--output-format",
            type=click.Choice(FORMATS),
            help="Output format; default: the input's.",
        ),
        click.option(
            "--compression",
            default="none",
            show_default=True,
            help="none, snappy, zstd, lz4, gzip.",
        ),
        click.option(
            "--target-file-size", metavar="SIZE", help="Begin a new output file at about this size."
        ),
        click.option("--record-size", type=int, help="Bytes per record, with --format records."),
        click.option("--key-size", type=int, help="Bytes of the key at the start of a record."),
        click.option(
            "--delimiter", default=",", show_default=True, help="Field delimiter of CSV input."
        ),
        click.option(
            "--memory-limit", metavar="SIZE", help="For the whole program. Default: 70 % of memory."
        ),
        click.option(
            "--spill-dir",
            "spill_dirs",
            multiple=True,
            metavar="DIR",
            help="Repeatable.",
        ),
        click.option(
            "--partitions", type=int, help="Number of output partitions. Default: as few as fit."
        ),
        click.option(
            "--strategy",
            default="auto",
            show_default=True,
            type=click.Choice(["auto", "simple", "push"]),
        ),
        click.option(
            "--engine", default="local", show_default=True, type=click.Choice(ENGINE_NAMES)
        ),
        click.option(
            "--address",
            metavar="HOST:PORT",
            help="Of a running Ray cluster, with --engine ray. Default: Ray on this machine.",
        ),
        click.option("--num-cpus", type=int, help="Tasks that run at once. Default: all CPUs."),
        click.option("--overwrite", is_flag=True, help="Replace the output if it exists."),
        click.option("--json", "as_json", is_flag=True, help="Print a machine-readable summary."),
    ]
    return functools.reduce(
        lambda function, decorator: decorator(function), reversed(decorators), command
    )


@click.command(name="sort")
@_sort_arguments
def sort_command(**arguments: Any) -> None:
    """Sort files into a directory, within a memory limit.

    INPUT is a file, a directory or a glob; OUTPUT a directory, which appears complete or not at all.

    \b
    Examples:
      exoshuffle sort events/ sorted/ --by "ts desc nulls last, id" --memory-limit 2GB
      exoshuffle sort data.csv sorted/ --by name --output-format parquet
      exoshuffle sort records/ sorted/ --format records --record-size 100 --key-size 10
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    dataset = _dataset(arguments)
    options = WriteOptions(
        arguments["output_format"] or dataset.format,
        arguments["compression"],
        arguments["target_file_size"],
    )
    progress = Progress("sort")
    result = dataset.write(
        arguments["output"], options, overwrite=arguments["overwrite"], progress=progress
    )
    click.echo(json.dumps(result.to_dict()) if arguments["as_json"] else _summary(result))


@click.command(name="explain")
@_sort_arguments
def explain_command(**arguments: Any) -> None:
    """Print what a sort would take, without running it: the arguments of sort.

    \b
    Example:
      exoshuffle explain events/ sorted/ --by ts --memory-limit 2GB
    """
    bill = _dataset(arguments).explain(arguments["output"])
    click.echo(json.dumps(bill.to_dict()) if arguments["as_json"] else str(bill))


def _dataset(arguments: dict[str, Any]) -> Dataset:
    of_engine = {}
    if arguments["address"] is not None:
        if arguments["engine"] != "ray":
            raise OptionsError("--address is of a Ray cluster; add --engine ray, or leave it out")
        of_engine["address"] = arguments["address"]
    init(
        arguments["engine"],
        memory_limit=arguments["memory_limit"],
        spill_dirs=list(arguments["spill_dirs"]) or None,
        num_cpus=arguments["num_cpus"],
        **of_engine,
    )
    dataset = open_dataset(
        arguments["inputs"],
        format=arguments["format_"],
        record_bytes=arguments["record_size"],
        key_bytes=arguments["key_size"],
        csv_delimiter=arguments["delimiter"],
    )
    options = {"strategy": arguments["strategy"], "num_partitions": arguments["partitions"]}
    if dataset.format == "records":
        if arguments["by"]:
            raise OptionsError(
                "--by is for tables; records are sorted by their key, so leave it out"
            )
        return dataset.sort(**options)
    if not arguments["by"]:
        raise OptionsError('--by is missing; write for example --by "ts desc, id"')
    return dataset.sort_keys(parse_by(arguments["by"]), **options)


def _summary(result: WriteResult) -> str:
    rate = format_bytes(result.bytes / max(result.seconds, 1e-9))
    lines = [
        f"{result.rows:,} rows, {format_bytes(result.bytes)} in {len(result.files)} files -> {result.path}",
        f"{result.seconds:.2f} s, {rate}/s, peak memory {format_bytes(result.peak_memory_bytes)}",
    ]
    if result.spilled_bytes is not None:
        lines[-1] += f", spilled {format_bytes(result.spilled_bytes)}"
    return "\n".join(lines)
