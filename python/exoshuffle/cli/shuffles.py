"""``exoshuffle shuffle``, ``sample``, ``repartition``, ``groupby``, ``distinct`` and ``join``."""

from __future__ import annotations

import re
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
from exoshuffle.cli.running import finish, open_input, open_right
from exoshuffle.errors import OptionsError
from exoshuffle.operators.core.keys import parse_names

if TYPE_CHECKING:
    from typing_extensions import Unpack

_seed = click.option(
    "--seed",
    type=int,
    help="Seed of the random order. Default: a fresh one, which the summary tells.",
)


@click.command(name="shuffle")
@input_output
@_seed
@click.option(
    "--window",
    metavar="ROWS|SIZE",
    help="Cheap and partial: put windows of so many rows, or of this size, into random order, and the rows of each.",
)
@partitions_option
@shuffle_options
def shuffle_command(
    inputs: tuple[str, ...],
    seed: int | None,
    window: str | None,
    partitions: int | None,
    **common: Unpack[Common],
) -> None:
    """Put all rows into random order: every order is as likely as any other.

    \b
    Examples:
      exoshuffle shuffle samples/ shuffled/ --seed 7 --memory-limit 2GB
      exoshuffle shuffle samples/ shuffled/ --window 64MB
    """
    start(common)
    dataset = open_input(inputs, common).random_shuffle(
        seed,
        window=int(window) if window is not None and re.fullmatch("[0-9]+", window) else window,
        strategy=strategy_of(common),
        num_partitions=partitions,
    )
    finish(dataset, "shuffle", common)


@click.command(name="sample")
@input_output
@click.option("--rows", "n", type=int, help="How many rows, in random order.")
@click.option(
    "--fraction", type=float, help="Instead of --rows: keep each row with this probability."
)
@_seed
@shuffle_options
def sample_command(
    inputs: tuple[str, ...],
    n: int | None,
    fraction: float | None,
    seed: int | None,
    **common: Unpack[Common],
) -> None:
    """Choose rows at random, without replacement.

    \b
    Examples:
      exoshuffle sample events/ few/ --rows 10000 --seed 7
      exoshuffle sample events/ tenth/ --fraction 0.1
    """
    start(common)
    dataset = open_input(inputs, common).sample(n, fraction=fraction, seed=seed)
    finish(dataset, "sample", common)


@click.command(name="repartition")
@input_output
@click.option("--partitions", type=int, help="Number of output partitions.")
@click.option(
    "--target-size",
    metavar="SIZE",
    help="About the size of an output partition, instead of their number.",
)
@click.option(
    "--by", help="Columns whose values decide, separated by commas. Default: rows go in turn."
)
@click.option(
    "--method",
    type=click.Choice(["hash", "range", "round-robin"]),
    help="With --by: equal values meet (hash, the default), or partitions follow each other in order (range).",
)
@shuffle_options
def repartition_command(
    inputs: tuple[str, ...],
    partitions: int | None,
    target_size: str | None,
    by: str | None,
    method: str | None,
    **common: Unpack[Common],
) -> None:
    """Divide rows into other partitions.

    \b
    Examples:
      exoshuffle repartition small-files/ parts/ --target-size 256MB
      exoshuffle repartition events/ parts/ --partitions 32 --by user
    """
    start(common)
    dataset = open_input(inputs, common).repartition(
        partitions,
        target_size=target_size,
        by=_columns("--by", by),
        method=method,
        strategy=strategy_of(common),
    )
    finish(dataset, "repartition", common)


@click.command(name="groupby")
@input_output
@click.option(
    "--by",
    default="",
    help="Columns or expressions to group by, separated by commas. Default: all rows are one group.",
)
@click.option(
    "--agg",
    required=True,
    help='"n=count(), total=sum(price * quantity), p90=quantile(x, 0.9)". The text is the name, if there is no other.',
)
@partitions_option
@shuffle_options
def groupby_command(
    inputs: tuple[str, ...], by: str, agg: str, partitions: int | None, **common: Unpack[Common]
) -> None:
    """Aggregate groups of rows with equal keys.

    \b
    Examples:
      exoshuffle groupby sales/ totals/ --by "shop, day" --agg "n=count(), total=sum(price)"
      exoshuffle groupby sales/ means/ --by "year(ts)" --agg "mean=sum(price * quantity) / sum(quantity)"
    """
    start(common)
    grouped = open_input(inputs, common).group_by(
        *parse_names(by),
        strategy=strategy_of(common),
        num_partitions=partitions,
    )
    finish(grouped.agg(agg), "groupby", common)


@click.command(name="distinct")
@input_output
@click.option("--on", "--by", "on", help="Columns to compare, separated by commas. Default: all.")
@partitions_option
@shuffle_options
def distinct_command(
    inputs: tuple[str, ...], on: str | None, partitions: int | None, **common: Unpack[Common]
) -> None:
    """Drop duplicates: of rows with equal values, the first stays.

    \b
    Example:
      exoshuffle distinct documents/ unique/ --on url
    """
    start(common)
    dataset = open_input(inputs, common).distinct(
        _columns("--on", on),
        strategy=strategy_of(common),
        num_partitions=partitions,
    )
    finish(dataset, "distinct", common)


@click.command(name="join")
@click.argument("left", metavar="LEFT")
@click.argument("right", metavar="RIGHT")
@click.argument("output", metavar="OUTPUT")
@click.option("--on", help="Key columns of both sides, separated by commas.")
@click.option("--left-on", help="Key columns of the left side, where names differ.")
@click.option("--right-on", help="As many key columns of the right side.")
@click.option(
    "--how",
    type=click.Choice(["inner", "left", "right", "full", "outer", "semi", "anti", "cross"]),
    default="inner",
    show_default=True,
    help="Which rows come out.",
)
@click.option(
    "--suffix",
    default="_right",
    show_default=True,
    help="Ending of names of the right side that both sides have.",
)
@partitions_option
@shuffle_options
def join_command(
    left: str,
    right: str,
    on: str | None,
    left_on: str | None,
    right_on: str | None,
    how: str,
    suffix: str,
    partitions: int | None,
    **common: Unpack[Common],
) -> None:
    """Join two datasets where keys are equal.

    Without --strategy and --partitions, nothing is shuffled where one side is small: up to 16 MB and a sixteenth of
    the budget. It is given to every task that reads the other side. It may be the right side of inner, left, semi and
    anti joins. It may be the left side of inner and right joins, and either side of cross joins.

    \b
    Example:
      exoshuffle join lineitem/ orders/ joined/ --left-on l_orderkey --right-on o_orderkey
    """
    start(common)
    dataset = open_input([left], common).join(
        open_right(right, common),
        how=how,
        suffix=suffix,
        strategy=strategy_of(common),
        num_partitions=partitions,
        on=_columns("--on", on),
        left_on=_columns("--left-on", left_on),
        right_on=_columns("--right-on", right_on),
    )
    finish(dataset, "join", common)


def _columns(option: str, text: str | None) -> list[str] | None:
    """Returns the columns that an option names; None without the option."""
    if text is None:
        return None
    names = parse_names(text)
    if not names:
        raise OptionsError(f"{option} names no column; name one, or leave {option} out")
    return names
