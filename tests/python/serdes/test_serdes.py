"""Serdes: Kafka's bytes, None as None, errors of one kind, and older forms wrapped."""

from __future__ import annotations

import math
import uuid
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

import magicbyte as mb
from magicbyte import serdes
from magicbyte.serdes import Deserializer, SerializationError, Serializer, as_deserializer, as_serializer

NAMES = ["Bytes", "String", "Short", "Integer", "Long", "Float", "Double", "UUID", "Json"]
A_UUID = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")

# What Kafka's classes of these names write.
KNOWN: list[tuple[str, Any, bytes]] = [
    ("Bytes", b"\x00\xff", b"\x00\xff"),
    ("Bytes", b"", b""),
    ("String", "", b""),
    ("String", "ключ🔑", "ключ🔑".encode()),
    ("Short", -2, b"\xff\xfe"),
    ("Integer", 1, b"\x00\x00\x00\x01"),
    ("Integer", -(2**31), b"\x80\x00\x00\x00"),
    ("Long", 2**63 - 1, b"\x7f" + b"\xff" * 7),
    ("Float", 1.5, b"\x3f\xc0\x00\x00"),
    ("Double", -0.0, b"\x80" + bytes(7)),
    ("UUID", A_UUID, b"00112233-4455-6677-8899-aabbccddeeff"),
    ("Json", {"a": [1, None, "ü"]}, '{"a":[1,null,"ü"]}'.encode()),
]


def pair(name: str) -> tuple[Any, Any]:
    return getattr(serdes, f"{name}Serializer")(), getattr(serdes, f"{name}Deserializer")()


@pytest.mark.parametrize("name, data, expected", KNOWN)
def test_bytes_as_kafkas(name: str, data: Any, expected: bytes) -> None:
    serializer, deserializer = pair(name)
    headers = mb.Headers()
    assert serializer.serialize("t", headers, data) == expected
    back = deserializer.deserialize("t", headers, expected)
    assert back == data and type(back) is type(data)
    assert len(headers) == 0


@pytest.mark.parametrize("name", NAMES)
def test_null_is_null(name: str) -> None:
    serializer, deserializer = pair(name)
    assert serializer.serialize("t", mb.Headers(), None) is None
    assert deserializer.deserialize("t", mb.Headers(), None) is None
    assert isinstance(serializer, Serializer) and isinstance(deserializer, Deserializer)
    assert as_serializer(serializer) is serializer and as_deserializer(deserializer) is deserializer


@pytest.mark.parametrize(
    "name, data",
    [
        ("Bytes", "text"),
        ("String", b"bytes"),
        ("String", "\ud800"),
        ("Short", 2**15),
        ("Integer", 2**31),
        ("Integer", "1"),
        ("Integer", 1.0),
        ("Long", True),
        ("Long", -(2**63) - 1),
        ("Float", 1e39),
        ("Float", "1"),
        ("UUID", str(A_UUID)),
        ("Json", {1, 2}),
        ("Json", math.nan),
    ],
)
def test_what_cannot_be_written(name: str, data: Any) -> None:
    with pytest.raises(SerializationError) as caught:
        pair(name)[0].serialize("orders", mb.Headers(), data)
    assert caught.value.topic == "orders"
    assert isinstance(caught.value, mb.MagicbyteError)


@pytest.mark.parametrize(
    "name, data",
    [
        ("String", b"\xff"),
        ("Short", b""),
        ("Integer", b"\x00" * 5),
        ("Long", b"\x00" * 4),
        ("Float", b"\x00" * 8),
        ("UUID", b"no uuid"),
        ("UUID", b"\xff" * 36),
        ("Json", b"{"),
        ("Json", b"\xff"),
        ("Json", b"[" * 100_000),
        ("Json", b"1" * 10_000),
    ],
)
def test_what_cannot_be_read(name: str, data: bytes) -> None:
    with pytest.raises(SerializationError):
        pair(name)[1].deserialize("orders", mb.Headers(), data)


@pytest.mark.parametrize("name", NAMES)
@given(data=st.binary(max_size=40))
def test_any_bytes(name: str, data: bytes) -> None:
    try:
        pair(name)[1].deserialize("t", mb.Headers(), data)
    except SerializationError:
        pass


@given(st.floats(width=32, allow_nan=False))
def test_floats_there_and_back(number: float) -> None:
    serializer, deserializer = pair("Float")
    assert deserializer.deserialize("t", mb.Headers(), serializer.serialize("t", mb.Headers(), number)) == number


