"""``exoshuffle sort`` and ``exoshuffle explain``: with the same arguments, one runs and one prints the plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from exoshuffle.cli.options import (
    Common,
    input_output,
    partitions_option,
    shuffle_options,
    start,
    strategy_of,
)
from exoshuffle.cli.running import finish, open_input
from exoshuffle.dataset.dataset import Dataset
from exoshuffle.dataset.tree.facts import is_records
from exoshuffle.errors import OptionsError
from exoshuffle.operators.core.keys import parse_by

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from exoshuffle.strategies.strategy import PlannedStrategy

_by = click.option(
    "--by", help='Columns or expressions to sort by: "ts desc nulls last, lower(name)".'
)


def _refuse_descending(_: click.Context, __: click.Parameter, is_given: bool) -> None:
    if is_given:
        raise click.UsageError('Each key has its own direction; write --by "name desc".')


#: Other programs have one of these. Click would propose --encoding.
_descending = click.option(
    "--descending",
    "--desc",
    "--reverse",
    is_flag=True,
    hidden=True,
    expose_value=False,
    callback=_refuse_descending,
)
_limit = click.option(
    "--limit", type=int, help="Keep only so many rows, the first ones of the order."
)


@click.command(name="sort")
@input_output
@_by
@_descending
@_limit
@partitions_option
@shuffle_options
def sort_command(
    inputs: tuple[str, ...],
    by: str | None,
    limit: int | None,
    partitions: int | None,
    **common: Unpack[Common],
) -> None:
    """Sort files into a directory, a file or standard output, within a memory limit.

    INPUT is a file, a directory, a glob, or - for standard input. OUTPUT is a directory, or a file if it has an
    ending, and appears complete or not at all; - is standard output.

    \b
    Examples:
      exoshuffle sort events/ sorted/ --by "ts desc nulls last, id" --memory-limit 2GB
      exoshuffle sort data.csv sorted.parquet --by name
      exoshuffle sort sales/ best/ --by "price desc" --limit 100
      exoshuffle sort records/ sorted/ --format records --record-size 100 --key-size 10
    """
    start(common)
    finish(_sorted(inputs, by, limit, partitions, common), "sort", common)


@click.command(name="explain")
@input_output
@_by
@_limit
@partitions_option
@shuffle_options
def explain_command(
    inputs: tuple[str, ...],
    by: str | None,
    limit: int | None,
    partitions: int | None,
    **common: Unpack[Common],
) -> None:
    """Print what a sort would take, without running it. The arguments are those of sort.

    Every other command that shuffles does the same with --explain.

    \b
    Example:
      exoshuffle explain events/ sorted/ --by ts --memory-limit 2GB
    """
    start(common)
    common["explain_only"] = True
    finish(_sorted(inputs, by, limit, partitions, common), "explain", common)


def _sorted(
    inputs: tuple[str, ...],
    by: str | None,
    limit: int | None,
    partitions: int | None,
    common: Common,
) -> Dataset:
    made = _all_sorted(open_input(inputs, common), by, partitions, strategy_of(common))
    return made if limit is None else made.limit(limit)


def _all_sorted(
    dataset: Dataset, by: str | None, partitions: int | None, strategy: str | PlannedStrategy
) -> Dataset:
    if is_records(dataset.node):
        if by:
            raise OptionsError(
                "--by is for tables; records are sorted by their key, so leave it out"
            )
        return dataset.sort(strategy=strategy, num_partitions=partitions)
    if not by:
        raise OptionsError('--by is missing; write for example --by "ts desc, id"')
    keys = parse_by(by)
    return dataset.sort(
        [key.column for key in keys],
        descending=[key.descending for key in keys],
        nulls=["first" if key.nulls_first else "last" for key in keys],
        strategy=strategy,
        num_partitions=partitions,
    )
