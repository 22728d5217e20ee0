"""Chunks of large messages: the descriptor's bytes, LinkedIn's, and the buffer that puts chunks together.

descriptor  u8 version 1 · u8 flags (1: the message has no key) · 16 bytes message id (UUID) ·
            u32 index · u32 count · u64 size of the whole · u32 CRC-32 of the whole      (big-endian, 38 bytes)
"""

from __future__ import annotations

import struct
import zlib
from collections import OrderedDict
from dataclasses import dataclass, field
from uuid import UUID

from magicbyte._core import ConsumerRecord
from magicbyte.vocabulary import LargeMessage, decode

__all__ = ["Buffer", "Chunk", "Loss", "Part", "linkedin_part"]

DESCRIPTOR = struct.Struct(">BB16sIIQI")
VERSION, KEYLESS = 1, 1
SEGMENT = struct.Struct(">BiQQiii")
"""What LinkedIn's serializer puts before the payload: version, checksum, UUID's high and low half, segment, count, size."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Which part of which message a record holds. ``keyless``: the record's key is the message id, the message has none."""

    message_id: UUID
    index: int
    count: int
    size: int
    checksum: int
    keyless: bool = False

    def to_bytes(self) -> bytes:
        """The header's value, 38 bytes."""
        flags = KEYLESS if self.keyless else 0
        return DESCRIPTOR.pack(VERSION, flags, self.message_id.bytes, self.index, self.count, self.size, self.checksum)

    @staticmethod
    def from_bytes(data: bytes | None) -> Chunk:
        """Raises ValueError, with what is wrong."""
        if data is None or len(data) != DESCRIPTOR.size:
            raise ValueError("null" if data is None else f"{len(data)} bytes, and {DESCRIPTOR.size} are expected")
        version, flags, id, index, count, size, checksum = DESCRIPTOR.unpack(data)
        if version != VERSION or flags & ~KEYLESS:
            raise ValueError(f"version {version}, flags {flags:#04x} are unknown")
        if index >= count:
            raise ValueError(f"chunk {index} of {count}")
        if count > max(size, 1):
            raise ValueError(f"{count} chunks of {size} bytes")
        return Chunk(UUID(bytes=id), index, count, size, checksum, bool(flags))


@dataclass(frozen=True, slots=True)
class Part:
    """A chunk as the buffer takes it, ours or LinkedIn's. ``size`` and ``checksum`` are None where nobody told."""

    message_id: UUID
    index: int
    count: int
    size: int | None
    checksum: int | None
    payload: bytes
    key: bytes | None


def linkedin_part(record: ConsumerRecord, data: bytes | None) -> Part | None:
    """LinkedIn's ``_lm`` as a part; None where it stands beside a message that was not divided.

    Raises:
        ValueError: with what is wrong.
    """
    if data is None:
        raise ValueError("null")
    said = decode("_lm", data)
    if said.error is not None:
        raise ValueError(said.error)
    found: LargeMessage = said.value
    payload = record.value or b""
    size = found.size if found.size is not None and found.size >= 0 else None
    if found.type < 2 and len(payload) >= SEGMENT.size:
        version, checksum, high, low, index, count, own = SEGMENT.unpack_from(payload)
        # Types 0 and 1 have a segment header in the value, if a checksum and the id say that it is one.
        if version <= 1 and checksum & 0xFFFFFFFF == (high + low) & 0xFFFFFFFF:
            id = UUID(int=high << 64 | low)
            if found.segment == -1 or (id, index, count) == (found.uuid, found.segment, found.count):
                found = LargeMessage(found.type, id, index, count, own)
                payload, size = payload[SEGMENT.size :], own if own >= 0 else size
    if found.segment == -1:
        return None
    if not 0 <= found.segment < found.count:
        raise ValueError(f"segment {found.segment} of {found.count}")
    high, low = found.uuid.bytes[:8], found.uuid.bytes[8:]
    made_up = found.count > 1 and record.key in (high + low, low + high)
    return Part(found.uuid, found.segment, found.count, size, None, payload, None if made_up else record.key)


@dataclass(frozen=True, slots=True)
class Loss:
    """A message that could not be put together: what is there, and what is missing.

    ``reason``: ``end`` (the log ended), ``evicted`` (the buffer was full), ``expired``, ``checksum`` (all chunks came, and are not
    the message). ``missing`` names the first twenty chunks that never came.
    """

    message_id: UUID
    topic: str
    partition: int
    first_offset: int
    last_offset: int
    chunks: int
    count: int
    missing: tuple[int, ...]
    reason: str

    def __str__(self) -> str:
        absent = ", ".join(map(str, self.missing)) + (", …" if self.count - self.chunks > len(self.missing) else "")
        what = f"without {absent}" if self.missing else "all there"
        return (
            f"{self.topic}-{self.partition}@{self.first_offset}–{self.last_offset}: message {self.message_id} lost "
            f"({self.reason}): {self.chunks} of {self.count} chunks, {what}"
        )


Place = tuple[str, int, UUID]


