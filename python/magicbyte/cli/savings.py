"""`magicbyte savings`: what the v3 proposal would save on a log."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from magicbyte._names import CODECS
from magicbyte.cli import problems
from magicbyte.cli.options import Selection, part_size, partitions, reading, sources
from magicbyte.cli.output import escape, table, to_json
from magicbyte.cli.progress import Progress
from magicbyte.conversion import convert
from magicbyte.errors import CorruptRecordError, MagicbyteError

if TYPE_CHECKING:
    from magicbyte._core import ConvertIterator, Part, RecordBatch

HELP = """What the v3 proposal (KIP-931) would save on a log: by topic, the bytes of v2 against those of v3.

Before compression: how much of it comes from the batch header (varints), from the attributes byte that each record
loses, and from the rest (record lengths that take a byte less). After compression: with each batch's own codec, and with
every --codec; both sides are compressed by this program at Kafka's default level, so that the formats alone make the
difference. Entries of v0 and v1 are counted and left out.

\b
Examples:
  magicbyte savings logs/
  magicbyte savings logs/ --codec gzip --codec zstd --json

Exit status: 0 measured, 1 the log has defects, 2 wrong usage or a file that cannot be read, 3 nothing to measure.
"""

V2_HEADER = 61  # bytes
OWN = "own"


@dataclass
class Pair:
    """Bytes in v2 and in v3."""

    v2: int = 0
    v3: int = 0

    @property
    def saved(self) -> int:
        return self.v2 - self.v3


@dataclass
class Savings:
    """What was measured of a topic.

    Attributes:
        stored: bytes of its v2 and v3 batches as they are.
        plain: without compression; headers: of that, the batch headers; attributes: the attributes bytes of v2's
            records that v3 leaves out.
        compressed: by codec, ``own`` for each batch's own.
        other: entries of v0 and v1, which are left out.
    """

    batches: int = 0
    records: int = 0
    stored: int = 0
    other: int = 0
    plain: Pair = field(default_factory=Pair)
    headers: Pair = field(default_factory=Pair)
    attributes: int = 0
    compressed: dict[str, Pair] = field(default_factory=dict)
    codecs: set[str] = field(default_factory=set)

    @property
    def rest(self) -> int:
        return self.plain.saved - self.headers.saved - self.attributes

    def add(self, other: Savings) -> None:
        """Takes another topic's figures in."""
        self.batches += other.batches
        self.records += other.records
        self.stored += other.stored
        self.other += other.other
        self.attributes += other.attributes
        self.codecs |= other.codecs
        pairs = [(self.plain, other.plain), (self.headers, other.headers)]
        pairs += [(self.compressed.setdefault(codec, Pair()), pair) for codec, pair in other.compressed.items()]
        for mine, theirs in pairs:
            mine.v2 += theirs.v2
            mine.v3 += theirs.v3


@click.command("savings", help=HELP)
@reading(mode="DROPMALFORMED")
@partitions
@click.option(
    "--codec",
    "codecs",
    multiple=True,
    type=click.Choice((*CODECS, "all")),
    help="Also with this codec; may be repeated.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")  # fmt: skip
def command(paths: tuple[str, ...], codecs: tuple[str, ...], as_json: bool, **selected: Any) -> int:
    selection = Selection(control=True, **selected)
    wanted = CODECS if "all" in codecs else tuple(dict.fromkeys(codecs))
    topics: dict[str, Savings] = {}
    findings: list[tuple[str, int, str, str]] = []
    with sources(paths, selection.format, as_stored=True) as opened:
        parts = [(source, part) for source in opened.logs for part in selection.parts(source)]
        passes = len(wanted) + 2
        with Progress(sum(part_size(part) for _, part in parts) * passes) as progress:
            done = 0
            for source, part in parts:
                measure = Measure(
                    part, selection, (OWN, *wanted), topics.setdefault(part.topic or source.name, Savings())
                )
                measure.run(findings, _behind(progress, done))
                done += part_size(part) * passes
                progress.to(done)
        for path, position, kind, message in findings:
            level = "note" if kind in problems.TAILS else "error"
            problems.complain(problems.located(path, position, message), level=level)
        total = Savings()
        for savings in topics.values():
            total.add(savings)
        if not total.batches:
            return opened.nothing("no batches of v2 or v3" if parts else "no segments")
        for line in [to_json(document(topics, total))] if as_json else report(topics, total):
            sys.stdout.write(line + "\n")
    return problems.DEFECTS if any(f[2] not in problems.TAILS for f in findings) else problems.FINE


