"""Planning and options, in this very process: what the driver and a task do, without a JVM between them."""

from __future__ import annotations

import json
import pickle
import shutil
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark.sql import datasource as ds
from pyspark.sql.types import IntegerType, LongType, StructField, StructType

import magicbyte as mb
from magicbyte import _core
from magicbyte.spark import SCHEMA, DataSource
from magicbyte.spark.columns import schema_of


@pytest.fixture
def logs(data: Path) -> Path:
    return data / "kafka-logs"


def source(path: Any, **options: str) -> DataSource:
    where = {} if path is None else {"path": str(path)}
    return DataSource({key.lower(): value for key, value in options.items()} | where)


def read(path: Any, filters: list[ds.Filter] | None = None, schema: Any = None, **options: str) -> list[dict[str, Any]]:
    """What Spark would get: plan, ship the reader and each partition by pickle, read."""
    one = source(path, **options)
    reader = one.reader(schema=schema or one.schema())
    if filters is not None:
        assert list(reader.pushFilters(filters)) == filters
    partitions = reader.partitions() or [ds.InputPartition(None)]
    found = []
    for partition in partitions:
        task, piece = pickle.loads(pickle.dumps((reader, partition)))
        for batch in task.read(piece):
            found += batch.to_pylist()
    return found


def places(rows: list[dict[str, Any]]) -> list[tuple[str, int, int]]:
    return [(row["topic"], row["partition"], row["offset"]) for row in rows]


def test_schema_is_that_of_the_kafka_source(logs: Path) -> None:
    assert source(logs).schema() == SCHEMA
    assert schema_of(_core.DEFAULT_COLUMNS) == SCHEMA


def test_every_column_has_a_spark_type() -> None:
    columns = list(_core.COLUMNS)
    assert schema_of(columns).fieldNames() == columns


def test_columns_are_chosen_or_added(logs: Path) -> None:
    assert source(logs, columns="offset, codec").schema().fieldNames() == ["offset", "codec"]
    assert source(logs, columns="+codec,producerId").schema().fieldNames() == [
        *_core.DEFAULT_COLUMNS,
        "codec",
        "producerId",
    ]
    assert "headers" not in source(logs, includeHeaders="false").schema().fieldNames()
    assert source(logs, mode="permissive").schema().fieldNames()[-1] == "_corrupt_record"
    with pytest.raises(ValueError, match="did you mean codec"):
        source(logs, columns="codek").schema()
    with pytest.raises(ValueError, match="twice"):
        source(logs, columns="codec,codec").schema()


def test_a_narrower_schema(logs: Path) -> None:
    rows = read(logs / "headers-0", schema=schema_of(["value", "offset"]))
    assert list(rows[0]) == ["value", "offset"]
    assert len(rows) == 18
    assert len(read(logs / "headers-0", schema=StructType([StructField("offset", LongType(), nullable=False)]))) == 18
    with pytest.raises(ValueError, match="column offset is bigint, not int"):
        read(logs, schema=StructType([StructField("offset", IntegerType())]))
    with pytest.raises(ValueError, match="no column offsets; did you mean offset"):
        read(logs, schema=StructType([StructField("offsets", LongType())]))


def test_small_segments_share_a_task_and_large_ones_come_in_pieces(logs: Path) -> None:
    one = source(logs / "payments-0")
    [pack] = one.reader(schema=one.schema()).partitions()
    assert len(pack.pieces) == 6
    one = source(logs / "payments-0", maxPartitionBytes="3m")
    assert [len(pack.pieces) for pack in one.reader(schema=one.schema()).partitions()] == [2, 2, 2]
    one = source(logs / "payments-0", maxPartitionBytes="4k")
    assert len(one.reader(schema=one.schema()).partitions()) > 20
    small = read(logs / "payments-0", maxPartitionBytes="4k")
    assert small == read(logs / "payments-0")
    assert len(small) == len(list(mb.Log(logs / "payments-0").records()))