class Old:
    """As before KIP-82: two arguments."""

    closed = False

    def serialize(self, topic: str, data: Any) -> bytes:
        return f"{topic}:{data}".encode()

    def deserialize(self, topic: str, data: bytes) -> str:
        return data.decode().removeprefix(f"{topic}:")

    def close(self) -> None:
        self.closed = True


class WithHeaders:
    def serialize(self, topic: str, headers: mb.Headers, data: Any) -> bytes:
        headers.add("content-type", b"text/plain")
        return str(data).encode()

    def deserialize(self, topic: str, headers: mb.Headers, data: bytes | None) -> Any:
        return (headers.get("content-type"), data)


class TestAdapting:
    def test_two_arguments_work_as_before(self) -> None:
        old = Old()
        serializer, deserializer = as_serializer(old), as_deserializer(old)
        headers = mb.Headers([("k", b"v")])
        assert serializer.serialize("t", headers, 5) == b"t:5"
        assert deserializer.deserialize("t", headers, b"t:5") == "5"
        assert headers.to_list() == [("k", b"v")]
        serializer.close()  # type: ignore[attr-defined]
        assert old.closed

    def test_functions(self) -> None:
        assert as_serializer(str.encode).serialize("t", mb.Headers(), "x") == b"x"
        assert as_serializer(lambda data: data.encode()).serialize("t", mb.Headers(), "x") == b"x"
        assert as_serializer(lambda topic, data: (topic + data).encode()).serialize("t", mb.Headers(), "x") == b"tx"
        assert as_deserializer(int).deserialize("t", mb.Headers(), b"7") == 7
        assert as_deserializer(bytes.decode).deserialize("t", mb.Headers(), b"7") == "7"

    def test_headers_are_seen_and_added(self) -> None:
        both, headers = WithHeaders(), mb.Headers()
        assert as_serializer(both) is both
        as_serializer(both).serialize("t", headers, 1)
        assert as_deserializer(both).deserialize("t", headers, b"1") == ([b"text/plain"], b"1")

    def test_the_first_serializer_that_changes_closed_headers_raises(self) -> None:
        headers = mb.Headers()
        headers.close()
        serdes.JsonSerializer().serialize("t", headers, {})
        with pytest.raises(mb.IllegalStateError, match=r"record\.copy\(\)"):
            WithHeaders().serialize("t", headers, 1)

    @pytest.mark.parametrize("wrong", [None, 5, "name", object(), serdes.JsonSerializer, lambda a, b, c, d: b""])
    def test_what_is_none(self, wrong: Any) -> None:
        with pytest.raises(TypeError):
            as_serializer(wrong)

    def test_the_error_tells_where(self) -> None:
        import pickle

        error = pickle.loads(pickle.dumps(SerializationError("no", "orders", "key", None)))
        assert (str(error), error.topic, error.field) == ("no", "orders", "key")


class TestConfluents:
    @pytest.fixture(autouse=True)
    def _library(self) -> None:
        pytest.importorskip("confluent_kafka.serialization")

    def test_as_they_are(self) -> None:
        from confluent_kafka.serialization import DoubleSerializer, StringDeserializer, StringSerializer

        headers = mb.Headers([("k", None)])
        assert as_serializer(StringSerializer("utf_8")).serialize("t", headers, "ü") == "ü".encode()
        assert as_deserializer(StringDeserializer("utf_8")).deserialize("t", headers, "ü".encode()) == "ü"
        assert as_serializer(DoubleSerializer()).serialize("t", headers, 1.5) == b"\x3f\xf8" + bytes(6)
        assert headers.to_list() == [("k", None)]
        with pytest.raises(SerializationError) as caught:
            as_serializer(DoubleSerializer(), "key").serialize("t", headers, "no number")
        assert (caught.value.topic, caught.value.field) == ("t", "key")

    def test_the_context_has_topic_field_and_headers(self) -> None:
        from confluent_kafka.serialization import SerializationContext
        from confluent_kafka.serialization import Serializer as Base

        seen: list[Any] = []

        class Stamp(Base):  # type: ignore[misc]
            def __call__(self, data: Any, ctx: SerializationContext | None = None) -> bytes:
                assert ctx is not None
                seen.append((ctx.topic, str(ctx.field), list(ctx.headers)))
                ctx.headers.append(("__key_schema_id", b"\x01" + bytes(16)))
                return bytes(data)

        headers = mb.Headers([("a", b"1"), ("a", None)])
        assert as_serializer(Stamp(), "key").serialize("t", headers, b"x") == b"x"
        assert seen == [("t", "key", [("a", b"1"), ("a", None)])]
        assert headers.to_list() == [("a", b"1"), ("a", None), ("__key_schema_id", b"\x01" + bytes(16))]
        headers.close()
        with pytest.raises(mb.IllegalStateError):
            as_serializer(Stamp(), "key").serialize("t", headers, b"x")

    def test_a_list_that_was_rewritten_is_taken_as_it_is(self) -> None:
        from confluent_kafka.serialization import Serializer as Base

        class Rewrite(Base):  # type: ignore[misc]
            def __call__(self, data: Any, ctx: Any = None) -> bytes:
                ctx.headers[:] = [("b", b"2"), *ctx.headers[1:]]
                return b""

        headers = mb.Headers([("a", b"1"), ("c", None)])
        as_serializer(Rewrite()).serialize("t", headers, None)
        assert headers.to_list() == [("b", b"2"), ("c", None)]