def _behind(progress: Progress, before: int) -> Callable[[int], None]:
    return lambda done: progress.to(before + done)


@dataclass
class Measure:
    """Measures one segment."""

    part: Part
    selection: Selection
    codecs: tuple[str, ...]
    savings: Savings
    done: int = 0

    def run(self, findings: list[tuple[str, int, str, str]], advance: Callable[[int], None]) -> None:
        """Adds what the segment would save; damage goes to the findings. ``advance`` is told the bytes read so far."""
        reader = self.selection.reader([self.part])
        try:
            for start, end in _stretches(reader.batches(), self.savings):
                self._plain(start, end, advance)
                for codec in self.codecs:
                    self._compressed(start, end, codec, advance)
        except CorruptRecordError as error:
            findings.append((_path(self.part), error.position, error.kind, str(error)))
        except MagicbyteError as error:
            findings.append((_path(self.part), 0, "codec", str(error)))
        findings += [(path or _path(self.part), at, kind, message) for path, at, kind, _, message in reader.findings]

    def _pieces(self, start: int, end: int, codec: str | None, advance: Callable[[int], None]) -> Iterator[bytes]:
        """The bytes from ``start`` to ``end`` in v3; each piece holds whole batches."""
        part = self.part
        stretch = type(part)(part.source, part.topic, part.partition, start, end)
        pieces = _converted(stretch, "v3", codec, self.selection.mode)
        for piece in pieces:
            yield piece
            advance(self.done + pieces.position)
        self.done += end - start

    def _plain(self, start: int, end: int, advance: Callable[[int], None]) -> None:
        from magicbyte.raw import decode_batches

        savings = self.savings
        for piece in self._pieces(start, end, "none", advance):
            savings.plain.v3 += len(piece)
            savings.plain.v2 += len(convert(piece, "v2", check_crc=False).data)
            for batch in decode_batches(piece, check_crc=False):
                savings.headers.v2 += V2_HEADER
                savings.headers.v3 += v3_header(batch)
                savings.attributes += (batch.count or 0) if batch.ignore_message_attributes else 0

    def _compressed(self, start: int, end: int, name: str, advance: Callable[[int], None]) -> None:
        pair = self.savings.compressed.setdefault(name, Pair())
        codec = None if name == OWN else name
        for piece in self._pieces(start, end, codec, advance):
            # What was v3 already was copied; behind the second turn both sides have been compressed here.
            v2 = convert(piece, "v2", codec=codec, check_crc=False).data
            pair.v2 += len(v2)
            pair.v3 += len(convert(v2, "v3", codec=codec, check_crc=False).data)


def _converted(part: Part, to: str, codec: str | None, mode: str) -> ConvertIterator:
    from magicbyte import _core

    return _core.ConvertIterator([part], to, codec=codec, check_crc=False, mode=mode)


def _path(part: Part) -> str:
    return "-" if isinstance(part.source, bytes) else str(part.source)


def _stretches(batches: Iterator[RecordBatch], savings: Savings) -> Iterator[tuple[int, int]]:
    """The byte ranges that hold v2 and v3 and nothing else; counts what is in them."""
    start = end = -1
    for batch in batches:
        if batch.format not in ("v2", "v3"):
            savings.other += 1
            continue
        savings.batches += 1
        savings.records += batch.count or 0
        savings.stored += batch.size
        savings.codecs.add(batch.codec or "none")
        if batch.position != end:
            if start >= 0:
                yield start, end
            start = batch.position
        end = batch.position + batch.size
    if start >= 0:
        yield start, end


