"""One chain object gives equal results around a client, in Spark and on a file (and while a log is written)."""

from __future__ import annotations

import functools
import itertools
from pathlib import Path
from typing import Any

import pytest
from broker import Broker
from messages import odd, stream
from test_clients import receive_aiokafka, receive_confluent, receive_confluent_aio, send_confluent

import magicbyte as mb
from magicbyte.interceptors import Chain, ConsumerInterceptor, ConsumerPreDeserializationInterceptor

TOPIC = "chain-everywhere"


class Numbered(ConsumerPreDeserializationInterceptor):
    """Adds, changes and drops headers; drops one record in seven; doubles one in eleven."""

    def __init__(self, doubles: bool = True) -> None:
        self.doubles = doubles

    def pre_deserialize(self, record: mb.ConsumerRecord) -> Any:
        record.headers.add("offset", b"%d" % record.offset).remove("dup").remove(mb.Header("null", None))
        if record.offset % 7 == 3:
            return ()
        return (record, record.copy()) if self.doubles and record.offset % 11 == 5 else record


class Upper(ConsumerInterceptor):
    """Behind the deserializers."""

    def on_record(self, record: mb.ConsumerRecord) -> mb.ConsumerRecord:
        return record if record.value is None else record.replace(value=record.value.upper())

    def on_consume(self, records: list[mb.ConsumerRecord]) -> list[mb.ConsumerRecord]:
        return [record for record in records if record.key != b""]


def stamp(record: Any) -> Any:
    """A plain function."""
    record.headers.add("stamp", str(record.topic).encode())
    return record


def make_chain(doubles: bool = True) -> Chain:
    return Chain(Numbered(doubles), stamp, Chain(Upper()), errors="raise")


def facts(records: Any) -> list[Any]:
    return [
        (r.topic, r.partition, r.offset, r.timestamp, r.timestamp_type, r.key, r.value, tuple(r.headers.to_list()))
        for r in records
    ]


def collected(partition: Any, chain: Chain) -> Any:
    yield from facts(chain(partition))


@pytest.fixture(scope="module")
def segments(broker: Broker) -> list[Path]:
    broker.create_topic(TOPIC)
    messages = odd() + stream(700, seed=55)
    send_confluent(broker, [mb.ProducerRecord(TOPIC, m.value, m.key, m.headers, 0, m.timestamp) for m in messages])
    return broker.segments(TOPIC)


@pytest.fixture(scope="module")
def on_a_file(segments: list[Path]) -> list[Any]:
    return facts(make_chain()(mb.Log(segments[0].parent).records()))


def test_it_does_something(segments: list[Path], on_a_file: list[Any]) -> None:
    plain = facts(mb.Log(segments[0].parent).records())
    assert len(on_a_file) > 500
    assert {row[2] for row in on_a_file} < {row[2] for row in plain}
    assert any(one == other for one, other in itertools.pairwise(on_a_file))


@pytest.mark.parametrize("receive", [receive_confluent, receive_confluent_aio, receive_aiokafka])
def test_around_a_client(broker: Broker, on_a_file: list[Any], receive: Any) -> None:
    chain = make_chain()
    assert facts(receive(broker, TOPIC, len(on_a_file), interceptors=chain)) == on_a_file
    assert chain.timings["stamp"].calls > 500


def test_over_raw_bytes(segments: list[Path], on_a_file: list[Any]) -> None:
    data = b"".join(path.read_bytes() for path in segments)
    assert facts(make_chain()(mb.decode(data, topic=TOPIC, partition=0))) == on_a_file


def test_in_spark(spark: Any, segments: list[Path], on_a_file: list[Any]) -> None:
    pytest.importorskip("pyspark.cloudpickle").register_pickle_by_value(__import__(__name__))
    from magicbyte.spark import decode_partition

    files = spark.sparkContext.binaryFiles(str(segments[0].parent / "*.log"))
    found = files.mapPartitions(decode_partition).mapPartitions(functools.partial(collected, chain=make_chain()))
    assert sorted(found.collect(), key=lambda row: row[2]) == on_a_file
    # The chain itself is a function of partitions, its records can be shuffled.
    records = files.mapPartitions(decode_partition).mapPartitions(make_chain()).repartition(2).collect()
    assert sorted(facts(records), key=lambda row: row[2]) == on_a_file


def test_at_ingest(segments: list[Path], on_a_file: list[Any]) -> None:
    """What the chain gives is written as a log of its own, and read without one."""
    # Doubled records share their offset, which a batch cannot have: they are numbered anew.
    changed = make_chain()(mb.Log(segments[0].parent).records())
    data = b"".join(mb.encode_batches(record.replace(offset=number) for number, record in enumerate(changed)))
    back = facts(mb.decode(data, topic=TOPIC, partition=0))
    assert [row[3:] for row in back] == [row[3:] for row in on_a_file]


def test_at_compaction(segments: list[Path], tmp_path: Path) -> None:
    """What a cleaning keeps is what the chain gives of these records anywhere. At compaction it cannot make more of one."""
    chain, cleaning = make_chain(doubles=False), mb.Cleaning(clean_active=True)
    mb.clean(segments[0].parent, tmp_path / "plain", cleaning)
    kept = {record.offset for record in mb.Log(tmp_path / "plain").records()}
    on_the_file = facts(chain(mb.Log(segments[0].parent).records()))
    mb.clean(segments[0].parent, tmp_path / "changed", cleaning, chain=chain)
    changed = mb.Log(tmp_path / "changed", topic=TOPIC, partition=0).records()
    assert facts(changed) == [row for row in on_the_file if row[2] in kept]
    assert 100 < len(kept) < len(on_the_file) * 2
