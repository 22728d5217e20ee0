"""What our readers show, brought into the form of the corpus."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Any

from golden.corpus import TIMESTAMP_TYPES, Batch, Record, shorten


def consumed(record: Any) -> Record:
    """A `ConsumerRecord`."""
    return Record(
        record.offset,
        record.timestamp,
        record.timestamp_type,
        record.sequence,
        shorten(record.key),
        shorten(record.value),
        tuple((header.key, shorten(header.value)) for header in record.headers),
    )


def stored(record: Any, timestamp_type: int) -> Record:
    """A `Record` of a `RecordBatch`, which keeps the stored timestamp beside the effective one."""
    return Record(
        record.offset,
        record.effective_timestamp,
        timestamp_type,
        record.sequence,
        shorten(record.key),
        shorten(record.value),
        tuple((header.key, shorten(header.value)) for header in record.headers),
    )


def rows(table: Any) -> list[Record]:
    """An Arrow table with at least the columns of `ARROW_COLUMNS`."""
    columns = [table.column(name).to_pylist() for name in ARROW_COLUMNS]
    return [
        Record(
            offset,
            timestamp,
            timestamp_type,
            sequence,
            shorten(key),
            shorten(value),
            tuple((header["key"], shorten(header["value"])) for header in headers or ()),
        )
        for offset, timestamp, timestamp_type, sequence, key, value, headers in zip(*columns, strict=True)
    ]


ARROW_COLUMNS = ("offset", "timestampMs", "timestampType", "sequence", "key", "value", "headers")


def head(batch: Any) -> dict[str, Any]:
    """The header of a `RecordBatch`, by the corpus's names."""
    shown = {
        "position": batch.position,
        "sizeInBytes": batch.size,
        "magic": batch.magic,
        "baseOffset": batch.base_offset,
        "lastOffset": batch.last_offset,
        "crc": batch.crc,
        "isValid": batch.crc_ok,
        "compressionType": batch.codec,
        "timestampType": batch.timestamp_type,
        "maxTimestamp": batch.max_timestamp,
        "producerId": batch.producer_id,
        "producerEpoch": batch.producer_epoch,
        "baseSequence": batch.base_sequence,
        "partitionLeaderEpoch": batch.partition_leader_epoch,
        "isTransactional": batch.transactional,
        "isControlBatch": batch.control,
        "deleteHorizonMs": batch.base_timestamp if batch.delete_horizon else None,
    }
    if batch.magic >= 2:
        shown |= {"count": batch.count, "baseTimestamp": batch.base_timestamp}
    return shown


def expected_head(batch: Batch) -> dict[str, Any]:
    """The same of an expectation. Fields that v0 and v1 don't have stay out."""
    named = {key: batch.head[key] for key in HEAD if key in batch.head}
    named["timestampType"] = TIMESTAMP_TYPES[named["timestampType"]]
    if batch.head["magic"] < 2:
        del named["count"], named["baseTimestamp"]
    return named


HEAD = (
    "position",
    "sizeInBytes",
    "magic",
    "baseOffset",
    "lastOffset",
    "crc",
    "isValid",
    "compressionType",
    "timestampType",
    "maxTimestamp",
    "producerId",
    "producerEpoch",
    "baseSequence",
    "partitionLeaderEpoch",
    "isTransactional",
    "isControlBatch",
    "deleteHorizonMs",
    "count",
    "baseTimestamp",
)


def first_difference(expected: Iterable[Any], got: Iterable[Any]) -> str | None:
    """None where both are the same; else where they part, in words that stay short for a million records."""
    nothing = object()
    for index, (ours, kafkas) in enumerate(zip_longest(got, expected, fillvalue=nothing)):
        if ours is nothing:
            return f"[{index}] is missing; Kafka has {kafkas}"
        if kafkas is nothing:
            return f"[{index}] is too much: {ours}"
        if ours != kafkas:
            return f"[{index}] differs\n  Kafka: {kafkas}\n  ours:  {ours}"
    return None


def same(expected: Sequence[Any], got: Sequence[Any]) -> None:
    """Fail where the two differ, and say where first."""
    difference = first_difference(expected, got)
    assert difference is None, difference
