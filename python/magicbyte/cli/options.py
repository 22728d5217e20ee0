"""The options that commands share, and what they select: sources, parts of them, and a reader over those."""

from __future__ import annotations

import glob
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.exceptions import Exit

from magicbyte import _conditions
from magicbyte._names import FORMATS as FORMATS
from magicbyte.cli.problems import DEFECTS, NOTHING, complain, damage
from magicbyte.errors import CorruptRecordError
from magicbyte.replicas import RULES

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from magicbyte._conditions import Condition
    from magicbyte._core import Part, Reader
    from magicbyte.log import Log

    IntType = click.ParamType[int]
else:
    IntType = click.ParamType  # no generic before click 8.4

F = TypeVar("F", bound=Callable[..., Any])

MODES = ("FAILFAST", "DROPMALFORMED", "PERMISSIVE")
ISOLATIONS = ("read_uncommitted", "read_committed")

SPOOL = 64 << 20  # bytes of standard input that are kept in memory; more goes to a temporary file


_AGO = re.compile(r"-(\d{1,9})([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


class Moment(IntType):
    """A point in time: milliseconds since 1970, ISO 8601 (UTC unless it names an offset), or so long ago (-90m). Gives
    milliseconds."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        if ago := _AGO.fullmatch(value):
            return int((time.time() - int(ago[1]) * _SECONDS[ago[2]]) * 1000)
        try:
            return int(value)
        except ValueError:
            pass
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            self.fail(
                f"{value!r} is neither ISO 8601 (2026-01-31T12:00:00Z), nor milliseconds since 1970, nor so long ago "
                "(-90s, -15m, -2h, -3d)", param, ctx,
            )  # fmt: skip
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return round(moment.timestamp() * 1000)


def as_bytes(text: str) -> bytes:
    """Bytes as `dump` shows them: ``base64:…``, ``hex:…``, else the text's own UTF-8 (``text:…`` says so by name)."""
    try:
        return _conditions.as_bytes(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def _both(*options: Callable[[F], F]) -> Callable[[F], F]:
    def apply(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return apply


def files(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Lets the shell complete a file's name."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


dialect = click.option(
    "--format", type=click.Choice(FORMATS), default="kafka", show_default=True,
    help="How to read magic 2 (kafka: v2), or the one format to accept.",
)  # fmt: skip


def reading(mode: str) -> Callable[[F], F]:
    """PATH… and how to read it; ``mode`` is what the command does at damage unless told otherwise."""
    return _both(
        click.argument("paths", metavar="PATH...", nargs=-1, required=True, shell_complete=files),
        dialect,
        click.option("--mode", type=click.Choice(MODES, case_sensitive=False), default=mode, show_default=True,
                     metavar="|".join(MODES), help="At damage: stop with an error, or go on behind it and tell."),
        click.option("--check-crc/--no-check-crc", default=True, show_default=True, help="Check every checksum."),
    )  # fmt: skip


partitions = _both(
    click.option("--topic", "topics", multiple=True, help="Only this topic; may be repeated."),
    click.option("--partition", "partitions", type=int, multiple=True, help="Only this partition; may be repeated."),
)

ranges = _both(
    click.option("--from-offset", type=int, help="From this offset on."),
    click.option("--to-offset", type=int, help="Up to this offset, without it."),
    click.option(
        "--from-time", type=Moment(), help="From this time on: ISO 8601 (UTC unless it says), ms, or -2h: ago."
    ),
    click.option("--to-time", type=Moment(), help="Up to this time, without it."),
)


replicas = click.option(
    "--replicas",
    type=click.Choice(RULES),
    help="Of copies of a partition, and where segments hold the same offsets, read one: lineage, the one that the leader "
    "epochs of the checkpoint prove right (also the default, where the checkpoint is there); the longest; or the first.",
)


@dataclass(frozen=True)
class Source:
    """One PATH: its log, and the name that it goes by in what we print."""

    name: str
    log: Log
    path: str | None = None  # where standard input was spooled to

    def show(self, path: str | None) -> str:
        """The name to print for a path that the reader gave us."""
        return self.name if path is None or path == self.path else str(path)


@dataclass(frozen=True)
class Selection:
    """What of the sources is to be read, and how."""

    format: str = "kafka"
    mode: str = "FAILFAST"
    check_crc: bool = True
    isolation: str = "read_uncommitted"
    past_lso: bool = False
    control: bool = False
    partitions: tuple[int, ...] = ()
    topics: tuple[str, ...] = ()
    from_offset: int | None = None
    to_offset: int | None = None
    from_time: int | None = None
    to_time: int | None = None
    headers: tuple[Condition, ...] = ()

    @property
    def times(self) -> tuple[int | None, int | None] | None:
        """The half-open range of timestamps, or None for all."""
        return _range(self.from_time, self.to_time)

    def parts(self, source: Source) -> list[Part]:
        """The parts of a source that may hold something of this selection, in order."""
        offsets = _range(self.from_offset, self.to_offset)
        found = source.log.parts(offsets=offsets, timestamps=self.times)
        return [
            part
            for part in found
            if (not self.partitions or part.partition in self.partitions)
            and (not self.topics or part.topic in self.topics)
        ]

    def reader(self, parts: Sequence[Part], *, check_crc: bool | None = None) -> Reader:
        """A reader over parts, by these options."""
        from magicbyte._core import Reader

        return Reader(
            parts,
            format=self.format,
            check_crc=self.check_crc if check_crc is None else check_crc,
            mode=self.mode,
            isolation=self.isolation,
            past_lso=self.past_lso,
            control=self.control,
            timestamps=self.times,
            headers=self.headers or None,
        )


@dataclass(frozen=True)
class Sources:
    """What the PATHs came to: the logs, and what is no log, each with the reason."""

    logs: list[Source]
    no_logs: list[tuple[str, str]]

    @property
    def left_out(self) -> list[tuple[str, str]]:
        """All files that are not read, and why."""
        beside = [(str(path), reason) for source in self.logs for path, reason in source.log.left_out]
        return [*self.no_logs, *beside]

    def the_one(self) -> Source | None:
        """The log, for a command that is for one; None where there is none to read, and `nothing` tells of that.

        Raises ``click.UsageError`` where a glob led to several: the first would pass for all of them.
        """
        if len(self.logs) > 1:
            names = ", ".join(source.name for source in self.logs[:3]) + (", …" if len(self.logs) > 3 else "")
            raise click.UsageError(
                f"this takes one log, and got {len(self.logs)} ({names}): name the directory that holds them, or call it for each"
            )
        return self.logs[0] if self.logs and self.logs[0].log.segments else None

    def nothing(self, what: str) -> int:
        """Tells that there is nothing to read, and gives the exit status for it."""
        for path, reason in self.no_logs:
            complain(f"{path}: {reason}")
        if self.logs:
            left_out = len(self.left_out) - len(self.no_logs)
            hint = f"{left_out} files were left out: magicbyte inspect says why" if left_out else None
            complain(f"{', '.join(source.name for source in self.logs)}: {what} to read", hint)
        return NOTHING


@contextmanager
def sources(
    paths: Sequence[str], format: str, replicas: str | None = None, *, each: bool = False, as_stored: bool = False
) -> Iterator[Sources]:
    """Opens every PATH (globs and ``-`` too). Temporary files are gone when it ends.

    ``replicas``: the paths, or with ``each`` what each glob leads to, are copies; of each partition one is opened. Without
    it, copies and segments that overlap are told apart by their lineage, unless they are to be seen ``as_stored``.

    Raises ``OSError`` for what is not there or cannot be read, ``click.UsageError`` where no copy can be chosen.
    """
    from magicbyte.log import Log

    opened = Sources([], [])
    with ExitStack() as stack:
        if replicas is not None:
            for group in ([path] for path in paths) if each else [paths]:
                found = list(chain.from_iterable(map(expanded, group)))
                try:
                    log = Log(found, format=format, replicas=replicas)
                    if as_stored:
                        log.bounds = {}
                except ValueError as error:
                    raise click.UsageError(in_words(error)) from None
                opened.logs.append(Source(", ".join(group), log))
            yield opened
            return
        for path in chain.from_iterable(map(expanded, paths)):
            try:
                if path == "-":
                    spooled = _standard_input(stack)
                    kept = spooled if isinstance(spooled, str) else None
                    opened.logs.append(Source("-", Log(spooled, format=format), kept))
                else:
                    opened.logs.append(Source(path, Log(path, format=format)))
            except FileNotFoundError as error:
                # A directory without a segment, an index file: there, but no log.
                if not Path(path).exists():
                    raise
                opened.no_logs.append((path, error.strerror or str(error)))
        _settle([source.log for source in opened.logs], each=each, as_stored=as_stored)
        yield opened


@contextmanager
def one_log(source: str, format: str) -> Iterator[Log]:
    """The one log that ``source`` leads to, to be read as a whole.

    The command ends here, with what is said of it, where there is none, where it is damaged, or where an extra is lacking.
    """
    try:
        with sources((source,), format) as opened:
            one = opened.the_one()
            if one is None:
                raise Exit(opened.nothing("no segments"))
            yield one.log
    except ImportError as error:
        raise click.UsageError(str(error)) from None
    except CorruptRecordError as error:
        damage(error.path or source, error, "magicbyte recover makes a sound copy")
        raise Exit(DEFECTS) from None


def _settle(logs: list[Log], *, each: bool, as_stored: bool) -> None:
    """What is read of copies, and of segments that hold the same offsets, where no rule was named."""
    from magicbyte import _together

    if as_stored:
        for log in logs:
            log.bounds = {}
        return
    try:
        for group in ([log] for log in logs) if each else [logs]:
            # Paths that name no partition are what they are: different files.
            _together.chosen([log for log in group if all(it.partition >= 0 for it in log.segments)], None)
            _together.once(group, None)
    except ValueError as error:
        raise click.UsageError(in_words(error)) from None


def in_words(error: ValueError) -> str:
    """A refusal of the library, its arguments as options."""
    return re.sub(r"replicas='(\w+)'", r"--replicas \1", str(error))


def tell_replicas(opened: Sources, write: Callable[[str], object]) -> None:
    """A line a copy: which is read, and where the others differ from it; a line a segment that overlaps another."""
    from magicbyte import _together

    for line in _together.said(source.log for source in opened.logs):
        write(line)


def part_size(part: Part) -> int:
    """Bytes that a part covers, for progress; 0 where that cannot be told."""
    try:
        whole = len(part.source) if isinstance(part.source, bytes) else Path(part.source).stat().st_size
    except OSError:
        return 0
    return max((whole if part.end is None else part.end) - part.start, 0)


def _range(first: int | None, end: int | None) -> tuple[int | None, int | None] | None:
    return (first, end) if first is not None or end is not None else None


def expanded(path: str) -> list[str]:
    """The paths that a glob names; a path that is there, and ``-``, stand for themselves."""
    if path == "-" or Path(path).exists() or not glob.has_magic(path):
        return [path]
    return sorted(glob.glob(path, recursive=True)) or [path]


def _standard_input(stack: ExitStack) -> bytes | str:
    stream = sys.stdin.buffer
    if stream.isatty():
        raise click.UsageError("standard input is a terminal: pipe a segment's bytes into -")
    data = stream.read(SPOOL)
    if len(data) < SPOOL:
        return data
    # More than fits comfortably: a file, so that reading needs no more memory than for any other file.
    spool = tempfile.NamedTemporaryFile(prefix="magicbyte-", suffix=".log")  # noqa: SIM115 (the stack closes it)
    stack.enter_context(spool)
    while data:
        spool.write(data)
        data = stream.read(1 << 20)
    spool.flush()
    return spool.name
