"""All middlewares in one chain over a log: each one alone, each one away, other orders, hostile headers to all.

A real broker and Spark have theirs in ``kafka/test_all_middlewares.py``.
"""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import magicbyte as mb
from magicbyte.interceptors import Chain
from magicbyte.middleware import quarantined
from magicbyte.middleware.large_messages import Chunk
from magicbyte.middleware.trail import Trail

pytest.importorskip("cryptography")
pytest.importorskip("zstandard")
pytest.importorskip("opentelemetry")
pytest.importorskip("fsspec")

from together import TOPIC, chains, facts, pairs, records

NAMES = list(pairs("memory://together"))
BAD = {
    "broken",
    "repeated",
    "lost",
    "forged",
    "missing",
    "malformed",
    "unavailable",
    "checksum",
    "too large",
    "loop",
    "stale",
}


def written(sent: Any, where: Path) -> Path:
    """A segment on disk."""
    directory = where / f"{TOPIC}-0"
    directory.mkdir()
    (directory / "00000000000000000000.log").write_bytes(b"".join(mb.encode_batches(sent)))
    return directory


def test_all_over_a_log(tmp_path: Path) -> None:
    every = pairs((tmp_path / "claims").as_uri())
    out, back = chains(every)
    before = records()
    log = mb.Log(written(out.sending(record.copy() for record in before), tmp_path))
    stored = list(log.records())
    assert len(stored) > len(before)
    for record in stored:
        names = record.headers.keys()
        assert {"mb.auth", "mb.trail"} <= set(names)
        assert Trail("x").path(record.headers).hops[0].who == "shop"
        if "mb.chunk" in names:
            assert Chunk.from_bytes(record.headers.get("mb.chunk")[0]).count > 1
        if "mb.chunk" not in names or Chunk.from_bytes(record.headers.get("mb.chunk")[0]).index == 0:
            assert {"mb.sig", "mb.ttl", "mb.cluster", "mb.audit", "ce_id", "traceparent", "own"} <= set(names)
            assert ("mb.enc" in names) == (record.value is not None)
        assert b"small" not in (record.value or b"") and b"abcabc" not in (record.value or b"")
    assert sum("mb.claim" in record.headers for record in stored) == 1
    got = list(back(stored))
    assert facts(got) == facts(before)
    assert not [one for one in got if quarantined(one) or one.topic != TOPIC]
    for pair in every.values():
        for one in pair:
            assert one is None or not BAD & set(one.counts), one


@pytest.mark.parametrize("away", NAMES)
def test_each_one_may_be_away(away: str) -> None:
    every = pairs("memory://together")
    del every[away]
    out, back = chains(every)
    before = records()
    data = b"".join(mb.encode_batches(out.sending(record.copy() for record in before)))
    assert facts(back(mb.decode(data, topic=TOPIC, partition=0))) == facts(before)


@pytest.mark.parametrize("alone", NAMES)
def test_each_one_alone(alone: str) -> None:
    out, back = chains({alone: pairs("memory://together")[alone]})
    before = records()
    data = b"".join(mb.encode_batches(out.sending(record.copy() for record in before)))
    assert facts(back(mb.decode(data, topic=TOPIC, partition=0))) == facts(before)


FREE = ["tracing", "trail", "chargeback", "retention", "cloudevents", "router", "large messages", "claim check", "auth"]


@pytest.mark.parametrize(
    "order", [FREE[turn:] + FREE[:turn] for turn in range(len(FREE))] + [FREE[::-1]], ids=lambda order: order[0]
)
def test_orders(order: list[str]) -> None:
    """Only what must lie within another has a place of its own: compression, encryption, signature, in this order.

    (A signature names headers that lie within it alone: those of who comes behind would be forgeries.)
    """
    every = pairs("memory://together", signed=("own",))
    for inner in (0, 4, 8):
        some = [*order[:inner], "compression", "encryption", "signing", *order[inner:]]
        out, back = chains({name: every[name] for name in some})
        before = records()
        data = b"".join(mb.encode_batches(out.sending(record.copy() for record in before)))
        got = sorted(facts(back(mb.decode(data, topic=TOPIC, partition=0))), key=str)
        assert got == sorted(facts(before), key=str), some


def test_chains_are_shipped_whole() -> None:
    out, back = (pickle.loads(pickle.dumps(chain)) for chain in chains(pairs("memory://together")))
    data = b"".join(mb.encode_batches(out.sending(records())))
    assert facts(back(mb.decode(data, topic=TOPIC, partition=0))) == facts(records())


