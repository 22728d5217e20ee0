"""How `inspect` shows what it gathered: tables for people, documents for machines."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from magicbyte.cli.output import (
    TIMESTAMP_TYPES,
    counted,
    escape,
    human_bytes,
    iso,
    painted,
    place,
    show_name,
    show_time,
    table,
    to_json,
)
from magicbyte.cli.problems import TAILS, located
from magicbyte.cli.survey import UNKNOWN_CODEC, Finding, Span, Survey

if TYPE_CHECKING:
    from magicbyte._core import Part, RecordBatch

HEADER = (
    "SEGMENT",
    "SIZE",
    "BATCHES",
    "RECORDS",
    "OFFSETS",
    "FROM",
    "TO",
    "MAGIC",
    "CODEC",
    "RATIO",
    "HEADERS",
    "NOTES",
)
RIGHT = frozenset({"SIZE", "BATCHES", "RECORDS", "RATIO", "HEADERS"})
BATCH_COLUMNS = (
    ("POSITION", 10), ("SIZE", 8), ("MAGIC", 5), ("CODEC", 6), ("OFFSETS", 21), ("COUNT", 6), ("TIMESTAMPS", 50),
    ("TYPE", 13), ("EPOCH", 5), ("PRODUCER", 16), ("CRC", 14),
)  # fmt: skip
BATCH_HEADER = "  ".join(name.ljust(width) for name, width in BATCH_COLUMNS) + "  FLAGS, FILE"

_CRC_STATES = {True: "ok", False: "BAD", None: "-"}


@dataclass(frozen=True)
class Segment:
    """A segment and its figures."""

    path: str
    topic: str
    partition: int
    survey: Survey


def report(segments: list[Segment], total: Survey, left_out: list[tuple[str, str]], most_keys: int) -> Iterator[str]:
    """The lines of the whole report."""
    if segments:
        header, *lines = table(HEADER, _rows(segments, total), RIGHT)
        yield painted(header, "bold", sys.stdout)
        yield from lines
        yield ""
        yield from _facts(total)
        yield from _header_keys(total, most_keys)
    if left_out:
        yield "Left out:"
        yield from (f"  {escape(path)}: {escape(reason)}" for path, reason in left_out)
    for title, tails in (("Tails", True), ("Damage", False)):
        found = [(s.path, f) for s in segments for f in s.survey.findings if (f.kind in TAILS) == tails]
        if found:
            yield title + ":" if tails else painted(title + ":", "red", sys.stdout)
            yield from (f"  {finding.kind}: {escape(located(path, finding.position, finding.message))}"
                        for path, finding in found)  # fmt: skip


def _rows(segments: list[Segment], total: Survey) -> Iterator[list[str] | str]:
    partitions = 0
    for (topic, partition), group in groupby(segments, key=lambda s: (s.topic, s.partition)):
        partitions += 1
        mine = list(group)
        yield escape(place(topic, partition))
        for segment in mine:
            yield _row("  " + escape(Path(segment.path).name), segment.survey)
        if len(mine) > 1:
            whole = Survey()
            for segment in mine:
                whole.merge(segment.survey)
            yield _row(f"  {len(mine)} segments", whole)
    if partitions > 1:
        yield _row(f"{partitions} partitions", total, offsets=False)


def _row(name: str, s: Survey, offsets: bool = True) -> list[str]:
    codecs = [codec for codec, _ in sorted(s.codecs.items(), key=lambda item: -item[1].batches)]
    payload = sum(codec.payload for codec in s.codecs.values())
    kinds = sorted({finding.kind for finding in s.findings})
    return [
        name,
        human_bytes(s.size),
        f"{s.batches:,}",
        f"{s.records:,}" if s.deep else "-",
        _range(s.first_offset, s.last_offset) if offsets else "-",
        _second(s.first_time),
        _second(s.last_time),
        "+".join(f"v{magic}" for magic in sorted(s.magics)) or "-",
        "+".join(codecs) or "-",
        f"{payload / s.batch_bytes:.2f}" if s.deep and s.batch_bytes else "-",
        _percent(s.header_share),
        ", ".join(kinds),
    ]


def _facts(s: Survey) -> Iterator[str]:
    if s.deep:
        shares = ((s.key_bytes, "keys"), (s.value_bytes, "values"), (s.headers.bytes, "headers"))
        shown = ", ".join(f"{what} {_percent(part / s.payload if s.payload else None)}" for part, what in shares)
        yield f"Payload:     {human_bytes(s.payload)}: {shown}"
    codecs = (
        f"{name} {counted(c.batches, 'batch')}, {human_bytes(c.bytes)}" + (f", ratio {c.ratio:.2f}" if c.ratio else "")
        for name, c in s.codecs.items()
    )
    yield f"Codecs:      {'; '.join(codecs) or '-'}"
    magics = [f"{magic} ({counted(n, 'batch')})" for magic, n in sorted(s.magics.items())]
    types = [f"{name} ({counted(n, 'batch')})" for name, n in s.timestamp_types.items()]
    yield f"Magic:       {', '.join(magics) or '-'}"
    yield f"Timestamps:  {', '.join(types) or '-'}"
    yield f"Producers:   {counted(len(s.producers), 'id')}; {counted(s.transactional, 'transactional batch')}"
    if s.control:
        yield f"Control:     {', '.join(f'{name} {n:,}' for name, n in s.control.items())}"
    if s.empty_batches:
        yield f"Empty:       {counted(s.empty_batches, 'batch')} without a record (compaction)"


def _header_keys(s: Survey, most: int) -> Iterator[str]:
    if not s.header_keys or not most:
        return
    heaviest = sorted(s.header_keys.items(), key=lambda item: -item[1].bytes)
    more = " or more" if s.header_keys_cut else ""
    yield f"Headers:     {s.headers.count:,} under {counted(len(s.header_keys), 'key')}{more}"
    rows = [
        ["  " + show_name(key), f"{w.count:,}", human_bytes(w.bytes), _percent(w.bytes / s.payload)]
        for key, w in heaviest[:most]
    ]
    yield from table(("  KEY", "COUNT", "BYTES", "OF ALL"), rows, frozenset({"COUNT", "BYTES", "OF ALL"}))
    if len(heaviest) > most:
        yield f"  ... and {len(heaviest) - most:,} more (--keys)"


def document(segments: list[Segment], total: Survey, left_out: list[tuple[str, str]]) -> dict[str, Any]:
    """The whole as one JSON document."""
    totals = total.as_json()
    by_partition: dict[tuple[str, int], Survey] = {}
    for s in segments:
        by_partition.setdefault((s.topic, s.partition), Survey()).merge(s.survey)
    if len(by_partition) != 1:
        totals |= {"firstOffset": None, "lastOffset": None}  # offsets of several partitions have no common range
    return {
        "segments": [
            {"path": s.path, "topic": s.topic, "partition": s.partition, **s.survey.as_json(),
             "findings": [_finding(s.path, f) for f in s.survey.findings]}
            for s in segments
        ],
        "partitions": [
            {"topic": topic, "partition": partition, **survey.as_json()}
            for (topic, partition), survey in by_partition.items()
        ],
        "totals": {"partitions": len(by_partition), **totals},
        "leftOut": [{"path": path, "reason": reason} for path, reason in left_out],
        "findings": [_finding(s.path, f) for s in segments for f in s.survey.findings],
    }  # fmt: skip


def _finding(path: str, f: Finding) -> dict[str, Any]:
    severity = "note" if f.kind in TAILS else "error"
    return {"path": path, "position": f.position, "kind": f.kind, "severity": severity, "message": f.message}


def batch_line(path: str, part: Part, batch: RecordBatch, span: Span, crc_holds: bool | None) -> str:
    """One batch on a line of text; PRODUCER is id/epoch/first sequence."""
    flags = [name for name, on in (("transactional", batch.transactional), ("control", batch.control),
                                   ("deleteHorizon", batch.delete_horizon)) if on]  # fmt: skip
    producer = "-" if batch.producer_id < 0 else f"{batch.producer_id}/{batch.producer_epoch}/{batch.base_sequence}"
    times = show_time(batch.max_timestamp)
    if batch.base_timestamp not in (-1, batch.max_timestamp):
        times = f"{show_time(batch.base_timestamp)}..{times}"
    cells = (
        str(batch.position),
        str(batch.size),
        f"v{batch.magic}",
        batch.codec or UNKNOWN_CODEC,
        _range(*span),
        "-" if batch.count is None else str(batch.count),
        times,
        TIMESTAMP_TYPES.get(batch.timestamp_type, "-") if batch.timestamp_type >= 0 else "-",
        str(batch.partition_leader_epoch) if batch.partition_leader_epoch >= 0 else "-",
        producer,
        f"{batch.crc:08x} {_CRC_STATES[crc_holds]}",
    )
    line = "  ".join(cell.ljust(width) for cell, (_, width) in zip(cells, BATCH_COLUMNS, strict=True))
    return f"{line}  {','.join([*flags, ''])}{escape(path)}"


def batch_json(path: str, part: Part, batch: RecordBatch, span: Span, crc_holds: bool | None) -> str:
    """One batch as a line of JSON; ``crcOk`` is null where it was not checked."""
    return to_json(
        {
            "path": path,
            "topic": part.topic,
            "partition": part.partition,
            "position": batch.position,
            "size": batch.size,
            "magic": batch.magic,
            "codec": batch.codec,
            "baseOffset": span[0],
            "lastOffset": span[1],
            "count": batch.count,
            "baseTimestampMs": batch.base_timestamp,
            "maxTimestampMs": batch.max_timestamp,
            "maxTimestamp": iso(batch.max_timestamp),
            "timestampType": TIMESTAMP_TYPES.get(batch.timestamp_type),
            "leaderEpoch": batch.partition_leader_epoch,
            "producerId": batch.producer_id,
            "producerEpoch": batch.producer_epoch,
            "baseSequence": batch.base_sequence,
            "isTransactional": batch.transactional,
            "isControl": batch.control,
            "deleteHorizon": batch.delete_horizon,
            "crc": batch.crc,
            "crcOk": crc_holds,
        }
    )


def _second(milliseconds: int | None) -> str:
    # To the second: the table is wide enough, and JSON has the milliseconds.
    return re.sub(r"T(.{8})\.\d{3}Z$", r" \1", show_time(milliseconds))


def _range(first: int | None, last: int | None) -> str:
    if first is None and last is None:
        return "-"
    return f"{'?' if first is None else first}..{'?' if last is None else last}"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"
