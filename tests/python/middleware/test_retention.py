"""Retention, compaction and charge-back by header: over records, logs and Arrow, and with headers that say nothing."""

from __future__ import annotations

import pickle
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import magicbyte as mb
from magicbyte.interceptors import Chain
from magicbyte.middleware import quarantined
from magicbyte.middleware.chargeback import OTHERS, ChargeBack
from magicbyte.middleware.compaction import Compaction, version
from magicbyte.middleware.predicates import equals
from magicbyte.middleware.retention import Retention, milliseconds

NOW = 1_000_000
POLICIES = st.sampled_from(["pass", "quarantine", "reject"])


def clock() -> int:
    return NOW


def record(headers: Any = (), timestamp: int = NOW - 100, **fields: Any) -> mb.ConsumerRecord:
    given: dict[str, Any] = {"topic": "t", "partition": 0, "offset": 1, "key": b"k", "value": b"v", **fields}
    return mb.ConsumerRecord(timestamp=timestamp, timestamp_type=0, headers=headers, **given)


def facts(batches: Any) -> Any:
    return [
        (row["offset"], row["key"], row["value"], [(h["key"], h["value"]) for h in row["headers"]])
        for batch in batches
        for row in batch.to_pylist()
    ]


def plain(records: Any) -> Any:
    return [(r.offset, r.key, r.value, r.headers.to_list()) for r in records]


# Retention


@pytest.mark.parametrize(
    "headers, timestamp, outcome",
    [
        ([], NOW - 100, "kept"),
        ([], NOW - 5000, "expired"),
        ([], -1, "kept"),
        ([("mb.ttl", b"100")], NOW - 100, "expired"),
        ([("mb.ttl", b"101")], NOW - 100, "kept"),
        ([("mb.ttl", b"9000")], NOW - 5000, "kept"),
        ([("mb.ttl", struct.pack(">q", 50))], NOW - 100, "expired"),
        ([("mb.ttl", b"9" * 18)], NOW - 5000, "kept"),
        ([("mb.expires", b"%d" % NOW)], NOW, "expired"),
        ([("mb.expires", b"%d" % (NOW + 1)), ("mb.ttl", b"1")], NOW - 2, "expired"),
        ([("mb.expires", b"%d" % (NOW + 1))], -1, "kept"),
        ([("hold", None), ("mb.ttl", b"1")], 0, "held"),
        ([("hold", None), ("mb.ttl", b"what")], 0, "held"),
        ([("env", b"test")], NOW, "expired"),
        ([("mb.ttl", b"what")], 0, "broken"),
        ([("mb.ttl", b"letters.")], 0, "broken"),
        ([("mb.ttl", b"\0\0\0\1")], 0, "broken"),
        ([("mb.ttl", None)], 0, "broken"),
        ([("mb.ttl", b"-1")], 0, "broken"),
        ([("mb.ttl", b"5")], -1, "broken"),
        ([("mb.ttl", b"5"), ("mb.ttl", b"6")], NOW, "broken"),
        ([("mb.ttl", b"5"), ("mb.ttl", b"5")], NOW, "kept"),
    ],
)
def test_what_is_retained(headers: Any, timestamp: int, outcome: str) -> None:
    retention = Retention(hold="hold", drop=equals("env", b"test"), max_age=1000, clock=clock)
    one = record(headers, timestamp)
    assert retention.pre_deserialize(one) == (() if outcome == "expired" else one)
    assert dict(retention.counts) == {outcome: 1}
    assert retention.keeps(one) == (outcome != "expired")


def test_broken_headers_by_policy() -> None:
    one = record([("mb.ttl", b"what")])
    marked = Retention(policy="quarantine").pre_deserialize(one)
    assert quarantined(marked) == ["Retention: broken, mb.ttl: 4 bytes, neither digits nor an int64 of milliseconds"]
    assert Retention(policy="reject").pre_deserialize(record([("mb.ttl", b"what")])) == ()
    with pytest.raises(ValueError, match="null"):
        milliseconds(None)
    with pytest.raises(ValueError, match="0 or more"):
        Retention(max_age=-1)
    with pytest.raises(ValueError, match="needs a ttl_header"):
        Retention(set_ttl=1, ttl_header=None)


def test_the_sending_side_gives_a_time_to_live() -> None:
    retention = Retention(set_ttl=500)
    sent = [
        retention.post_serialize(mb.ProducerRecord("t", b"v", headers=headers)) for headers in ((), [("mb.ttl", b"1")])
    ]
    assert [one.headers.get("mb.ttl") for one in sent] == [[b"500"], [b"1"]]
    assert pickle.loads(pickle.dumps(retention)).set_ttl == 500