def test_arrow_from_end_to_end() -> None:
    pytest.importorskip("pyarrow")
    every = pairs("memory://together")
    data = b"".join(mb.encode_batches(records()))
    batches: Any = mb.decode_arrow(data, topic=TOPIC, partition=0).to_batches()
    for name, (sender, _) in every.items():
        if sender is not None and name != "cloudevents":  # which makes events one by one
            batches = list(sender.sending_arrow(batches))
    assert sum(batch.num_rows for batch in batches) > len(records())
    for name, (_, receiver) in reversed(list(every.items())):
        if receiver is not None and name != "polyglot":
            batches = list(receiver.arrow(batches))
    rows = [row for batch in batches for row in batch.to_pylist()]
    made = [
        mb.ConsumerRecord("t", 0, 0, 0, 0, row["key"], row["value"], [(h["key"], h["value"]) for h in row["headers"]])
        for row in rows
    ]
    assert facts(made) == facts(records())


HEADERS = [
    "mb.sig",
    "mb.enc",
    "mb.auth",
    "mb.chunk",
    "mb.claim",
    "mb.trail",
    "mb.ttl",
    "mb.expires",
    "content-encoding",
    "_lm",
]
HEADERS += ["ce_id", "ce_specversion", "content-type", "traceparent", "version", "mb.audit"]
FORGED = st.lists(st.tuples(st.sampled_from(HEADERS), st.none() | st.binary(max_size=60)), max_size=4)


@given(FORGED, st.none() | st.binary(max_size=20), st.integers(0, len(NAMES) - 1))
def test_forged_headers_break_nothing(forged: Any, value: bytes | None, turn: int) -> None:
    """Whatever comes, no middleware raises, and the record or its dead letter comes out (or it has expired, or waits)."""
    every = pairs("memory://together")
    names = NAMES[turn:] + NAMES[:turn]
    _, back = chains({name: every[name] for name in names})
    record = mb.ConsumerRecord(TOPIC, 0, 1, 1_769_860_800_000, 0, b"k", value, forged)
    out = list(back([record]))
    expired = every["retention"][1].counts["expired"]
    assert len(out) == 1 or expired


@given(st.lists(st.tuples(FORGED, st.none() | st.binary(max_size=20)), max_size=5))
def test_dead_letters_over_arrow(rows: Any) -> None:
    """A quarantine of one's own gets bad rows as records, and what it answers stands in their place."""
    pytest.importorskip("pyarrow")
    made = [mb.ProducerRecord(TOPIC, value, b"k", forged, timestamp=5) for forged, value in rows]
    data = b"".join(mb.encode_batches(made))
    for name in (
        "tracing",
        "trail",
        "retention",
        "compaction",
        "claim check",
        "large messages",
        "signing",
        "encryption",
    ):
        one, other = pairs("memory://together")[name][1], pairs("memory://together")[name][1]
        got = [
            (row["topic"], row["value"], [(h["key"], h["value"]) for h in row["headers"]])
            for batch in one.arrow(mb.decode_arrow(data, topic=TOPIC, partition=0).to_batches())
            for row in batch.to_pylist()
        ]
        want = [
            (record.topic, record.value, record.headers.to_list())
            for record in Chain(other, errors="raise")(mb.decode(data, topic=TOPIC, partition=0))
        ]
        assert got == want, name
        assert dict(one.counts) == dict(other.counts), name


def test_null_headers_are_none_over_arrow() -> None:
    """Spark's Kafka source shows no headers as NULL."""
    pa = pytest.importorskip("pyarrow")
    data = mb.encode(
        [mb.ProducerRecord(TOPIC, b"v", b"k", timestamp=5), mb.ProducerRecord(TOPIC, None, b"k", timestamp=5)]
    )
    [batch] = mb.decode_arrow(data, topic=TOPIC, partition=0).to_batches()
    at = batch.schema.get_field_index("headers")
    nulls = batch.set_column(at, batch.schema.field(at).with_nullable(True), pa.nulls(2, batch.schema.field(at).type))
    for way in ("arrow", "sending_arrow"):
        for name, pair in pairs("memory://together").items():
            for first, second in zip(pair, pairs("memory://together")[name], strict=True):
                if first is None or not hasattr(first, way):
                    continue
                # Ciphertexts differ each time, in their bytes.
                one, other = (
                    [(row["key"], len(row["value"] or b""), row["value"] is None) for row in out.to_pylist()]
                    for [out] in (getattr(first, way)([nulls]), getattr(second, way)([batch]))
                )
                assert one == other, (name, way)
                assert dict(first.counts) == dict(second.counts), (name, way)


def test_threads_share_them() -> None:
    """Eight threads, a partition each, through the same objects."""
    out, back = chains(pairs("memory://together"))
    logs = []
    for partition in range(8):
        data = b"".join(mb.encode_batches(out.sending(records())))
        logs.append(list(mb.decode(data, topic=TOPIC, partition=partition)))

    def read(log: list[mb.ConsumerRecord]) -> list[Any]:
        return facts([one for record in log for one in back.on_consume(back.pre_deserialize(record))])

    with ThreadPoolExecutor(8) as pool:
        for got in pool.map(read, logs):
            assert got == facts(records())
