"""``exoshuffle head``, ``schema``, ``count`` and ``cat``: look at files, and write none."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from exoshuffle.cli.options import Reading, looking_options, start
from exoshuffle.cli.running import check_formats, open_input
from exoshuffle.dataset.dataset import Dataset
from exoshuffle.dataset.files.formats import FORMATS
from exoshuffle.dataset.files.place import STANDARD
from exoshuffle.dataset.shown import table_text
from exoshuffle.dataset.write.options import WriteOptions
from exoshuffle.errors import OptionsError
from exoshuffle.operators.core.keys import parse_names

if TYPE_CHECKING:
    from typing_extensions import Unpack

_columns = click.option("--columns", help="Only these columns, separated by commas, in this order.")


@click.command(name="head")
@looking_options
@click.option("--rows", "-n", "n", type=int, default=10, show_default=True, help="How many rows.")
@_columns
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object for each row, whole.")
def head_command(
    inputs: tuple[str, ...],
    n: int,
    columns: str | None,
    as_json: bool,
    **reading: Unpack[Reading],
) -> None:
    """Print the first rows, below the names and types of their columns; long values are cut.

    \b
    Examples:
      exoshuffle head events/
      exoshuffle head events/ -n 3 --columns "ts, user" --where "user = 7"
    """
    dataset = _opened(inputs, reading, columns)
    if as_json:
        dataset.limit(n).write(STANDARD, WriteOptions("jsonl"))
    else:
        click.echo(table_text(dataset.head(n)))


@click.command(name="schema")
@looking_options
@click.option("--json", "as_json", is_flag=True, help="Print them as JSON.")
def schema_command(inputs: tuple[str, ...], as_json: bool, **reading: Unpack[Reading]) -> None:
    """Print the names and types of the columns.

    \b
    Example:
      exoshuffle schema events/
    """
    schema = _opened(inputs, reading).schema
    if not as_json:
        for field in schema:
            click.echo(f"{field.name}: {field.type}{'' if field.nullable else ' not null'}")
        return
    listed = [
        {"name": field.name, "type": str(field.type), "nullable": field.nullable}
        for field in schema
    ]
    click.echo(json.dumps({"columns": listed}))


@click.command(name="count")
@looking_options
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
def count_command(inputs: tuple[str, ...], as_json: bool, **reading: Unpack[Reading]) -> None:
    """Print the number of rows. That of Parquet comes from footers, without --where.

    \b
    Examples:
      exoshuffle count events/
      exoshuffle count events/ --where "user = 7"
    """
    num_rows = _opened(inputs, reading).count()
    click.echo(json.dumps({"rows": num_rows}) if as_json else num_rows)


@click.command(name="cat")
@looking_options
@_columns
@click.option("--limit", type=int, help="Only so many rows, the first ones.")
@click.option(
    "--output-format",
    type=click.Choice(FORMATS),
    default="csv",
    show_default=True,
    help="What to print; jsonl also has nested columns.",
)
def cat_command(
    inputs: tuple[str, ...],
    columns: str | None,
    limit: int | None,
    output_format: str,
    **reading: Unpack[Reading],
) -> None:
    """Print all rows to standard output, as CSV with a header or in another format.

    \b
    Examples:
      exoshuffle cat events/ --columns "ts, user" | less
      exoshuffle cat events/ --where "user = 7" --output-format jsonl
    """
    dataset = _opened(inputs, reading, columns)
    if limit is not None:
        dataset = dataset.limit(limit)
    dataset.write(STANDARD, WriteOptions(output_format))


def _opened(inputs: tuple[str, ...], reading: Reading, columns: str | None = None) -> Dataset:
    start(reading)
    dataset = open_input(inputs, reading)
    check_formats(dataset, reading)
    if columns is None:
        return dataset
    names = parse_names(columns)
    if not names:
        raise OptionsError("--columns names no column; name one, or leave --columns out")
    return dataset.select(*names)
