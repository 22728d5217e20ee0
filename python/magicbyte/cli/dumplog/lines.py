"""The lines of a log as Kafka's tool has them: a batch, and its records indented below."""

from __future__ import annotations

import json
import re
import struct
import sys
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from magicbyte.cli import problems
from magicbyte.cli.control import decode_control
from magicbyte.cli.output import TIMESTAMP_TYPES, escape, show_bytes
from magicbyte.errors import CorruptRecordError
from magicbyte.topics import decode
from magicbyte.topics import decode_control as decode_kraft

if TYPE_CHECKING:
    from magicbyte._core import Record, RecordBatch

MAGIC_V2 = 2
MOST_INT = 2**31 - 1
_INT = struct.Struct(">i")
_LONG = struct.Struct(">q")

Payload = Callable[[Any, int], "tuple[str | None, str | None]"]


def _number(kind: struct.Struct) -> Callable[[bytes], str]:
    def show(data: bytes) -> str:
        if len(data) != kind.size:
            raise ValueError(f"{len(data)} bytes where the decoder wants {kind.size}")
        return str(kind.unpack(data)[0])

    return show


#: Kafka's own decoders, by their short names.
DECODERS: dict[str, Callable[[bytes], str]] = {
    "StringDecoder": lambda data: escape(data.decode(errors="replace")),
    "LongDecoder": _number(_LONG),
    "IntegerDecoder": _number(_INT),
    "DefaultDecoder": show_bytes,
}


def payload(group: str | None, key: str, value: str) -> Payload:
    """What shows a record's key and value: the messages of one of Kafka's topics, or plain decoders."""
    if group is not None:
        return lambda record, offset: _message(record, offset, group)
    as_key, as_value = DECODERS[key], DECODERS[value]

    def plain(record: Record, _offset: int) -> tuple[str | None, str | None]:
        shown_key = None if record.key is None else as_key(record.key)
        return shown_key, None if record.value is None else as_value(record.value)

    return plain


def compact(value: Any) -> str:
    """JSON as Jackson writes it, with escapes for what cannot be printed."""
    return escape(json.dumps(value, separators=(",", ":"), ensure_ascii=False))


