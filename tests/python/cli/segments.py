"""Segments for the tests, written by hand after design/formats: what a producer of v2 and v1 bytes would write.

Independent of the reader and of any codec, so that the command line is tried on bytes whose meaning is known.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import Any

TABLE = []
for byte in range(256):
    for _ in range(8):
        byte = (byte >> 1) ^ (0x82F63B78 if byte & 1 else 0)
    TABLE.append(byte)


def crc32c(data: bytes) -> int:
    """CRC-32C (Castagnoli), a byte at a time."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = (crc >> 8) ^ TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def varint(number: int) -> bytes:
    """Kafka's zig-zag varint."""
    number = (number << 1) ^ (number >> 63)
    number &= (1 << 64) - 1
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def sized(data: bytes | None) -> bytes:
    """A length as varint, and the bytes; −1 for null."""
    return varint(-1) if data is None else varint(len(data)) + data


def record(
    delta: int, key: bytes | None, value: bytes | None, headers: Sequence[tuple[bytes, bytes | None]] = ()
) -> bytes:
    """A v2 record, `delta` behind its batch's base offset and as many milliseconds behind its base timestamp."""
    heads = b"".join(sized(name) + sized(content) for name, content in headers)
    body = b"\0" + varint(delta) + varint(delta) + sized(key) + sized(value) + varint(len(headers)) + heads
    return varint(len(body)) + body


def batch(
    records: Sequence[tuple[Any, ...]],
    *,
    base: int = 0,
    time: int = 1_769_860_800_000,
    attributes: int = 0,
    producer: tuple[int, int, int] = (-1, -1, -1),
    epoch: int = 0,
) -> bytes:
    """A v2 batch without a codec; records are (key, value[, headers])."""
    last = max(len(records) - 1, 0)
    body = b"".join(record(i, *fields) for i, fields in enumerate(records))
    covered = struct.pack(">hiqqqhii", attributes, last, time, time + last, *producer, len(records)) + body
    head = struct.pack(">ibI", epoch, 2, crc32c(covered))
    return struct.pack(">qi", base, len(head) + len(covered)) + head + covered


def marker(kind: int, *, base: int, producer: tuple[int, int] = (7, 0), coordinator_epoch: int = 3) -> bytes:
    """A control batch: the end of a transaction (0 abort, 1 commit)."""
    key, value = struct.pack(">hh", 0, kind), struct.pack(">hi", 0, coordinator_epoch)
    return batch([(key, value)], base=base, attributes=0x30, producer=(*producer, -1))


def message(offset: int, key: bytes | None, value: bytes | None, time: int = 1_769_860_800_000) -> bytes:
    """A v1 message without a codec."""

    def sized32(data: bytes | None) -> bytes:
        return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data

    covered = struct.pack(">bbq", 1, 0, time) + sized32(key) + sized32(value)
    return struct.pack(">qi", offset, 4 + len(covered)) + struct.pack(">I", zlib.crc32(covered)) + covered


def open_transaction() -> bytes:
    """A committed transaction, then one without an end, then records outside of any."""
    return (
        batch([(b"a", b"1")], attributes=0x10, producer=(7, 0, 0))
        + marker(1, base=1)
        + batch([(b"b", b"2")] * 2, base=2, attributes=0x10, producer=(8, 0, 0))
        + batch([(b"c", b"3")] * 3, base=4)
    )
