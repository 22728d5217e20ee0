"""The bytes of the routing trail's headers. Numbers are big-endian, texts UTF-8 of at most 255 bytes behind their length.

hop       u8 version 1 · u8 flags (1: a position) · u48 time, ms · [int32 partition · int64 offset] ·
          who · source cluster · source topic · cluster · topic
audit     u8 version 1 · 16 bytes message id (UUID) · client id · cluster
deletion  u8 version 1 · u48 time, ms · who
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

__all__ = ["Audit", "Deletion", "Hop"]

VERSION = 1
POSITION = 1
LATEST = (1 << 48) - 1


def _text(word: str) -> bytes:
    data = word.encode("utf-8", "replace")
    if len(data) > 255:
        raise ValueError(f"{len(data)} bytes of UTF-8, and 255 are the most: {word[:40]!r}…")
    return bytes([len(data)]) + data


def _texts(data: bytes, at: int, count: int) -> list[str]:
    """So many texts up to the very end."""
    found = []
    for _ in range(count):
        if at >= len(data) or at + 1 + data[at] > len(data):
            raise ValueError(f"cut at byte {len(data)}")
        found.append(data[at + 1 : at + 1 + data[at]].decode("utf-8", "replace"))
        at += 1 + data[at]
    if at != len(data):
        raise ValueError(f"{len(data) - at} bytes behind the end")
    return found


def _begins(data: bytes | None, least: int) -> bytes:
    if data is None:
        raise ValueError("null")
    if not data or data[0] != VERSION:
        raise ValueError(f"version {data[0]} is unknown" if data else "empty")
    if len(data) < least:
        raise ValueError(f"cut at byte {len(data)}")
    return data


@dataclass(frozen=True, slots=True)
class Hop:
    """One step of a record: ``who`` moved it, ``time`` (ms since 1970), from where and into where; empty = not told.

    ``partition`` and ``offset`` are those of the source, −1 where they are not told.
    """

    who: str
    time: int
    source_cluster: str = ""
    source_topic: str = ""
    partition: int = -1
    offset: int = -1
    cluster: str = ""
    topic: str = ""

    def to_bytes(self) -> bytes:
        """The header's value.

        Raises:
            ValueError: a text of more than 255 bytes.
        """
        placed = self.offset >= 0
        head = bytes([VERSION, POSITION if placed else 0]) + max(0, min(self.time, LATEST)).to_bytes(6, "big")
        if placed:
            head += self.partition.to_bytes(4, "big", signed=True) + self.offset.to_bytes(8, "big", signed=True)
        words = (self.who, self.source_cluster, self.source_topic, self.cluster, self.topic)
        return head + b"".join(map(_text, words))

    @staticmethod
    def from_bytes(data: bytes | None) -> Hop:
        """Raises ValueError, with what is wrong."""
        data = _begins(data, 8)
        at, partition, offset = 8, -1, -1
        if data[1] & ~POSITION:
            raise ValueError(f"flags {data[1]:#04x} are unknown")
        if data[1] & POSITION:
            if len(data) < 20:
                raise ValueError(f"cut at byte {len(data)}")
            partition = int.from_bytes(data[8:12], "big", signed=True)
            offset = int.from_bytes(data[12:20], "big", signed=True)
            at = 20
        who, source_cluster, source_topic, cluster, topic = _texts(data, at, 5)
        return Hop(
            who, int.from_bytes(data[2:8], "big"), source_cluster, source_topic, partition, offset, cluster, topic
        )


@dataclass(frozen=True, slots=True)
class Audit:
    """KIP-82's audit fields: a message's own id, the client and the cluster that it first came to."""

    message_id: UUID
    client: str
    cluster: str

    def to_bytes(self) -> bytes:
        """The header's value."""
        return bytes([VERSION]) + self.message_id.bytes + _text(self.client) + _text(self.cluster)

    @staticmethod
    def from_bytes(data: bytes | None) -> Audit:
        """Raises ValueError, with what is wrong."""
        data = _begins(data, 17)
        client, cluster = _texts(data, 17, 2)
        return Audit(UUID(bytes=data[1:17]), client, cluster)


@dataclass(frozen=True, slots=True)
class Deletion:
    """KIP-87's wish: who issued a delete, and when (ms since 1970)."""

    who: str
    time: int

    def to_bytes(self) -> bytes:
        """The header's value."""
        return bytes([VERSION]) + max(0, min(self.time, LATEST)).to_bytes(6, "big") + _text(self.who)

    @staticmethod
    def from_bytes(data: bytes | None) -> Deletion:
        """Raises ValueError, with what is wrong."""
        data = _begins(data, 7)
        return Deletion(_texts(data, 7, 1)[0], int.from_bytes(data[1:7], "big"))
