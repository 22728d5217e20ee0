"""Segments that a real broker wrote minutes ago read equal to what a Kafka consumer receives from that broker.

Each topic of `cases.CASES` is read while the broker runs (its last segment active, its index files preallocated), after it
stopped, and after it was killed, through every door: records, columns, bytes, batches, ranges, Spark.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator
from operator import attrgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from broker import Broker
from cases import CASES, SMALL_BATCHES, SMALL_SEGMENTS
from messages import stream
from oracle import JavaConsumer, Row, batch_facts
from producers import CODECS, Sender, Transactor

import magicbyte as mb

EVERY = pytest.mark.parametrize("name", CASES)
COLUMNS = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"]

SAME = ("base_offset", "position", "size", "codec", "producer_id", "producer_epoch", "count")
BATCH_FIELDS = attrgetter(*SAME, "partition_leader_epoch", "transactional", "control", "delete_horizon")
FACT_FIELDS = attrgetter(*SAME, "leader_epoch", "is_transactional", "is_control", "has_delete_horizon")


def rows(records: Iterable[Any]) -> list[Row]:
    return [Row.of(record) for record in records]


def table_rows(table: pa.Table) -> list[Row]:
    """From a table of at least the default columns and leaderEpoch; of one partition."""
    moments = table["timestamp"].cast(pa.timestamp("ms", "UTC")).cast(pa.int64())
    columns = [table["offset"], moments, table["timestampType"], table["leaderEpoch"], table["key"], table["value"]]
    lists = [column.to_pylist() for column in columns]
    headers = [
        tuple((header["key"], header["value"]) for header in some or ()) for some in table["headers"].to_pylist()
    ]
    return [Row(*fields) for fields in zip(*lists, headers, strict=True)]


def without_epoch(some: Iterable[Row]) -> list[Row]:
    return [row._replace(leader_epoch=None) for row in some]


def same_everywhere(directory: Path, topic: str, partition: int, expected: list[Row]) -> None:
    """The comparison that every state of the broker gets."""
    log = mb.Log(directory)
    records = list(log.records())
    assert rows(records) == expected
    assert {(record.topic, record.partition) for record in records} <= {(topic, partition)}
    table = log.scan(columns=[*COLUMNS, "leaderEpoch"]).to_arrow()
    assert table_rows(table) == expected
    assert set(table["topic"].to_pylist()) <= {topic}
    assert set(table["partition"].to_pylist()) <= {partition}
    assert log.scan().count() == len(expected)


@EVERY
def test_a_partition_reads_as_consumed(broker: Broker, written, name: str) -> None:
    for partition, expected in enumerate(written(name)):
        same_everywhere(broker.partition_dir(name, partition), name, partition, expected)


@EVERY
def test_default_columns(broker: Broker, written, name: str) -> None:
    for partition, expected in enumerate(written(name)):
        table = mb.Log(broker.partition_dir(name, partition)).scan().to_arrow()
        assert table.column_names == COLUMNS
        table = table.append_column("leaderEpoch", pa.nulls(len(table), pa.int32()))
        assert table_rows(table) == without_epoch(expected)


@EVERY
def test_single_segments_and_bytes_read_as_consumed(broker: Broker, written, name: str) -> None:
    for partition, expected in enumerate(written(name)):
        segments = broker.segments(name, partition)
        assert [row for path in segments for row in rows(mb.Log(path).records())] == expected
        decoded = [r for path in segments for r in mb.decode(path.read_bytes(), topic=name, partition=partition)]
        assert rows(decoded) == expected
        assert {(record.topic, record.partition) for record in decoded} <= {(name, partition)}
        tables = [mb.decode_arrow(path.read_bytes(), columns=[*COLUMNS, "leaderEpoch"]) for path in segments]
        assert [row for table in tables for row in table_rows(pa.table(table))] == expected


@EVERY
def test_views_into_the_mapped_file_hold_the_same(broker: Broker, written, name: str) -> None:
    for partition, expected in enumerate(written(name)):
        log = mb.Log(broker.partition_dir(name, partition))
        table = log.scan(columns=[*COLUMNS, "leaderEpoch"], views=True).to_arrow()
        assert table_rows(table) == expected


@EVERY
def test_batches_are_those_of_the_files(broker: Broker, written, name: str) -> None:
    for partition, expected in enumerate(written(name)):
        batches = list(mb.Log(broker.partition_dir(name, partition)).batches())
        facts = batch_facts(broker.segments(name, partition))
        assert [BATCH_FIELDS(batch) for batch in batches] == [FACT_FIELDS(fact) for fact in facts]
        assert all(batch.crc_ok for batch in batches)
        stored = [record.offset for batch in batches if not batch.control for record in batch.records]
        assert stored == [row.offset for row in expected]


@pytest.mark.parametrize("name", ["transactions", "aiokafka-transactions", "open-transaction"])
def test_control_records_fill_the_holes(broker: Broker, written, name: str) -> None:
    for partition, expected in enumerate(written(name)):
        records = list(mb.Log(broker.partition_dir(name, partition)).records(control=True))
        assert [record.offset for record in records] == list(range(broker.end_offset(name, partition)))
        data = [record for record in records if not record.control]
        assert rows(data) == expected


@pytest.mark.parametrize(
    "name", ["segments", "compacted", "compacted-transactions", "librdkafka-zstd", "tombstones-dropped"]
)
def test_offset_ranges(broker: Broker, written, name: str) -> None:
    for partition, expected in enumerate(written(name)):
        log = mb.Log(broker.partition_dir(name, partition))
        last = expected[-1].offset
        edges = [
            0,
            1,
            last // 3,
            last // 2,
            last - 1,
            last,
            last + 1,
            *(int(p.stem) for p in broker.segments(name, partition)),
        ]
        for start in edges:
            for end in (start, start + 1, start + 40, last // 2, last + 10):
                table = log.scan(columns=["offset"], offsets=(start, max(start, end))).to_arrow()
                wanted = [row.offset for row in expected if start <= row.offset < end]
                assert table["offset"].to_pylist() == wanted, (start, end)


@pytest.mark.parametrize("name", ["segments", "compacted", "append-time", "librdkafka-lz4"])
def test_time_ranges(broker: Broker, written, name: str) -> None:
    for partition, expected in enumerate(written(name)):
        log = mb.Log(broker.partition_dir(name, partition))
        moments = sorted({row.timestamp for row in expected})
        for start, end in [(0, len(moments) // 2), (len(moments) // 3, -1), (1, 2), (len(moments) // 2, -1)]:
            low, high = moments[min(start, len(moments) - 1)], moments[min(end, len(moments) - 1)]
            table = log.scan(columns=["offset"], timestamps=(low, high)).to_arrow()
            wanted = [row.offset for row in expected if low <= row.timestamp < high]
            assert table["offset"].to_pylist() == wanted, (low, high)


def test_the_whole_data_directory(broker: Broker, written, java_consumer: JavaConsumer) -> None:
    """Broker's own topics, checkpoints and metadata stand beside ours."""
    expected = {(name, p): some for name in CASES for p, some in enumerate(written(name))}
    seen: dict[tuple[str, int], list[Row]] = {}
    for record in mb.Log(broker.data_dir).records():
        seen.setdefault((record.topic, record.partition), []).append(Row.of(record))
    assert {key: seen.get(key, []) for key in expected} == expected
    own = seen["__transaction_state", 0]
    assert own
    assert own == java_consumer.rows("__transaction_state")[: len(own)]


