"""Tracing, trail, router, large messages, claim check and dead letters in Spark: as RDD and as DataFrame."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("opentelemetry", reason="OpenTelemetry is not installed")
pytest.importorskip("fsspec", reason="fsspec is not installed")

import magicbyte as mb
from magicbyte.interceptors import Chain
from magicbyte.middleware.claim_check import ClaimCheck
from magicbyte.middleware.dead_letters import DeadLetters, Replay
from magicbyte.middleware.large_messages import LargeMessages
from magicbyte.middleware.predicates import equals
from magicbyte.middleware.router import Router, To
from magicbyte.middleware.tracing import Tracing
from magicbyte.middleware.trail import Trail
from magicbyte.spark import decode_partition, glue

PARENT = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
LARGE = bytes(range(256)) * 20


def clock() -> int:
    return 1_769_860_800_000


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """One partition: 60 records with traces and regions, every tenth large, in chunks; two chunks without the rest."""
    chain = Chain(LargeMessages(chunk_size=1000), Trail("shop", cluster="eu", clock=clock), errors="raise")
    records = [
        mb.ProducerRecord(
            "orders",
            LARGE if number % 10 == 0 else b"%d" % number,
            b"k%d" % number,
            [("region", b"us" if number % 3 else b"eu"), ("traceparent", PARENT)],
            timestamp=1_769_860_800_000 + number,
        )
        for number in range(60)
    ]
    sent = list(chain.sending(records))
    lost = list(chain.sending([mb.ProducerRecord("orders", LARGE, b"lost", timestamp=1_769_860_800_000)]))[:2]
    where = tmp_path / "orders-0"
    where.mkdir()
    data = b"".join(mb.encode_batches([*sent, *lost]))
    (where / "00000000000000000000.log").write_bytes(data)
    return where


def chain() -> Chain:
    return Chain(
        Trail("job", cluster="eu", on_read=True, clock=clock),
        LargeMessages(policy="reject"),
        Tracing(spans=False, policy="reject"),
        Router((equals("region", b"us"), To("orders-us"))),
        errors="raise",
    )


def facts(record: mb.ConsumerRecord) -> Any:
    return (record.topic, record.key, record.value, record.headers.to_list())


def collected(records: Any, chain: Chain) -> Any:
    for record in chain(records):
        yield facts(record)


def test_rdd_and_log_are_the_same(spark: Any, written: Path) -> None:
    here = [facts(record) for record in chain()(mb.Log(written).records())]
    assert len(here) == 60 and sum(value == LARGE for _, _, value, _ in here) == 6
    rdd = spark.sparkContext.binaryFiles(str(written)).mapPartitions(decode_partition)
    ready = chain()
    assert rdd.mapPartitions(lambda records: collected(records, ready)).collect() == here
    assert rdd.mapPartitions(chain()).count() == 60


def test_data_frames_are_the_same(spark: Any, written: Path) -> None:
    here = sorted(facts(record) for record in chain()(mb.Log(written).records()))
    frame = spark.read.format("magicbyte").load(str(written))
    read = frame.mapInArrow(Trail("job", cluster="eu", on_read=True, clock=clock).arrow, frame.schema)
    whole = glue(read, LargeMessages(policy="reject"))
    traced = whole.mapInArrow(Tracing(spans=False, policy="reject").arrow, frame.schema)
    routed = traced.mapInArrow(Router((equals("region", b"us"), To("orders-us"))).arrow, frame.schema)
    rows = [
        (row.topic, bytes(row.key), bytes(row.value), [(h.key, bytes(h.value)) for h in row.headers])
        for row in routed.collect()
    ]
    assert sorted(rows) == here


def test_chunks_that_are_lost_are_marked(spark: Any, written: Path) -> None:
    frame = glue(spark.read.format("magicbyte").load(str(written)))
    marked = frame.where("exists(headers, h -> h.key = 'magicbyte.quarantine')").collect()
    assert [(bytes(row.key), len(row.value)) for row in marked] == [(b"lost", 1000)] * 2
    assert frame.count() == 62


def test_claims_and_dead_letters(spark: Any, tmp_path: Path, written: Path) -> None:
    claims = ClaimCheck((tmp_path / "claims").as_uri(), threshold=100)
    frame = glue(spark.read.format("magicbyte").load(str(written)), LargeMessages(policy="reject"))
    claimed = frame.mapInArrow(claims.sending_arrow, frame.schema)
    assert claimed.where("length(value) > 100").count() == 0
    back = claimed.mapInArrow(claims.arrow, frame.schema)
    assert back.where("length(value) > 100").count() == 6
    dead = DeadLetters("dlt")
    letters = [dead(record, "why") for record in mb.Log(written).records()]
    where = tmp_path / "dlt-0"
    where.mkdir()
    (where / "00000000000000000000.log").write_bytes(b"".join(mb.encode_batches(letters)))
    dlt = spark.read.format("magicbyte").load(str(where))
    rows = dlt.mapInArrow(Replay(topics={"orders"}).arrow, dlt.schema).select("topic", "partition").distinct().collect()
    assert [(row.topic, row.partition) for row in rows] == [("orders", 0)]
