"""`magicbyte dump`: the records, one a line, as text or JSON."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from magicbyte._conditions import Condition, conditions
from magicbyte.cli import narrow, problems
from magicbyte.cli.options import (
    ISOLATIONS,
    Selection,
    Source,
    Sources,
    as_bytes,
    part_size,
    partitions,
    ranges,
    reading,
    replicas,
    sources,
    tell_replicas,
)
from magicbyte.cli.output import to_json
from magicbyte.cli.progress import Progress
from magicbyte.cli.shown import json_line, messages, text_line
from magicbyte.errors import CorruptRecordError, MagicbyteError

if TYPE_CHECKING:
    from magicbyte._core import ConsumerRecord, Part

GROUPS = ("offsets", "transactions", "shares", "metadata", "remote")

HELP = """The records of a log, one a line: text, or JSON lines with --json.

\b
Text:  orders-0@5 2026-01-31T12:00:00.000Z CreateTime epoch=0 key="k" value="v" headers=[a="1" b=null c=""]
JSON:  {"topic": "orders", "partition": 0, "offset": 5, "timestamp": "2026-01-31T12:00:00.000Z",
        "timestampMs": 1769860800000, "timestampType": "CreateTime", "leaderEpoch": 0, "key": "k",
        "value": "v", "headers": [{"key": "a", "value": "1"}, {"key": "b", "value": null}]}

Bytes are shown as text where they are UTF-8, with escapes for what cannot be printed. Other bytes are base64:… (or
hex:…) in text and {"base64": "…"} in JSON; null is null, empty is "". Nothing is lost either way. --key and --header
take base64:… and hex:… too, and text:… for a text that begins like that. A batch in which the --header's value does not
occur is passed over once its checksum was compared.

--decode-headers reads the headers of known conventions (traces, dead letters, schema ids, CloudEvents and others), in
whichever encoding they came: offset=5(int64) in text, with the encoding where it is not plain text, and what breaks the
convention behind an exclamation mark; in JSON, "decoded" stands beside the header's own value.

--decode shows what Kafka keeps in its own topics (__consumer_offsets, __transaction_state, __share_group_state,
__cluster_metadata, __remote_log_metadata). --follow goes on at the end: it shows what is appended, in new segments too,
until it is interrupted.

\b
Examples:
  magicbyte dump orders-0 --last 10
  magicbyte dump orders-0 --from-offset 1000 -n 20
  magicbyte dump logs/ --topic orders --header trace-id=abc --json | jq .value
  magicbyte dump 'logs/orders-*' --from-time 2026-01-31 --to-time 2026-02-01 --count
  magicbyte dump --decode-headers orders-dlt-0
  magicbyte dump --decode __consumer_offsets-12 --json | jq -c '[.decoded.key, .decoded.value.offset]'
  magicbyte dump logs/ --from-time -2h --json
  magicbyte dump -f --last 10 /kafka-logs/orders-0
  magicbyte dump - < 00000000000000000000.log

