"""Partition directories that magicbyte wrote, given to a stopped broker: it starts, serves them, and goes on writing.

What a Kafka consumer then receives is compared with what was given to be written, and with what magicbyte reads of it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from broker import Broker
from confluent_kafka import TopicPartition
from confluent_kafka.admin import OffsetSpec
from messages import Message, odd, stream
from oracle import JavaConsumer, Row, confluent_rows
from producers import CODECS, Sender

import magicbyte as mb

from places import DATA

#: Small enough for several segments and index entries in each.
SMALL = {"batch_size": 2000, "segment_bytes": 40_000, "index_interval": 1000}
SMALLER = {**SMALL, "segment_bytes": 4000}
# Messages of all ages are in these topics, and none is to be deleted for it.
KEEP = {"retention.ms": "-1"}


@dataclass
class Given:
    """A topic as it was written: its directory, what a consumer should receive, and what a `read_committed` one should."""

    directory: Path
    rows: list[Row]
    committed: list[Row]
    segments: int


def records(messages: list[Message]) -> list[mb.ProducerRecord]:
    return [mb.ProducerRecord("t", m.value, m.key, m.headers, timestamp=m.timestamp) for m in messages]


def expected(messages: list[Message], first: int = 0, epoch: int | None = 0) -> list[Row]:
    return [Row(first + n, m.timestamp, 0, epoch, m.key, m.value, tuple(m.headers)) for n, m in enumerate(messages)]


def everything() -> list[Message]:
    return odd() + stream(400, seed=5)


def plain(directory: Path, codec: str, format: str = "v2") -> Given:
    messages = everything()
    if format != "v2":
        messages = [m._replace(headers=(), timestamp=m.timestamp if format == "v1" else -1) for m in messages]
    with mb.Writer(directory, codec=codec, format=format, **SMALL) as writer:
        writer.write(records(messages))
    rows = expected(messages, epoch=0 if format == "v2" else None)
    if format == "v0":
        rows = [row._replace(timestamp_type=-1) for row in rows]
    return Given(directory, rows, rows, len(writer.segments))


def transactional(directory: Path) -> Given:
    """Two producers whose transactions overlap: one commits, one aborts; then one without transactions."""
    messages = stream(60, seed=6)
    parts = [messages[at : at + 10] for at in range(0, 60, 10)]
    state = {7: 0, 8: 0}
    rows: list[Row] = []
    committed: list[Row] = []
    with mb.Writer(directory, **SMALLER) as writer:

        def send(producer: int, part: list[Message], stays: bool) -> None:
            fields = {"producer_id": producer, "producer_epoch": 3, "base_sequence": state[producer]}
            some = expected(part, writer.next_offset)
            rows.extend(some)
            committed.extend(some if stays else [])
            data = mb.encode(
                records(part), base_offset=writer.next_offset, transactional=True, leader_epoch=0, codec="lz4", **fields
            )
            writer.append(data)
            state[producer] += len(part)

        def end(producer: int, commit: bool) -> None:
            marker = mb.Record(writer.next_offset, messages[0].timestamp, b"\0\0\0" + bytes([commit]), bytes(6))
            fields = {"producer_id": producer, "producer_epoch": 3, "transactional": True, "control": True}
            writer.append(mb.encode([marker], leader_epoch=0, **fields))

        send(7, parts[0], stays=True)
        send(8, parts[1], stays=False)
        send(7, parts[2], stays=True)
        end(7, commit=True)
        send(8, parts[3], stays=False)
        end(8, commit=False)
        send(8, parts[4], stays=True)
        end(8, commit=True)
        rows.extend(expected(parts[5], writer.next_offset))
        committed.extend(expected(parts[5], writer.next_offset))
        writer.write(records(parts[5]))
    return Given(directory, rows, committed, len(writer.segments))


def converted(directory: Path, source: Path, codec: str | None = None) -> Given:
    """A log of v0 or v1 that Kafka wrote, as v2."""
    mb.convert_partition(mb.Log(source), directory, "v2", codec=codec, segment_bytes=4000)
    rows = [Row.of(record)._replace(leader_epoch=None) for record in mb.Log(source).records()]
    if rows[0].timestamp_type == -1:
        # v0 has no timestamps; v2 has, and says that there is none.
        rows = [row._replace(timestamp_type=0) for row in rows]
    return Given(directory, rows, rows, len(list(directory.glob("*.log"))))


def copied(directory: Path, source: Path) -> Given:
    """`encode` of records read from another topic's files."""
    read = list(mb.Log(source).records())
    with mb.Writer(directory, **SMALLER) as writer:
        for at in range(0, len(read), 50):
            writer.append(mb.encode(read[at : at + 50], codec="zstd", leader_epoch=0))
    rows = [Row.of(record)._replace(leader_epoch=0) for record in read]
    return Given(directory, rows, rows, len(writer.segments))


def round_trip(directory: Path, source: Path) -> Given:
    """A real topic through v3 and back."""
    between = directory.with_name("between-0")
    mb.convert_partition(mb.Log(source), between, "v3")
    mb.convert_partition(mb.Log(between), directory, "v2", segment_bytes=40_000)
    rows = [Row.of(record) for record in mb.Log(source).records()]
    return Given(directory, rows, rows, len(list(directory.glob("*.log"))))