def test_a_log_that_grows_while_it_is_read(broker: Broker, java_consumer: JavaConsumer) -> None:
    """Whatever moment a read falls upon, it ends without an error after a whole number of batches."""
    topic = broker.create_topic("grows", config=SMALL_SEGMENTS)
    failures: list[BaseException] = []

    def write() -> None:
        try:
            for number in range(60):
                sender = Sender(broker.bootstrap, compression_type=CODECS[number % 5], **SMALL_BATCHES)
                sender.send(topic, stream(50, seed=number))
        except BaseException as error:
            failures.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    reads: list[list[Row]] = []
    while writer.is_alive():
        reads.append(rows(mb.Log(broker.partition_dir(topic)).records()))
        table = mb.Log(broker.partition_dir(topic)).scan(columns=[*COLUMNS, "leaderEpoch"]).to_arrow()
        reads.append(table_rows(table))
    writer.join()
    assert not failures
    expected = java_consumer.rows(topic)
    assert len(expected) == 3000
    for read in reads:
        assert read == expected[: len(read)]
    assert [len(read) for read in reads] == sorted(len(read) for read in reads)


@pytest.mark.spark
@pytest.mark.parametrize(
    "name", ["librdkafka-snappy", "transactions", "segments", "compacted-transactions", "append-time"]
)
def test_spark_reads_as_consumed(broker: Broker, written, spark: Any, name: str) -> None:
    expected = [(p, row) for p, some in enumerate(written(name)) for row in some]
    directories = [str(broker.partition_dir(name, partition)) for partition in range(CASES[name].partitions)]
    frames = [spark.read.format("magicbyte").load(directory) for directory in directories]
    got = []
    for frame in frames:
        table = frame.toArrow()
        table = table.append_column("leaderEpoch", pa.nulls(len(table), pa.int32()))
        assert set(table["topic"].to_pylist()) <= {name}
        got += list(zip(table["partition"].to_pylist(), table_rows(table), strict=True))
    assert sorted(got, key=lambda at: (at[0], at[1].offset)) == [
        (p, r._replace(leader_epoch=None)) for p, r in expected
    ]


