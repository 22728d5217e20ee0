"""The serdes of `org.apache.kafka.common.serialization`, byte for byte, and JSON. None is None, both ways."""

from __future__ import annotations

import json
import struct
import uuid
from collections.abc import Callable
from typing import Any

from magicbyte._core import Headers

from .base import SerializationError


class BytesSerializer:
    """Bytes as they are; bytearray and memoryview are copied."""

    def serialize(self, topic: str, headers: Headers, data: bytes | bytearray | memoryview | None) -> bytes | None:
        if data is None or isinstance(data, bytes):
            return data
        if isinstance(data, bytearray | memoryview):
            return bytes(data)
        raise SerializationError(f"bytes are expected, not {type(data).__name__}", topic)


class BytesDeserializer:
    """Bytes as they are."""

    def deserialize(self, topic: str, headers: Headers, data: bytes | None) -> bytes | None:
        return data


class StringSerializer:
    """Text in an encoding, UTF-8 by default."""

    def __init__(self, encoding: str = "utf-8") -> None:
        self.encoding = encoding

    def serialize(self, topic: str, headers: Headers, data: str | None) -> bytes | None:
        if data is None:
            return None
        if not isinstance(data, str):
            raise SerializationError(f"a str is expected, not {type(data).__name__}", topic)
        try:
            return data.encode(self.encoding)
        except UnicodeEncodeError as error:
            raise SerializationError(str(error), topic) from error


class StringDeserializer:
    """Text in an encoding, UTF-8 by default. ``errors`` as in ``bytes.decode``; Java's class replaces."""

    def __init__(self, encoding: str = "utf-8", errors: str = "strict") -> None:
        self.encoding, self.errors = encoding, errors

    def deserialize(self, topic: str, headers: Headers, data: bytes | None) -> str | None:
        if data is None:
            return None
        try:
            return str(data, self.encoding, self.errors)
        except UnicodeDecodeError as error:
            raise SerializationError(str(error), topic) from error


class _NumberSerializer:
    _layout = struct.Struct(">q")
    _kinds: tuple[type, ...] = (int,)

    def serialize(self, topic: str, headers: Headers, data: Any) -> bytes | None:
        if data is None:
            return None
        # A bool would pass for an int, and come back as one.
        if not isinstance(data, self._kinds) or isinstance(data, bool):
            raise SerializationError(f"{self._kinds[0].__name__} is expected, not {type(data).__name__}", topic)
        try:
            return self._layout.pack(data)
        except (struct.error, OverflowError) as error:
            raise SerializationError(f"{data!r} has no {self._layout.size} bytes: {error}", topic) from error


class _NumberDeserializer:
    _layout = struct.Struct(">q")

    def deserialize(self, topic: str, headers: Headers, data: bytes | None) -> Any:
        if data is None:
            return None
        if len(data) != self._layout.size:
            raise SerializationError(f"{self._layout.size} bytes are expected, not {len(data)}", topic)
        return self._layout.unpack(data)[0]


class ShortSerializer(_NumberSerializer):
    """int16, big-endian."""

    _layout = struct.Struct(">h")


class ShortDeserializer(_NumberDeserializer):
    """int16, big-endian."""

    _layout = struct.Struct(">h")


class IntegerSerializer(_NumberSerializer):
    """int32, big-endian."""

    _layout = struct.Struct(">i")


class IntegerDeserializer(_NumberDeserializer):
    """int32, big-endian."""

    _layout = struct.Struct(">i")


class LongSerializer(_NumberSerializer):
    """int64, big-endian."""


class LongDeserializer(_NumberDeserializer):
    """int64, big-endian."""


class FloatSerializer(_NumberSerializer):
    """IEEE 754 single precision, big-endian."""

    _layout = struct.Struct(">f")
    _kinds = (float, int)


class FloatDeserializer(_NumberDeserializer):
    """IEEE 754 single precision, big-endian."""

    _layout = struct.Struct(">f")


class DoubleSerializer(_NumberSerializer):
    """IEEE 754 double precision, big-endian."""

    _layout = struct.Struct(">d")
    _kinds = (float, int)


class DoubleDeserializer(_NumberDeserializer):
    """IEEE 754 double precision, big-endian."""

    _layout = struct.Struct(">d")


class UUIDSerializer:
    """A UUID as Kafka's class writes it: its 36 characters."""

    def serialize(self, topic: str, headers: Headers, data: uuid.UUID | None) -> bytes | None:
        if data is None:
            return None
        if not isinstance(data, uuid.UUID):
            raise SerializationError(f"a UUID is expected, not {type(data).__name__}", topic)
        return str(data).encode()


class UUIDDeserializer:
    """A UUID of its 36 characters."""

    def deserialize(self, topic: str, headers: Headers, data: bytes | None) -> uuid.UUID | None:
        if data is None:
            return None
        try:
            return uuid.UUID(data.decode("ascii"))
        except ValueError as error:
            raise SerializationError(f"no UUID: {error}", topic) from error


class JsonSerializer:
    """JSON in UTF-8 without blanks. ``default`` as in ``json.dumps``: makes something of what JSON does not have."""

    def __init__(self, default: Callable[[Any], Any] | None = None, sort_keys: bool = False) -> None:
        self.default, self.sort_keys = default, sort_keys

    def serialize(self, topic: str, headers: Headers, data: Any) -> bytes | None:
        if data is None:
            return None
        try:
            text = json.dumps(
                data,
                default=self.default,
                sort_keys=self.sort_keys,
                separators=(",", ":"),
                ensure_ascii=False,
                allow_nan=False,
            )
            return text.encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise SerializationError(f"no JSON: {error}", topic) from error


class JsonDeserializer:
    """An object of its JSON."""

    def deserialize(self, topic: str, headers: Headers, data: bytes | None) -> Any:
        if data is None:
            return None
        try:
            return json.loads(data)
        except (ValueError, RecursionError) as error:
            raise SerializationError(f"no JSON: {error}", topic) from error