def v3_header(batch: RecordBatch) -> int:
    """Bytes before the records of a v3 batch."""
    fixed = 8 + 4 + 1 + 4 + 2 + 8 + 2 + 4 + 4
    varints = (batch.last_offset_delta, batch.base_timestamp, batch.max_timestamp - batch.base_timestamp)
    # The length counts itself out, so its own width follows from the size.
    width = next(n for n in range(1, 6) if batch.size - 8 - n < 1 << 7 * n)
    return fixed + width + sum(map(_zigzag_width, varints))


def _zigzag_width(value: int) -> int:
    # As 64 bits wrap.
    value = (value + (1 << 63)) % (1 << 64) - (1 << 63)
    return max(((value << 1) ^ (value >> 63)).bit_length() + 6, 7) // 7


def report(topics: dict[str, Savings], total: Savings) -> Iterator[str]:
    """The tables for people."""
    named = [(escape(name), savings) for name, savings in topics.items() if savings.batches]
    if len(named) > 1:
        named.append(("all", total))
    yield "Before compression, in bytes:"
    header = ("TOPIC", "BATCHES", "RECORDS", "V2", "V3", "SAVED", "%", "HEADERS", "A BATCH", "ATTRIBUTES", "REST")
    rows = [
        (name, f"{s.batches:,}", f"{s.records:,}", *_pair(s.plain), f"{s.headers.saved:,}",
         f"{s.headers.saved / s.batches:.2f}", f"{s.attributes:,}", f"{s.rest:,}")
        for name, s in named
    ]  # fmt: skip
    yield from table(header, rows, frozenset(header[1:]))
    yield ""
    yield "After compression, in bytes:"
    heads = ("TOPIC", "CODEC", "STORED", "V2", "V3", "SAVED", "%", "A BATCH", "A RECORD")
    lines = [
        (name, _codec_name(codec, s), f"{s.stored:,}" if codec == OWN else "", *_pair(pair),
         f"{pair.saved / s.batches:.2f}", f"{pair.saved / s.records:.3f}" if s.records else "-")
        for name, s in named
        for codec, pair in s.compressed.items()
    ]  # fmt: skip
    yield from table(heads, lines, frozenset(heads[2:]))
    if total.other:
        yield ""
        left_out = (
            "1 entry of an older format was" if total.other == 1 else f"{total.other:,} entries of older formats were"
        )
        yield f"{left_out} left out."


def _codec_name(codec: str, savings: Savings) -> str:
    return f"own ({', '.join(sorted(savings.codecs))})" if codec == OWN else codec


def _pair(pair: Pair) -> tuple[str, str, str, str]:
    share = f"{pair.saved / pair.v2:.2%}" if pair.v2 else "-"
    return f"{pair.v2:,}", f"{pair.v3:,}", f"{pair.saved:,}", share


def document(topics: dict[str, Savings], total: Savings) -> dict[str, Any]:
    """The figures for machines."""

    def figures(s: Savings) -> dict[str, Any]:
        return {
            "batches": s.batches,
            "records": s.records,
            "storedBytes": s.stored,
            "codecs": sorted(s.codecs),
            "olderEntries": s.other,
            "uncompressed": {
                "v2": s.plain.v2,
                "v3": s.plain.v3,
                "saved": s.plain.saved,
                "headers": s.headers.saved,
                "attributes": s.attributes,
                "rest": s.rest,
            },
            "compressed": {
                codec: {"v2": pair.v2, "v3": pair.v3, "saved": pair.saved} for codec, pair in s.compressed.items()
            },
        }

    return {"topics": [{"topic": name, **figures(s)} for name, s in topics.items()], "totals": figures(total)}
