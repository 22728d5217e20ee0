"""Exit statuses, and errors told so that one knows the file, the byte and what to do next."""

from __future__ import annotations

import errno
import sys

import click

from magicbyte.cli import progress
from magicbyte.cli.output import escape, painted
from magicbyte.errors import MagicbyteError

FINE, DEFECTS, USAGE, NOTHING = 0, 1, 2, 3
INTERRUPTED, PIPE_CLOSED = 130, 141  # as a shell names an end by SIGINT and by SIGPIPE

#: What a segment that a broker still writes, or that it preallocated, may well end in: told, but no defect.
TAILS = frozenset({"torn_tail", "zero_tail", "unknown_transaction"})


#: What to do about what the system says.
HINTS = {
    errno.ENOENT: "nothing stands there: is the path right, from where you are? a glob stands in quotes",
    errno.EACCES: "a broker's files belong to its user: run it as that user, or on a copy",
    errno.ENOSPC: "what was there before is untouched; make room, or name another place",
    errno.EEXIST: "nothing is written over: name a place that is not there yet",
}


def complain(message: str, hint: str | None = None, level: str = "error") -> None:
    """Writes one ``magicbyte: <level>: …`` to standard error, after all that standard output has got so far."""
    sys.stdout.flush()
    progress.clear()
    colour = {"error": "red", "warning": "yellow"}.get(level, "cyan")
    sys.stderr.write(f"magicbyte: {painted(level + ':', colour, sys.stderr)} {escape(message)}\n")
    if hint:
        sys.stderr.write(f"  {escape(hint)}\n")
    sys.stderr.flush()


def located(name: str, position: int, message: str) -> str:
    """``FILE: at byte N: what``, whether or not the message says the place itself."""
    place = f"at byte {position}: "
    _, found, rest = message.partition(place)
    return f"{name}: {place}{rest if found else message}"


def damage(name: str, error: MagicbyteError | ValueError, hint: str | None = None) -> None:
    """Tells of bytes that are not what they should be."""
    position = getattr(error, "position", None)
    message = str(error)
    complain(message if position is None else located(name, position, message), hint)


def unreadable(error: OSError) -> None:
    """Tells of a file that the system does not give us."""
    name = "" if error.filename is None else f"{error.filename!s}: "
    complain(f"{name}{error.strerror or error}", HINTS.get(error.errno or 0))


def usage(error: click.ClickException) -> None:
    """Tells of wrong arguments, with the way to the help."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        sys.stderr.write(error.format_message() + "\n")
        return
    context = getattr(error, "ctx", None)
    hint = f"{context.command_path} --help shows what it takes" if context else None
    # Click lists choices on lines of their own; here all stands on one.
    complain(" ".join(error.format_message().split()), hint)
