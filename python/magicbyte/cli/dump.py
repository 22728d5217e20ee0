"""`magicbyte dump`: the records, one a line, as text or JSON."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from magicbyte.cli import problems
from magicbyte.cli.control import control_json, control_text, decode_control
from magicbyte.cli.conventions import decoded_json, decoded_text
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
    sources,
)
from magicbyte.cli.output import (
    TIMESTAMP_TYPES,
    colourful,
    escape,
    iso,
    json_bytes,
    place,
    show_bytes,
    show_name,
    show_time,
    to_json,
)
from magicbyte.cli.progress import Progress
from magicbyte.errors import CorruptRecordError, MagicbyteError

if TYPE_CHECKING:
    from magicbyte._core import ConsumerRecord, Part

HELP = """The records of a log, one a line: text, or JSON lines with --json.

\b
Text:  orders-0@5 2026-01-31T12:00:00.000Z CreateTime epoch=0 key="k" value="v" headers=[a="1" b=null c=""]
JSON:  {"topic": "orders", "partition": 0, "offset": 5, "timestamp": "2026-01-31T12:00:00.000Z",
        "timestampMs": 1769860800000, "timestampType": "CreateTime", "leaderEpoch": 0, "key": "k",
        "value": "v", "headers": [{"key": "a", "value": "1"}, {"key": "b", "value": null}]}

Bytes are shown as text where they are UTF-8, with escapes for what cannot be printed. Other bytes are base64:… (or
hex:…) in text and {"base64": "…"} in JSON; null is null, empty is "". Nothing is lost either way. --key and --header
take base64:… and hex:… too, and text:… for a text that begins like that.

--decode-headers reads the headers of known conventions (traces, dead letters, schema ids, CloudEvents and others), in
whichever encoding they came: offset=5(int64) in text, with the encoding where it is not plain text, and what breaks the
convention behind an exclamation mark; in JSON, "decoded" stands beside the header's own value.

\b
Examples:
  magicbyte dump orders-0 --from-offset 1000 -n 20
  magicbyte dump logs/ --topic orders --header trace-id=abc --json | jq .value
  magicbyte dump 'logs/orders-*' --from-time 2026-01-31 --to-time 2026-02-01 --count
  magicbyte dump --control __transaction_state-3
  magicbyte dump --decode-headers orders-dlt-0
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
    help="Only records with this header (all of these, if repeated).",
)
@click.option("-n", "--max", "most", type=click.IntRange(min=0), help="At most so many records.")
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
@click.option("--json", "as_json", is_flag=True, help="JSON lines.")  # fmt: skip
def command(
    paths: tuple[str, ...],
    keys: tuple[str, ...],
    headers: tuple[str, ...],
    most: int | None,
    count: bool,
    binary: str,
    decoding: bool,
    as_json: bool,
    **selected: Any,
) -> int:
    selection = Selection(**selected)
    wanted = _filter(keys, headers)
    with sources(paths, selection.format) as opened:
        dump = Dump(opened, selection, wanted)
        if count:
            total = dump.count(most)
            sys.stdout.write(to_json({"records": total}) + "\n" if as_json else f"{total}\n")
        else:
            show = json_line(decoding) if as_json else text_line(binary, sys.stdout, decoding)
            write = sys.stdout.write
            for record in islice(dump.records(), most):
                write(show(record, selection.control) + "\n")
    return dump.status(asked=most != 0)