@dataclass(slots=True)
class _Open:
    count: int
    size: int | None
    checksum: int | None
    parts: dict[int, Part] = field(default_factory=dict)
    records: dict[int, ConsumerRecord] = field(default_factory=dict)
    held: int = 0
    first: int = 0
    last: int = 0


Answer = tuple[str, ConsumerRecord, str]
"""An outcome (``glued`` is the good one), the record that it is about, and details."""

REMEMBERED = 10_000


class Buffer:
    """Open messages of all partitions, oldest first; bounded in bytes and in number. Not locked."""

    def __init__(self, *, most_bytes: int, most_messages: int, most_size: int, expire: int | None) -> None:
        self.most_bytes, self.most_messages, self.most_size, self.expire = most_bytes, most_messages, most_size, expire
        self.open: OrderedDict[Place, _Open] = OrderedDict()
        self.gone: OrderedDict[Place, tuple[bool, int]] = OrderedDict()
        self.held = 0
        self.losses: list[Loss] = []

    def take(self, record: ConsumerRecord, part: Part) -> list[Answer]:
        """One more chunk; what comes of it: nothing yet, a message, or losses."""
        place = (record.topic, record.partition, part.message_id)
        size = part.size if part.size is not None else len(part.payload)
        if size > min(self.most_size, self.most_bytes):
            return [("too large", record, f"a message of {size} bytes")]
        if (gone := self.gone.get(place)) is not None:
            glued, last = gone
            if record.offset > last:
                return [("repeated", record, "")] if glued else [("lost", record, "its message was given up")]
            del self.gone[place]  # somebody went back, and reads it again
        message = self.open.get(place)
        if message is None:
            message = self.open[place] = _Open(part.count, part.size, part.checksum, first=record.offset)
        if (message.count, message.size, message.checksum) != (part.count, part.size, part.checksum):
            return [("contradicting", record, "another chunk says otherwise")]
        if (old := message.parts.get(part.index)) is not None:
            if old.payload == part.payload:
                return [("repeated", record, "")]
            return [("contradicting", record, f"another chunk {part.index} came before")]
        message.parts[part.index], message.records[part.index] = part, record
        message.last = max(message.last, record.offset)
        message.held += len(part.payload)
        self.held += len(part.payload)
        if message.held > min(self.most_size, size if part.size is not None else self.most_size):
            return self.lose(place, "checksum")
        if len(message.parts) == message.count:
            return self._whole(place, record)
        found: list[Answer] = []
        while self.open and (self.held > self.most_bytes or len(self.open) > self.most_messages):
            found += self.lose(next(iter(self.open)), "evicted")
        return found

    def _whole(self, place: Place, record: ConsumerRecord) -> list[Answer]:
        message = self.open[place]
        value = b"".join(message.parts[index].payload for index in range(message.count))
        if message.size is not None and len(value) != message.size:
            return self.lose(place, "checksum")
        if message.checksum is not None and zlib.crc32(value) != message.checksum:
            return self.lose(place, "checksum")
        self._close(place, True)
        first = message.records[0]
        whole = record.replace(
            key=message.parts[0].key,
            value=value,
            headers=first.headers,
            timestamp=first.timestamp,
            timestamp_type=first.timestamp_type,
        )
        return [("glued", whole, "")]

    def lose(self, place: Place, reason: str) -> list[Answer]:
        """Gives a message up: its chunks, in the order they came."""
        message = self.open[place]
        absent = []
        for index in range(message.count):
            if index not in message.parts:
                absent.append(index)
                if len(absent) == 20:
                    break
        topic, partition, id = place
        loss = Loss(
            id, topic, partition, message.first, message.last, len(message.parts), message.count, tuple(absent), reason
        )
        self.losses.append(loss)
        del self.losses[:-1000]
        self._close(place, False)
        outcome = "checksum" if reason == "checksum" else "lost"
        return [(outcome, record, str(loss)) for record in message.records.values()]

    def _close(self, place: Place, glued: bool) -> None:
        message = self.open.pop(place)
        self.held -= message.held
        self.gone[place] = (glued, message.last)
        if len(self.gone) > REMEMBERED:
            self.gone.popitem(last=False)

    def expired(self, record: ConsumerRecord) -> list[Answer]:
        """What is too far behind a record of the same partition."""
        found: list[Answer] = []
        if self.expire is None:
            return found
        for place in [
            place
            for place, message in self.open.items()
            if place[:2] == (record.topic, record.partition) and record.offset - message.first > self.expire
        ]:
            found += self.lose(place, "expired")
        return found

    def end(self) -> list[Answer]:
        """The log ended: all that is open is lost, and what was is forgotten."""
        found = [answer for place in list(self.open) for answer in self.lose(place, "end")]
        self.gone.clear()
        return found

    def first_open(self, topic: str, partition: int) -> int | None:
        """The lowest offset of a chunk whose message is not whole yet."""
        some = [message.first for place, message in self.open.items() if place[:2] == (topic, partition)]
        return min(some, default=None)
