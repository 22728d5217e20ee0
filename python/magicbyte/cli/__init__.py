"""The command line. Each command is a module of this package and is imported only when it is called for.

What the commands share: ``options`` (arguments and what they select), ``output`` (how bytes, tables and JSON are
shown), ``problems`` (errors and exit statuses), ``progress``.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from magicbyte.cli import problems

__all__ = ["main"]

# Under each heading of `magicbyte --help`, name: its line there. The command itself is `magicbyte.cli.<name>.command`, found
# when it is needed, so that a command's imports cost nothing to the others.
SECTIONS = {
    "To look": {
        "inspect": "What is in a log: segments, batches, codecs, header share, offsets, times.",
        "dump": "The records themselves, as text or JSON lines, headers and all.",
        "report": "A log on one HTML page: sizes, headers, codecs, times, producers, v3, defects.",
        "savings": "What the v3 proposal would save on a log, by topic, before and after compression.",
        "chargeback": "Who uses how much: records and bytes by headers and topic.",
        "trail": "The routes of records across clusters: hops, latencies, loops, as a table or a graph.",
    },
    "To prove": {
        "verify": "The strict pass: every defect by kind and place, and whether the log is sound.",
        "diff": "Whether two logs hold the same records, whatever their batches, codecs and formats.",
    },
    "To write, always into another place": {
        "convert": "A log in another format: v0 to v3 and the drafts of KIP-82 and KIP-87.",
        "clean": "The log cleaner: of each key the latest record, as a broker keeps it.",
        "retain": "What retention by time, size or headers (a time to live, a legal hold) keeps.",
        "redact": "A log without the values of chosen keys, every offset as it was.",
        "recover": "A clean copy of what is readable in a damaged log, and what is missing from it.",
        "land": "Logs into Parquet files or a Delta table, by topic and day; run again, what is new.",
    },
    "Besides": {
        "kafka-dump-log": "Kafka's own tool, its options and its lines, without Kafka.",
        "completion": "What bash, zsh or fish need to complete commands, options and files.",
    },
}
COMMANDS = {name: line for section in SECTIONS.values() for name, line in section.items()}


class PipeClosed(Exception):
    """The reader of our pipe (head, less) has enough."""


class LazyGroup(click.Group):
    """A group that knows its commands by name and imports one only to run it or to show its help."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"magicbyte.cli.{name.replace('-', '_')}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            from difflib import get_close_matches

            like = get_close_matches(name, COMMANDS, n=2)
            raise click.UsageError(
                f"no command {name!r}" + (f": did you mean {' or '.join(like)}?" if like else ""), ctx
            )
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            status = super().invoke(ctx)
            sys.stdout.flush()
            return status
        except BrokenPipeError:
            # Told in our own way, before click ends the process in its own.
            raise PipeClosed from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, COMMANDS))
        for title, commands in SECTIONS.items():
            with formatter.section(title):
                # One width of names, so that the lines stand below each other.
                formatter.write_dl([(name.ljust(width), line) for name, line in commands.items()])


def _version(ctx: click.Context, _param: click.Parameter, asked: bool) -> None:
    if asked:
        from magicbyte import __version__

        click.echo(f"magicbyte {__version__}")
        ctx.exit()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Show the version.")
def cli() -> None:
    """Kafka records as bytes: looks into segment files, without a broker.

    PATH is a segment file, a partition directory (orders-0), a directory of those, a glob of any, or - for bytes on
    standard input.

    \b
    Examples:
      magicbyte inspect /kafka-logs                            what is there
      magicbyte dump orders-0 --header trace-id=abc --json     records that carry a header
      magicbyte verify backup/orders-0                         is it sound, and where is it not
      magicbyte convert orders-0 new/orders-0 --to v2 --codec zstd

    Exit status: 0 fine, 1 the data has defects, 2 wrong usage or a file that cannot be read, 3 nothing to read.
    """


def main(args: Sequence[str] | None = None) -> int:
    """Runs the command line and returns its exit status; no exception leaves it for anything that a user can cause."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a letter gets an escape, never a traceback.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        status = cli.main(args=args, prog_name="magicbyte", standalone_mode=False)
    except click.Abort:
        return problems.INTERRUPTED
    except click.ClickException as error:
        problems.usage(error)
        return problems.USAGE
    except PipeClosed:
        # Nothing is left to say, also not when Python flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return problems.PIPE_CLOSED
    except ModuleNotFoundError as error:
        # An extra that is not installed is told by its name; any other module that is missing is a fault of ours.
        what, _, remedy = str(error).rpartition("; ")
        if not remedy.startswith("pip install"):
            raise
        problems.complain(what, remedy)
        return problems.USAGE
    except OSError as error:
        problems.unreadable(error)
        return problems.USAGE
    except NotImplementedError as error:
        problems.complain(f"not built yet: {error}")
        return problems.USAGE
    return status if isinstance(status, int) else problems.FINE
