"""The topics that the tests compare: who writes what into them, and what their files must show for the test to be one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from broker import Broker
from messages import Message, odd, stream, updates
from oracle import BatchFacts, Row
from producers import CODECS, Sender, Transactor, send_aiokafka, send_kafka_python

SMALL_SEGMENTS = {"internal.segment.bytes": "16384"}
"""Kafka 4 refuses `segment.bytes` below 1 MiB; its own tests use this setting."""

# Batches of one partition must fit its segments.
SMALL_BATCHES = {"batch_size": 6000}


@dataclass(frozen=True)
class Case:
    """One topic. `shows` says of the files' batches and the consumer's rows whether the topic came out as intended."""

    write: Callable[[Broker, str], None]
    shows: Callable[[list[BatchFacts], list[Row]], bool]
    partitions: int = 1


def _librdkafka(codec: str, broker: Broker, topic: str) -> None:
    broker.create_topic(topic)
    # Batches of one record, of some, and of whatever comes in a fifth of a second.
    one = Sender(broker.bootstrap, compression_type=codec, linger_ms=0, batch_num_messages=1)
    one.send(topic, odd()[:20])
    some = Sender(broker.bootstrap, compression_type=codec, linger_ms=50, batch_num_messages=7)
    some.send(topic, odd())
    many = Sender(broker.bootstrap, compression_type=codec, linger_ms=200, enable_idempotence=True)
    many.send(topic, odd() + stream(1000, seed=1))
    many.send(topic, [Message(b"large", bytes(range(256)) * 8000, (("large", b"x" * 100_000),))])


def _broker_side(codec: str, broker: Broker, topic: str) -> None:
    """The broker compresses anew, with Java's codecs and framings."""
    broker.create_topic(topic, config={"compression.type": codec})
    Sender(broker.bootstrap, compression_type="none", linger_ms=100).send(topic, odd() + stream(1000, seed=2))


def _kafka_python(codec: str, broker: Broker, topic: str) -> None:
    broker.create_topic(topic)
    send_kafka_python(broker.bootstrap, topic, odd() + stream(300, seed=3), codec, linger_ms=20)


def _aiokafka(codec: str, broker: Broker, topic: str) -> None:
    broker.create_topic(topic)
    send_aiokafka(broker.bootstrap, topic, odd() + stream(300, seed=4), codec)


def _aiokafka_transactions(broker: Broker, topic: str) -> None:
    broker.create_topic(topic)
    send_aiokafka(broker.bootstrap, topic, stream(120, seed=5), "lz4", transactional_id=topic)


def _transactions(broker: Broker, topic: str) -> None:
    """Two transactional producers and a plain one, interleaved in both partitions; commits, aborts, an empty one."""
    broker.create_topic(topic, 2)
    first = Transactor(broker.bootstrap, f"{topic}-first", compression_type="lz4")
    second = Transactor(broker.bootstrap, f"{topic}-second", compression_type="none")
    plain = Sender(broker.bootstrap, compression_type="zstd")
    for number in range(6):
        first.begin()
        second.begin()
        for turn in range(3):
            for partition in range(2):
                first.send(topic, stream(5, seed=100 * number + turn), partition)
                second.send(topic, odd()[turn * 4 : turn * 4 + 4], partition)
                plain.send(topic, stream(2, seed=7 * number + turn), partition)
        # All four pairs of outcomes, in both orders.
        (first.commit if number % 2 else first.abort)()
        (second.abort if number % 3 else second.commit)()
    first.begin()
    first.commit()
    plain.send(topic, odd()[:5], 0)
    plain.send(topic, odd()[:5], 1)


def _open_transaction(broker: Broker, topic: str) -> None:
    """A transaction that never ends: a read_uncommitted consumer gets its records, and those behind it."""
    broker.create_topic(topic)
    done = Transactor(broker.bootstrap, f"{topic}-done", compression_type="gzip")
    left = Transactor(broker.bootstrap, f"{topic}-left", compression_type="gzip")
    done.begin()
    done.send(topic, stream(10, seed=11))
    done.commit()
    left.begin()
    left.send(topic, stream(10, seed=12))
    done.begin()
    done.send(topic, odd()[:10])
    done.abort()
    done.begin()
    done.send(topic, stream(10, seed=13))
    done.commit()


def _append_time(codec: str, broker: Broker, topic: str) -> None:
    broker.create_topic(topic, config={"message.timestamp.type": "LogAppendTime", "compression.type": codec})
    for producer_codec in CODECS:
        Sender(broker.bootstrap, compression_type=producer_codec, linger_ms=50).send(topic, odd())


def _segments(broker: Broker, topic: str) -> None:
    """Many segments in three partitions, codecs mixed within a segment."""
    broker.create_topic(topic, 3, SMALL_SEGMENTS)
    senders = [Sender(broker.bootstrap, compression_type=codec, linger_ms=20, **SMALL_BATCHES) for codec in CODECS]
    for number in range(10):
        for partition in range(3):
            senders[number % 5].send(topic, stream(60 + 20 * partition, seed=10 * number + partition), partition)


def _epochs(broker: Broker, topic: str) -> None:
    """The leader is elected anew in between, so that batches of one segment carry different leader epochs."""
    broker.create_topic(topic)
    for number in range(3):
        if number:
            broker.restart()
        Sender(broker.bootstrap, compression_type="snappy").send(topic, stream(50, seed=20 + number))