def test_as_many_tasks_as_are_asked_for(tmp_path: Path) -> None:
    with mb.Writer(tmp_path / "t-0", batch_size=2000, index_interval=4096) as writer:
        writer.write(mb.ProducerRecord("t", b"%04d" % n * 256, timestamp=n) for n in range(1200))
    size = mb.Log(tmp_path).size
    assert size > 1200 << 10
    for asked, least, most in (("1", 1, 1), ("8", 8, 9), ("100000", size // (80 << 10), size // (64 << 10) + 1)):
        one = source(tmp_path, minPartitions=asked)
        assert least <= len(one.reader(schema=one.schema()).partitions()) <= most, asked
    assert read(tmp_path, minPartitions="8") == read(tmp_path)


def test_the_default_reader_takes_no_filters(logs: Path) -> None:
    """Spark refuses a reader that has pushFilters while its conf is off, which is the default."""
    reader = source(logs).reader(schema=schema_of(["offset"]))
    assert type(reader).pushFilters is ds.DataSourceReader.pushFilters
    assert (
        type(source(logs, pushdown="true").reader(schema=schema_of(["offset"]))).pushFilters
        is not type(reader).pushFilters
    )


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("startingOfsets", "earliest", "did you mean startingOffsets"),
        ("kafka.bootstrap.servers", "localhost:9092", "reads files, not a broker"),
        ("checkCrc", "maybe", "true or false"),
        ("maxPartitionBytes", "many", "a number of bytes"),
        ("maxPartitionBytes", "0", "more than 0"),
        ("minPartitions", "0", "above 0"),
        ("partition", "x", "a whole number"),
        ("format", "v9", "one of kafka, kip87"),
        ("mode", "LENIENT", "one of FAILFAST"),
        ("startingOffsets", "latest", "nothing to read"),
        ("endingOffsets", "earliest", "nothing to read"),
        ("startingOffsets", '{"a":{"0":-1}}', "nothing to read"),
        ("startingOffsets", '{"a":{"0":-3}}', "offset -3"),
        ("startingOffsets", "{", "expected JSON"),
        ("startingOffsets", "[1]", "expected JSON"),
        ("assign", "[1]", "expected JSON"),
        ("subscribePattern", "(", "not right"),
        ("subscribe", " , ", "at least one name"),
        ("startingTimestamp", "yesterday", "a whole number"),
        ("limits.record", "x", "a number of bytes"),
    ],
)
def test_wrong_options(logs: Path, name: str, value: str, says: str) -> None:
    with pytest.raises(ValueError, match=says) as error:
        source(logs, **{name: value}).reader(schema=SCHEMA)
    assert name in str(error.value) or name.lower() in str(error.value)


def test_one_way_to_choose_topics(logs: Path) -> None:
    with pytest.raises(ValueError, match="only one of"):
        source(logs, subscribe="a", assign='{"a":[0]}')


def test_options_of_spark_itself_pass(logs: Path) -> None:
    source(logs, **{"serialization.format": "1"})


def test_reports_of_damage_need_their_column(logs: Path, tmp_path: Path) -> None:
    data = bytearray((logs / "headers-0" / f"{0:020}.log").read_bytes())
    data[-1] ^= 1
    (tmp_path / "damaged.bin").write_bytes(data)
    kept = read(tmp_path / "damaged.bin", mode="DROPMALFORMED")
    assert read(tmp_path / "damaged.bin", schema=SCHEMA, mode="PERMISSIVE") == kept
    assert len(read(tmp_path / "damaged.bin", mode="PERMISSIVE")) == len(kept) + 1


def test_limits(logs: Path) -> None:
    with pytest.raises(mb.CorruptRecordError) as error:
        read(logs / "basic-0", **{"limits.record": "1"})
    assert error.value.kind == "limit"


# Which partitions


def test_topics(logs: Path) -> None:
    def topics(**options: str) -> set[str]:
        return {row["topic"] for row in read(logs, schema=schema_of(["topic"]), **options)}

    assert topics(subscribe="headers,basic") == {"headers", "basic"}
    assert topics(subscribePattern="h.*|b.*") == {"headers", "basic"}
    assert topics(topic="orders") == {"orders"}
    rows = read(logs, schema=schema_of(["topic", "partition"]), assign='{"headers":[1],"basic":[0]}')
    assert {(row["topic"], row["partition"]) for row in rows} == {("headers", 1), ("basic", 0)}
    for options in ({"subscribe": "nobody"}, {"subscribePattern": "x+"}, {"assign": '{"headers":[9]}'}, {"topic": "t"}):
        with pytest.raises(ValueError, match="there are"):
            read(logs, **options)


