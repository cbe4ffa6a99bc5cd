"""``exoshuffle simulate``: what a shuffle would take on a cluster that nobody has paid for yet."""

from __future__ import annotations

import json
from pathlib import Path

import click

from exoshuffle.errors import OutputError


@click.command(name="simulate")
@click.argument("plan", type=click.Path(path_type=Path))
@click.option(
    "--seed", type=int, default=0, show_default=True, help="Order of events of one moment."
)
@click.option(
    "--estimate",
    "only_estimate",
    is_flag=True,
    help="Run nothing: let the plan decide the tasks, and print what they take at least.",
)
@click.option("--json", "as_json", is_flag=True, help="Print a machine-readable report.")
@click.option(
    "--report", type=click.Path(path_type=Path), help="Write a picture to this HTML file."
)
def simulate_command(
    plan: Path, seed: int, only_estimate: bool, as_json: bool, report: Path | None
) -> None:
    """Run a shuffle in virtual time, on a cluster that a TOML file describes.

    \b
    Example:
      exoshuffle simulate cloudsort.toml --report cloudsort.html
      exoshuffle simulate petabyte.toml --estimate
    """
    if only_estimate:
        if report is not None:
            raise click.UsageError(
                "--report draws what ran, and --estimate runs nothing; leave out one of them"
            )
        _estimate(plan, as_json)
        return
    from exoshuffle.engines.sim.runs.picture import drawn
    from exoshuffle.engines.sim.runs.simulate import simulate

    found = simulate(plan, seed=seed)
    if report is not None:
        try:
            report.write_text(drawn(found), encoding="utf-8")
        except OSError as error:
            raise OutputError(
                f"{report} cannot be written: {error.strerror}; name another file"
            ) from error
    click.echo(json.dumps(found.as_dict()) if as_json else str(found))


def _estimate(plan: Path, as_json: bool) -> None:
    from exoshuffle.engines.sim.runs.estimate import estimate

    found = estimate(plan)
    click.echo(json.dumps(found.as_dict()) if as_json else str(found))
