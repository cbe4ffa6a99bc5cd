"""The common part of the commands that shuffle: their options, how they open the input, run, and report."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Sequence
from typing import Any, TypedDict

import click

from exoshuffle.dataset.dataset import Dataset
from exoshuffle.dataset.files.formats import FORMATS
from exoshuffle.dataset.files.paths import local_path
from exoshuffle.dataset.files.place import STANDARD, format_of, kind_of
from exoshuffle.dataset.inputs.column_types import TYPE_NAMES
from exoshuffle.dataset.read import ReadArguments, open_dataset, schema_option
from exoshuffle.dataset.tree.nodes import WHOLE, sources
from exoshuffle.dataset.write.codec import default_compression
from exoshuffle.dataset.write.existing import MODES, Overwrite
from exoshuffle.dataset.write.options import WriteOptions
from exoshuffle.dataset.write.write import WriteResult
from exoshuffle.errors import OptionsError, OutputError
from exoshuffle.futures import init
from exoshuffle.futures.environment import progress_asked
from exoshuffle.futures.session import ENGINE_NAMES
from exoshuffle.observe.progress import Progress
from exoshuffle.operators.core.keys import parse_names
from exoshuffle.strategies.library import AUTO, strategy_names
from exoshuffle.units import counted, format_bytes


def overwrite_option(command: Callable[..., object]) -> Callable[..., object]:
    """Adds the two options that say what an output may replace, as the parameter ``overwrite``."""

    @click.option(
        "--overwrite",
        is_flag=True,
        help="Replace the output if it exists, was written by exoshuffle, and is unchanged.",
    )
    @click.option("--overwrite-anything", is_flag=True, help="Replace whatever is there.")
    @functools.wraps(command)
    def run(overwrite: bool, overwrite_anything: bool, **arguments: object) -> object:
        return command(overwrite="anything" if overwrite_anything else overwrite, **arguments)

    return run


_INPUT_OPTIONS = [
    click.option(
        "--format",
        "format_",
        type=click.Choice(FORMATS),
        help="Input format; default: by extension.",
    ),
    click.option("--record-size", type=int, help="Bytes per record, with --format records."),
    click.option("--key-size", type=int, help="Bytes of the key at the start of a record."),
    click.option("--delimiter", help="Delimiter of CSV input. Default: a comma, a tab for .tsv."),
    click.option("--quote", help="Quote of CSV input; '' for none. Default: a double quote."),
    click.option(
        "--escape", help="Character that stands before a quote within quotes, in CSV input."
    ),
    click.option("--comment", help="Leave out lines of CSV input that begin with this character."),
    click.option(
        "--null-value",
        "null_values",
        multiple=True,
        metavar="TEXT",
        help="Text that is null in CSV input, as an empty field is. Repeatable.",
    ),
    click.option("--skip-rows", type=int, help="Lines to leave out at the start of CSV input."),
    click.option(
        "--encoding", help="Encoding of CSV input: utf-8 (default), latin-1 or windows-1252."
    ),
    click.option(
        "--bad-rows",
        metavar="raise|skip|PATH",
        help="Rows of CSV or JSON lines that cannot be read: stop (default), leave them out, or write them to a file.",
    ),
    click.option(
        "--no-header",
        is_flag=True,
        help="CSV input has no header: columns are column_0, column_1 ...",
    ),
    click.option(
        "--column-type",
        "column_types",
        multiple=True,
        metavar="NAME=TYPE",
        help=f"Type of a column of CSV or JSON lines input, or of folders, instead of the inferred one: {TYPE_NAMES}. "
        "Repeatable.",
    ),
    click.option(
        "--no-hive", is_flag=True, help="Make no columns of folders that are named key=value."
    ),
    click.option(
        "--where",
        metavar="CONDITION",
        help='Only rows for which this SQL holds: "price > 3 and name is not null"; in joins, of LEFT.',
    ),
]
_OUTPUT_OPTIONS = [
    click.option(
        "--output-format",
        type=click.Choice(FORMATS),
        help="Output format; default: by the ending of the output, else the input's.",
    ),
    click.option(
        "--compression",
        help="none, snappy, zstd, lz4, gzip. Default: for Parquet that of Parquet input, else zstd; none for others.",
    ),
    click.option(
        "--target-file-size", metavar="SIZE", help="Begin a new output file at about this size."
    ),
    click.option(
        "--partition-by",
        metavar="COLUMNS",
        help="Columns, separated by commas, that become folders key=value of the output; the outermost first.",
    ),
]
_ENGINE_OPTIONS = [
    click.option(
        "--memory-limit",
        metavar="SIZE",
        help="Limit for the whole program. Default: 70 % of memory.",
    ),
    click.option(
        "--spill-dir",
        "spill_dirs",
        multiple=True,
        metavar="DIR",
        help="Directory for data that does not fit into memory. Repeatable.",
    ),
    click.option(
        "--engine",
        default="local",
        show_default=True,
        type=click.Choice(ENGINE_NAMES),
        help="What runs the tasks.",
    ),
    click.option(
        "--address",
        metavar="HOST:PORT",
        help="Address of a running Ray cluster, with --engine ray. Default: Ray on this machine.",
    ),
    click.option("--num-cpus", type=int, help="Tasks that run at once. Default: all CPUs."),
    click.option("--quiet", is_flag=True, help="Print no progress and no summary."),
]
_RUN_OPTIONS: list[Callable[..., object]] = [
    click.option(
        "--strategy",
        default="auto",
        show_default=True,
        type=click.Choice([AUTO, WHOLE, *strategy_names()]),
        help="When and where tasks run; auto takes the fastest by prediction, and one task (whole) for few rows. "
        "Options of strategies are for Python.",
    ),
    overwrite_option,
    click.option(
        "--mode",
        type=click.Choice(MODES),
        help="If the output exists: stop (error, the default), replace it as --overwrite does, append files to it, or "
        "ignore it and do nothing.",
    ),
    click.option("--explain", "explain_only", is_flag=True, help="Print the plan; run nothing."),
    click.option("--json", "as_json", is_flag=True, help="Print a machine-readable summary."),
]
#: Options of some input formats: name, parameter, formats.
_OF_FORMATS = (
    ("--record-size", "record_size", ("records",)),
    ("--key-size", "key_size", ("records",)),
    ("--delimiter", "delimiter", ("csv",)),
    ("--quote", "quote", ("csv",)),
    ("--escape", "escape", ("csv",)),
    ("--comment", "comment", ("csv",)),
    ("--null-value", "null_values", ("csv",)),
    ("--skip-rows", "skip_rows", ("csv",)),
    ("--encoding", "encoding", ("csv",)),
    ("--bad-rows", "bad_rows", ("csv", "jsonl")),
    ("--no-header", "no_header", ("csv",)),
)
#: For commands that take any number of partitions.
partitions_option = click.option(
    "--partitions", type=int, help="Number of output partitions. Default: as few as fit."
)


def shuffle_options(command: Callable[..., object]) -> Callable[..., object]:
    """Adds the options that all commands that shuffle have."""
    decorators = [*_INPUT_OPTIONS, *_OUTPUT_OPTIONS, *_ENGINE_OPTIONS, *_RUN_OPTIONS]
    return functools.reduce(lambda made, option: option(made), reversed(decorators), command)


def looking_options(command: Callable[..., object]) -> Callable[..., object]:
    """Adds the input and the options of commands that look at files and write none."""
    made = functools.reduce(
        lambda made, option: option(made), reversed([*_INPUT_OPTIONS, *_ENGINE_OPTIONS]), command
    )
    return click.argument("inputs", nargs=-1, required=True, metavar="INPUT...")(made)


def input_output(command: Callable[..., object]) -> Callable[..., object]:
    """Adds the arguments of commands that read one dataset."""
    command = click.argument("output", metavar="OUTPUT")(command)
    return click.argument("inputs", nargs=-1, required=True, metavar="INPUT...")(command)


class Reading(TypedDict):
    """The values of the options that all commands that read have."""

    format_: str | None
    record_size: int | None
    key_size: int | None
    delimiter: str | None
    quote: str | None
    escape: str | None
    comment: str | None
    null_values: tuple[str, ...]
    skip_rows: int | None
    encoding: str | None
    bad_rows: str | None
    no_header: bool
    column_types: tuple[str, ...]
    no_hive: bool
    where: str | None
    memory_limit: str | None
    spill_dirs: tuple[str, ...]
    engine: str
    address: str | None
    num_cpus: int | None
    quiet: bool


class Common(Reading):
    """The values of the options that all commands that shuffle have, and of their output."""

    output: str
    output_format: str | None
    compression: str | None
    target_file_size: str | None
    partition_by: str | None
    strategy: str
    overwrite: Overwrite
    mode: str | None
    explain_only: bool
    as_json: bool


def start(arguments: Reading) -> None:
    """Starts the engine that the options ask for."""
    of_engine: dict[str, Any] = {}  # options that only one engine has, of types that it knows
    if arguments["address"] is not None:
        if arguments["engine"] != "ray":
            raise OptionsError("--address is of a Ray cluster; add --engine ray, or leave it out")
        of_engine["address"] = arguments["address"]
    for folder in arguments["spill_dirs"]:
        if "," in folder and not os.path.exists(folder):
            raise OptionsError(
                f"spill directory {folder} does not exist; for several ones repeat --spill-dir"
            )
    init(
        arguments["engine"],
        memory_limit=arguments["memory_limit"],
        spill_dirs=list(arguments["spill_dirs"]) or None,
        num_cpus=arguments["num_cpus"],
        progress=False if arguments["quiet"] else None,
        **of_engine,
    )


def open_input(paths: Sequence[str], arguments: Reading) -> Dataset:
    """Opens the dataset of some paths, with the rows that ``--where`` keeps."""
    options: ReadArguments = {
        "format": arguments["format_"],
        "record_bytes": arguments["record_size"],
        "key_bytes": arguments["key_size"],
        "csv_delimiter": arguments["delimiter"],
        "csv_names": [] if arguments["no_header"] else None,
        "csv_quote": arguments["quote"],
        "csv_escape": arguments["escape"],
        "csv_comment": arguments["comment"],
        "csv_encoding": arguments["encoding"],
        "csv_skip_rows": _num_lines(arguments["skip_rows"]),
        "csv_null_values": list(arguments["null_values"]),
        "hive": not arguments["no_hive"],
        **schema_option(_column_types(arguments["column_types"])),
    }
    dataset = open_dataset(paths, options, bad_rows=arguments["bad_rows"] or "raise")
    return dataset if arguments["where"] is None else dataset.filter(arguments["where"])


def open_right(path: str, arguments: Common) -> Dataset:
    """Opens the right side of a join."""
    of_both: Common = {**arguments, "where": None}
    return open_input([path], of_both)


def _num_lines(given: int | None) -> int:
    if given is None:
        return 0
    if not 0 <= given < 2**63:
        raise OptionsError(f"--skip-rows is {given}; it must be a number of lines from 0 on")
    return given


def _column_types(given: Sequence[str]) -> dict[str, str] | None:
    """Returns types by the names of columns, from NAME=TYPE."""
    types: dict[str, str] = {}
    for text in given:
        name, equals, kind = text.rpartition("=")
        if not equals:
            raise OptionsError(
                f"--column-type {text!r} names no type; write NAME=TYPE, for example zip=text"
            )
        if types.setdefault(name, kind) != kind:
            raise OptionsError(
                f"--column-type gives column {name!r} the types {types[name]!r} and {kind!r}; leave out one"
            )
    return types or None


def finish(dataset: Dataset, label: str, arguments: Common) -> None:
    """Writes the dataset and reports, or prints its plan."""
    check_formats(dataset, arguments)
    output = arguments["output"]
    file_format = arguments["output_format"] or _format_of(output) or dataset.output_format
    compression = arguments["compression"]
    if compression is None:
        compression = default_compression(dataset.node, file_format)
    options = WriteOptions(
        file_format,
        compression,
        arguments["target_file_size"],
        None if arguments["partition_by"] is None else parse_names(arguments["partition_by"]),
    )
    if arguments["explain_only"]:
        bill = dataset.explain(
            output, options=options, overwrite=arguments["overwrite"], mode=arguments["mode"]
        )
        click.echo(json.dumps(bill.to_dict()) if arguments["as_json"] else str(bill))
        return
    progress = None if arguments["quiet"] else progress_of(label)
    result = dataset.write(
        output,
        options,
        overwrite=arguments["overwrite"],
        mode=arguments["mode"],
        progress=progress,
    )
    if arguments["quiet"]:
        return
    summary = json.dumps(result.to_dict()) if arguments["as_json"] else _summary(result)
    click.echo(summary, err=output == STANDARD)


def progress_of(label: str) -> Progress | None:
    """Returns what shows the progress of a command; None if the environment asks for none."""
    return None if progress_asked() is False else Progress(label)


def _format_of(output: str) -> str | None:
    """Returns the format that the ending of a file names; None if the input's is taken."""
    said = format_of(local_path(output, OutputError))
    if said is None and kind_of(output) == "file":
        endings = ", ".join(f".{known.ending}" for known in FORMATS.values() if known.holds_tables)
        raise OptionsError(
            f"output {output} has an ending of no format; write one of {endings}, name --output-format, or write "
            f"{output}/ for a directory"
        )
    return said