After damage, what could be read stands on standard output, the file and byte position on standard error, and the
exit status is 1. --mode DROPMALFORMED goes on behind it.
"""


@click.command("dump", help=HELP)
@reading(mode="FAILFAST")
@partitions
@ranges
@click.option("--key", "keys", multiple=True, help="Only records with this key (one of these, if repeated).")
@click.option(
    "--header",
    "headers",
    metavar="KEY[=VALUE]",
    multiple=True,
    help="Only records with this header; !KEY, KEY!=VALUE: without it. All of these, if repeated.",
)
@click.option("-n", "--max", "most", type=click.IntRange(min=0), help="At most so many records.")
@click.option("--last", type=click.IntRange(min=0), help="Only the last so many of each partition.")
@click.option("--count", is_flag=True, help="Only say how many records there are.")
@click.option("--control", is_flag=True, help="Control records too, decoded.")
@click.option(
    "--isolation",
    type=click.Choice(ISOLATIONS),
    default=ISOLATIONS[0],
    show_default=True,
    help="read_committed leaves out what transactions aborted, and ends at the first one whose end is not there.",
)
@click.option(
    "--past-lso", is_flag=True, help="With read_committed: go on, and leave only transactions without an end out."
)
@click.option(
    "--binary",
    type=click.Choice(["base64", "hex"]),
    default="base64",
    show_default=True,
    help="How text output shows bytes that are not UTF-8.",
)
@click.option("--decode-headers", "decoding", is_flag=True, help="Headers of known conventions as what they say.")
@click.option("--decode", is_flag=True, help="Messages of Kafka's own topics, decoded.")
@click.option(
    "--decode-as", type=click.Choice(GROUPS), help="Decode whatever the topic is called: what a lone file holds."
)
@click.option("-f", "--follow", is_flag=True, help="Go on: show what is appended, until interrupted.")
@replicas
@click.option("--json", "as_json", is_flag=True, help="JSON lines.")  # fmt: skip
def command(
    paths: tuple[str, ...],
    replicas: str | None,
    keys: tuple[str, ...],
    headers: tuple[str, ...],
    most: int | None,
    last: int | None,
    count: bool,
    binary: str,
    decoding: bool,
    decode: bool,
    decode_as: str | None,
    follow: bool,
    as_json: bool,
    **selected: Any,
) -> int:
    selection = Selection(headers=_conditions_of(headers), **selected)
    any_key = frozenset(map(as_bytes, keys))
    wanted = (lambda record: record.key in any_key) if keys else None
    decoder = messages(decode_as) if decode or decode_as else None
    show = json_line(decoder, decoding) if as_json else text_line(binary, sys.stdout, decoder, decoding)
    if count and last is not None:
        raise click.UsageError("--count counts them all: leave --last out")
    if follow:
        _may_follow(paths, selection, count)
    with sources(paths, selection.format, replicas) as opened:
        tell_replicas(opened, lambda line: problems.complain(line, level="note"))
        if follow:
            if any(source.log.replicas or source.log.bounds for source in opened.logs):
                raise click.UsageError("--follow goes along with one log: these are copies of a partition, or overlap")
            return _follow(opened, selection, wanted, most, last, show)
        dump = Dump(opened, selection, wanted)
        if count:
            total = dump.count(most)
            sys.stdout.write(to_json({"records": total}) + "\n" if as_json else f"{total}\n")
        else:
            shown = 0
            for shown, record in enumerate(islice(dump.records(last=last), most), 1):  # noqa: B007
                sys.stdout.write(show(record, selection.control) + "\n")
            if not shown and 0 not in (most, last) and not dump.defects and (wanted or dump.narrowed()):
                problems.complain(narrow.why_nothing(opened, selection), level="note")
    return dump.status(asked=0 not in (most, last))


class Dump:
    """Walks the parts of all sources, tells of what is damaged, and keeps the exit status."""

    def __init__(self, opened: Sources, selection: Selection, wanted: Callable[[ConsumerRecord], bool] | None) -> None:
        self.selection = selection
        self.wanted = wanted
        self.opened = opened
        self.parts = [(source, part) for source in opened.logs for part in selection.parts(source)]
        self.defects = 0
        self.seen = 0  # records read, whether or not a filter let them through

    def records(self, quiet: bool | None = None, last: int | None = None) -> Iterator[ConsumerRecord]:
        """The records that are wanted, all or the last of each partition; ends at damage in FAILFAST."""
        sizes = {id(part): part_size(part) for _, part in self.parts}
        # Lines on the terminal are progress enough.
        with Progress(sum(sizes.values()), quiet=sys.stdout.isatty() if quiet is None else quiet) as progress:

            def read(source: Source, part: Part) -> Iterator[ConsumerRecord]:
                if not (self.defects and self.selection.mode == "FAILFAST"):
                    yield from self._of_part(source, part)
                    progress.to(progress.done + sizes[id(part)])

            if last is not None:
                yield from narrow.last_of_each(self.parts, last, read)
                return
            for source, part in self.parts:
                yield from read(source, part)

    def _of_part(self, source: Source, part: Part) -> Iterator[ConsumerRecord]:
        reader = self.selection.reader([part])
        wanted = self.wanted
        told = None
        try:
            for record in reader.records():
                self.seen += 1
                if wanted is None or wanted(record):
                    yield record
        except MagicbyteError as error:
            self._stopped(source, error)
            told = getattr(error, "position", None)
        for path, position, kind, _size, message in reader.findings:
            if position != told:
                self._passed(source, path, position, kind, message)

    def count(self, most: int | None) -> int:
        """How many records are wanted, without making them where nothing asks for that."""
        if self.wanted is None and most is None:
            total = self._quick_count()
            if total is not None:
                self.seen = total
                return total
        return sum(1 for _ in islice(self.records(quiet=False), most))

    def _quick_count(self) -> int | None:
        # Records are not made. At damage: None, for the slow count tells of it, and of how far it came.
        total = 0
        found = []
        for source, part in self.parts:
            reader = self.selection.reader([part])
            try:
                total += reader.scan(["offset"]).count()
            except MagicbyteError:
                return None
            found += [(source, finding) for finding in reader.findings]
        if any(finding[2] not in problems.TAILS for _, finding in found):
            return None
        for source, (path, position, kind, _size, message) in found:
            self._passed(source, path, position, kind, message)
        return total

    def _stopped(self, source: Source, error: MagicbyteError) -> None:
        self.defects += 1
        hint = None
        if self.selection.mode == "FAILFAST" and isinstance(error, CorruptRecordError):
            hint = "the reading stopped here; --mode DROPMALFORMED goes on behind the damage"
            if error.kind == "magic" and error.position == 0:
                hint = "is this a Kafka log segment? --format names the formats that share a magic"
        problems.damage(source.show(getattr(error, "path", None)), error, hint)

    def _passed(self, source: Source, path: str | None, position: int, kind: str, message: str) -> None:
        tail = kind in problems.TAILS
        self.defects += not tail
        # A preallocated end is how a broker leaves an open segment: nothing to warn of.
        if kind != "zero_tail":
            where = problems.located(source.show(path), position, message)
            problems.complain(where, level="note" if tail else "warning")

    def status(self, asked: bool) -> int:
        """The exit status, with a word if there was nothing at all."""
        if self.defects:
            return problems.DEFECTS
        if self.seen or not asked or self.narrowed():
            return problems.FINE
        return self.opened.nothing("no records" if self.parts else "no segments")

    def narrowed(self) -> bool:
        """Whether a part of a log was asked for: an empty answer to that is an answer."""
        s = self.selection
        return any(source.log.segments for source in self.opened.logs) and (
            bool(s.partitions or s.topics or s.times or s.headers)
            or s.from_offset is not None
            or s.to_offset is not None
        )


def _conditions_of(headers: tuple[str, ...]) -> tuple[Condition, ...]:
    try:
        return tuple(conditions(headers))
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--header") from None


def _may_follow(paths: tuple[str, ...], selection: Selection, count: bool) -> None:
    if "-" in paths:
        raise click.UsageError("--follow looks at files: standard input ends where it ends")
    if count:
        raise click.UsageError("--follow never comes to a count: leave one of the two out")
    if selection.isolation != "read_uncommitted":
        raise click.UsageError("--follow shows records as they are appended: what a later marker says is not known yet")


def _follow(
    opened: Sources,
    selection: Selection,
    wanted: Callable[[ConsumerRecord], bool] | None,
    most: int | None,
    last: int | None,
    show: Callable[[ConsumerRecord, bool], str],
) -> int:
    from magicbyte.cli.follow import Follow

    follow = Follow(opened, selection, sys.stdout.flush, wanted, last)
    records = follow.records()
    for record in islice(records, most):
        sys.stdout.write(show(record, selection.control) + "\n")
    return problems.DEFECTS if follow.defects else problems.FINE
