"""``exoshuffle window``."""

from __future__ import annotations

import datetime as dt
import re
from typing import TYPE_CHECKING, Any

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
from exoshuffle.durations import parse_duration
from exoshuffle.errors import OptionsError
from exoshuffle.operators.core.keys import parse_by, parse_names

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from exoshuffle.operators.sql.over import Distance, RangeFrame, RowFrame


@click.command(name="window")
@input_output
@click.option(
    "--by",
    default="",
    help="Columns that are equal for rows that see each other, separated by commas. Default: all rows do.",
)
@click.option("--order-by", help='The order of the rows of a key: "ts desc nulls last, id".')
@click.option(
    "--add",
    "functions",
    multiple=True,
    required=True,
    metavar="NAME=FUNCTION",
    help='A new column: "n=row_number()", "before=lag(price)", "mean=avg(price)". Repeatable.',
)
@click.option(
    "--frame",
    metavar="FIRST:LAST",
    help="The rows that an aggregate sees, from the row itself: -2:0 for it and two before, :0 for all up to it.",
)
@click.option(
    "--range-frame",
    metavar="FIRST:LAST",
    help="The same as distances of the only --order-by: -7:0, or for times -1h30m:0 or -7d:.",
)
@partitions_option
@shuffle_options
def window_command(
    inputs: tuple[str, ...],
    by: str,
    order_by: str | None,
    functions: tuple[str, ...],
    frame: str | None,
    range_frame: str | None,
    partitions: int | None,
    **common: Unpack[Common],
) -> None:
    """Add columns of window functions: values for each row, from the rows of the same keys.

    With --order-by and without --frame, an aggregate is of all rows up to the row and those of equal order, as in SQL.

    \b
    Examples:
      exoshuffle window trades/ ranked/ --by symbol --order-by "price desc" --add "place=rank()"
      exoshuffle window trades/ means/ --by symbol --order-by ts --add "mean=avg(price)" --frame=-4:0
      exoshuffle window trades/ hours/ --by symbol --order-by ts --add "n=count(*)" --range-frame=-1h:0
    """
    start(common)
    made: dict[str, Any] = dict(map(_named, functions))
    order = parse_by(order_by) if order_by else ()
    dataset = open_input(inputs, common).window(
        partition_by=parse_names(by),
        order_by=[key.column for key in order],
        descending=[key.descending for key in order],
        nulls=["first" if key.nulls_first else "last" for key in order],
        frame=None if frame is None else _frame(frame),
        range_frame=None if range_frame is None else _range_frame(range_frame),
        strategy=strategy_of(common),
        num_partitions=partitions,
        **made,
    )
    finish(dataset, "window", common)


def _named(text: str) -> tuple[str, str]:
    name, equals, function = text.partition("=")
    if not (equals and name.strip()):
        raise OptionsError(
            f'--add {text!r} names no column; write NAME=FUNCTION, for example "n=row_number()"'
        )
    return name.strip(), function.strip()


def _frame(text: str) -> RowFrame:
    found = re.fullmatch(r"\s*([+-]?\d+)?\s*:\s*([+-]?\d+)?\s*", text)
    if not found:
        raise OptionsError(
            f"--frame is {text!r}; write FIRST:LAST, for example -2:0 for a row and the two before it"
        )
    first, last = (None if number is None else int(number) for number in found.groups())
    return first, last


def _range_frame(text: str) -> RangeFrame:
    first, colon, last = text.partition(":")
    if not colon:
        raise _not_a_range_frame(text)
    return _distance(first.strip(), text), _distance(last.strip(), text)


def _distance(bound: str, text: str) -> Distance:
    """Returns a bound: a number, or a span of time; None for no bound."""
    if not bound:
        return None
    sign, size = (-1, bound[1:]) if bound[0] == "-" else (1, bound.removeprefix("+"))
    seconds = parse_duration(size)
    if seconds is not None:
        return sign * dt.timedelta(microseconds=round(seconds * 10**6))
    if re.fullmatch(r"\d+", size):
        return sign * int(size)
    if re.fullmatch(r"\d*\.\d+", size):
        return sign * float(size)
    raise _not_a_range_frame(text)


def _not_a_range_frame(text: str) -> OptionsError:
    return OptionsError(
        f"--range-frame is {text!r}; write FIRST:LAST, for example -7:0 for values of up to 7 less, or -1h30m:0"
    )
