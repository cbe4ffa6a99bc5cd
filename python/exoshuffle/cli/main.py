"""The entry point of the command line: sub-commands, and how errors look.

Guarantee: an error is one sentence on standard error and an exit code, never a traceback. The code is 1 if data or
machine failed, 2 for a wrong request, 130 after Ctrl-C; ``signals`` has others.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Sequence

import click

from exoshuffle.cli import signals
from exoshuffle.cli.completion import VARIABLE, completion_command
from exoshuffle.cli.join_asof import join_asof_command
from exoshuffle.cli.look import cat_command, count_command, head_command, schema_command
from exoshuffle.cli.records import gensort_command, valsort_command
from exoshuffle.cli.shuffles import (
    distinct_command,
    groupby_command,
    join_command,
    repartition_command,
    sample_command,
    shuffle_command,
)
from exoshuffle.cli.simulate import simulate_command
from exoshuffle.cli.sort import explain_command, sort_command
from exoshuffle.cli.window import window_command
from exoshuffle.errors import ExoshuffleError, OptionsError
from exoshuffle.futures import shutdown
from exoshuffle.version import __version__


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="exoshuffle")
def cli() -> None:
    """Sort, shuffle, group and join data larger than memory.

    \b
    Example:
      exoshuffle sort events/ sorted/ --by "ts desc, id" --memory-limit 2GB
    """


for command in (
    sort_command,
    explain_command,
    shuffle_command,
    sample_command,
    repartition_command,
    groupby_command,
    window_command,
    distinct_command,
    join_command,
    join_asof_command,
    head_command,
    schema_command,
    count_command,
    cat_command,
    gensort_command,
    valsort_command,
    simulate_command,
    completion_command,
):
    cli.add_command(command)


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command and exits with its code."""
    signals.interrupt_when_ended()
    try:
        code = _run(arguments)
        with contextlib.suppress(Exception):
            shutdown()
    except KeyboardInterrupt:
        # It came again, or when all was done. The end of the process also ends what shutting down would still do.
        os._exit(signals.interrupted())
    sys.exit(signals.flushed(code))


def _run(arguments: Sequence[str] | None) -> int:
    try:
        result = cli.main(args=arguments, prog_name="exoshuffle", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt) as error:
        # click replaces the exception, which may say what became of the output, by its own.
        outcome = str(error.__cause__ or error)
        return _say(f"interrupted; {outcome}" if outcome else "interrupted", signals.interrupted())
    except BrokenPipeError:
        return signals.unread()
    except SystemExit as end:
        # click ends completions with this, and turns a broken pipe into it; nothing else in this mode.
        return int(end.code or 0) if VARIABLE in os.environ else signals.unread()
    except OptionsError as error:
        return _say(str(error), 2)
    except ExoshuffleError as error:
        if isinstance(error, OSError) and error.errno == errno.EPIPE:
            return signals.unread()
        return _say(str(error), 1)
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        return _say(f"{error.strerror or error}{where}", 1)
    except Exception as error:  # noqa: BLE001  no traceback on the command line, whatever it is
        return _say(f"unexpected {type(error).__name__}: {error}; please report this", 1)


def _say(message: str, code: int) -> int:
    try:
        click.echo(f"exoshuffle: {message}", err=True)
    except BrokenPipeError:
        return signals.unread()
    return code