@pytest.fixture(scope="class", params=["stopped", "killed"])
def resting(request: pytest.FixtureRequest, broker: Broker, written) -> Iterator[Broker]:
    """The broker, not running; all topics are written."""
    for name in CASES:
        written(name)
    # Something in flight when the end comes: a transaction without an end.
    topic = broker.create_topic(f"resting-{request.param}")
    in_flight = Transactor(broker.bootstrap, topic)
    in_flight.begin()
    in_flight.send(topic, stream(10, seed=1))
    broker.stop() if request.param == "stopped" else broker.kill()
    yield broker
    broker.start()


class TestAtRest:
    """After the broker's end: trimmed index files and snapshots, or the remains of a crash."""

    @EVERY
    def test_a_partition_reads_as_consumed(self, resting: Broker, written, name: str) -> None:
        for partition, expected in enumerate(written(name)):
            same_everywhere(resting.partition_dir(name, partition), name, partition, expected)

    def test_verify_finds_no_error(self, resting: Broker, written) -> None:
        """Nor in snapshots and leader-epoch checkpoints, whichever way it ended. In topics that other tests gave it, too."""
        report = mb.Log(resting.data_dir).verify()
        errors = [defect for defect in report.defects if defect.severity == "error"]
        assert [defect for defect in errors if re.search(r"/(saved|copy|written)-", defect.path) is None] == []
        assert list(resting.data_dir.glob("*/*.snapshot"))

    def test_the_whole_data_directory(self, resting: Broker, written) -> None:
        expected = sum(len(some) for name in CASES for some in written(name))
        table = mb.Log(resting.data_dir).scan(columns=["topic", "offset"]).to_arrow()
        assert sum(topic in CASES for topic in table["topic"].to_pylist()) == expected


def test_after_a_crash_the_broker_still_serves_the_same(broker: Broker, java_consumer: JavaConsumer, written) -> None:
    """Reading beside it has changed nothing of what it recovers from."""
    for name in CASES:
        for partition, expected in enumerate(written(name)):
            assert java_consumer.rows(name, partition) == expected