def check_formats(dataset: Dataset, arguments: Reading) -> None:
    """Refuses options of formats that no input has."""
    formats = {source.format for source in sources(dataset.node)}
    given: dict[str, object] = {**arguments}
    for option, parameter, fitting in _OF_FORMATS:
        if given[parameter] not in (None, False, ()) and formats.isdisjoint(fitting):
            raise OptionsError(
                f"{option} is for {' and '.join(fitting)}, and the input is {' and '.join(sorted(formats))}; "
                f"leave it out, or pass --format {' or '.join(fitting)}"
            )


def _summary(result: WriteResult) -> str:
    if not result.files:
        return f"{result.path} exists, and stays as it is"
    rate = format_bytes(result.bytes / max(result.seconds, 1e-9))
    lines = [
        f"{counted(result.rows, 'row')}, {format_bytes(result.bytes)} in {counted(len(result.files), 'file')} -> "
        f"{result.path}",
        f"{result.seconds:.2f} s, {rate}/s, peak memory {format_bytes(result.peak_memory_bytes)}",
    ]
    if result.spilled_bytes is not None:
        lines[-1] += f", spilled {format_bytes(result.spilled_bytes)}"
    if result.seeds:
        lines.append(f"seed {', '.join(map(str, result.seeds))}")
    if result.bad_rows:
        lines.append(f"{counted(result.bad_rows, 'bad row')} left out")
    return "\n".join(lines)
