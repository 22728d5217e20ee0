"""A record to be sent, as KIP-82 and KIP-87 have it; a received one is made by the core."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ._core import Headers

if TYPE_CHECKING:
    from ._core import Header

__all__ = ["ProducerRecord"]


class ProducerRecord:
    """A record on its way to a topic: open while it is made, closed once it was sent (KIP-82).

    Args:
        topic: the topic's name.
        value, key: bytes or None, or what a serializer makes bytes of.
        headers: any iterable of ``Header`` or (key, value) pairs; copied, so that they are open and the record's own.
        partition: None lets the producer choose.
        timestamp: milliseconds since the epoch; None lets the producer choose.
        tombstone: KIP-87's flag; None means that the value decides: a null value deletes its key.
    """

    __slots__ = ("_tombstone", "headers", "key", "partition", "timestamp", "topic", "value")

    def __init__(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: Iterable[Header | tuple[str, bytes | None]] | None = (),
        partition: int | None = None,
        timestamp: int | None = None,
        tombstone: bool | None = None,
    ) -> None:
        self.topic = topic
        self.value = value
        self.key = key
        self.headers = Headers(headers)
        self.partition = partition
        self.timestamp = timestamp
        self._tombstone = tombstone

    @property
    def tombstone(self) -> bool:
        """Whether the record deletes its key: as given, else whether the value is None."""
        return self.value is None if self._tombstone is None else self._tombstone

    @tombstone.setter
    def tombstone(self, flag: bool | None) -> None:
        self._tombstone = flag

    def close(self) -> None:
        """What sending does: the headers become read-only, so that what was sent is what the record still says.

        A closed record may be sent again as it is. Whoever wants to change its headers first takes a ``copy()``.
        """
        self.headers.close()

    def replace(self, **changes: Any) -> ProducerRecord:
        """A copy with other ``topic``, ``value``, ``key``, ``headers``, ``partition``, ``timestamp`` or ``tombstone``."""
        fields = {name: getattr(self, name) for name in ("topic", "value", "key", "headers", "partition", "timestamp")}
        return ProducerRecord(**{**fields, "tombstone": self._tombstone, **changes})

    __replace__ = replace

    def _serialized(self, key: bytes | None, value: bytes | None) -> ProducerRecord:
        """The same record as bytes; the headers are the very same, so that what serializers add is seen here too."""
        made = ProducerRecord.__new__(ProducerRecord)
        made.topic, made.partition, made.timestamp, made._tombstone = (
            self.topic,
            self.partition,
            self.timestamp,
            self._tombstone,
        )
        made.key, made.value, made.headers = key, value, self.headers
        return made

    def copy(self) -> ProducerRecord:
        """The same record with open headers of its own."""
        return ProducerRecord(
            self.topic, self.value, self.key, self.headers, self.partition, self.timestamp, self._tombstone
        )

    __copy__ = copy

    def _fields(self) -> tuple[Any, ...]:
        return (self.topic, self.value, self.key, self.headers, self.partition, self.timestamp, self.tombstone)

    def __eq__(self, other: object) -> bool:
        return self._fields() == other._fields() if isinstance(other, ProducerRecord) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # headers can change

    def __repr__(self) -> str:
        return (
            f"ProducerRecord(topic={self.topic!r}, value={self.value!r}, key={self.key!r}, "
            f"headers={self.headers.to_list()!r}, partition={self.partition}, timestamp={self.timestamp}, "
            f"tombstone={self.tombstone})"
        )
