"""Serializers of confluent-kafka behind KIP-82's three arguments, so that its schema registry's can be used as they are."""

from __future__ import annotations

import sys
from typing import Any

from magicbyte._core import Headers

from .base import Field, SerializationError

__all__ = ["ConfluentDeserializer", "ConfluentSerializer"]


class _Adapter:
    def __init__(self, serde: Any, field: Field = "value") -> None:
        self.serde = serde
        self.field: Field = field

    def _run(self, topic: str, headers: Headers, data: Any) -> Any:
        from confluent_kafka.serialization import MessageField, SerializationContext
        from confluent_kafka.serialization import SerializationError as ConfluentError

        before = headers.to_list()
        pairs: Any = list(before)
        field = MessageField.KEY if self.field == "key" else MessageField.VALUE
        try:
            done = self.serde(data, SerializationContext(topic, field, pairs))
        except ConfluentError as error:
            raise SerializationError(f"{type(self.serde).__name__}: {error}", topic, self.field) from error
        if pairs != before:
            _carry_over(headers, before, pairs)
        return done


def _carry_over(headers: Headers, before: list[Any], after: list[Any]) -> None:
    """What the serializer did to its list is done to the headers; raises where they are closed."""
    added = after[len(before) :]
    if after[: len(before)] != before:
        for key in headers.first:
            headers.remove(key)
        added = after
    for key, value in added:
        headers.add(key, value.encode() if isinstance(value, str) else value)


class ConfluentSerializer(_Adapter):
    """A serializer of confluent-kafka: ``(object, SerializationContext) -> bytes``. Headers that it adds are added."""

    def serialize(self, topic: str, headers: Headers, data: Any) -> bytes | None:
        done = self._run(topic, headers, data)
        return done.encode() if isinstance(done, str) else done


class ConfluentDeserializer(_Adapter):
    """A deserializer of confluent-kafka: ``(bytes, SerializationContext) -> object``."""

    def deserialize(self, topic: str, headers: Headers, data: bytes | None) -> Any:
        return self._run(topic, headers, data)


def confluent_form(given: Any, field: Field, name: str) -> Any:
    """The adapter, if ``given`` is confluent-kafka's; the library is asked only where it was imported already."""
    library = sys.modules.get("confluent_kafka.serialization")
    if library is None:
        return None
    if name == "serialize" and isinstance(given, library.Serializer):
        return ConfluentSerializer(given, field)
    if name == "deserialize" and isinstance(given, library.Deserializer):
        return ConfluentDeserializer(given, field)
    return None