TIMES = st.none() | st.sampled_from(
    [b"1", b"100", b"999950", b"9" * 18, b"", b"x", b"letters.", struct.pack(">q", 7), b"\xff" * 8]
)
LIVES = st.lists(st.tuples(st.sampled_from(["mb.ttl", "mb.expires", "hold", "env"]), TIMES), max_size=4)


@given(st.lists(st.tuples(LIVES, st.sampled_from([-1, 0, NOW - 50, NOW - 5000])), max_size=8), POLICIES, st.booleans())
def test_retention_over_arrow(rows: Any, policy: Any, narrow: bool) -> None:
    pytest.importorskip("pyarrow")
    records = [mb.ProducerRecord("t", b"v", b"k", headers, timestamp=time) for headers, time in rows]
    data = b"".join(mb.encode_batches(records))
    options: dict[str, Any] = {"policy": policy, "clock": clock, "set_ttl": 3}
    if not narrow:
        options |= {"hold": "hold", "drop": equals("env", b"1"), "max_age": 1000}
    one, other = Retention(**options), Retention(**options)
    batches = mb.decode_arrow(data, topic="t", partition=0).to_batches()
    assert facts(one.arrow(batches)) == plain(Chain(other, errors="raise")(mb.decode(data, topic="t", partition=0)))
    assert dict(one.counts) == dict(other.counts)
    sent = [r.to_producer_record() for r in mb.decode(data, topic="t", partition=0)]
    want = [(b"k", r.headers.to_list()) for r in Chain(other, errors="raise").sending(sent)]
    assert [(key, headers) for _, key, _, headers in facts(one.sending_arrow(batches))] == want


# Compaction


def versions(*rows: tuple[bytes | None, bytes | None]) -> list[mb.ConsumerRecord]:
    return [
        record([("version", said)] if said is not None else (), offset=offset, key=key, value=b"%d" % offset)
        for offset, (key, said) in enumerate(rows)
    ]


def test_the_highest_version_wins_and_the_latest_of_equals() -> None:
    records = versions(
        (b"a", b"2"), (b"a", b"1"), (b"b", None), (b"a", b"2"), (b"b", b"x"), (None, b"9"), (b"c", b"0"), (b"c", None)
    )
    by_header = Compaction()
    assert [r.offset for r in by_header.compacted(lambda: records)] == [3, 4, 5, 6]
    assert dict(by_header.counts) == {"stale": 4, "newest": 3, "no key": 1}
    by_offset = Compaction(strategy="offset")
    assert [r.offset for r in by_offset.compacted(lambda: records)] == [3, 4, 5, 7]
    times = [one.replace(timestamp=time) for one, time in zip(records, [9, 5, 1, 8, 1, 1, 4, 4], strict=True)]
    assert [r.offset for r in Compaction(strategy="timestamp").compacted(lambda: times)] == [0, 4, 5, 7]


def test_inline_what_is_stale_is_dropped() -> None:
    records = versions(
        (b"a", b"5"), (b"a", b"4"), (b"a", b"5"), (b"b", b"1"), (b"a", b"what"), (None, None), (b"a", None)
    )
    newest = Compaction(policy="reject")
    assert [r.offset for r in Chain(newest, errors="raise")(records)] == [0, 2, 3, 5]
    assert dict(newest.counts) == {"newest": 3, "stale": 2, "broken": 1, "no key": 1}
    # Another topic or partition is another key; a new reading begins anew.
    assert [r.offset for r in Chain(newest, errors="raise")(records)] == [0, 2, 3, 5]
    assert newest.pre_deserialize(records[1]) is records[1]
    assert newest.pre_deserialize(records[1].replace(partition=1)).offset == 1
    assert [
        r.offset for r in Chain(Compaction(keys=1), errors="raise")(versions((b"a", b"5"), (b"b", b"1"), (b"a", b"4")))
    ] == [0, 1, 2]


@pytest.mark.parametrize(
    "data, number", [(b"7", 7), (b"12345678", 12345678), (struct.pack(">q", 1 << 40), 1 << 40), (b"\x00" * 8, 0)]
)
def test_versions(data: bytes, number: int) -> None:
    assert version(data) == number


