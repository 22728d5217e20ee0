"""The routing trail: its bytes, loops, mirrors, audit fields and deletions; hostile headers; Arrow."""

from __future__ import annotations

import itertools
import pickle
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

import magicbyte as mb
from magicbyte.interceptors import Chain
from magicbyte.middleware import quarantined
from magicbyte.middleware.trail import Audit, Deletion, Hop, Trail

ID = UUID("00112233-4455-6677-8899-aabbccddeeff")


def clock() -> int:
    return 1_769_860_800_000


def new_id() -> UUID:
    return ID


def sent(value: bytes | None = b"v", headers: Any = (), topic: str = "orders") -> mb.ProducerRecord:
    return mb.ProducerRecord(topic, value, b"k", headers)


def read(records: Any, topic: str = "orders", partition: int = 0) -> list[mb.ConsumerRecord]:
    return list(mb.decode(b"".join(mb.encode_batches(records)), topic=topic, partition=partition))


def test_the_bytes_of_a_hop() -> None:
    hop = Hop("m1", 1_769_860_800_000, "eu", "orders", 3, 42, "us", "o")
    assert hop.to_bytes()[:8] == bytes([1, 1]) + (1_769_860_800_000).to_bytes(6, "big")
    assert hop.to_bytes()[8:] == b"\0\0\0\x03" + b"\0\0\0\0\0\0\0\x2a" + b"\x02m1\x02eu\x06orders\x02us\x01o"
    assert Hop.from_bytes(hop.to_bytes()) == hop
    assert Hop("w", 0, cluster="c", topic="t").to_bytes() == b"\x01\x00" + bytes(6) + b"\x01w\0\0\x01c\x01t"
    assert Audit(ID, "c", "eu").to_bytes() == b"\x01" + ID.bytes + b"\x01c\x02eu"
    assert Deletion("w", 1).to_bytes() == b"\x01" + b"\0\0\0\0\0\x01" + b"\x01w"


TEXTS = st.text(max_size=20)


@given(
    st.builds(
        Hop, TEXTS, st.integers(0, 2**48 - 1), TEXTS, TEXTS, st.integers(0, 2**31 - 1), st.integers(0), TEXTS, TEXTS
    ).filter(lambda hop: hop.offset < 2**63)
)
def test_hops_round_trip_and_are_cut_nowhere(hop: Hop) -> None:
    data = hop.to_bytes()
    assert Hop.from_bytes(data) == hop
    for cut in range(len(data)):
        with pytest.raises(ValueError):
            Hop.from_bytes(data[:cut])
    with pytest.raises(ValueError, match="behind the end"):
        Hop.from_bytes(data + b"\0")


def mirror(record: mb.ConsumerRecord, source: str, target: str, topic: str) -> Any:
    reader = Trail(f"{source}-{target}", cluster=source, on_read=True, clock=clock)
    writer = Trail(f"{source}-{target}", cluster=target, clock=clock)
    seen = reader.pre_deserialize(record)
    return writer.post_serialize(seen.to_producer_record(topic))


def test_a_trail_over_two_mirrors() -> None:
    shop = Trail("shop", cluster="eu", audit=True, clock=clock, new_id=new_id)
    [first] = Chain(shop, errors="raise").post_serialize(sent())
    [in_eu] = read([first], partition=3)
    in_us = mirror(in_eu, "eu", "us", "orders.eu")
    [again] = read([in_us], "orders.eu")
    in_ap = mirror(again, "us", "ap", "orders.eu")
    path = shop.path(in_ap.headers)
    assert path.problems == ()
    assert path.hops == (
        Hop("shop", clock(), cluster="eu", topic="orders"),
        Hop("eu-us", clock(), "eu", "orders", 3, 0),
        Hop("eu-us", clock(), cluster="us", topic="orders.eu"),
        Hop("us-ap", clock(), "us", "orders.eu", 0, 0),
        Hop("us-ap", clock(), cluster="ap", topic="orders.eu"),
    )
    assert shop.audit_of(in_ap.headers) == Audit(ID, "shop", "eu")
    # Back to where it began: a loop.
    [in_ap_read] = read([in_ap], "orders.eu")
    assert mirror(in_ap_read, "ap", "eu", "orders") == ()
    assert mirror(in_ap_read, "ap", "eu", "orders.ap") != ()