def test_names_for_what_has_none(logs: Path, tmp_path: Path) -> None:
    shutil.copyfile(logs / "headers-0" / f"{0:020}.log", tmp_path / "batches.bin")
    assert places(read(tmp_path / "batches.bin"))[0] == ("", -1, 0)
    assert places(read(tmp_path / "batches.bin", topic="t", partition="3"))[0] == ("t", 3, 0)


# Paths


def test_paths(logs: Path, tmp_path: Path) -> None:
    def names(path: Any, **options: str) -> list[str]:
        rows = read(path, schema=schema_of(["topic", "partition"]), **options)
        return sorted({f"{row['topic']}-{row['partition']}" for row in rows})

    both = ["headers-0", "headers-1"]
    assert names(logs / "headers-*") == both
    assert names(logs / "headers-[01]") == both
    assert names(logs / "headers-{0,1}") == both
    assert names(logs / "headers-?" / "*") == both  # index files are matched by the way
    assert names(f"{logs / 'headers-0'},{logs / 'headers-1'}") == both
    assert names(json.dumps([str(logs / "headers-0"), str(logs / "headers-1")])) == both
    assert names(None, paths=json.dumps([str(logs / "headers-0"), str(logs / "headers-1")])) == both
    assert names(f"file://{logs / 'headers-0'}") == ["headers-0"]
    assert names(f"file:{logs / 'headers-0'}") == ["headers-0"]
    # What is named twice is read once.
    twice = read(f"{logs / 'headers-0'},{logs / 'headers-*'}", schema=schema_of(["offset"]))
    assert len(twice) == 36
    # A path that exists is meant as it stands.
    odd = tmp_path / "a,b[1]" / "headers-0"
    shutil.copytree(logs / "headers-0", odd)
    assert names(odd) == ["headers-0"]


def test_paths_that_lead_nowhere(logs: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no path"):
        read(None)
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match="nothing matches"):
        read(tmp_path / "no*")
    with pytest.raises(FileNotFoundError, match="looked for"):
        read(tmp_path)
    with pytest.raises(ValueError, match="Protocol not known"):
        read("nowhere://bucket/logs")


# Offsets and timestamps


def test_offsets(logs: Path) -> None:
    def offsets(**options: str) -> list[int]:
        return [row["offset"] for row in read(logs / "basic-1", schema=schema_of(["offset"]), **options)]

    everything = list(range(120))
    assert offsets(startingOffsets="earliest", endingOffsets="latest") == everything
    assert offsets(startingOffsets='{"basic":{"1":100}}') == everything[100:]
    assert offsets(startingOffsets='{"basic":{"1":-2}}', endingOffsets='{"basic":{"1":-1}}') == everything
    assert offsets(startingOffsets='{"basic":{"1":7}}', endingOffsets='{"basic":{"1":9}}') == [7, 8]
    assert offsets(startingOffsets='{"basic":{"1":500}}') == []
    for wrong in ('{"basic":{"0":1}}', '{"basic":{"1":1,"2":1}}', "{}"):
        with pytest.raises(ValueError, match="must name all partitions"):
            offsets(startingOffsets=wrong)


def test_timestamps_mean_offsets_as_in_the_kafka_source(logs: Path) -> None:
    """The first record of that time or later, and everything behind it, even where timestamps go back."""
    path = logs / "payments-0"
    records = list(mb.Log(path).records(control=True))
    plain = [record.offset for record in mb.Log(path).records()]
    times = sorted({record.timestamp for record in records})

    def offsets(**options: str) -> list[int]:
        return [row["offset"] for row in read(path, schema=schema_of(["offset"]), **options)]

    def first(time: int) -> int:
        return next(record.offset for record in records if record.timestamp >= time)

    for since, until in ((times[3], times[-5]), (times[-40], times[-2])):
        expected = [offset for offset in plain if first(since) <= offset < first(until)]
        assert offsets(startingTimestamp=str(since), endingTimestamp=str(until)) == expected
    each = json.dumps({"payments": {"0": times[-40]}})
    assert offsets(startingOffsetsByTimestamp=each) == [offset for offset in plain if offset >= first(times[-40])]
    assert offsets(endingOffsetsByTimestamp=each) == [offset for offset in plain if offset < first(times[-40])]
    # One timestamp goes before timestamps, which go before offsets.
    assert offsets(startingTimestamp=str(times[-40]), startingOffsets="earliest")[0] >= first(times[-40])
    late = str(times[-1] + 1)
    assert offsets(endingTimestamp=late) == plain
    with pytest.raises(ValueError, match="no record of payments-0"):
        offsets(startingTimestamp=late)
    assert offsets(startingTimestamp=late, startingOffsetsByTimestampStrategy="latest") == []


