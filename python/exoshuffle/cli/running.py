"""The common part of the commands that shuffle: they open their input, write or explain the result, and report."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

import click

from exoshuffle.cli.options import OF_FORMATS, Common, Reading
from exoshuffle.dataset.dataset import Dataset
from exoshuffle.dataset.files.formats import FORMATS
from exoshuffle.dataset.files.paths import local_path
from exoshuffle.dataset.files.place import STANDARD, format_of, kind_of
from exoshuffle.dataset.opening import ReadArguments, open_dataset, schema_option
from exoshuffle.dataset.tree.nodes import sources
from exoshuffle.dataset.write.codec import default_compression
from exoshuffle.dataset.write.options import WriteOptions
from exoshuffle.dataset.write.write import WriteResult
from exoshuffle.errors import OptionsError, OutputError
from exoshuffle.futures.environment import progress_asked
from exoshuffle.observe.progress import Progress
from exoshuffle.operators.core.keys import parse_names
from exoshuffle.units import counted, format_bytes


def open_input(paths: Sequence[str], arguments: Reading) -> Dataset:
    """Opens the dataset of some paths, with the rows that ``--where`` keeps."""
    options: ReadArguments = {
        "format": arguments["format_"],
        "record_bytes": arguments["record_size"],
        "key_bytes": arguments["key_size"],
        "csv_delimiter": _delimiter(arguments["delimiter"]),
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


def _delimiter(given: str | None) -> str | None:
    """A tab is hard to type in a shell, whose quotes keep the backslash of ``\\t``."""
    return "\t" if given == r"\t" else given


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
    summary = json.dumps(result.to_dict()) if arguments["as_json"] else summary_of(result)
    click.echo(summary, err=output == STANDARD)


def progress_of(label: str) -> Progress | None:
    """Returns what shows the progress of a command; None if the environment asks for none, or nothing can show it."""
    return None if progress_asked() is False or sys.stderr is None else Progress(label)


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
    for option, parameter, fitting in OF_FORMATS:
        if given[parameter] not in (None, False, ()) and formats.isdisjoint(fitting):
            raise OptionsError(
                f"{option} is for {' and '.join(fitting)}, and the input is {' and '.join(sorted(formats))}; "
                f"leave it out, or pass --format {' or '.join(fitting)}"
            )


def summary_of(result: WriteResult) -> str:
    """Returns what a command says of its output when it is done."""
    if not result.files:
        return f"{result.path} exists, and stays as it is"
    rate = format_bytes(result.bytes / max(result.seconds, 1e-9))
    lines = [
        f"{counted(result.rows, 'row')}, {format_bytes(result.bytes)} in {counted(len(result.files), 'file')} -> "
        f"{result.path}",
        f"{result.seconds:.2f} s, {rate}/s, peak memory {format_bytes(result.peak_memory_bytes)}",
    ]
    if result.spilled_bytes is None:
        lines[-1] += ", spilled bytes unknown"
    else:
        lines[-1] += f", spilled {format_bytes(result.spilled_bytes)}"
    if result.seeds:
        lines.append(f"seed {', '.join(map(str, result.seeds))}")
    if result.bad_rows:
        lines.append(f"{counted(result.bad_rows, 'bad row')} left out")
    return "\n".join(lines)