def test_loops_have_a_policy_of_their_own() -> None:
    record = sent()
    once = Trail("a", cluster="eu", loops="quarantine", policy="reject")
    once.post_serialize(record)
    [looped] = [once.post_serialize(record)]
    assert quarantined(looped) == ["Trail: loop, 1 times into eu:orders"]
    assert len(once.path(looped.headers).hops) == 1
    assert dict(once.counts) == {"moved": 1, "loop": 1}
    twice = Trail("a", cluster="eu", visits=2)
    assert twice.post_serialize(record) is record
    assert twice.post_serialize(record) == ()
    [seen] = read([record])
    assert Trail("c", cluster="eu").pre_deserialize(seen) == ()
    assert Trail("c", cluster="us").pre_deserialize(seen) is seen
    long = Trail("a", cluster="x", most=3, loops="quarantine")
    record = sent()
    for number in range(4):
        record = long.post_serialize(sent(headers=record.headers, topic=str(number)))
    assert quarantined(record) == ["Trail: loop, 3 hops"]


def test_deletions_say_who_and_when() -> None:
    trail = Trail("gdpr-job", cluster="eu", deletes=True, clock=clock)
    gone, kept = trail.post_serialize(sent(None)), trail.post_serialize(sent())
    assert trail.deletion_of(gone.headers) == Deletion("gdpr-job", clock())
    assert trail.deletion_of(kept.headers) is None
    assert trail.deletion_of(mb.Headers([("mb.deleted", b"\x02")])) is None


def test_broken_trails_stay_and_the_way_goes_on() -> None:
    record = sent(headers=[("mb.trail", b"\x01\x00cut")])
    trail = Trail("a", cluster="eu")
    trail.post_serialize(record)
    path = trail.path(record.headers)
    assert (path.problems, len(path.hops)) == (("hop 0: cut at byte 5",), 1)
    assert dict(trail.counts) == {"broken": 1}
    strict = Trail("a", policy="reject")
    assert strict.post_serialize(record) == ()
    assert pickle.loads(pickle.dumps(strict)).who == "a"
    with pytest.raises(ValueError, match="255"):
        Trail("x" * 256)


GOOD = [Hop("w", 5, cluster=cluster, topic=topic).to_bytes() for cluster in ("eu", "us") for topic in ("t", "tt")]
OUT = Hop("é", 5, "eu", "t", 1, 2).to_bytes()
BYTES = st.sampled_from([*GOOD, OUT, b"\x01\x00" + bytes(6) + b"\0\0\0\x03eut"]) | st.binary(max_size=30)
VALUES = st.none() | BYTES | BYTES.flatmap(lambda data: st.integers(0, len(data)).map(lambda cut: data[:cut]))
HEADERS = st.lists(st.tuples(st.sampled_from(["mb.trail", "mb.audit", "own"]), VALUES), max_size=5)
POLICIES = st.sampled_from(["pass", "quarantine", "reject"])


@given(st.lists(HEADERS, max_size=6), POLICIES, POLICIES, st.booleans())
def test_arrow_does_what_records_do(rows: Any, policy: Any, loops: Any, on_read: bool) -> None:
    pytest.importorskip("pyarrow")
    values = itertools.cycle([b"v", None])
    records = [mb.ProducerRecord("t", next(values), b"k", headers, timestamp=5) for headers in rows]
    data = b"".join(mb.encode_batches(records))
    options: dict[str, Any] = {"cluster": "eu", "policy": policy, "loops": loops, "on_read": on_read, "clock": clock}
    options |= {"audit": True, "deletes": True, "new_id": new_id, "most": 3}
    one, other = Trail("é", **options), Trail("é", **options)
    table = mb.decode_arrow(data, topic="t", partition=1).to_batches()

    def shown(batches: Any) -> Any:
        return [[(h["key"], h["value"]) for h in row["headers"]] for batch in batches for row in batch.to_pylist()]

    want = Chain(other, errors="raise")(mb.decode(data, topic="t", partition=1))
    assert shown(one.arrow(table)) == [r.headers.to_list() for r in want]
    assert dict(one.counts) == dict(other.counts)
    producing = [r.to_producer_record() for r in mb.decode(data, topic="t", partition=1)]
    want = Chain(other, errors="raise").sending(producing)
    assert shown(one.sending_arrow(table)) == [r.headers.to_list() for r in want]
    assert dict(one.counts) == dict(other.counts)
