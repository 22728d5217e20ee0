"""What every client does to a record: the way out to the wire, and the way in."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from magicbyte._core import ConsumerRecord
from magicbyte.interceptors import Chain, RecordMetadata, as_chain
from magicbyte.records import ProducerRecord
from magicbyte.serdes import Deserializer, SerializationError, Serializer, as_deserializer, as_serializer
from magicbyte.serdes.base import Field


class WayOut:
    """``on_send``, serializers, ``post_serialize``; headers are closed when the client has taken the record."""

    def __init__(self, key_serializer: Any, value_serializer: Any, interceptors: Any) -> None:
        self._key = None if key_serializer is None else as_serializer(key_serializer, "key")
        self._value = None if value_serializer is None else as_serializer(value_serializer, "value")
        self.chain: Chain = as_chain(interceptors)

    @contextmanager
    def sending(self, record: ProducerRecord) -> Iterator[list[ProducerRecord]]:
        """The records that leave for this one: usually one, any number with ``post_serialize``.

        Where the client does not take them (its queue is full, the topic is unknown), the headers are as they were, so
        that the same record can be sent again.
        """
        closed = record.headers.read_only
        before = None if closed else record.headers.copy()
        try:
            parts = self._parts(record)
            yield parts
        except BaseException:
            if before is not None and record.headers != before:
                for key in record.headers.keys():  # noqa: SIM118  # headers iterate headers
                    record.headers.remove(key)
                for header in before:
                    record.headers.add(header)
            raise
        record.close()
        for part in parts:
            part.close()

    def _parts(self, record: ProducerRecord) -> list[ProducerRecord]:
        try:
            record = self.chain.on_send(record)
            key = _serialize(self._key, record, "key")
            value = _serialize(self._value, record, "value")
            parts = self.chain.post_serialize(record._serialized(key, value))
            for part in parts:
                _check_tombstone(part)
            return parts
        except Exception as error:
            self.failed(record, error)
            raise

    def failed(self, record: ProducerRecord, error: BaseException) -> None:
        """Tells the interceptors that a record was not sent."""
        partition = -1 if record.partition is None else record.partition
        self.chain.on_acknowledgement(RecordMetadata(record.topic, partition), error, record.headers)


def _serialize(serializer: Serializer[Any] | None, record: ProducerRecord, field: Field) -> bytes | None:
    data = getattr(record, field)
    if serializer is None:
        # What clients take without a serializer.
        if data is None or isinstance(data, bytes):
            return data
        if isinstance(data, str):
            return data.encode()
        if isinstance(data, bytearray | memoryview):
            return bytes(data)
        raise SerializationError(f"a {type(data).__name__} needs a serializer", record.topic, field, record)
    try:
        return serializer.serialize(record.topic, record.headers, data)
    except SerializationError as error:
        raise _told(error, record, field) from error.__cause__


def _check_tombstone(record: ProducerRecord) -> None:
    if record.tombstone != (record.value is None):
        kind = "a tombstone with a value" if record.tombstone else "a null value that is no tombstone"
        raise ValueError(f"{record.topic}: {kind} cannot be sent: only KIP-87's format has a flag for it")


def _told(error: SerializationError, record: Any, field: Field) -> SerializationError:
    error.topic = error.topic or record.topic
    error.field = error.field or field
    error.record = error.record or record
    return error


class WayIn:
    """``pre_deserialize``, deserializers, ``on_record`` and ``on_consume``.

    An error comes when its record is the next one: what was received before it is delivered first, what behind it after.
    """

    def __init__(self, key_deserializer: Any, value_deserializer: Any, interceptors: Any) -> None:
        self._key = None if key_deserializer is None else as_deserializer(key_deserializer, "key")
        self._value = None if value_deserializer is None else as_deserializer(value_deserializer, "value")
        self.chain: Chain = as_chain(interceptors)
        self._received: deque[ConsumerRecord | Exception] = deque()
        self._opened: deque[ConsumerRecord] = deque()

    def feed(self, records: Iterable[ConsumerRecord | Exception]) -> None:
        """What the client gave, errors at their places."""
        self._received.extend(records)

    def forget(self) -> None:
        """Drops what was received and not delivered: the client was sent elsewhere."""
        self._received.clear()
        self._opened.clear()

    def take(self, most: int) -> list[ConsumerRecord]:
        """Up to ``most`` records; empty when all that was received has been delivered or is held back.

        Raises:
            SerializationError: of the record at the head; or what interceptors raise, or the client's own error.
        """
        return self.chain.on_consume(self._ready(most))

    def _ready(self, most: int) -> list[ConsumerRecord]:
        found: list[ConsumerRecord] = []
        while len(found) < most:
            try:
                if self._opened:
                    found.append(self._deserialized(self._opened[0]))
                    self._opened.popleft()
                elif self._received:
                    head = self._received[0]
                    if isinstance(head, Exception):
                        raise head
                    self._opened.extend(self.chain.pre_deserialize(head))
                    self._received.popleft()
                else:
                    break
            except Exception:
                # Those before it first; the error when it is the next.
                if not found:
                    (self._opened or self._received).popleft()
                    raise
                break
        return found

    def _deserialized(self, record: ConsumerRecord) -> ConsumerRecord:
        if self._key is None and self._value is None:
            return record
        return record.replace(
            key=_deserialize(self._key, record, "key"),
            value=_deserialize(self._value, record, "value"),
            headers=record.headers,
        )


def _deserialize(deserializer: Deserializer[Any] | None, record: ConsumerRecord, field: Field) -> Any:
    data = getattr(record, field)
    if deserializer is None:
        return data
    try:
        return deserializer.deserialize(record.topic, record.headers, data)
    except SerializationError as error:
        raise _told(error, record, field) from error.__cause__
