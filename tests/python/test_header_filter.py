"""Records chosen by their headers, before anything of them is copied: the same ones that a look at each would choose."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

import magicbyte as mb
from magicbyte import _conditions, _core
from magicbyte._names import CODECS, TARGETS

from making import HEADERS, codecs


def meets(record: mb.ConsumerRecord, conditions: list[_conditions.Condition]) -> bool:
    """What a condition says, in Python."""
    for key, test, value in conditions:
        own = [header.value for header in record.headers if header.key.encode() == key]
        found = bool(own) if test in ("present", "absent") else value in own
        if found != (test in ("present", "is")):
            return False
    return True


KEYS = ("a", "trace-id", "ä", "")
wanted = st.lists(
    st.tuples(
        st.sampled_from([key.encode() for key in KEYS]),
        st.sampled_from(["present", "absent", "is", "is not"]),
        st.none() | st.sampled_from([b"", b"1", b"abcdef"]),
    ),
    min_size=1,
    max_size=3,
)
headers = st.lists(st.tuples(st.sampled_from(KEYS), st.sampled_from([b"", b"1", b"abcdef"])), max_size=3)


@pytest.mark.parametrize("format", TARGETS)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_every_way_to_read_chooses_the_same_records(format: str, data: st.DataObject) -> None:
    log, base = b"", 0
    for codec, many in data.draw(
        st.lists(st.tuples(st.sampled_from(codecs(format)), st.lists(headers, min_size=1)), max_size=3)
    ):
        plain = format not in HEADERS
        records = [mb.Record(base + n, 1000, b"k", b"v" * n, [] if plain else own) for n, own in enumerate(many)]
        log += mb.encode(records, format=format, codec=codec, base_offset=base)
        base += len(many)
    conditions = data.draw(wanted)
    reader = _core.Reader([_core.Part(log)], format=format, headers=conditions)
    everything = _core.Reader([_core.Part(log)], format=format)
    expected = [(r.offset, r.key, r.value, r.headers.to_list()) for r in everything.records() if meets(r, conditions)]
    assert [(r.offset, r.key, r.value, r.headers.to_list()) for r in reader.records()] == expected
    for columns in (
        ["key", "value", "offset", "timestamp", "headers"],
        ["offset", "timestamp"],
        ["tombstone", "offset"],
    ):
        for views in (False, True):
            table = reader.scan(columns, views=views).to_arrow()
            table.validate(full=True)
            assert table["offset"].to_pylist() == [offset for offset, *_ in expected], (columns, views)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("trace-id=abc", (b"trace-id", "is", b"abc")),
        ("trace-id!=abc", (b"trace-id", "is not", b"abc")),
        ("trace-id=a=b!", (b"trace-id", "is", b"a=b!")),
        ("trace-id=", (b"trace-id", "is", b"")),
        ("trace-id", (b"trace-id", "present", None)),
        ("!poison", (b"poison", "absent", None)),
        ("d=hex:00ff", (b"d", "is", b"\x00\xff")),
        ("d=base64:AP8=", (b"d", "is", b"\x00\xff")),
        ("d=text:hex:00ff", (b"d", "is", b"hex:00ff")),
        ("ä=ö", ("ä".encode(), "is", "ö".encode())),
        ("=1", (b"", "is", b"1")),
    ],
)
def test_conditions_as_people_write_them(given: str, expected: _conditions.Condition) -> None:
    assert _conditions.conditions(given) == [expected] == _conditions.parsed(given)
    assert _conditions.conditions([given, "k"]) == [expected, (b"k", "present", None)]


def test_conditions_as_a_mapping() -> None:
    mapping = {"a": b"1", "b": "ü", "c": None, "d": True, "e=": False}
    assert _conditions.conditions(mapping) == [
        (b"a", "is", b"1"), (b"b", "is", "ü".encode()), (b"c", "is", None), (b"d", "present", None), (b"e=", "absent", None)
    ]  # fmt: skip
    assert _conditions.parsed('{"a": "1", "d": true}') == [(b"a", "is", b"1"), (b"d", "present", None)]
    assert _conditions.parsed('["a=1", "!d"]') == [(b"a", "is", b"1"), (b"d", "absent", None)]


@pytest.mark.parametrize(
    ("given", "error"),
    [("", ValueError), ("!", ValueError), ("d=hex:0", ValueError), ({"a": 1}, TypeError), ("[1]", ValueError)],
)
def test_what_is_no_condition(given: Any, error: type[Exception]) -> None:
    read: Callable[[Any], Any] = _conditions.parsed if isinstance(given, str) else _conditions.conditions
    with pytest.raises(error):
        read(given)
    with pytest.raises(ValueError, match="unknown test"):
        _core.Reader([], headers=[(b"a", "like", None)])


def test_a_log(data: Path) -> None:
    log = mb.Log(data / "kafka-logs")
    every = list(log.records())
    for asked in ("traceparent", {"traceparent": True}, ["traceparent", "!nothing"]):
        chosen = [r for r in every if any(h.key == "traceparent" for h in r.headers)]
        assert chosen
        assert [(r.topic, r.offset) for r in log.records(headers=asked)] == [(r.topic, r.offset) for r in chosen]
        assert log.scan(headers=asked).count() == len(chosen)
    value = next(h.value for h in chosen[0].headers if h.key == "traceparent")
    assert value is not None
    # Together with the other ways to choose.
    found = list(log.records(headers={"traceparent": value}, offsets=(chosen[0].offset, None), timestamps=(0, None)))
    assert found and all(("traceparent", value) in r.headers.to_list() for r in found)


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_that_cannot_match_is_checked_and_not_decoded(codec: str) -> None:
    """By its checksum, and by what its compression says of itself."""
    with_it = mb.encode([mb.Record(0, 0, None, b"x", [("trace-id", b"abcdef")])], base_offset=0, codec=codec)
    without = bytearray(
        mb.encode([mb.Record(1, 0, None, b"y" * 50, [("trace-id", b"other!")])], base_offset=1, codec=codec)
    )

    def offsets(log: bytes) -> list[int]:
        return [r.offset for r in mb.Log(log).records(headers={"trace-id": b"abcdef"})]

    assert offsets(with_it + bytes(without)) == [0]
    without[-1] ^= 1
    with pytest.raises(mb.CorruptRecordError) as caught:
        offsets(with_it + bytes(without))
    assert caught.value.kind == "crc"
