"""Many languages in one topic: chosen by content type, unknown ones quarantined, never fatal."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import magicbyte as mb
from magicbyte import serdes
from magicbyte.interceptors import Chain
from magicbyte.middleware import quarantined
from magicbyte.middleware.polyglot import Polyglot, media_type

from kafka_rows import records_of, rows_of


def polyglot(**options: Any) -> Polyglot:
    return Polyglot(
        {
            "application/json": serdes.JsonDeserializer(),
            "text/*": serdes.StringDeserializer(),
            "application/*+json": json.loads,
            "application/x-int": serdes.IntegerDeserializer(),
        },
        serializers={"application/json": serdes.JsonSerializer(), "text/plain": serdes.StringSerializer()},
        classes={str: "text/plain", dict: "application/json"},
        **options,
    )


def record(value: bytes | None, *kinds: bytes | None, offset: int = 0) -> mb.ConsumerRecord:
    return mb.ConsumerRecord("t", 0, offset, 5, 0, None, value, [("content-type", kind) for kind in kinds])


def test_by_content_type() -> None:
    reader = polyglot()
    for value, kind, expected in (
        (b'{"a":1}', b"application/json", {"a": 1}),
        (b'{"a":1}', b"Application/JSON; charset=utf-8", {"a": 1}),
        (b"[2]", b"application/problem+json", [2]),
        ("ü".encode(), b"text/csv", "ü"),
        (b"\0\0\0\7", b"application/x-int", 7),
        (None, b"application/unheard-of", None),
    ):
        assert reader.on_record(record(value, kind)).value == expected
    assert polyglot(default="text/plain").on_record(record(b"v")).value == "v"
    assert dict(reader.counts) == {"read": 5, "null": 1}


def test_what_cannot_be_read_stays_bytes_and_is_marked() -> None:
    reader = polyglot()
    for given_record, reason in (
        (record(b"v", b"application/unheard-of"), "unknown type, application/unheard-of"),
        (record(b"v", b"\xff"), "unknown type, \ufffd"),
        (record(b"v"), "untyped"),
        (record(b"v", None), "untyped"),
        (record(b"{", b"application/json"), "broken, application/json, SerializationError"),
        (record(b"{", b"application/problem+json"), "broken, application/problem+json, JSONDecodeError"),
        (record(b"v", b"text/plain", b"application/json"), "repeated"),
    ):
        found = reader.on_record(given_record)
        assert found.value == given_record.value and quarantined(found) == [f"Polyglot: {reason}"]
    same = record(b"v", b"text/plain", b"TEXT/plain; charset=x")
    assert reader.on_record(same).value == "v"


def test_in_a_chain_both_ways() -> None:
    chain = Chain(polyglot(), errors="raise")
    sent = [mb.ProducerRecord("t", value) for value in ("text", {"a": [1]}, None)]
    sent.append(mb.ProducerRecord("t", {"b": 2}, None, [("content-type", b"application/json; v=2")]))
    data = mb.encode(chain.sending(sent))
    assert sent[0].value == "text" and not sent[0].headers
    assert [one.value for one in mb.decode(data)] == [b"text", b'{"a":[1]}', None, b'{"b":2}']
    found = list(pickle.loads(pickle.dumps(chain))(mb.decode(data)))
    assert [one.value for one in found] == ["text", {"a": [1]}, None, {"b": 2}]
    assert found[3].headers.get("content-type") == [b"application/json; v=2"]
    with pytest.raises(ValueError, match="no serializer for 'int'"):
        list(chain.sending([mb.ProducerRecord("t", 5)]))


def test_media_types() -> None:
    assert [media_type(kind) for kind in (None, b"", b" Text/Plain ;x", b"a/b")] == ["", "", "text/plain", "a/b"]


kinds = st.sampled_from([b"application/json", b"text/x; y", b"TEXT/X", b"x/y", b"", b"\xff", None])


@given(st.lists(st.tuples(st.sampled_from([None, b"1"]), st.lists(kinds, max_size=3)), max_size=8), st.booleans())
def test_columns_as_records(rows: list[Any], default: bool) -> None:
    """The same records are told to be unreadable; values stay bytes in columns."""
    records = [record(value, *some, offset=n) for n, (value, some) in enumerate(rows)]
    options = {"default": "text/plain"} if default else {}
    one, other = polyglot(**options), polyglot(**options)
    marked = [quarantined(one.on_record(r.copy())) for r in records]
    found = records_of(other.arrow([rows_of(records)]))
    assert [quarantined(r) for r in found] == marked
    assert [r.value for r in found] == [r.value for r in records]
    assert other.counts["readable"] == one.counts["read"] and other.counts["untyped"] == one.counts["untyped"]
