"""Predicates on headers, and the router: destinations, copies, clusters; over records and over Arrow."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import magicbyte as mb
from magicbyte.ids import HeaderIds
from magicbyte.interceptors import Chain
from magicbyte.middleware.predicates import as_predicate, at_least, custom, equals, has, matches, one_of, starts_with
from magicbyte.middleware.router import DROP, Router, To


def odd_count(headers: mb.Headers) -> bool:
    return len(headers) % 2 == 1


def fails_on_three(headers: mb.Headers) -> bool:
    if len(headers) == 3:
        raise KeyError("three")
    return False


PREDICATES = [
    has("a"),
    equals("a", b"1"),
    equals("a", None),
    one_of("a", frozenset([b"1", b""])),
    starts_with("b", b"te"),
    matches("b", "te.t|é+"),
    at_least("a", 2),
    at_least("c", 2, binary=True),
    custom(odd_count),
    ~has("a") & (has("b") | equals("c", b"x")),
]
VALUES = st.none() | st.sampled_from([b"", b"1", b"2", b"test", b"te\nt", "éé".encode(), b"\xff", b"x", b"\0\0\0\5"])
HEADERS = st.lists(st.tuples(st.sampled_from(["a", "b", "c"]), VALUES), max_size=4)


def test_what_predicates_say() -> None:
    headers = mb.Headers([("a", b"1"), ("a", None), ("b", b"test"), ("n", b"\0\0\0\5")])
    assert [predicate(headers) for predicate in PREDICATES] == [*[True] * 6, *[False] * 4]
    assert at_least("n", 5, binary=True)(headers) and not at_least("n", 5)(headers)
    assert pickle.loads(pickle.dumps(has("a") & ~equals("b", b"x")))(headers)
    assert as_predicate("a")(headers) and not as_predicate(lambda headers: "x" in headers)(headers)
    ids = HeaderIds()
    ids.reserve_private(1, 9)
    assert has((ids, 5))(mb.Headers([(ids.name_of(5), None)])) and not has((ids, 6))(headers)
    with pytest.raises(TypeError, match="not 5"):
        as_predicate(5)  # type: ignore[arg-type]


@given(st.lists(HEADERS, min_size=1, max_size=8))
def test_masks_say_what_predicates_say(rows: Any) -> None:
    pytest.importorskip("pyarrow")
    from magicbyte.middleware._arrow import HeaderColumn

    data = b"".join(mb.encode_batches([mb.ProducerRecord("t", b"v", headers=headers) for headers in rows]))
    [batch] = mb.decode_arrow(data).to_batches()
    column = HeaderColumn.of(batch)
    for predicate in PREDICATES:
        assert predicate.mask(column).tolist() == [predicate(mb.Headers(headers)) for headers in rows], predicate


def test_inline_around_a_producer() -> None:
    in_us: list[mb.ProducerRecord] = []
    router = Router(
        ("x-debug", To("debug-{topic}", also=True)),
        (equals("region", b"us"), To("orders-us", cluster="us")),
        (equals("region", b"ap"), To(cluster="ap")),
        (matches("tenant", "test-.*"), DROP),
        (has("vip"), To("vip", partition=0)),
        clusters={"us": in_us.append},
    )

    def out(*headers: tuple[str, bytes]) -> Any:
        record = mb.ProducerRecord("orders", b"v", b"k", headers, partition=4)
        made = Chain(router, errors="raise").post_serialize(record)
        return [(one.topic, one.partition, [h.key for h in one.headers]) for one in made]

    assert out() == [("orders", 4, [])]
    assert out(("region", b"us")) == [] and [(one.topic, one.partition) for one in in_us] == [("orders-us", None)]
    assert out(("region", b"ap")) == [("orders", 4, ["region", "mb.cluster"])]
    assert out(("tenant", b"test-7")) == []
    assert out(("vip", b"")) == [("vip", 0, ["vip"])]
    assert out(("x-debug", b""), ("vip", b"")) == [
        ("debug-orders", None, ["x-debug", "vip"]),
        ("vip", 0, ["x-debug", "vip"]),
    ]
    assert dict(router.counts) == {"unmatched": 1, "routed": 4, "dropped": 1, "copied": 1}


def test_over_a_log() -> None:
    records = [mb.ProducerRecord("t", b"%d" % n, headers=[("n", b"%d" % (n % 3))]) for n in range(9)]
    log = mb.decode(b"".join(mb.encode_batches(records)), topic="t", partition=2)
    router = Router((equals("n", b"0"), "zero"), default="{topic}-rest")
    got = [(r.topic, r.partition, r.value) for r in Chain(router, errors="raise")(log)]
    assert got == [("zero" if n % 3 == 0 else "t-rest", 2, b"%d" % n) for n in range(9)]


def test_a_predicate_that_raises_is_told() -> None:
    router = Router((fails_on_three, "x"), policy="reject")
    good = mb.ProducerRecord("t", b"v")
    assert router(good) is good
    assert router(mb.ProducerRecord("t", b"v", headers=[("a", None)] * 3)) == ()
    assert dict(router.counts) == {"unmatched": 1, "predicate failed": 1}
    assert pickle.loads(pickle.dumps(router)).rules == router.rules
    with pytest.raises(TypeError, match="destination"):
        Router(("a", None))  # type: ignore[arg-type]


RULES = [
    ("a", To("copy", also=True)),
    (equals("b", b"x"), To("b-{topic}", partition=9)),
    (equals("b", None), DROP),
    (fails_on_three, "never"),
    ("c", To(cluster="far", also=True)),
    (equals("c", b"1"), To("c", cluster="far")),
]


@given(
    st.lists(HEADERS, max_size=8),
    st.sampled_from(["pass", "quarantine", "reject"]),
    st.sampled_from([None, "rest", DROP]),
)
def test_arrow_does_what_records_do(rows: Any, policy: Any, default: Any) -> None:
    pytest.importorskip("pyarrow")
    data = b"".join(mb.encode_batches([mb.ProducerRecord("t", b"v", b"k", headers, timestamp=5) for headers in rows]))
    one, other = (Router(*RULES, policy=policy, default=default) for _ in range(2))
    got = [
        (row["topic"], row["partition"], row["offset"], [(h["key"], h["value"]) for h in row["headers"]])
        for batch in one.arrow(mb.decode_arrow(data, topic="t", partition=1).to_batches())
        for row in batch.to_pylist()
    ]
    want = Chain(other, errors="raise")(mb.decode(data, topic="t", partition=1))
    assert got == [(r.topic, r.partition, r.offset, r.headers.to_list()) for r in want]
    assert dict(one.counts) == dict(other.counts)
