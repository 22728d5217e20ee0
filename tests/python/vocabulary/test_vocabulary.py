"""The header vocabulary: known answers of each convention, foreign encodings, and bytes that mean nothing."""

from __future__ import annotations

import json
import struct
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import magicbyte as mb
from magicbyte import vocabulary
from magicbyte.vocabulary import (
    B3,
    CONVENTIONS,
    Convention,
    Decoded,
    LargeMessage,
    SchemaId,
    TraceParent,
    decode,
    linkedin,
    plain,
    schema_in_value,
)

GUID = UUID("89791762-2336-4186-9674-299b90a802e2")
W3C = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
PARENT = TraceParent("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7", 1)

KNOWN: list[tuple[str, bytes | None, Any, str, str | None]] = [
    # W3C Trace Context, the example of its section 3.2.
    ("traceparent", W3C, PARENT, "text", None),
    ("TraceParent", b'"' + W3C + b'"', PARENT, "json", None),
    ("traceparent", W3C.upper(), PARENT, "text", "upper case"),
    (
        "traceparent",
        b"cc-" + W3C[3:] + b"-what-the-future",
        TraceParent(PARENT.trace_id, PARENT.parent_id, 1, 0xCC),
        "text",
        None,
    ),
    ("traceparent", W3C + b"-x", PARENT, "text", "version 00 has four fields"),
    (
        "traceparent",
        b"00-" + b"0" * 32 + W3C[35:],
        TraceParent("0" * 32, PARENT.parent_id, 1),
        "text",
        "an id of zeros is none",
    ),
    ("traceparent", W3C[:-1], None, "text", "no version-trace-parent-flags"),
    ("traceparent", None, None, "null", None),
    # Section 3.3.
    (
        "tracestate",
        b"rojo=00f067aa0ba902b7,congo=t61rcWkgMzE",
        (("rojo", "00f067aa0ba902b7"), ("congo", "t61rcWkgMzE")),
        "text",
        None,
    ),
    ("tracestate", b"a=1,a=2", (("a", "1"), ("a", "2")), "text", "a vendor twice"),
    # W3C Baggage.
    (
        "baggage",
        b"userId=alice,serverNode=DF%2028,isProduction=false;ttl=1",
        {"userId": "alice", "serverNode": "DF 28", "isProduction": "false"},
        "text",
        None,
    ),
    (
        "elasticapmtraceparent",
        b"\0\0" + bytes.fromhex(PARENT.trace_id) + b"\1" + bytes.fromhex(PARENT.parent_id) + b"\2\1",
        PARENT,
        "binary",
        None,
    ),
    ("elasticapmtraceparent", b"\0\0\0", None, "bytes", "no binary trace parent of 29 bytes"),
    # The B3 specification's example.
    (
        "b3",
        b"80f198ee56343ba864fe8b2a57d3eff7-e457b5a2e4d86bd1-1-05e3ac9a4f6e3b90",
        B3("80f198ee56343ba864fe8b2a57d3eff7", "e457b5a2e4d86bd1", True, "05e3ac9a4f6e3b90"),
        "text",
        None,
    ),
    ("b3", b"0", B3(sampled=False), "text", None),
    ("X-B3-Sampled", b"1", True, "text", None),
    ("uber-trace-id", b"abc:1:0:1", TraceParent("abc".zfill(32), "1".zfill(16), 1), "text", None),
    ("x-datadog-trace-id", b"11803532876627986230", 11803532876627986230, "digits", None),
    # CloudEvents, Kafka binding.
    ("ce_specversion", b"1.0", "1.0", "text", None),
    ("ce_specversion", b"7", "7", "text", "none of 1.0, 0.3"),
    ("ce_time", b"2018-04-05T03:56:24Z", datetime(2018, 4, 5, 3, 56, 24, tzinfo=UTC), "text", None),
    (
        "ce_time",
        b"2018-04-05T05:56:24.123456789+02:00",
        datetime(2018, 4, 5, 3, 56, 24, 123456, tzinfo=UTC),
        "text",
        None,
    ),
    ("ce_time", b"yesterday", None, "text", "no RFC 3339 time"),
    ("ce_time", b"2018-02-31T00:00:00Z", None, "text", "no RFC 3339 time: day is out of range for month"),
    ("ce_myextension", b"x", "x", "text", None),
    ("contentType", b'"application/json"', "application/json", "json", None),
    # Confluent.
    ("__value_schema_id", b"\x01" + GUID.bytes, SchemaId(guid=GUID), "guid", None),
    ("__value_schema_id", b"\x01" + GUID.bytes + b"\x00", SchemaId(guid=GUID, indexes=(0,)), "guid and indexes", None),
    (
        "__value_schema_id",
        b"\x01" + GUID.bytes + b"\x04\x02\x00",
        SchemaId(guid=GUID, indexes=(1, 0)),
        "guid and indexes",
        None,
    ),
    (
        "__value_schema_id",
        b"\x01" + GUID.bytes + b"\x04\x02",
        SchemaId(guid=GUID),
        "guid and indexes",
        "message indexes are cut",
    ),
    ("__key_schema_id", b"\0\0\0\0\x2a", SchemaId(id=42), "id", None),
    ("__key_schema_id", b"42", SchemaId(id=42), "digits", None),
    ("__key_schema_id", str(GUID).encode(), SchemaId(guid=GUID), "text", None),
    ("__key_schema_id", b"\x01" + GUID.bytes[:-1], None, "bytes", "neither a GUID nor an id: 16 bytes"),
    ("apicurio.value.globalId", struct.pack(">q", 17), 17, "int64", None),
    ("apicurio.key.contentId", struct.pack(">i", 17), 17, "int32", None),
    ("apicurio.value.encoding", b"BINARY", "BINARY", "text", None),
    # Connect: text all through; others copied the names and not the encodings.
    ("__connect.errors.offset", b"10", 10, "digits", None),
    ("__connect.errors.offset", struct.pack(">q", 10), 10, "int64", None),
    ("__connect.errors.partition", b"-1", -1, "digits", "-1 is below 0"),
    ("__connect.errors.exception.message", None, None, "null", None),
    ("__connect.errors.topic", b"\xff", None, "bytes", "not UTF-8 at byte 0"),
    (
        "__connect.errors.topic",
        b'{"schema":{"type":"string","optional":false},"payload":"orders"}',
        "orders",
        "json with schema",
        None,
    ),
    # Spring: binary; imitators write digits.
    ("kafka_dlt-original-partition", struct.pack(">i", 3), 3, "int32", None),
    ("kafka_dlt-original-partition", b"3", 3, "digits", None),
    ("kafka_dlt-original-partition", b'"3"', 3, "json", None),
    ("kafka_dlt-original-offset", struct.pack(">q", 1 << 40), 1 << 40, "int64", None),
    ("kafka_dlt-original-offset", struct.pack("<q", 513), 513, "int64 little-endian", None),
    ("kafka_dlt-original-offset", b"12345678", 12345678, "digits", None),
    ("kafka_dlt-original-timestamp", struct.pack(">q", 1_769_860_800_000), 1_769_860_800_000, "int64", None),
    ("kafka_dlt-original-timestamp", b"1769860800000", 1_769_860_800_000, "digits", None),
    ("kafka_dlt-original-timestamp", struct.pack(">q", -1), -1, "int64", None),
    ("kafka_dlt-original-timestamp-type", b"CreateTime", "CreateTime", "text", None),
    ("kafka_dlt-original-offset", b"\0\0\1", None, "text", "no number: 3 bytes, where 8 bytes or digits are expected"),
    ("kafka_dlt-exception-fqcn", b"java.lang.IllegalStateException", "java.lang.IllegalStateException", "text", None),
    (
        "retry_topic-original-timestamp",
        b"\x01\x9c\x13\x2e\xb4\x00",
        int.from_bytes(b"\x01\x9c\x13\x2e\xb4\x00", "big"),
        "int48",
        None,
    ),
    # LinkedIn: the UUID's low half comes first.
    (
        "_lm",
        bytes([0]) + GUID.bytes[8:] + GUID.bytes[:8] + struct.pack(">ii", 2, 5),
        LargeMessage(0, GUID, 2, 5),
        "25 bytes",
        None,
    ),
    (
        "_lm",
        bytes([2]) + GUID.bytes[8:] + GUID.bytes[:8] + struct.pack(">iii", 4, 5, 4096),
        LargeMessage(2, GUID, 4, 5, 4096),
        "29 bytes",
        None,
    ),
    ("_lm", bytes(24), None, "bytes", "24 bytes, and 25 or 29 are expected"),
    # Debezium.
    ("__op", b"u", "u", "text", None),
    ("__deleted", b"true", True, "text", None),
    ("__source_ts_ms", b"1769860800000", 1_769_860_800_000, "digits", None),
    ("__debezium.context.taskId", b"0", "0", "text", None),
    # kafka-backup: little-endian.
    ("x-original-offset", struct.pack("<q", 7), 7, "int64 little-endian", None),
    ("x-original-offset", struct.pack(">q", 7), 7, "int64", None),
    ("x-source-cluster", b"eu-1", "eu-1", "text", None),
    # Of no convention.
    ("mine", b"text", "text", "text", None),
    ("mine", b"\xff", b"\xff", "bytes", None),
]


