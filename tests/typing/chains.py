"""What mypy --strict and pyright must make of serdes, interceptors and header ids. Read by type checkers, never run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import assert_type
from uuid import UUID

import magicbyte as mb
from magicbyte import serdes
from magicbyte.ids import HeaderIds, IdHeaders
from magicbyte.interceptors import (
    Chain,
    ConsumerInterceptor,
    ConsumerPreDeserializationInterceptor,
    ProducerInterceptor,
    ProducerPostSerializationInterceptor,
    RecordMetadata,
    Timing,
)
from magicbyte.serdes import Deserializer, SerializationError, Serializer, as_deserializer, as_serializer

headers = mb.Headers()

# Serdes are what the protocols say, of their types.
text: Serializer[str] = serdes.StringSerializer()
ids: Deserializer[UUID] = serdes.UUIDDeserializer()
assert_type(serdes.StringSerializer().serialize("t", headers, "text"), bytes | None)
assert_type(serdes.StringDeserializer().deserialize("t", headers, b"text"), str | None)
assert_type(serdes.UUIDDeserializer().deserialize("t", headers, None), UUID | None)
wrong: Serializer[int] = serdes.StringSerializer()  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]


class Point:
    """A type of one's own."""

    def __init__(self, x: int) -> None:
        self.x = x


class PointSerializer:
    """Needs no base class."""

    def serialize(self, topic: str, headers: mb.Headers, data: Point | None) -> bytes | None:
        headers.add("content-type", b"point")
        return None if data is None else b"%d" % data.x


points: Serializer[Point] = PointSerializer()
as_serializer(points, "key")
as_deserializer(bytes.decode)


def explain(error: SerializationError) -> str:
    return f"{error.topic} {error.field}: {error}"


# Interceptors.
class Audit(ProducerInterceptor, ConsumerInterceptor):
    def on_send(self, record: mb.ProducerRecord) -> mb.ProducerRecord:
        record.headers.add("audit", b"1")
        return record

    def on_acknowledgement(
        self, metadata: RecordMetadata | None, error: BaseException | None, headers: mb.Headers | None
    ) -> None:
        if metadata is not None:
            assert_type(metadata.offset, int)

    def on_consume(self, records: list[mb.ConsumerRecord]) -> list[mb.ConsumerRecord]:
        return records[:10]

    def on_commit(self, offsets: Mapping[tuple[str, int], int]) -> None:
        print(offsets)


class Pieces(ProducerPostSerializationInterceptor, ConsumerPreDeserializationInterceptor):
    def post_serialize(self, record: mb.ProducerRecord) -> Iterator[mb.ProducerRecord]:
        yield record
        yield record.copy()

    def pre_deserialize(self, record: mb.ConsumerRecord) -> Iterable[mb.ConsumerRecord]:
        return ()


def stamp(record: mb.ProducerRecord) -> mb.ProducerRecord:
    return record


chain = Chain(Audit(), Pieces(), stamp, Chain(), errors="raise")
Chain(errors="ignore")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
assert_type(chain(mb.decode(b"")), Iterator[mb.ConsumerRecord])
assert_type(chain.sending([mb.ProducerRecord("t")]), Iterator[mb.ProducerRecord])
assert_type(chain.on_send(mb.ProducerRecord("t")), mb.ProducerRecord)
assert_type(chain.post_serialize(mb.ProducerRecord("t")), list[mb.ProducerRecord])
assert_type(chain.timings, dict[str, Timing])
assert_type(chain.timings["Audit"].seconds, float)
assert_type(chain.reversed(), Chain)

# Header ids.
registry = HeaderIds()
view = registry.of(headers)
assert_type(view, IdHeaders)
assert_type(view[5], bytes | None)
mapping: Mapping[int, bytes | None] = view
for id, value in view.items():
    assert_type(id, int)
    assert_type(value, bytes | None)
assert_type(registry.id_of("trace"), int | None)
assert_type(registry.from_bytes(registry.to_bytes(headers)), mb.Headers)