@pytest.mark.parametrize("data", [None, b"", b"-1", b"\0\0\0\1", b"9" * 19 + b"9", b"9" * 19, struct.pack(">q", -5)])
def test_no_versions(data: bytes | None) -> None:
    with pytest.raises(ValueError):
        version(data)


SAID = st.none() | st.sampled_from(
    [b"1", b"2", b"3", b"x", b"", struct.pack(">q", 2), struct.pack(">q", (1 << 63) - 1), b"0"]
)
CHANGES = st.tuples(
    st.sampled_from([b"a", b"b", b"", None]),
    st.lists(st.tuples(st.just("version"), SAID), max_size=2),
    st.integers(-1, 3),
)


@given(
    st.lists(CHANGES, max_size=16),
    POLICIES,
    st.sampled_from(["header", "timestamp", "offset"]),
)
def test_compaction_over_arrow(rows: Any, policy: Any, strategy: Any) -> None:
    pytest.importorskip("pyarrow")
    records = [mb.ProducerRecord("t", b"v", key, headers, timestamp=time) for key, headers, time in rows]
    data = b"".join(mb.encode_batches(records))
    one, other = (Compaction(strategy=strategy, policy=policy) for _ in range(2))
    batches = mb.decode_arrow(data, topic="t", partition=0).to_batches(max_chunksize=5)
    assert facts(one.arrow(batches)) == plain(Chain(other, errors="raise")(mb.decode(data, topic="t", partition=0)))
    assert dict(one.counts) == dict(other.counts)
    ranks = [rank for batch in batches for rank in one.ranks(batch).to_pylist()]
    assert ranks == [one.rank(r)[0] for r in mb.decode(data, topic="t", partition=0)]


# Charge-back


def test_who_uses_how_much() -> None:
    meter = ChargeBack("tenant", "topic")
    records = [
        record([("tenant", b"a")], value=b"12345", key=None),
        record([("tenant", b"b"), ("tenant", b"a")], topic="u", value=None),
        record([("tenant", b"a")]),
        record(),
        record([("tenant", b"\xff")]),
    ]
    assert list(Chain(meter, errors="raise")(records)) == records
    assert meter.table() == [
        {"tenant": "a", "topic": "t", "records": 2, "key_bytes": 1, "value_bytes": 6, "header_bytes": 14},
        {"tenant": "a", "topic": "u", "records": 1, "key_bytes": 1, "value_bytes": 0, "header_bytes": 14},
        {"tenant": "ff", "topic": "t", "records": 1, "key_bytes": 1, "value_bytes": 1, "header_bytes": 7},
        {"tenant": None, "topic": "t", "records": 1, "key_bytes": 1, "value_bytes": 1, "header_bytes": 0},
    ]
    assert sum(row["records"] for row in meter.table()) == 5
    again = ChargeBack("tenant", "topic").merge(meter.table()).merge(meter.totals_of(records))
    assert [row["records"] for row in again.table()] == [row["records"] * 2 for row in meter.table()]


def test_groups_are_bounded() -> None:
    meter = ChargeBack("x", groups=3)
    for number in range(10):
        meter(mb.ProducerRecord("t", b"v", headers=[("x", b"%d" % number * 90)]))
    assert len(meter.table()) == 4
    assert {row["x"]: row["records"] for row in meter.table()}[OTHERS] == 7
    assert all(len(row["x"]) <= 100 for row in meter.table())
    with pytest.raises(ValueError, match="by names"):
        ChargeBack("a", "records")


@given(
    st.lists(
        st.tuples(
            st.none() | st.binary(max_size=5),
            st.none() | st.binary(max_size=5),
            st.lists(
                st.tuples(st.sampled_from(["x", "é", "kafka_dlt-original-offset"]), st.none() | st.binary(max_size=9)),
                max_size=4,
            ),
        ),
        max_size=8,
    )
)
def test_charge_back_over_arrow(rows: Any) -> None:
    pytest.importorskip("pyarrow")
    records = [mb.ProducerRecord("t", value, key, headers, timestamp=5) for key, value, headers in rows]
    data = b"".join(mb.encode_batches(records))
    by = ("x", "topic", "kafka_dlt-original-offset")
    one, other = ChargeBack(*by, groups=4), ChargeBack(*by, groups=4)
    batches = mb.decode_arrow(data, topic="t", partition=0).to_batches()
    assert list(one.arrow(batches)) == batches
    for each in mb.decode(data, topic="t", partition=0):
        other(each)
    assert one.table() == other.table() and dict(one.counts) == dict(other.counts)
    [total] = one.totals(batches)
    assert total.to_pylist() == one.table()