@pytest.mark.parametrize("name, data, value, encoding, error", KNOWN)
def test_known_answers(name: str, data: bytes | None, value: Any, encoding: str, error: str | None) -> None:
    assert decode(name, data) == Decoded(value, encoding, error)


def names() -> list[str]:
    return sorted({name for one in CONVENTIONS for name in [*one.headers, *(f"{p}x" for p in one.prefixes)]})


PIECES = [
    b"",
    b'"',
    b"{",
    b'{"schema":1,"payload":',
    b"}",
    b"\\ud800",
    b"-",
    b"00-",
    b"1e999",
    b"9" * 5000,
    b"[" * 9000,
    W3C,
]
HOSTILE = (
    st.binary(max_size=80)
    | st.lists(st.sampled_from(PIECES), max_size=4).map(b"".join)
    | st.text().map(lambda text: json.dumps(text).encode())
)


@given(st.sampled_from(names()), HOSTILE)
def test_no_bytes_raise(name: str, data: bytes) -> None:
    said = decode(name, data)
    assert said.error is None or said.error
    assert said.value is not None or said.error or b"null" in data
    json.dumps(plain(said.value)).encode()


@given(st.integers(-(1 << 47), 1 << 47))
def test_numbers_come_back_from_their_own_encoding(number: int) -> None:
    assert decode("__source_ts_ms", b"%d" % number).value == number
    packed = struct.pack(">q", number)
    if not packed.isdigit():
        assert decode("__source_ts_ms", packed).value == number


