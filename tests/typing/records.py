"""What mypy --strict and pyright must make of headers and records. Read by type checkers, never run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, assert_type

import magicbyte as mb

# Headers of all that makes some.
mb.Headers()
mb.Headers(None)
mb.Headers([("k", b"v"), ("k", None)])
mb.Headers([mb.Header("k", b"v"), mb.Header("k"), mb.Header("k", bytearray(b"v"))])
mb.Headers({"k": b"v", "n": None})
headers = mb.Headers(mb.Headers())
mb.Headers("text")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
mb.Headers([(b"bytes", b"v")])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]

assert_type(headers.add("k", b"v"), mb.Headers)
assert_type(headers.add(mb.Header("k")).remove("k"), mb.Headers)
assert_type(headers.remove(mb.Header("k", None)), mb.Headers)
assert_type(headers.last_header("k"), mb.Header | None)
assert_type(headers.headers("k"), list[mb.Header])
assert_type(headers.get("k"), list[bytes | None])
assert_type(headers.keys(), list[str])
assert_type(headers.last, dict[str, bytes | None])
assert_type(headers.all, dict[str, list[bytes | None]])
assert_type(headers.to_list(), list[tuple[str, bytes | None]])
assert_type(headers[0], mb.Header)
assert_type(len(headers), int)
assert_type("k" in headers, bool)
assert_type(headers.read_only, bool)
assert_type(headers.copy(), mb.Headers)
for header in headers:
    assert_type(header.key, str)
    assert_type(header.value, bytes | None)
    assert_type(header.raw_key, bytes)
for key, value in headers.to_list():
    assert_type(key, str)
    assert_type(value, bytes | None)
headers.read_only = True  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
print(headers.last_header("k").key)  # type: ignore[union-attr]  # pyright: ignore[reportOptionalMemberAccess]

# Records.
record = mb.ProducerRecord("topic", b"value", b"key", [("k", b"v")], partition=1, timestamp=5, tombstone=None)
mb.ProducerRecord("topic", {"any": "object"}, 7, headers)
assert_type(record.headers, mb.Headers)
assert_type(record.tombstone, bool)
assert_type(record.partition, int | None)
assert_type(record.copy(), mb.ProducerRecord)
assert_type(record.replace(value=b"other"), mb.ProducerRecord)
record.close()

received = mb.ConsumerRecord("topic", 0, 5, 1_700_000_000_000, 0, b"key", None, headers, leader_epoch=3)
assert_type(received.offset, int)
assert_type(received.leader_epoch, int | None)
assert_type(received.control, mb.Control | None)
assert_type(received.to_producer_record("mirror", partition=2), mb.ProducerRecord)
assert_type(received.replace(value="text"), mb.ConsumerRecord)
received.offset = 6  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]

# Reading.
assert_type(mb.decode(b""), Iterator[mb.ConsumerRecord])
assert_type(mb.decode_batches(memoryview(b"")), Iterator[mb.RecordBatch])
assert_type(mb.encode([record, received]), bytes)
for batch in mb.Log("orders-0").batches():
    assert_type(batch.records, list[mb.Record])
    assert_type(batch.records[0].headers, mb.Headers)


def mirror(log: mb.Log, topic: str) -> Iterator[mb.ProducerRecord]:
    for one in log.records():
        made = one.to_producer_record(topic)
        made.headers.add("from", one.topic.encode())
        yield made


def anything(error: mb.CorruptRecordError) -> tuple[Any, ...]:
    return (error.path, error.position, error.kind)