NAMES = [*(f"written-{codec}" for codec in CODECS), "written-v1-gzip", "written-v0-snappy", "written-transactions",
         "converted-v1", "converted-v0", "converted-v1-append-time", "copied", "through-v3"]  # fmt: skip


@pytest.fixture(scope="module")
def given(broker: Broker, java_consumer: JavaConsumer, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Given]:
    """All the topics, written, given to the broker, and served by it."""
    root = tmp_path_factory.mktemp("written")
    logs = DATA / "kafka-logs"
    source = broker.create_topic("copied-from", config=KEEP)
    Sender(broker.bootstrap, compression_type="lz4", linger_ms=5).send(source, everything())
    for name in NAMES:
        broker.create_topic(name, config=KEEP)
    broker.stop()
    from_topic = broker.partition_dir(source)
    topics: dict[str, Given] = {f"written-{codec}": plain(root / f"written-{codec}-0", codec) for codec in CODECS}
    topics |= {
        "written-v1-gzip": plain(root / "v1-0", "gzip", "v1"),
        "written-v0-snappy": plain(root / "v0-0", "snappy", "v0"),
        "written-transactions": transactional(root / "transactions-0"),
        "converted-v1": converted(root / "converted-v1-0", logs / "legacy-2"),
        "converted-v0": converted(root / "converted-v0-0", logs / "legacy-1", codec="zstd"),
        "converted-v1-append-time": converted(root / "append-0", logs / "legacy-3"),
        "copied": copied(root / "copied-0", from_topic),
        "through-v3": round_trip(root / "through-0", from_topic),
    }
    assert list(topics) == NAMES
    for name, topic in topics.items():
        broker.put(name, 0, topic.directory.iterdir())
    broker.start()
    return topics


@pytest.mark.parametrize("name", NAMES)
class TestServed:
    def test_a_java_consumer_receives_what_was_written(self, given, java_consumer: JavaConsumer, name: str) -> None:
        assert java_consumer.rows(name) == given[name].rows

    def test_librdkafka_receives_it_too(self, given, broker: Broker, name: str) -> None:
        have = [row._replace(leader_epoch=None) for row in confluent_rows(broker.bootstrap, name)]
        # librdkafka says 0 for no timestamp at all.
        none = {"timestamp": 0} if name == "written-v0-snappy" else {}
        assert have == [row._replace(leader_epoch=None, **none) for row in given[name].rows]

    def test_a_read_committed_consumer_receives_what_is_committed(
        self, given, java_consumer: JavaConsumer, name: str
    ) -> None:
        assert java_consumer.rows(name, 0, "read_committed") == given[name].committed

    def test_magicbyte_reads_what_a_consumer_receives(self, given, java_consumer: JavaConsumer, name: str) -> None:
        have = [Row.of(record) for record in mb.Log(given[name].directory).records()]
        assert have == java_consumer.rows(name)

    def test_the_broker_found_nothing_to_mend(self, given, broker: Broker, name: str) -> None:
        said = broker.log_file.read_text(errors="replace")
        bad = re.compile(
            rf"(?i)\b{re.escape(name)}-0\b.*(corrupt|invalid|recover(ing|ed) unflushed|rebuil[dt].* index)"
        )
        assert [line for line in said.splitlines() if bad.search(line)] == []
        # Its indexes of closed segments are ours to the byte.
        for path in sorted(given[name].directory.glob("*.*index"))[: -2 if given[name].segments > 1 else None]:
            kept = broker.partition_dir(name) / path.name
            if int(path.stem) != int(broker.segments(name)[-1].stem):
                assert kept.read_bytes() == path.read_bytes(), path.name


def test_there_are_segments_to_seek_in(given) -> None:
    assert given["written-none"].segments > 2
    assert given["copied"].segments > 2
    assert given["written-transactions"].segments > 1
    assert list(given["written-transactions"].directory.glob("*.txnindex"))
    assert list(given["written-transactions"].directory.glob("*.snapshot"))


@pytest.mark.parametrize("name", ["written-none", "written-zstd", "copied"])
def test_a_broker_finds_times_by_our_index(given, broker: Broker, name: str) -> None:
    rows = given[name].rows
    admin = broker.admin()
    for row in rows[:: len(rows) // 9]:
        asked = TopicPartition(name, 0)
        found = admin.list_offsets({asked: OffsetSpec.for_timestamp(row.timestamp)})[asked].result(30)
        assert found.offset == next(r.offset for r in rows if r.timestamp >= row.timestamp)


def test_the_broker_goes_on_where_we_ended(given, broker: Broker, java_consumer: JavaConsumer) -> None:
    """Last, as it changes the topics."""
    more = [Message(b"more", str(n).encode()) for n in range(3)]
    for name in NAMES:
        end = broker.end_offset(name)
        Sender(broker.bootstrap).send(name, more)
        rows = java_consumer.rows(name)
        assert rows[: -len(more)] == given[name].rows
        assert [(row.offset, row.key, row.value) for row in rows[-3:]] == [
            (end + n, message.key, message.value) for n, message in enumerate(more)
        ]
        assert [Row.of(record) for record in mb.Log(broker.partition_dir(name)).records()] == rows
