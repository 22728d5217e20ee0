"""`read_committed` from files equals what a read_committed consumer of the broker receives.

Besides the topics of `cases`, one in which Java's producers (their markers carry a bumped epoch), librdkafka's (the same
epoch) and a plain one interleave over several segments: commits, aborts, transactions over many segments, a compaction in
between, and in the end one transaction that is left open.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from broker import Broker
from cases import CASES, SMALL_BATCHES, SMALL_SEGMENTS
from jars import answering
from messages import updates
from oracle import JavaConsumer, Row
from producers import Sender, Transactor

import magicbyte as mb
from magicbyte import _core


class JavaTransactor:
    """Kafka's Java transactional producers in a process of their own (tests/kafka/java/Transactor.java)."""

    def __init__(self, bootstrap: str) -> None:
        self._process = answering("Transactor.java", bootstrap)

    def ask(self, *words: object) -> None:
        """One request, as the Java file has them."""
        ask, answer = self._process.stdin, self._process.stdout
        assert ask is not None
        assert answer is not None
        ask.write(" ".join(map(str, words)) + "\n")
        ask.flush()
        said = answer.readline().strip()
        if said != "ok":
            raise RuntimeError(f"{words}: {said or 'the process ended'}")

    def close(self) -> None:
        """Ends the process without a word to the broker: open transactions stay open."""
        self._process.kill()
        self._process.wait()


def write(broker: Broker, topic: str, java_producers: JavaTransactor, compact: bool) -> None:
    broker.create_topic(topic, config={**SMALL_SEGMENTS, **({"cleanup.policy": "compact"} if compact else {})})
    native = Transactor(broker.bootstrap, f"{topic}-native", compression_type="zstd", **SMALL_BATCHES)
    plain = Sender(broker.bootstrap, **SMALL_BATCHES)
    first, second, long = f"{topic}-first", f"{topic}-second", f"{topic}-long"
    for number in range(16):
        java_producers.ask("begin", first)
        java_producers.ask("begin", second)
        native.begin()
        if number % 8 == 0:
            java_producers.ask("begin", long)
            java_producers.ask("send", long, topic, 0, 10, 12, 40)
        for turn in range(3):
            java_producers.ask("send", first, topic, 0, 8, 20, 60)
            native.send(topic, updates(8, keys=20, seed=10 * number + turn))
            java_producers.ask("send", second, topic, 0, 5, 20, 300)
            plain.send(topic, updates(4, keys=9, seed=number, prefix="plain"))
        # All outcomes, in changing orders; an abort marker of `long` lies segments behind its data.
        java_producers.ask("commit" if number % 2 else "abort", first)
        (native.abort if number % 3 == 0 else native.commit)()
        java_producers.ask("abort" if number % 4 == 1 else "commit", second)
        if number % 8 == 7:
            java_producers.ask("abort" if number == 7 else "commit", long)
        if compact and number == 7:
            broker.wait_cleaned(topic)
    if compact:
        plain.send(topic, updates(400, keys=9, seed=1, prefix="plain"))
        broker.wait_cleaned(topic)
    # A transaction without a record, then one that is left open, with others behind it.
    java_producers.ask("begin", first)
    java_producers.ask("commit", first)
    java_producers.ask("begin", second)
    java_producers.ask("send", second, topic, 0, 7, 20, 50)
    native.begin()
    native.send(topic, updates(30, keys=20, seed=7))
    native.commit()
    java_producers.ask("begin", first)
    java_producers.ask("send", first, topic, 0, 60, 20, 400)
    java_producers.ask("abort", first)


@dataclass(frozen=True)
class Topic:
    """What consumers of the topic receive."""

    name: str
    directory: Path
    everything: list[Row]
    committed: list[Row]
    stable: int


MIXED = {"mixed": False, "mixed-compacted": True}


@pytest.fixture(scope="module")
def mixed(broker: Broker, java_consumer: JavaConsumer) -> Iterator[Callable[[str], Topic]]:
    producers = JavaTransactor(broker.bootstrap)
    made: dict[str, Topic] = {}

    def of(name: str) -> Topic:
        if name not in made:
            write(broker, name, producers, MIXED[name])
            committed, stable = java_consumer.read(name, 0, "read_committed")
            made[name] = Topic(name, broker.partition_dir(name), java_consumer.rows(name), committed, stable)
        return made[name]

    yield of
    producers.close()


def rows(log: mb.Log, **options: Any) -> list[Row]:
    return [Row.of(record) for record in log.records(isolation="read_committed", **options)]


@pytest.mark.parametrize("name", MIXED)
def test_interleaved_transactions_read_as_consumed(mixed: Callable[[str], Topic], name: str) -> None:
    topic = mixed(name)
    log = mb.Log(topic.directory)
    assert len(log.segments) >= 4
    assert rows(log) == topic.committed
    offsets = log.scan(["offset"], isolation="read_committed").to_arrow()["offset"].to_pylist()
    assert offsets == [row.offset for row in topic.committed]
    assert len(topic.committed) < len([row for row in topic.everything if row.offset < topic.stable]) or name != "mixed"
    assert rows(log) == topic.committed
    # Spans of one producer's transactions are in several segments, so that a segment alone would not do.
    assert [Row.of(r) for p in log.parts() for r in _core.Reader([p], isolation="read_committed").records()] == (
        topic.committed
    )