class TestAvro:
    SCHEMA: ClassVar[Any] = {
        "type": "record",
        "name": "Order",
        "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"], "default": None}],
    }
    NEWER: ClassVar[Any] = {
        **SCHEMA,
        "fields": [*SCHEMA["fields"], {"name": "paid", "type": "boolean", "default": False}],
    }

    @pytest.fixture(autouse=True)
    def _library(self) -> None:
        pytest.importorskip("fastavro")

    def test_plain_bytes(self) -> None:
        from magicbyte.serdes.avro import AvroDeserializer, AvroSerializer

        # id 1 is 02 in zig-zag, the union's first branch 00.
        assert AvroSerializer(self.SCHEMA).serialize("t", mb.Headers(), {"id": 1, "note": None}) == b"\x02\x00"
        assert AvroDeserializer(self.SCHEMA).deserialize("t", mb.Headers(), b"\x02\x00") == {"id": 1, "note": None}
        assert AvroSerializer(self.SCHEMA).serialize("t", mb.Headers(), None) is None
        assert AvroDeserializer(self.SCHEMA).deserialize("t", mb.Headers(), None) is None

    def test_single_object_encoding(self) -> None:
        from magicbyte.serdes.avro import AvroDeserializer, AvroSerializer

        # The fingerprint of "int" in Avro's specification is 7275d51a3f395c8f.
        data = AvroSerializer("int", "single-object").serialize("t", mb.Headers(), 1)
        assert data == bytes.fromhex("c301 8f5c393f1ad57572 02")
        reader = AvroDeserializer(self.SCHEMA, self.NEWER, "int", framing="single-object")
        for schema, value in (
            (self.SCHEMA, {"id": 5, "note": "x"}),
            (self.NEWER, {"id": 5, "note": "x", "paid": True}),
            ("int", 9),
        ):
            written = AvroSerializer(schema, "single-object").serialize("t", mb.Headers(), value)
            assert reader.deserialize("t", mb.Headers(), written) == value
        with pytest.raises(SerializationError, match="unknown schema"):
            AvroDeserializer("long", framing="single-object").deserialize("t", mb.Headers(), data)
        with pytest.raises(SerializationError, match="C3 01"):
            reader.deserialize("t", mb.Headers(), b"\x02")

    def test_read_as_a_newer_schema(self) -> None:
        from magicbyte.serdes.avro import AvroDeserializer

        reader = AvroDeserializer(self.SCHEMA, reader_schema=self.NEWER)
        assert reader.deserialize("t", mb.Headers(), b"\x02\x00") == {"id": 1, "note": None, "paid": False}

    @pytest.mark.parametrize("wrong", [{"id": "x"}, {}, 5, {"id": 1, "note": None, "more": 1}])
    def test_what_is_not_of_the_schema(self, wrong: Any) -> None:
        from magicbyte.serdes.avro import AvroSerializer

        with pytest.raises(SerializationError):
            AvroSerializer(self.SCHEMA).serialize("t", mb.Headers(), wrong)

    @given(st.binary(max_size=30))
    def test_any_bytes(self, data: bytes) -> None:
        from magicbyte.serdes.avro import AvroDeserializer

        try:
            AvroDeserializer(self.SCHEMA).deserialize("t", mb.Headers(), data)
        except SerializationError:
            pass

    def test_left_over_bytes_are_an_error(self) -> None:
        from magicbyte.serdes.avro import AvroDeserializer

        with pytest.raises(SerializationError, match="left behind"):
            AvroDeserializer(self.SCHEMA).deserialize("t", mb.Headers(), b"\x02\x00\x00")

    def test_bytes_alone_do_not_tell_their_schema(self) -> None:
        from magicbyte.serdes.avro import AvroDeserializer

        with pytest.raises(ValueError, match="exactly one"):
            AvroDeserializer("int", "long")