# Filters

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def moment(microseconds: int) -> datetime:
    return EPOCH + timedelta(microseconds=microseconds)


@pytest.mark.parametrize("shift", [-1000, -999, -1, 0, 1, 999, 1000])
@pytest.mark.parametrize("kind", [ds.EqualTo, ds.GreaterThan, ds.GreaterThanOrEqual, ds.LessThan, ds.LessThanOrEqual])
def test_filters_on_time_are_exact_to_the_microsecond(logs: Path, kind: type[ds.Filter], shift: int) -> None:
    schema = schema_of(["timestamp"])
    rows = [row["timestamp"] for row in read(logs / "basic-0", schema=schema)]
    literal = sorted(rows)[60] + timedelta(microseconds=shift)
    passes = {
        ds.EqualTo: lambda value: value == literal,
        ds.GreaterThan: lambda value: value > literal,
        ds.GreaterThanOrEqual: lambda value: value >= literal,
        ds.LessThan: lambda value: value < literal,
        ds.LessThanOrEqual: lambda value: value <= literal,
    }[kind]
    got = read(logs / "basic-0", [kind(("timestamp",), literal)], schema=schema, pushdown="true")
    assert [row["timestamp"] for row in got] == [value for value in rows if passes(value)]


def test_filters_skip(logs: Path) -> None:
    def found(*filters: ds.Filter) -> list[tuple[str, int, int]]:
        return places(read(logs, list(filters), pushdown="true"))

    def column(name: str) -> tuple[str, ...]:
        return (name,)

    everything = places(read(logs))
    assert found() == everything
    assert found(ds.EqualTo(column("topic"), "basic"), ds.EqualTo(column("partition"), 2)) == [
        ("basic", 2, offset) for offset in range(120)
    ]
    assert found(ds.In(column("topic"), ["audit", "headers"]), ds.IsNotNull(column("topic"))) == [
        place for place in everything if place[0] in ("audit", "headers")
    ]
    assert found(ds.GreaterThan(column("offset"), 117), ds.EqualTo(column("topic"), "basic")) == [
        place for place in everything if place[0] == "basic" and place[2] > 117
    ]
    assert found(ds.In(column("offset"), [5, 3]), ds.LessThanOrEqual(column("partition"), 0)) == [
        place for place in everything if 3 <= place[2] <= 5 and place[1] == 0
    ]
    assert found(ds.LessThan(column("offset"), 3), ds.GreaterThanOrEqual(column("offset"), 3)) == []
    assert found(ds.EqualTo(column("topic"), "no such topic")) == []
    # What can't be used is left to Spark.
    for one in (
        ds.Not(ds.EqualTo(column("topic"), "basic")),
        ds.EqualTo(column("key"), b"x"),
        ds.StringStartsWith(column("topic"), "b"),
        ds.EqualTo(("headers", "key"), "x"),
        ds.GreaterThan(column("offset"), 5.5),
        ds.EqualTo(column("timestamp"), datetime(2026, 1, 1)),
    ):
        assert found(one) == everything


def test_filters_and_offsets_meet(logs: Path) -> None:
    options = {"startingOffsets": '{"basic":{"1":10}}', "endingOffsets": '{"basic":{"1":20}}', "pushdown": "true"}
    rows = read(logs / "basic-1", [ds.GreaterThan(("offset",), 15)], **options)
    assert [row["offset"] for row in rows] == [16, 17, 18, 19]


def test_ten_thousand_segments_are_planned_soon(tmp_path: Path) -> None:
    data = mb.encode([mb.ProducerRecord("t", b"v")], leader_epoch=0)
    for partition in range(1000):
        directory = tmp_path / f"t-{partition}"
        directory.mkdir()
        for segment in range(10):
            (directory / f"{segment * 10:020d}.log").write_bytes(data)
    one = source(tmp_path)
    begin = time.process_time()
    packs = one.reader(schema=SCHEMA).partitions()
    assert time.process_time() - begin < 5  # the goal; measured: 0.3 s
    assert sum(len(pack.pieces) for pack in packs) == 10_000
    assert len(packs) < 100
    assert len(pickle.dumps(packs)) < 4 << 20
