"""The options of commands, the types of their values, and the start of the engine that they ask for."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any, TypedDict

import click

from exoshuffle.dataset.files.formats import FORMATS
from exoshuffle.dataset.inputs.column_types import TYPE_NAMES
from exoshuffle.dataset.tree.nodes import WHOLE
from exoshuffle.dataset.write.existing import MODES, Overwrite
from exoshuffle.errors import OptionsError
from exoshuffle.futures import init
from exoshuffle.futures.session import ENGINE_NAMES
from exoshuffle.strategies.library import AUTO, speculating, strategy_names
from exoshuffle.strategies.strategy import PlannedStrategy


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
        "--spill-compression",
        type=click.Choice(["auto", "none", "lz4", "zstd"]),
        help="How spilled data is compressed. Default: auto, by lz4 on slow disks.",
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
        "Other options of strategies are for Python.",
    ),
    click.option(
        "--speculate",
        is_flag=True,
        help="Run slow tasks a second time, but no reduces; the first result counts. Needs --strategy with a name.",
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
OF_FORMATS = (
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
    return click.argument("inputs", nargs=-1, metavar="INPUT...", callback=_some_inputs)(command)


def _some_inputs(
    context: click.Context, parameter: click.Parameter, inputs: tuple[str, ...]
) -> tuple[str, ...]:
    """Refuses a single path: click takes it for the output, and would say that the input is missing."""
    del parameter
    if not inputs and not context.resilient_parsing:
        raise click.UsageError(
            "INPUT and OUTPUT are needed, and one is missing; - as OUTPUT is standard output.",
            context,
        )
    return inputs


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
    spill_compression: str | None
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
    speculate: bool
    overwrite: Overwrite
    mode: str | None
    explain_only: bool
    as_json: bool


def strategy_of(common: Common) -> str | PlannedStrategy:
    """Returns the strategy that the options ask for.

    Raises:
        OptionsError: Slow tasks are to have copies, and no strategy is named.
    """
    name = common["strategy"]
    if not common["speculate"]:
        return name
    if name not in strategy_names():
        raise OptionsError(
            f"--speculate came with --strategy {name}, which names no strategy; choose one of "
            f"{', '.join(strategy_names())}, or leave --speculate out"
        )
    return speculating(name)


def start(arguments: Reading) -> None:
    """Starts the engine that the options ask for."""
    of_engine: dict[str, Any] = {}  # options that only one engine has, of types that it knows
    if arguments["address"] is not None:
        if arguments["engine"] != "ray":
            raise OptionsError("--address is of a Ray cluster; add --engine ray, or leave it out")
        of_engine["address"] = arguments["address"]
    if arguments["spill_compression"] is not None:
        if arguments["engine"] != "local":
            raise OptionsError(
                "--spill-compression is of the local engine; Ray spills by its own settings, so leave it out"
            )
        of_engine["spill_compression"] = arguments["spill_compression"]
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