@given(
    st.builds(
        LargeMessage,
        st.integers(0, 2),
        st.uuids(),
        st.integers(0, 9),
        st.integers(10, 99),
        st.none() | st.integers(0, 1 << 30),
    )
)
def test_linkedins_header_round_trip(message: LargeMessage) -> None:
    assert decode("_lm", linkedin(message)) == (message, f"{25 if message.size is None else 29} bytes", None)


@given(st.none() | st.binary(max_size=40))
def test_ids_before_the_value_never_raise(data: bytes | None) -> None:
    assert len(schema_in_value(data)) == 3


def test_ids_before_the_value() -> None:
    assert schema_in_value(b"\x03\x05" + GUID.bytes + b"x") == (SchemaId(guid=GUID, compression="zlib"), "glue", None)
    assert schema_in_value(b"\x03\x00" + GUID.bytes).value == SchemaId(guid=GUID, compression="none")
    assert schema_in_value(b"\0\0\0\0\x07x") == (SchemaId(id=7), "confluent id", None)
    assert schema_in_value(b"{}").error == "no schema id before the value"


def test_a_house_can_add_its_own() -> None:
    register_once = Convention("house", {"x-house-count": vocabulary.values.integer(4)})
    vocabulary.register(register_once)
    found = vocabulary.convention_of("x-house-count")
    assert found is not None and found[0].name == "house"
    assert decode("x-house-count", b"\0\0\0\5").value == 5


