"""``exoshuffle shuffle``, ``sample``, ``repartition``, ``groupby``, ``distinct`` and ``join``."""

from __future__ import annotations

import re
from typing import Any

import click

from exoshuffle.cli.options import (
    finish,
    input_output,
    open_input,
    partitions_option,
    shuffle_options,
    start,
)
from exoshuffle.errors import OptionsError
from exoshuffle.operators.core.keys import parse_names
from exoshuffle.operators.group_by.text import parse_aggregate_text

_seed = click.option(
    "--seed", type=int, help="Of the random order. Default: a fresh one, which the summary tells."
)


@click.command(name="shuffle")
@input_output
@_seed
@click.option(
    "--window",
    metavar="ROWS|SIZE",
    help="Cheap and partial: windows of so many rows, or of this size, in random order, and the rows of each.",
)
@partitions_option
@shuffle_options
def shuffle_command(**arguments: Any) -> None:
    """Put all rows into random order: every order is as likely as any other.

    \b
    Examples:
      exoshuffle shuffle samples/ shuffled/ --seed 7 --memory-limit 2GB
      exoshuffle shuffle samples/ shuffled/ --window 64MB
    """
    start(arguments)
    window = arguments["window"]
    dataset = open_input(arguments["inputs"], arguments).random_shuffle(
        arguments["seed"],
        window=int(window) if window is not None and re.fullmatch("[0-9]+", window) else window,
        strategy=arguments["strategy"],
        num_partitions=arguments["partitions"],
    )
    finish(dataset, "shuffle", arguments)


@click.command(name="sample")
@input_output
@click.option("--rows", "n", type=int, help="How many rows, in random order.")
@click.option("--fraction", type=float, help="Instead: keep each row with this probability.")
@_seed
@shuffle_options
def sample_command(**arguments: Any) -> None:
    """Choose rows at random, without replacement.

    \b
    Examples:
      exoshuffle sample events/ few/ --rows 10000 --seed 7
      exoshuffle sample events/ tenth/ --fraction 0.1
    """
    start(arguments)
    dataset = open_input(arguments["inputs"], arguments).sample(
        arguments["n"], fraction=arguments["fraction"], seed=arguments["seed"]
    )
    finish(dataset, "sample", arguments)


@click.command(name="repartition")
@input_output
@click.option("--partitions", type=int, help="Number of output partitions.")
@click.option("--target-size", metavar="SIZE", help="About how large, instead of how many.")
@click.option("--by", help="Columns whose values decide, with commas; default: in turn.")
@click.option(
    "--method",
    type=click.Choice(["hash", "range", "round-robin"]),
    help="With --by: equal values meet (hash, the default), or partitions follow each other in order (range).",
)
@shuffle_options
def repartition_command(**arguments: Any) -> None:
    """Cut rows into other partitions.

    \b
    Examples:
      exoshuffle repartition small-files/ parts/ --target-size 256MB
      exoshuffle repartition events/ parts/ --partitions 32 --by user
    """
    start(arguments)
    dataset = open_input(arguments["inputs"], arguments).repartition(
        arguments["partitions"],
        target_size=arguments["target_size"],
        by=_columns("--by", arguments["by"]),
        method=arguments["method"],
        strategy=arguments["strategy"],
    )
    finish(dataset, "repartition", arguments)


@click.command(name="groupby")
@input_output
@click.option("--by", default="", help="Columns to group by, with commas; default: all rows.")
@click.option("--agg", required=True, help='"n=count(), total=sum(x), p90=quantile(x, 0.9)".')
@partitions_option
@shuffle_options
def groupby_command(**arguments: Any) -> None:
    """Aggregate groups of rows with equal keys.

    \b
    Example:
      exoshuffle groupby sales/ totals/ --by "shop, day" --agg "n=count(), total=sum(price)"
    """
    start(arguments)
    grouped = open_input(arguments["inputs"], arguments).group_by(
        *parse_names(arguments["by"]),
        strategy=arguments["strategy"],
        num_partitions=arguments["partitions"],
    )
    finish(grouped.agg(**parse_aggregate_text(arguments["agg"])), "groupby", arguments)


@click.command(name="distinct")
@input_output
@click.option("--on", help="Columns to compare, with commas; default: all.")
@partitions_option
@shuffle_options
def distinct_command(**arguments: Any) -> None:
    """Drop duplicates: of rows with equal values, the first stays.

    \b
    Example:
      exoshuffle distinct documents/ unique/ --on url
    """
    start(arguments)
    dataset = open_input(arguments["inputs"], arguments).distinct(
        _columns("--on", arguments["on"]),
        strategy=arguments["strategy"],
        num_partitions=arguments["partitions"],
    )
    finish(dataset, "distinct", arguments)


@click.command(name="join")
@click.argument("left", metavar="LEFT")
@click.argument("right", metavar="RIGHT")
@click.argument("output", metavar="OUTPUT")
@click.option("--on", help="Key columns of both sides, with commas.")
@click.option("--left-on", help="Key columns of the left side, where names differ.")
@click.option("--right-on", help="As many of the right side.")
@click.option(
    "--how",
    type=click.Choice(["inner", "left", "right", "full", "semi", "anti", "cross"]),
    default="inner",
    show_default=True,
)
@click.option(
    "--suffix", default="_right", show_default=True, help="For names that both sides have."
)
@partitions_option
@shuffle_options
def join_command(**arguments: Any) -> None:
    """Join two datasets where keys are equal.

    Without --strategy and --partitions, nothing is shuffled where one side is small (up to 16 MB and a sixteenth of
    the budget): it is given to every task that reads the other. So the right side of inner, left, semi and anti
    joins, the left side of inner and right joins, and either side of cross joins.

    \b
    Example:
      exoshuffle join lineitem/ orders/ joined/ --left-on l_orderkey --right-on o_orderkey
    """
    start(arguments)
    keys = {
        name: _columns(option, arguments[name])
        for name, option in (("on", "--on"), ("left_on", "--left-on"), ("right_on", "--right-on"))
    }
    dataset = open_input([arguments["left"]], arguments).join(
        open_input([arguments["right"]], arguments),
        how=arguments["how"],
        suffix=arguments["suffix"],
        strategy=arguments["strategy"],
        num_partitions=arguments["partitions"],
        **keys,
    )
    finish(dataset, "join", arguments)


def _columns(option: str, text: str | None) -> list[str] | None:
    """Returns the columns that an option names; None without the option."""
    if text is None:
        return None
    names = parse_names(text)
    if not names:
        raise OptionsError(f"{option} names no column; name one, or leave {option} out")
    return names