@pytest.mark.parametrize("name", MIXED)
def test_the_open_transaction_is_unknown(
    mixed: Callable[[str], Topic], name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = mixed(name)
    log = mb.Log(topic.directory)
    table = log.scan(["offset", "transactionState", "producerId", "isTransactional"]).to_arrow()
    assert table["offset"].to_pylist() == [row.offset for row in topic.everything]
    states = table.to_pylist()
    unknown = [row for row in states if row["transactionState"] == "unknown"]
    # Seven records of one producer, and the consumer stops at the first of them.
    assert (len(unknown), len({row["producerId"] for row in unknown})) == (7, 1)
    assert unknown[0]["offset"] == topic.stable == log.transactions(name, 0).last_stable_offset
    assert {row["transactionState"] for row in states if not row["isTransactional"]} == {"none"}
    below = [row for row in states if row["offset"] < topic.stable]
    good = [row["offset"] for row in below if row["transactionState"] in ("committed", "none")]
    assert good == [row.offset for row in topic.committed]
    reader = log.reader(isolation="read_committed")
    assert reader.scan(["offset"]).count() == len(topic.committed)
    [(_, _, kind, _, message)] = reader.findings
    left = len([row for row in states if row["offset"] >= topic.stable])
    assert kind == "unknown_transaction"
    assert f"{left} records are left behind" in message
    # Going on leaves out the unknown ones and the aborted ones, and nothing else.
    past = log.scan(["offset"], isolation="read_committed", past_lso=True).to_arrow()["offset"].to_pylist()
    assert past == [row["offset"] for row in states if row["transactionState"] in ("committed", "none")]
    assert past[-1] > topic.stable
    counts = Counter(row["transactionState"] for row in states)
    with capsys.disabled():
        print(
            f"\n{name}: {len(log.segments)} segments, {len(states)} records of {dict(counts)}; a read_committed consumer "
            f"and the files: {len(topic.committed)} each, up to offset {topic.stable}, {left} left behind"
        )


@pytest.mark.parametrize("name", MIXED)
def test_no_index_is_needed(mixed: Callable[[str], Topic], tmp_path: Path, name: str) -> None:
    topic = mixed(name)
    for segment in sorted(topic.directory.glob("*.log")):
        (tmp_path / segment.name).write_bytes(segment.read_bytes())
    assert rows(mb.Log(tmp_path)) == topic.committed


@pytest.mark.parametrize(
    "name", ["transactions", "aiokafka-transactions", "open-transaction", "compacted-transactions", "segments"]
)
def test_other_topics_read_as_consumed(
    broker: Broker, java_consumer: JavaConsumer, written: Callable[[str], list[list[Row]]], name: str
) -> None:
    written(name)
    for partition in range(CASES[name].partitions):
        expected, stable = java_consumer.read(name, partition, "read_committed")
        log = mb.Log(broker.partition_dir(name, partition))
        assert rows(log) == expected
        assert log.scan(isolation="read_committed").count() == len(expected)
        lso = log.transactions(name, partition).last_stable_offset
        assert (lso is None) == (name != "open-transaction")
        assert lso in (None, stable)


@pytest.mark.spark
@pytest.mark.parametrize("name", MIXED)
def test_spark_reads_committed_as_consumed(mixed: Callable[[str], Topic], spark: Any, name: str) -> None:
    topic = mixed(name)
    read = spark.read.format("magicbyte").option("isolation", "read_committed").option("maxPartitionBytes", "4k")
    table = read.load(str(topic.directory)).toArrow()
    assert sorted(table["offset"].to_pylist()) == [row.offset for row in topic.committed]
    past = read.option("pastLso", "true").option("columns", "offset,transactionState").load(str(topic.directory))
    assert {row.transactionState for row in past.collect()} == {"committed", "none"}
    states = spark.read.format("magicbyte").option("columns", "offset,transactionState").load(str(topic.directory))
    assert states.where("transactionState = 'unknown'").count() == 7


def test_a_reader_beside_a_living_producer_never_shows_what_is_open(
    broker: Broker, java_consumer: JavaConsumer
) -> None:
    """Whatever moment a read falls upon, it gives a beginning of what is committed in the end."""
    import threading

    topic = broker.create_topic("committed-grows", config=SMALL_SEGMENTS)
    producer = Transactor(broker.bootstrap, topic, **SMALL_BATCHES)
    done = threading.Event()

    def run() -> None:
        try:
            for number in range(40):
                producer.begin()
                producer.send(topic, updates(20, keys=5, seed=number))
                (producer.abort if number % 3 == 0 else producer.commit)()
        finally:
            done.set()

    writer = threading.Thread(target=run)
    writer.start()
    reads = []
    while not reads or not done.is_set():
        reads.append([r.offset for r in mb.Log(broker.partition_dir(topic)).records(isolation="read_committed")])
    writer.join()
    expected = [row.offset for row in java_consumer.rows(topic, 0, "read_committed")]
    assert reads
    for read in reads:
        assert read == expected[: len(read)]
    assert [
        record.offset for record in mb.Log(broker.partition_dir(topic)).records(isolation="read_committed")
    ] == expected
