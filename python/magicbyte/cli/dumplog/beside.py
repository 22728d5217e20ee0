"""The lines of the files beside a segment as Kafka's tool has them, and where an index is at odds with its log."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from magicbyte.cli.output import escape
from magicbyte.errors import CorruptRecordError
from magicbyte.topics.messages import Malformed, Reader, find

if TYPE_CHECKING:
    from magicbyte._core import RecordBatch

_POLYNOMIAL = 0x82F63B78  # CRC-32C, reflected
_CRC_AT = 6  # bytes of version and checksum, which the checksum does not cover


def offset_index(path: Path, sanity_only: bool, verify_only: bool) -> bool:
    """Shows a ``.index``, and compares each entry with the log; whether it is sound."""
    from magicbyte._core import OffsetIndex

    base = _base(path)
    index = OffsetIndex(path.read_bytes(), base)
    if not len(index):
        sys.stdout.write(f"{escape(str(path))} is empty.\n")
        return True
    if sanity_only:
        return _sane(path, index)
    log = path.with_suffix(".log")
    wrong = []
    for number, (offset, position) in enumerate(index.entries()):
        if offset == base and number > 0:
            break  # zeros behind the last entry, as a crash leaves them
        batch = next(_batches(log, position), None)
        found = -1 if batch is None else batch.last_offset
        if found != offset:
            wrong.append((offset, found))
        if not verify_only:
            sys.stdout.write(f"offset: {offset} position: {position}\n")
    if wrong:
        _tell(f"Mismatches in :{path.absolute()}", [f"Index offset: {a}, log offset: {b}" for a, b in reversed(wrong)])
    return not wrong


def time_index(path: Path, sanity_only: bool, verify_only: bool) -> bool:
    """Shows a ``.timeindex``, and compares each entry with the log; whether it is sound."""
    from magicbyte._core import OffsetIndex, TimeIndex

    base = _base(path)
    times = TimeIndex(path.read_bytes(), base)
    if sanity_only:
        return _sane(path, times)
    beside = path.with_suffix(".index")
    places = OffsetIndex(beside.read_bytes() if beside.exists() else b"", base)
    log = path.with_suffix(".log")
    differ, order, missing = [], [], []
    before = -1
    for number, (timestamp, offset) in enumerate(times.entries()):
        if offset == base and number > 0:
            break
        batch = next((b for b in _batches(log, places.lookup(offset)[1]) if b.last_offset >= offset), None)
        if batch is None or batch.last_offset != offset:
            missing.append((offset, -1 if batch is None else batch.last_offset))
        else:
            largest = max((record.effective_timestamp for record in batch.records), default=-1)
            if largest != timestamp:
                differ.append((timestamp, largest))
            if before >= timestamp:
                order.append((timestamp, before))
        if not verify_only:
            sys.stdout.write(f"timestamp: {timestamp} offset: {offset}\n")
        before = timestamp
    name = str(path.absolute())
    _tell(f"Found timestamp mismatch in :{name}", [f"Index timestamp: {a}, log timestamp: {b}" for a, b in differ])
    _tell(f"Found out of order timestamp in :{name}",
          [f"Index timestamp: {a}, Previously indexed timestamp: {b}" for a, b in order])  # fmt: skip
    _tell("The following indexed offsets are not found in the log.",
          [f"Indexed offset: {a}, found log offset: {b}" for a, b in missing], "")  # fmt: skip
    # An offset inside a batch is what the broker's own index has there: told, but nothing is lost by it.
    return not (differ or order)


def txn_index(path: Path) -> bool:
    """Shows a ``.txnindex``."""
    from magicbyte._core import aborted_transactions

    for producer, first, last, stable in aborted_transactions(path.read_bytes()):
        sys.stdout.write(
            f"version: 0 producerId: {producer} firstOffset: {first} lastOffset: {last} lastStableOffset: {stable}\n"
        )
    return True


def snapshot(path: Path) -> bool:
    """Shows a ``.snapshot`` of producers."""
    data = path.read_bytes()
    reader = Reader(data)
    kind = find("embedded", "value", "ProducerSnapshot")
    try:
        found = kind.read(reader, reader.int16()) if kind else {}
    except Malformed as error:
        raise CorruptRecordError(str(error)) from None
    if found["crc"] != crc32c(data[_CRC_AT:]):
        raise CorruptRecordError("wrong checksum of the producers' snapshot", position=2, kind="crc")
    for entry in found["producerEntries"]:
        begun = entry["currentTxnFirstOffset"]
        line = (
            f"producerId: {entry['producerId']} producerEpoch: {entry['epoch']} "
            f"coordinatorEpoch: {entry['coordinatorEpoch']} "
            f"currentTxnFirstOffset: {'OptionalLong.empty' if begun < 0 else f'OptionalLong[{begun}]'} "
            f"lastTimestamp: {entry['timestamp']} "
        )
        if entry["lastOffset"] >= 0:
            last = entry["lastSequence"]
            line += (
                f"firstSequence: {(last - entry['offsetDelta']) & 0x7FFFFFFF if last >= 0 else last} "
                f"lastSequence: {last} lastOffset: {entry['lastOffset']} offsetDelta: {entry['offsetDelta']} "
                f"timestamp: {entry['timestamp']}"
            )
        sys.stdout.write(line + "\n")
    return True


def crc32c(data: bytes) -> int:
    """The checksum (Castagnoli) of some bytes; for small files, as it goes byte by byte."""
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (_POLYNOMIAL if byte & 1 else 0)
        table.append(byte)
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ table[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def _base(path: Path) -> int:
    name = path.name.split(".")[0]
    if not name.isdigit():
        raise CorruptRecordError(f"{path.name}: an index is named by the offset of its segment")
    return int(name)


def _sane(path: Path, index: object) -> bool:
    index.check()  # type: ignore[attr-defined]
    sys.stdout.write(f"{escape(str(path))} passed sanity check.\n")
    return True


def _batches(log: Path, position: int) -> Iterator[RecordBatch]:
    from magicbyte._core import Part, Reader

    return Reader([Part(str(log), "", -1, position)], check_crc=False, control=True).batches()


def _tell(title: str, rows: list[str], indent: str = "  ") -> None:
    if rows:
        sys.stdout.flush()
        sys.stderr.write("".join([escape(title) + "\n", *(f"{indent}{row}\n" for row in rows)]))
