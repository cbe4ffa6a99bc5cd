"""``exoshuffle join-asof``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from exoshuffle.cli.options import Common, shuffle_options, start, strategy_of
from exoshuffle.cli.running import finish, open_input, open_right
from exoshuffle.operators.asof.asof import DIRECTIONS
from exoshuffle.operators.core.keys import parse_names

if TYPE_CHECKING:
    from typing_extensions import Unpack


@click.command(name="join-asof")
@click.argument("left", metavar="LEFT")
@click.argument("right", metavar="RIGHT")
@click.argument("output", metavar="OUTPUT")
@click.option("--on", help="The column of both sides that has to be near.")
@click.option("--left-on", help="The column of the left side, where names differ.")
@click.option("--right-on", help="The column of the right side, where names differ.")
@click.option("--by", help="Columns of both sides that have to be equal, separated by commas.")
@click.option("--direction", type=click.Choice(DIRECTIONS), default="backward", show_default=True)
@click.option("--tolerance", help="Rows further apart do not match: 5, 0.1, 10s, 1h30m …")
@click.option(
    "--suffix",
    default="_right",
    show_default=True,
    help="Ending of names of the right side that both sides have.",
)
@shuffle_options
def join_asof_command(
    left: str,
    right: str,
    on: str | None,
    left_on: str | None,
    right_on: str | None,
    by: str | None,
    direction: str,
    tolerance: str | None,
    suffix: str,
    **common: Unpack[Common],
) -> None:
    """Join each row with the nearest row of another dataset.

    Every row of LEFT comes once, in the order of --by and then --on. A side that is already in the order of --on is
    not sorted again, if there is no --by and no --strategy.

    \b
    Example:
      exoshuffle join-asof trades/ quotes/ joined/ --on ts --by symbol --tolerance 10s
    """
    start(common)
    dataset = open_input([left], common).join_asof(
        open_right(right, common),
        on=on,
        left_on=left_on,
        right_on=right_on,
        by=None if by is None else parse_names(by),
        direction=direction,
        tolerance=tolerance,
        suffix=suffix,
        strategy=strategy_of(common),
    )
    finish(dataset, "join-asof", common)
