"""`magicbyte completion`: what a shell needs to complete our commands, options and files."""

from __future__ import annotations

import sys

import click
from click.shell_completion import get_completion_class

from magicbyte.cli import problems

HELP = """The script by which a shell completes commands, options, choices and files.

\b
Examples:
  magicbyte completion bash >> ~/.bashrc
  magicbyte completion zsh > "${fpath[1]}/_magicbyte"
  magicbyte completion fish > ~/.config/fish/completions/magicbyte.fish
"""


@click.command("completion", help=HELP)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> int:
    from magicbyte.cli import cli

    found = get_completion_class(shell)
    if found is None:
        raise click.UsageError(f"{shell}: this click knows no completion for it")
    sys.stdout.write(found(cli, {}, "magicbyte", "_MAGICBYTE_COMPLETE").source() + "\n")
    return problems.FINE
