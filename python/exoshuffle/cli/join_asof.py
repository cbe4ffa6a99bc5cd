"""``exoshuffle join-asof``."""

from __future__ import annotations

from typing import Any

import click

from exoshuffle.cli.options import finish, open_input, shuffle_options, start
from exoshuffle.operators.asof.asof import DIRECTIONS
from exoshuffle.operators.core.keys import parse_names


@click.command(name="join-asof")
@click.argument("left", metavar="LEFT")
@click.argument("right", metavar="RIGHT")
@click.argument("output", metavar="OUTPUT")
@click.option("--on", help="The column of both sides that has to be near.")
@click.option("--left-on", help="The column of the left side, where names differ.")
@click.option("--right-on", help="That of the right side.")
@click.option("--by", help="Columns of both sides that have to be equal, with commas.")
@click.option("--direction", type=click.Choice(DIRECTIONS), default="backward", show_default=True)
@click.option("--tolerance", help="Rows further apart do not match: 5, 0.1, 10s, 1h30m …")
@click.option(
    "--suffix", default="_right", show_default=True, help="For names that both sides have."
)
@shuffle_options
def join_asof_command(**arguments: Any) -> None:
    """Join each row with the nearest row of another dataset.

    Every row of LEFT comes once, in the order of --by and then --on. A side that is in the order of --on already is not
    sorted again, if there is no --by and no --strategy.

    \b
    Example:
      exoshuffle join-asof trades/ quotes/ joined/ --on ts --by symbol --tolerance 10s
    """
    start(arguments)
    dataset = open_input([arguments["left"]], arguments).join_asof(
        open_input([arguments["right"]], arguments),
        on=arguments["on"],
        left_on=arguments["left_on"],
        right_on=arguments["right_on"],
        by=None if arguments["by"] is None else parse_names(arguments["by"]),
        direction=arguments["direction"],
        tolerance=arguments["tolerance"],
        suffix=arguments["suffix"],
        strategy=arguments["strategy"],
    )
    finish(dataset, "join-asof", arguments)