def record_type(name: str) -> str:
    """``TopicRecord`` → ``TOPIC_RECORD``, as Kafka names the records of its metadata."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper()


def _message(record: Any, offset: int, group: str) -> tuple[str | None, str | None]:
    found = decode(record, group)
    if found.error is not None:
        word = f"Unknown record type {found.number} at offset {offset}" if found.number >= 0 and not found.name else (
            f"Error at offset {offset}"
        )  # fmt: skip
        told = escape(f"{word}, skipping. {found.error}")
        return (None, told) if found.key is None and group in ("metadata", "remote") else (told, None)
    if found.key is None:
        return None, compact({"type": record_type(found.name), "version": found.version, "data": found.value})
    key = compact({"type": str(found.number), "data": found.key})
    return key, "<DELETE>" if found.version is None else compact({"version": str(found.version), "data": found.value})


@dataclass(frozen=True)
class Lines:
    """How to show logs: with keys and values, with records, with their metadata, up to so many bytes."""

    contents: bool
    deep: bool
    metadata: bool
    payload: Payload
    max_bytes: int = MOST_INT

    def log(self, path: Path) -> bool:
        """Shows a segment or a KRaft snapshot; whether it is sound and its offsets are consecutive."""
        from magicbyte._core import Part, Reader

        size = path.stat().st_size
        sys.stdout.write(_title(path) + "\n")
        end = min(size, self.max_bytes)
        reader = Reader([Part(str(path), "", -1, 0, end)], check_crc=False, mode="DROPMALFORMED", control=True)
        valid, last, sound = 0, -1, True
        jumps: list[tuple[int, int]] = []
        for batch in reader.batches():
            sys.stdout.write(batch_line(batch, valid) + "\n")
            sound &= bool(batch.crc_ok)
            if self.deep:
                last = self._records(batch, last, jumps)
            valid = batch.position + batch.size
        for _path, position, kind, _size, message in reader.findings:
            if kind == "torn_tail" and self.max_bytes < size:
                continue  # cut by the one who asked
            sound &= kind in problems.TAILS
            level = "note" if kind in problems.TAILS else "error"
            problems.complain(problems.located(str(path), position, message), level=level)
        if size > valid and self.max_bytes == MOST_INT:
            sys.stdout.write(f"Found {size - valid} invalid bytes at the end of {escape(path.name)}\n")
        if jumps:
            sys.stdout.flush()
            sys.stderr.write(f"Non-consecutive offsets in {escape(str(path.absolute()))}\n")
            sys.stderr.writelines(f"  {first} is followed by {second}\n" for first, second in reversed(jumps))
        return sound

    def _records(self, batch: RecordBatch, last: int, jumps: list[tuple[int, int]]) -> int:
        for record in batch.records:
            if last not in (-1, record.offset - 1):
                jumps.append((last, record.offset))
            last = record.offset
            sys.stdout.write(self._record(batch, record) + "\n")
        return last

    def _record(self, batch: RecordBatch, record: Record) -> str:
        words = []
        if self.metadata:
            words.append(_metadata(batch, record))
        if self.contents and not batch.control:
            key, value = self.payload(record, record.offset)
            words += [] if key is None else [f"key: {key}"]
            # Kafka's tool has a blank more before a value that no key precedes and no metadata.
            words += [] if value is None else [f"payload: {value}" if words else f" payload: {value}"]
        return ("| " if self.metadata or (words and words[0].startswith("key:")) else "") + " ".join(words)


def _title(path: Path) -> str:
    name = path.name
    if name.endswith(".log"):
        first = name.split(".")[0]
        if not first.isdigit():
            raise CorruptRecordError(f"{name}: no segment is called so; magicbyte dump reads files of any name")
        return f"Log starting offset: {int(first)}"
    if name == "bootstrap.checkpoint":
        return "KRaft bootstrap snapshot"
    offset, _, epoch = name.removesuffix(".checkpoint").partition("-")
    if not (offset.isdigit() and epoch.isdigit()):
        raise CorruptRecordError(f"{name}: no snapshot of KRaft is called so")
    return f"Snapshot end offset: {int(offset)}, epoch: {int(epoch)}"


def _bool(value: bool) -> str:
    return "true" if value else "false"


def batch_line(batch: RecordBatch, position: int) -> str:
    """A batch, or an entry of an older format."""
    if batch.magic >= MAGIC_V2:
        sequence = batch.base_sequence
        last = sequence if sequence < 0 else (sequence + batch.last_offset_delta) & MOST_INT
        horizon = f"OptionalLong[{batch.base_timestamp}]" if batch.delete_horizon else "OptionalLong.empty"
        head = (
            f"baseOffset: {batch.base_offset} lastOffset: {batch.last_offset} count: {batch.count} "
            f"baseSequence: {sequence} lastSequence: {last} producerId: {batch.producer_id} "
            f"producerEpoch: {batch.producer_epoch} partitionLeaderEpoch: {batch.partition_leader_epoch} "
            f"isTransactional: {_bool(batch.transactional)} isControl: {_bool(batch.control)} deleteHorizonMs: {horizon}"
        )
    else:
        head = f"offset: {batch.last_offset}"
    return (
        f"{head} position: {position} {TIMESTAMP_TYPES[batch.timestamp_type]}: {batch.max_timestamp} size: {batch.size} "
        f"magic: {batch.magic} compresscodec: {batch.codec or 'unknown'} crc: {batch.crc} isvalid: {_bool(batch.crc_ok)}"
    )


def _metadata(batch: RecordBatch, record: Record) -> str:
    size = [-1 if data is None else len(data) for data in (record.key, record.value)]
    line = (
        f"offset: {record.offset} {TIMESTAMP_TYPES[batch.timestamp_type]}: {record.effective_timestamp} "
        f"keySize: {size[0]} valueSize: {size[1]}"
    )
    if batch.magic >= MAGIC_V2:
        keys = ",".join(escape(header.key) for header in record.headers)
        line += f" sequence: {record.sequence} headerKeys: [{keys}]"
    else:
        crc, valid = (batch.crc, batch.crc_ok) if batch.codec == "none" else (_message_crc(batch, record), True)
        # The brace is Kafka's.
        line += f" isValid: {_bool(valid)} crc: {crc}}}"
    return line + (_control(record) if batch.control else "")


def _message_crc(batch: RecordBatch, record: Record) -> int:
    """The checksum of a message inside a compressed one, whose own is not kept."""
    head = struct.pack(">bb", batch.magic, record.attributes)
    if batch.magic == 1:
        head += _LONG.pack(record.timestamp)
    parts = [b"\xff\xff\xff\xff" if d is None else _INT.pack(len(d)) + d for d in (record.key, record.value)]
    return zlib.crc32(head + b"".join(parts))


_KRAFT = {
    "SNAPSHOT_HEADER": "SnapshotHeader",
    "SNAPSHOT_FOOTER": "SnapshotFooter",
    "KRAFT_VERSION": "KRaftVersion",
    "KRAFT_VOTERS": "KRaftVoters",
}


def _control(record: Record) -> str:
    fields = decode_control(record.key, record.value)
    name = fields["type"]
    if "coordinatorEpoch" in fields:
        return f" endTxnMarker: {name} coordinatorEpoch: {fields['coordinatorEpoch']}"
    if name in _KRAFT and (found := decode_kraft(name, record.value)) is not None:
        return f" {_KRAFT[name]} {compact(found)}"
    number = _type_id(record.key)
    return f" controlType: {name.partition('(')[0]}({number})"


def _type_id(key: bytes | None) -> int:
    return struct.unpack_from(">hh", key)[1] if key is not None and len(key) >= 4 else -1


__all__ = ["DECODERS", "Lines", "batch_line", "payload"]