class Dump:
    """Walks the parts of all sources, tells of what is damaged, and keeps the exit status."""

    def __init__(self, opened: Sources, selection: Selection, wanted: Callable[[ConsumerRecord], bool] | None) -> None:
        self.selection = selection
        self.wanted = wanted
        self.opened = opened
        self.parts = [(source, part) for source in opened.logs for part in selection.parts(source)]
        self.defects = 0
        self.seen = 0  # records read, whether or not a filter let them through

    def records(self, quiet: bool | None = None) -> Iterator[ConsumerRecord]:
        """All records that are wanted; ends at damage in FAILFAST."""
        sizes = [part_size(part) for _, part in self.parts]
        done = 0
        # Lines on the terminal are progress enough.
        with Progress(sum(sizes), quiet=sys.stdout.isatty() if quiet is None else quiet) as progress:
            for (source, part), size in zip(self.parts, sizes, strict=True):
                progress.to(done)
                yield from self._of_part(source, part)
                if self.defects and self.selection.mode == "FAILFAST":
                    return
                done += size

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
        if self.seen or not asked or self._narrowed():
            return problems.FINE
        return self.opened.nothing("no records" if self.parts else "no segments")

    def _narrowed(self) -> bool:
        # An empty answer to a question about a part of the log is an answer.
        s = self.selection
        return any(source.log.segments for source in self.opened.logs) and (
            bool(s.partitions or s.topics or s.times) or s.from_offset is not None or s.to_offset is not None
        )


def _filter(keys: tuple[str, ...], headers: tuple[str, ...]) -> Callable[[ConsumerRecord], bool] | None:
    if not keys and not headers:
        return None
    any_key = frozenset(map(as_bytes, keys))
    pairs = []
    for header in headers:
        name, given, value = header.partition("=")
        pairs.append((name, as_bytes(value) if given else None))

    def wanted(record: ConsumerRecord) -> bool:
        if any_key and record.key not in any_key:
            return False
        if not pairs:
            return True
        there = [(header.key, header.value) for header in record.headers]
        return all(any(k == name and (value is None or v == value) for k, v in there) for name, value in pairs)

    return wanted


def _has_epoch(record: ConsumerRecord) -> bool:
    # Stored as -1 where no leader set it, and in message sets not at all.
    return record.leader_epoch is not None and record.leader_epoch >= 0


def json_line(decoding: bool = False) -> Callable[[ConsumerRecord, bool], str]:
    """What shows a record as one line of JSON; the names are those of the columns of `scan`."""
    show_header = decoded_json if decoding else _header_json

    def line(record: ConsumerRecord, control: bool) -> str:
        fields: dict[str, Any] = {
            "topic": record.topic,
            "partition": record.partition,
            "offset": record.offset,
            "timestamp": iso(record.timestamp),
            "timestampMs": record.timestamp,
            "timestampType": TIMESTAMP_TYPES.get(record.timestamp_type),
            "leaderEpoch": record.leader_epoch if _has_epoch(record) else None,
            "key": json_bytes(record.key),
            "value": json_bytes(record.value),
            "headers": [show_header(header.key, header.value) for header in record.headers],
        }
        if control:
            fields["control"] = control_json(decode_control(record.key, record.value)) if record.control else None
        return to_json(fields)

    return line


def _header_json(key: str, value: bytes | None) -> dict[str, Any]:
    return {"key": key, "value": json_bytes(value)}


def _header_text(key: str, value: bytes | None, binary: str) -> str:
    return show_bytes(value, binary)


def text_line(binary: str, stream: Any, decoding: bool = False) -> Callable[[ConsumerRecord, bool], str]:
    """What shows a record as one line of text for that stream, in colours if it takes them."""
    label = (lambda name: f"\x1b[36m{name}\x1b[0m") if colourful(stream) else str
    show_header = decoded_text if decoding else _header_text
    key_label, value_label, headers_label = label("key"), label("value"), label("headers")

    def line(record: ConsumerRecord, control: bool) -> str:
        words = [f"{escape(place(record.topic, record.partition))}@{record.offset}", show_time(record.timestamp)]
        if record.timestamp_type >= 0:
            words.append(TIMESTAMP_TYPES.get(record.timestamp_type, "?"))
        if _has_epoch(record):
            words.append(f"epoch={record.leader_epoch}")
        if control and record.control:
            words.append(control_text(decode_control(record.key, record.value), binary))
        else:
            words.append(f"{key_label}={show_bytes(record.key, binary)}")
            words.append(f"{value_label}={show_bytes(record.value, binary)}")
        shown = " ".join(
            f"{show_name(header.key)}={show_header(header.key, header.value, binary)}" for header in record.headers
        )
        if shown:
            words.append(f"{headers_label}=[{shown}]")
        return " ".join(words)

    return line