def _compacted(broker: Broker, topic: str) -> None:
    """Tombstones kept, with their delete horizon; batches with holes; idempotent batches left empty."""
    broker.create_topic(topic, config={"cleanup.policy": "compact", **SMALL_SEGMENTS})
    for number, codec in enumerate(CODECS):
        sender = Sender(
            broker.bootstrap, compression_type=codec, enable_idempotence=True, linger_ms=20, **SMALL_BATCHES
        )
        sender.send(topic, updates(300, keys=60, seed=30 + number))
    broker.wait_cleaned(topic)


def _compacted_transactions(broker: Broker, topic: str) -> None:
    """The cleaner drops aborted and overwritten records, and keeps producer state as empty batches and old markers."""
    broker.create_topic(topic, config={"cleanup.policy": "compact", **SMALL_SEGMENTS})
    overwritten = Transactor(broker.bootstrap, f"{topic}-overwritten", compression_type="gzip", **SMALL_BATCHES)
    overwritten.begin()
    overwritten.send(topic, updates(20, keys=5, seed=199))
    overwritten.commit()
    first = Transactor(broker.bootstrap, f"{topic}-first", compression_type="zstd", **SMALL_BATCHES)
    second = Transactor(broker.bootstrap, f"{topic}-second", compression_type="none", **SMALL_BATCHES)
    for number in range(20):
        first.begin()
        second.begin()
        first.send(topic, updates(20, keys=30, seed=200 + number))
        second.send(topic, updates(20, keys=30, seed=300 + number))
        (first.abort if number % 3 == 0 else first.commit)()
        (second.abort if number % 4 == 0 else second.commit)()
    # Two passes: the data of a transaction goes in the first, its marker gets a horizon in the next.
    for number in range(2):
        Sender(broker.bootstrap, **SMALL_BATCHES).send(topic, updates(400, keys=9, seed=400 + number, prefix="plain"))
        broker.wait_cleaned(topic)


def _tombstones_dropped(broker: Broker, topic: str) -> None:
    """Tombstones past their horizon are gone as well, and whole segments with them."""
    settings = {"cleanup.policy": "compact", "delete.retention.ms": "0", **SMALL_SEGMENTS}
    broker.create_topic(topic, config=settings)
    Sender(broker.bootstrap, compression_type="lz4", **SMALL_BATCHES).send(topic, updates(400, keys=20, seed=50))
    Sender(broker.bootstrap, **SMALL_BATCHES).send(topic, [Message(b"key-%03d" % key, None) for key in range(20)])
    # The first pass stamps the horizon on the tombstones that it keeps, the second one drops them.
    for _ in range(2):
        Sender(broker.bootstrap, **SMALL_BATCHES).send(topic, [Message(b"filler", b"." * 100) for _ in range(300)])
        broker.wait_cleaned(topic)


def _uses(codec: str, batches: list[BatchFacts], rows: list[Row]) -> bool:
    # Batches that would grow stay as they are: both producers and the broker then write "none".
    return any(batch.codec == codec for batch in batches) and {batch.codec for batch in batches} <= {codec, "none"}


def _all_append_time(batches: list[BatchFacts], rows: list[Row]) -> bool:
    return {row.timestamp_type for row in rows} == {1} and len({row.timestamp for row in rows}) > 1


def _has_transactions(batches: list[BatchFacts], rows: list[Row]) -> bool:
    data = [batch for batch in batches if not batch.is_control]
    return any(b.is_transactional for b in data) and sum(b.is_control for b in batches) >= 2


def _is_compacted(batches: list[BatchFacts], rows: list[Row]) -> bool:
    holes = rows[-1].offset + 1 - len(rows)
    return holes > 100 and any(row.value is None for row in rows) and any(batch.has_delete_horizon for batch in batches)


def _is_compacted_with_transactions(batches: list[BatchFacts], rows: list[Row]) -> bool:
    data = [batch for batch in batches if batch.is_transactional and not batch.is_control]
    horizons = any(batch.is_control and batch.has_delete_horizon for batch in batches)
    return _is_compacted(batches, rows) and horizons and {batch.count == 0 for batch in data} == {True, False}


CASES: dict[str, Case] = {
    **{f"librdkafka-{codec}": Case(partial(_librdkafka, codec), partial(_uses, codec)) for codec in CODECS},
    **{f"java-{codec}": Case(partial(_broker_side, codec), partial(_uses, codec)) for codec in CODECS[1:]},
    **{f"kafka-python-{codec}": Case(partial(_kafka_python, codec), partial(_uses, codec)) for codec in CODECS},
    **{f"aiokafka-{codec}": Case(partial(_aiokafka, codec), partial(_uses, codec)) for codec in CODECS},
    "aiokafka-transactions": Case(_aiokafka_transactions, _has_transactions),
    "transactions": Case(_transactions, _has_transactions, 2),
    "open-transaction": Case(_open_transaction, _has_transactions),
    "append-time": Case(partial(_append_time, "producer"), _all_append_time),
    "append-time-java-zstd": Case(partial(_append_time, "zstd"), _all_append_time),
    "segments": Case(_segments, lambda batches, rows: sum(batch.position == 0 for batch in batches) >= 3, 3),
    "leader-epochs": Case(_epochs, lambda batches, rows: len({row.leader_epoch for row in rows}) >= 3),
    "compacted": Case(_compacted, _is_compacted),
    "compacted-transactions": Case(_compacted_transactions, _is_compacted_with_transactions),
    "tombstones-dropped": Case(
        _tombstones_dropped, lambda batches, rows: {row.key for row in rows} == {b"filler"} and rows[0].offset > 400
    ),
}
