"""Objects to bytes and back: KIP-82's serializers, which see a record's headers, and what makes one of anything older.

    producer = Producer(config, value_serializer=serdes.JsonSerializer(), key_serializer=serdes.LongSerializer())

A serializer has ``serialize(topic, headers, data) -> bytes | None``, a deserializer ``deserialize(topic, headers, data)``;
headers may be read and added to. Those here write what Kafka's own classes of the same names write, and turn None into
None. ``as_serializer`` and ``as_deserializer`` take the two-argument form, functions and confluent-kafka's as they are.
Avro (``serdes.avro``) needs the extra ``avro``.
"""

from .base import (
    Deserializer,
    SerializationError,
    Serializer,
    as_deserializer,
    as_serializer,
)
from .basic import (
    BytesDeserializer,
    BytesSerializer,
    DoubleDeserializer,
    DoubleSerializer,
    FloatDeserializer,
    FloatSerializer,
    IntegerDeserializer,
    IntegerSerializer,
    JsonDeserializer,
    JsonSerializer,
    LongDeserializer,
    LongSerializer,
    ShortDeserializer,
    ShortSerializer,
    StringDeserializer,
    StringSerializer,
    UUIDDeserializer,
    UUIDSerializer,
)
from .confluent import ConfluentDeserializer, ConfluentSerializer

__all__ = [
    "BytesDeserializer",
    "BytesSerializer",
    "ConfluentDeserializer",
    "ConfluentSerializer",
    "Deserializer",
    "DoubleDeserializer",
    "DoubleSerializer",
    "FloatDeserializer",
    "FloatSerializer",
    "IntegerDeserializer",
    "IntegerSerializer",
    "JsonDeserializer",
    "JsonSerializer",
    "LongDeserializer",
    "LongSerializer",
    "SerializationError",
    "Serializer",
    "ShortDeserializer",
    "ShortSerializer",
    "StringDeserializer",
    "StringSerializer",
    "UUIDDeserializer",
    "UUIDSerializer",
    "as_deserializer",
    "as_serializer",
]