def test_repeated_headers_keep_their_order() -> None:
    headers = mb.Headers([("b3", b"0"), ("mine", None), ("b3", b"x")])
    assert [(h.key, h.convention, h.error) for h in vocabulary.decode_headers(headers)] == [
        ("b3", "b3", None),
        ("mine", None, None),
        ("b3", "b3", "no trace-span-sampled-parent"),
    ]


@settings(deadline=None, max_examples=60)
@given(st.lists(st.none() | st.lists(st.tuples(st.sampled_from([*names()[::7], "mine", ""]), st.none() | HOSTILE))))
def test_arrow_says_what_records_say(rows: list[Any]) -> None:
    pa = pytest.importorskip("pyarrow")
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    made = [row and [{"key": key, "value": value} for key, value in row] for row in rows]
    column = pa.array([None, [], *made], kind)[1:]
    got = vocabulary.decode_arrow(column).to_pylist()
    want: list[Any] = [[]]
    for row in rows:
        if row is None:
            want.append(None)
            continue
        shown = []
        for one in vocabulary.decode_headers(row):
            text = one.value if one.value is None or isinstance(one.value, str) else json.dumps(plain(one.value))
            shown.append({**one._asdict(), "value": text})
        want.append(shown)
    assert got == want


def test_headers_of_our_own_middlewares() -> None:
    """Read without the libraries that their middlewares need; what those write is read here."""
    pytest.importorskip("cryptography")
    from magicbyte.middleware._chunks import Chunk
    from magicbyte.middleware._claims import Claim
    from magicbyte.middleware.auth import TokenIssuer
    from magicbyte.middleware.encryption import Encryption, LocalKeyProvider
    from magicbyte.middleware.keys import Ed25519Key, KeyRing
    from magicbyte.middleware.signing import Signing
    from magicbyte.middleware.trail import Trail
    from magicbyte.vocabulary.own import EncryptionHead, SignatureHead, TokenHead

    keys = KeyRing({"ed": Ed25519Key(private=bytes(32))})
    record = mb.ProducerRecord("orders", b"v", b"k", [("a", b"1")])
    for one in (
        Trail("shop", cluster="eu", clock=lambda: 5),
        Encryption(provider=LocalKeyProvider({"m1": bytes(32)})),
        Signing(keys=keys, sign_with="ed", headers=("a", "b"), bind_topic=True),
        TokenIssuer(keys=keys, sign_with="ed", principal="shop"),
    ):
        record = one.post_serialize(record)
    said = {one.key: one for one in vocabulary.decode_headers(record.headers)}
    assert all(one.convention == "magicbyte" for key, one in said.items() if key.startswith("mb."))
    assert (said["mb.trail"].value.who, said["mb.trail"].value.cluster) == ("shop", "eu")
    assert said["mb.sig"].value == SignatureHead("Ed25519", "ed", ("a", "b"), True)
    assert said["mb.enc"].value == EncryptionHead("AES-256-GCM", "m1", True, True)
    token = said["mb.auth"].value
    assert token == TokenHead("Ed25519", "ed", "shop", "orders", token.issued, token.issued + 600_000)
    chunk, claim = Chunk(GUID, 0, 2, 9, 1), Claim("s3://b/k", 5, bytes(32))
    assert decode("mb.chunk", chunk.to_bytes()).value == chunk
    assert decode("mb.claim", claim.to_bytes()).value == claim
    assert decode("mb.sig", b"\x01\x02") == Decoded(None, "bytes", "cut at byte 2")
