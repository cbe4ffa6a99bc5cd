"""``exoshuffle completion``: the script with which a shell completes commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from exoshuffle.errors import OptionsError

#: The variable by which the script asks; click derives it from the name of the program.
VARIABLE = "_EXOSHUFFLE_COMPLETE"


@click.command(name="completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion_command(context: click.Context, shell: str) -> None:
    """Print a script that lets a shell complete commands and options.

    \b
    Examples:
      eval "$(exoshuffle completion bash)"                 # in ~/.bashrc; zsh likewise
      exoshuffle completion fish > ~/.config/fish/completions/exoshuffle.fish
    """
    made = get_completion_class(shell)
    if made is None:
        raise OptionsError(f"click has no completion for {shell}; choose another shell")
    program = context.find_root().command
    click.echo(made(program, {}, "exoshuffle", VARIABLE).source())
