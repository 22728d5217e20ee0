"""Schemas in headers: Confluent's vectors, Apicurio's bytes, confluent-kafka's own serializers as oracle, typed columns."""

from __future__ import annotations

import hashlib
import io
import json
import pickle
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import magicbyte as mb
from magicbyte.interceptors import Chain
from magicbyte.middleware import BadHeaderError, quarantined
from magicbyte.serdes import SerializationError

from kafka_rows import rows_of

pytest.importorskip("fastavro")

import fastavro

from magicbyte.middleware.registries import ConfluentRegistry, DirectoryRegistry, MemoryRegistry, md5_of
from magicbyte.middleware.schemas import SchemaHeaders, SchemaId, confluent_id, message_indexes

# confluent-kafka-python, tests/schema_registry: the GUID and the id of its vectors.
GUID = bytes.fromhex("01 89791762 2336 4186 9674 299b90a802e2")
OLD = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [{"name": "id", "type": "long"}, {"name": "gone", "type": "string"}],
}
NEW = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "tags", "type": {"type": "array", "items": "string"}, "default": []},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}, "default": 0},
    ],
}
STYLES = ["confluent", "apicurio", "md5", "prefix"]


def avro(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def received(record: Any) -> mb.ConsumerRecord:
    return mb.ConsumerRecord(record.topic, 0, 7, 1000, 0, record.key, record.value, record.headers)


@pytest.fixture
def registry() -> MemoryRegistry:
    return MemoryRegistry({1: json.dumps(OLD), 7: json.dumps(NEW)})


def test_confluents_vectors() -> None:
    assert confluent_id(GUID) == (SchemaId(guid="89791762-2336-4186-9674-299b90a802e2"), b"")
    assert confluent_id(b"\0\0\0\0\1") == (SchemaId(id=1), b"")
    found = confluent_id(GUID + b"\x06\x02\x04\x06")
    assert found and message_indexes(found[1]) == (1, 2, 3)
    assert message_indexes(b"\0") == (0,)
    for cut in (b"", b"\0\0\0\0", GUID[:-1], b"\2" + GUID[1:]):
        assert confluent_id(cut) is None
    for cut in (b"", b"\x06\x02", b"\xff" * 9, b"\x01", b"\x80"):
        assert message_indexes(cut) is None


def test_apicurios_bytes(registry: MemoryRegistry) -> None:
    """As Apicurio's Java serializer writes them: globalId 3 is 00 00 00 00 00 00 00 03, and BINARY."""
    schemas = SchemaHeaders(registry=MemoryRegistry({3: json.dumps(NEW)}), schema=NEW, write="apicurio")
    headers = mb.Headers()
    assert schemas.serialize("t", headers, {"id": 5}) == avro(NEW, {"id": 5})
    assert headers.to_list() == [
        ("apicurio.value.globalId", bytes([0, 0, 0, 0, 0, 0, 0, 3])),
        ("apicurio.value.encoding", bytes([66, 73, 78, 65, 82, 89])),
    ]
    for name, value in (("globalId", b"\0" * 7 + b"\3"), ("contentId", b"\0" * 7 + b"\3"), ("globalId", b"3")):
        some = mb.Headers([(f"apicurio.value.{name}", value)])
        assert schemas.deserialize("t", some, avro(NEW, {"id": 5}))["id"] == 5


def test_the_documents_md5() -> None:
    """`avro/binary` and the MD5 of the canonical form, as Avro's specification makes it."""
    schemas = SchemaHeaders(registry=MemoryRegistry(), schema={"type": "int", "doc": "not canonical"}, write="md5")
    headers = mb.Headers([("schema-md5", b"stale")])
    assert schemas.serialize("t", headers, 5) == b"\x0a"
    assert headers.last == {"content-type": b"avro/binary", "schema-md5": hashlib.md5(b'"int"').digest()}
    assert schemas.deserialize("t", headers, b"\x0a") == 5
    assert md5_of('"int"').hex() == "ef524ea1b91e73173d938ade36c1db32"  # Avro's own test of fingerprints


@pytest.mark.parametrize("write", STYLES)
@pytest.mark.parametrize("field", ["value", "key"])
def test_there_and_back_through_a_log(registry: MemoryRegistry, write: Any, field: Any) -> None:
    schemas = SchemaHeaders(
        registry=registry, schema={"orders-*": OLD, "*": NEW}, write=write, field=field, policy="raise"
    )
    chain = pickle.loads(pickle.dumps(Chain(schemas, errors="raise")))
    old, new = {"id": 1, "gone": "x"}, {"id": 2, "note": "ü", "tags": ["a"], "at": 0}
    sent = [
        mb.ProducerRecord("orders-eu", **{field: old}),
        mb.ProducerRecord("t", **{field: new}),
        mb.ProducerRecord("t"),
    ]
    data = mb.encode(chain.sending(sent))
    stored = list(mb.decode(data))
    assert getattr(stored[0], field) == (b"\0\0\0\0\1" if write == "prefix" else b"") + avro(OLD, old)
    assert (len(stored[0].headers) == 0) == (write == "prefix")
    found = [getattr(record, field) for record in chain(mb.decode(data))]
    assert found[0] == old and found[1]["note"] == "ü" and found[2] is None
    assert getattr(sent[0], field) == old and not sent[0].headers
    as_new = SchemaHeaders(registry=registry, reader_schema=NEW, field=field)
    assert getattr(as_new.on_record(next(mb.decode(data))), field)["tags"] == []


def test_the_order_in_which_identities_are_looked_for(registry: MemoryRegistry) -> None:
    schemas = SchemaHeaders(registry=registry)
    body = avro(OLD, {"id": 1, "gone": ""})
    one, other = b"\0\0\0\0\1", b"\0\0\0\0\7"
    # The last duplicate counts, as in Java; a header goes before the prefix; Confluent's before Apicurio's.
    last = mb.Headers([("__value_schema_id", other), ("apicurio.value.globalId", bytes(8)), ("__value_schema_id", one)])
    assert schemas.deserialize("t", last, body) == {"id": 1, "gone": ""}
    assert schemas.deserialize("t", mb.Headers(), one + body) == {"id": 1, "gone": ""}
    assert schemas.identify(mb.Headers([("schema-md5", md5_of(json.dumps(NEW)))]), b"x") == (
        SchemaId(md5=md5_of(json.dumps(NEW))),
        b"x",
    )
    guid = mb.Headers([("__value_schema_id", GUID + b"\x02\x02")])
    assert schemas.identify(guid, b"") == (SchemaId(guid="89791762-2336-4186-9674-299b90a802e2", indexes=(1,)), b"")


def test_outcomes(registry: MemoryRegistry) -> None:
    registry.schemas[8] = 'syntax = "proto3";'
    schemas = SchemaHeaders(registry=registry)
    body = avro(OLD, {"id": 1, "gone": ""})
    for headers, value, reason in (
        ([], b"x", "no schema"),
        ([], b"", "no schema"),
        ([("__value_schema_id", None)], body, "malformed, __value_schema_id"),
        ([("__value_schema_id", GUID[:-1])], body, "malformed, __value_schema_id"),
        ([("__value_schema_id", GUID)], body, "unknown schema, 89791762-2336-4186-9674-299b90a802e2"),
        ([("__value_schema_id", b"\0\0\0\0\2")], body, "unknown schema, 2"),
        ([("__value_schema_id", b"\0\0\0\0\x08")], body, "unknown schema, 8"),
        ([("apicurio.value.globalId", b"x")], body, "malformed, apicurio.value.globalId"),
        ([("apicurio.value.contentId", None)], body, "malformed, apicurio.value.contentId"),
        ([("apicurio.value.globalId", b"1"), ("apicurio.value.encoding", b"JSON")], body, "unknown encoding, JSON"),
        ([("schema-md5", b"short")], body, "malformed, schema-md5"),
        ([("schema-md5", bytes(16))], body, "unknown schema, 00000000000000000000000000000000"),
        ([("__value_schema_id", b"\0\0\0\0\1")], body + b"x", "broken, bytes behind the object"),
        ([("__value_schema_id", b"\0\0\0\0\1")], b"", "broken, "),
    ):
        record = mb.ConsumerRecord("t", 0, 0, 0, 0, None, value, headers)
        found = schemas.on_record(record.copy())
        assert quarantined(found)[0].startswith(f"SchemaHeaders: {reason}") and found.value == value
        with pytest.raises(SerializationError, match=reason):
            schemas.deserialize("t", record.headers, value)
    with pytest.raises(SerializationError, match="no schema for topic t"):
        SchemaHeaders(registry=registry, schema={"orders": OLD}).serialize("t", mb.Headers(), {})
    with pytest.raises(SerializationError, match="not of the schema"):
        SchemaHeaders(registry=registry, schema=OLD).serialize("t", mb.Headers(), {"id": "x"})
    for options in ({"write": "x"}, {"read": ["x"]}, {"field": "x"}):
        with pytest.raises(ValueError, match="."):
            SchemaHeaders(registry=registry, **options)


def test_confluents_own_serializers() -> None:
    """Their serializer writes, we read; we write, their deserializer reads: by GUID in headers, and by prefix."""
    registries = pytest.importorskip("confluent_kafka.schema_registry")
    theirs = pytest.importorskip("confluent_kafka.schema_registry.avro")
    from confluent_kafka.serialization import MessageField, SerializationContext

    client = registries.SchemaRegistryClient.new_client({"url": "mock://"})
    registry, text, value = ConfluentRegistry(client=client), json.dumps(OLD), {"id": 9, "gone": "é" * 9}
    in_headers = {"schema.id.serializer": registries.header_schema_id_serializer}
    for conf, write in ((in_headers, "confluent"), ({}, "prefix")):
        context = SerializationContext("t", MessageField.VALUE, headers := [])
        data = theirs.AvroSerializer(client, text, conf=conf)(value, context)
        assert [len(header) for _, header in headers] == ([17] if conf else [])
        ours = SchemaHeaders(registry=registry, schema=OLD, write=write)  # type: ignore[arg-type]
        assert ours.deserialize("t", mb.Headers(headers), data) == value
        made = mb.Headers()
        again = ours.serialize("t", made, value)
        assert (again, made.to_list()) == (data, headers)
        reader = theirs.AvroDeserializer(
            client, conf={"schema.id.deserializer": registries.dual_schema_id_deserializer}
        )
        assert reader(again, SerializationContext("t", MessageField.VALUE, made.to_list())) == value
    assert registry.by_id(999) is None and registry.by_id(999) is None
    other = client.register_schema("p-value", registries.Schema('syntax = "proto3"; message A {}', "PROTOBUF"))
    assert registry.by_id(other) is None
    assert registry.by_md5(md5_of(text)) == text and registry.by_md5(bytes(16)) is None
    with pytest.raises(TypeError, match="config"):
        pickle.dumps(registry)
    with pytest.raises(ValueError, match="either"):
        ConfluentRegistry()
    again = pickle.loads(pickle.dumps(ConfluentRegistry({"url": "http://127.0.0.1:9"})))
    assert again._config == {"url": "http://127.0.0.1:9"}


def test_a_directory_of_schemas(tmp_path: Path) -> None:
    (tmp_path / "7.avsc").write_text(json.dumps(OLD))
    (tmp_path / "named.avsc").write_text('"int"')
    (tmp_path / "8.avsc").write_text("{half of a sche")
    registry = DirectoryRegistry(tmp_path, every=0)
    assert registry.by_id(7) == json.dumps(OLD) and registry.by_id(8) is None and registry.by_id(9) is None
    assert registry.by_md5(md5_of('"int"')) == '"int"'
    assert registry.by_guid("ef524ea1-b91e-7317-3d93-8ade36c1db32") == '"int"'
    made = registry.register("t-value", json.dumps(NEW))
    assert made.id == 9  # 8 is taken, if by half a schema
    assert DirectoryRegistry(tmp_path).by_id(made.id) == json.dumps(NEW)
    assert registry.register("other", json.dumps(NEW)) == made
    assert MemoryRegistry().register("t", json.dumps(NEW)).guid == made.guid
    assert pickle.loads(pickle.dumps(registry)).by_id(7) == json.dumps(OLD)
    (tmp_path / "50.avsc").write_text('"string"')
    assert registry.by_id(50) == '"string"'


def test_many_register_at_once(tmp_path: Path) -> None:
    found: list[Any] = []

    def work(number: int) -> None:
        registry = DirectoryRegistry(tmp_path)
        found.extend(
            registry.register("t", json.dumps({"type": "fixed", "name": f"f{n}", "size": 4}))
            for n in range(number % 2, 10)
        )

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    by_guid: dict[str, set[int]] = {}
    for one in found:
        by_guid.setdefault(one.guid, set()).add(one.id)
    assert len(by_guid) == 10 and not list(tmp_path.glob("*.tmp")) and not list(tmp_path.glob(".*"))
    assert all(DirectoryRegistry(tmp_path).by_id(id) for ids in by_guid.values() for id in ids)


def test_typed_columns(registry: MemoryRegistry) -> None:
    """Two schemas, three ways to name them, and rows that cannot be read, in one batch."""
    schemas = SchemaHeaders(registry=registry, reader_schema=NEW)
    by_md5 = [("schema-md5", md5_of(json.dumps(NEW)))]
    new = avro(NEW, {"id": 2, "note": "n", "tags": ["a", "b"], "at": 1000})
    records = [
        mb.ConsumerRecord(
            "t", 0, 0, 5, 0, b"k", avro(OLD, {"id": 1, "gone": ""}), [("__value_schema_id", b"\0\0\0\0\1")]
        ),
        mb.ConsumerRecord("t", 0, 1, 5, 0, b"k", new, by_md5),
        mb.ConsumerRecord("t", 0, 2, 5, 0, b"k", b"\0\0\0\0\7" + new),
        mb.ConsumerRecord("t", 0, 3, 5, 0, b"k", None),
        mb.ConsumerRecord("t", 0, 4, 5, 0, b"k", b"?"),
    ]
    [batch] = schemas.typed(["offset"])([rows_of(records)])
    assert batch.schema == schemas.typed_schema(["offset"])
    assert batch.schema.names == ["offset", "id", "note", "tags", "at", "schema_error"]
    assert batch.column("id").to_pylist() == [1, 2, 2, None, None]
    assert batch.column("tags").to_pylist() == [[], ["a", "b"], ["a", "b"], None, None]
    assert batch.column("at").cast(pa.int64()).to_pylist() == [0, 1_000_000, 1_000_000, None, None]
    assert batch.column("schema_error").to_pylist() == [None] * 4 + ["SchemaHeaders: no schema"]
    assert dict(schemas.counts) == {"read": 3, "null": 1, "no schema": 1}
    one = SchemaHeaders(registry=registry, reader_schema=NEW)
    values = [one.on_record(record).value for record in records[:3]]
    assert [value["id"] for value in values] == batch.column("id").to_pylist()[:3]
    [fewer] = SchemaHeaders(registry=registry, reader_schema=NEW, policy="reject").typed()([rows_of(records)])
    assert fewer.num_rows == 4
    seen: list[str] = []
    aside = SchemaHeaders(registry=registry, reader_schema=NEW, quarantine=lambda record, reason: seen.append(reason))
    assert next(iter(aside.typed()([rows_of(records)]))).num_rows == 5 and seen == ["SchemaHeaders: no schema"]
    with pytest.raises(BadHeaderError, match="no schema"):
        list(SchemaHeaders(registry=registry, reader_schema=NEW, policy="raise").typed()([rows_of(records)]))
    for options, keep in (({}, []), ({"reader_schema": "int"}, []), ({"reader_schema": NEW}, ["value"])):
        with pytest.raises(ValueError, match="."):
            SchemaHeaders(registry=registry, **options).typed(keep)


def test_avros_types_as_arrows() -> None:
    from magicbyte.middleware._avro_arrow import type_of

    inner = {"type": "record", "name": "In", "namespace": "n", "fields": [{"name": "x", "type": "double"}]}
    cases = [
        (["null", "int"], pa.int32()),
        ({"type": "map", "values": "bytes"}, pa.map_(pa.string(), pa.binary())),
        ({"type": "enum", "name": "e", "symbols": ["a"]}, pa.string()),
        ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, pa.decimal128(9, 2)),
        ({"type": "int", "logicalType": "date"}, pa.date32()),
        ({"type": "string", "logicalType": "uuid"}, pa.string()),
        ({"type": {"type": "array", "items": "float"}}, pa.list_(pa.float32())),
        (
            {"type": "record", "name": "O", "fields": [{"name": "a", "type": inner}, {"name": "b", "type": "n.In"}]},
            pa.struct([("a", pa.struct([("x", pa.float64())])), ("b", pa.struct([("x", pa.float64())]))]),
        ),
    ]
    for schema, expected in cases:
        assert type_of(schema) == expected
    recursive = {"type": "record", "name": "L", "fields": [{"name": "next", "type": ["null", "L"]}]}
    for schema in (
        ["int", "string"],
        "unheard",
        recursive,
        {"type": "fixed", "name": "d", "size": 12, "logicalType": "duration"},
    ):
        with pytest.raises(ValueError, match="."):
            type_of(schema)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["__value_schema_id", "apicurio.value.globalId", "schema-md5"]),
            st.none() | st.binary(max_size=20),
        )
    ),
    st.binary(max_size=30),
)
def test_any_bytes(headers: list[Any], value: bytes) -> None:
    schemas = SchemaHeaders(registry=MemoryRegistry({1: json.dumps(OLD), 7: json.dumps(NEW)}), reader_schema=NEW)
    record = mb.ConsumerRecord("t", 0, 0, 0, 0, None, value, headers)
    found = schemas.on_record(record.copy())
    assert found.value == value or isinstance(found.value, dict)
    [batch] = schemas.typed([])([rows_of([record])])
    assert (batch.column("schema_error").to_pylist()[0] is None) == isinstance(found.value, dict)
