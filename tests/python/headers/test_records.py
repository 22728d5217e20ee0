"""Records: what they are made of, how they are copied, and the life of one that is sent."""

from __future__ import annotations

import copy
import pickle
import sys
from typing import Any

import pytest

import magicbyte as mb

PAIRS: list[tuple[str, bytes | None]] = [("a", b"1"), ("b", None), ("a", b"")]


def consumed(**changes: Any) -> mb.ConsumerRecord:
    fields: dict[str, Any] = {
        "topic": "orders",
        "partition": 3,
        "offset": 7,
        "timestamp": 1_700_000_000_000,
        "timestamp_type": 0,
        "key": b"key",
        "value": b"value",
        "headers": PAIRS,
    }
    return mb.ConsumerRecord(**{**fields, **changes})


def read() -> mb.ConsumerRecord:
    return next(mb.decode(mb.encode([consumed()]), topic="orders", partition=3))


BOTH = pytest.mark.parametrize("make", [consumed, read])


def test_any_iterable_makes_headers() -> None:
    for headers in (PAIRS, iter(PAIRS), mb.Headers(PAIRS), [mb.Header(*pair) for pair in PAIRS]):
        assert mb.ProducerRecord("t", headers=headers).headers.to_list() == PAIRS
    assert consumed(headers=iter(PAIRS)).headers == mb.Headers(PAIRS)
    assert len(mb.ProducerRecord("t").headers) == len(consumed(headers=()).headers) == 0
    assert len(mb.ProducerRecord("t", headers=None).headers) == 0


def test_a_null_value_is_a_tombstone_unless_said_otherwise() -> None:
    assert mb.ProducerRecord("t", None).tombstone and consumed(value=None).tombstone
    assert not mb.ProducerRecord("t", b"").tombstone and not consumed(value=b"").tombstone
    assert mb.ProducerRecord("t", b"why", tombstone=True).tombstone
    assert not mb.ProducerRecord("t", None, tombstone=False).tombstone
    record = mb.ProducerRecord("t", b"v")
    record.value = None
    assert record.tombstone
    record.tombstone = False
    assert not record.tombstone


@BOTH
def test_a_mirror_gets_an_open_and_independent_copy(make: Any) -> None:
    source = make()
    source.headers.close()
    for record in (source.to_producer_record("mirror"), mb.ProducerRecord("mirror", headers=source.headers)):
        assert not record.headers.read_only
        record.headers.add("hop", b"1")
        assert source.headers.to_list() == PAIRS
        assert record.headers.to_list() == [*PAIRS, ("hop", b"1")]
    record = source.to_producer_record("mirror")
    assert record == mb.ProducerRecord("mirror", b"value", b"key", PAIRS, None, 1_700_000_000_000)
    assert source.to_producer_record().topic == "orders"
    assert source.to_producer_record("t", partition=2).partition == 2


def test_a_mirror_keeps_what_the_record_said_of_itself() -> None:
    assert consumed(timestamp=-1).to_producer_record("t").timestamp is None
    assert consumed(value=None).to_producer_record("t").tombstone
    assert consumed(tombstone=True).to_producer_record("t").tombstone
    assert not consumed(value=None, tombstone=False).to_producer_record("t").tombstone


@BOTH
def test_replace_and_copy(make: Any) -> None:
    record = make()
    record.headers.close()
    changed = record.replace(value={"any": "object"}, offset=8)
    assert (changed.value, changed.offset, changed.key) == ({"any": "object"}, 8, b"key")
    assert changed.headers == record.headers and not changed.headers.read_only
    assert record.copy() == record and not record.copy().headers.read_only
    assert record.replace(value=None).tombstone
    with pytest.raises(TypeError):
        record.replace(colour=1)
    if sys.version_info >= (3, 13):
        assert copy.replace(record, offset=8).offset == 8


def test_the_life_of_a_record_to_send() -> None:
    record = mb.ProducerRecord("t", b"v")
    record.headers.add("trace", b"1")
    record.close()
    with pytest.raises(mb.IllegalStateError, match=r"record\.copy\(\)"):
        record.headers.add("trace", b"2")
    again = record.copy()
    again.headers.add("trace", b"2")
    assert record.headers.get("trace") == [b"1"]
    assert again.headers.get("trace") == [b"1", b"2"]
    assert again.replace(topic="u").topic == "u"


@BOTH
def test_a_received_record_can_be_changed_and_sent_on(make: Any) -> None:
    record = make()
    assert not record.headers.read_only
    record.headers.remove("a").add("c", b"3")
    assert record.headers.to_list() == [("b", None), ("c", b"3")]
    assert record.headers is record.headers


@pytest.mark.parametrize("record", [consumed(), read(), mb.ProducerRecord("t", b"v", b"k", PAIRS, 1, 5, True)])
def test_pickled(record: Any) -> None:
    for back in (pickle.loads(pickle.dumps(record)), copy.copy(record), copy.deepcopy(record)):
        assert back == record
        assert back.headers == record.headers


def test_equality() -> None:
    assert consumed() == read()
    for change in (
        {"offset": 8},
        {"key": None},
        {"headers": []},
        {"timestamp": 1},
        {"tombstone": True},
        {"topic": "x"},
    ):
        assert consumed(**change) != consumed()
    assert mb.ProducerRecord("t", b"v") != mb.ProducerRecord("t", None)
    assert mb.ProducerRecord("t") != "t"
    for record in (consumed(), mb.ProducerRecord("t")):
        with pytest.raises(TypeError, match="unhashable"):
            hash(record)
