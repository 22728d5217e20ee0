"""Through a real Spark: discovery, schema, rows, errors."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import magicbyte as mb


@pytest.fixture(scope="module")
def session(spark: Any) -> Any:
    """A session in which nobody has registered anything."""
    return spark.newSession()


@pytest.fixture
def logs(data: Path) -> Path:
    return data / "kafka-logs"


KAFKA_SOURCE = [
    ("key", "binary"),
    ("value", "binary"),
    ("topic", "string"),
    ("partition", "int"),
    ("offset", "bigint"),
    ("timestamp", "timestamp"),
    ("timestampType", "int"),
    ("headers", "array<struct<key:string,value:binary>>"),
]


def test_found_without_a_call_and_with_the_kafka_sources_schema(session: Any, logs: Path) -> None:
    frame = session.read.format("magicbyte").load(str(logs / "headers-0"))
    assert frame.dtypes == KAFKA_SOURCE
    assert all(field.nullable for field in frame.schema)
    assert frame.schema["headers"].dataType.containsNull


def test_registering_works_too(session: Any, logs: Path) -> None:
    from magicbyte.spark import DataSource

    other = session.newSession()
    other.dataSource.register(DataSource)
    assert other.read.format("magicbyte").load(str(logs / "headers-0")).count() == 18


def test_a_whole_log_directory(session: Any, logs: Path) -> None:
    frame = session.read.format("magicbyte").load(str(logs))
    got = frame.toArrow().to_pylist()
    expected = mb.Log(logs).scan().to_arrow().to_pylist()
    for row in expected:  # as Spark's own source has it: no headers are NULL, no timestamp is 1969
        row["headers"] = row["headers"] or None
    key = ("topic", "partition", "offset")
    without_time = [{name: value for name, value in row.items() if name != "timestamp"} for row in got]
    assert sorted(without_time, key=lambda row: [row[name] for name in key]) == [
        {name: value for name, value in row.items() if name != "timestamp"}
        for row in sorted(expected, key=lambda row: [row[name] for name in key])
    ]
    times = {tuple(row[name] for name in key): row["timestamp"] for row in got}
    for row in expected:
        seen = times[tuple(row[name] for name in key)]
        if row["timestamp"] is None:
            assert seen.isoformat() == "1969-12-31T23:59:59.999000+00:00"
        else:
            assert seen == row["timestamp"]


def test_sql_narrower_schema_and_more_columns(session: Any, logs: Path) -> None:
    path = str(logs / "headers-0")
    session.sql(f"CREATE TEMPORARY VIEW h USING magicbyte OPTIONS (path '{path}', columns '+codec,producerId')")
    row = session.sql("SELECT count(*) n, max(codec) c, max(headers[0].key) k FROM h").first()
    assert (row.n, row.c) == (18, "none")
    frame = session.read.format("magicbyte").schema("value binary, offset long").load(path)
    assert frame.columns == ["value", "offset"]
    assert frame.count() == 18
    with pytest.raises(Exception, match="column offset is bigint, not int"):
        session.read.format("magicbyte").schema("offset int").load(path).collect()


def test_several_paths(session: Any, logs: Path) -> None:
    frame = session.read.format("magicbyte").load([str(logs / "headers-0"), str(logs / "basic-*")])
    assert {row.topic for row in frame.select("topic").distinct().collect()} == {"headers", "basic"}


def test_options_reach_the_reader(session: Any, logs: Path) -> None:
    frame = (
        session.read.format("magicbyte")
        .option("subscribe", "payments")
        .option("control", True)
        .option("maxPartitionBytes", "4k")
        .option("columns", "offset,isControl")
        .load(str(logs))
    )
    assert frame.count() == 930 + 73 + 13
    assert frame.where("isControl").count() > 0


def test_an_unknown_option(session: Any, logs: Path) -> None:
    with pytest.raises(Exception, match="did you mean startingOffsets"):
        session.read.format("magicbyte").option("startingOfsets", "earliest").load(str(logs)).schema  # noqa: B018


def test_pushdown_with_the_conf_off_and_on(session: Any, logs: Path) -> None:
    conf = "spark.sql.python.filterPushdown.enabled"
    plain = session.read.format("magicbyte").load(str(logs))
    eager = session.read.format("magicbyte").option("pushdown", True).load(str(logs))
    query = "topic = 'payments' and partition = 0 and offset >= 900 and timestamp > timestamp'2020-01-01'"
    session.conf.set(conf, "false")
    with pytest.raises(Exception, match="DATA_SOURCE_PUSHDOWN_DISABLED"):
        eager.where(query).count()
    expected = sorted(plain.where(query).select("offset").collect())
    session.conf.set(conf, "true")
    try:
        eager = session.read.format("magicbyte").option("pushdown", True).load(str(logs))
        assert sorted(eager.where(query).select("offset").collect()) == expected
        assert len(expected) > 10
        assert eager.where(query).rdd.getNumPartitions() == 1  # of 32 segments
        assert eager.where("topic = 'x'").count() == 0
        assert plain.where(query).count() == len(expected)
    finally:
        session.conf.unset(conf)


def broken(logs: Path, tmp_path: Path) -> tuple[Path, int]:
    """A copy of a partition with one byte changed, and the position of the batch that has it."""
    target = tmp_path / "basic-0"
    shutil.copytree(logs / "basic-0", target)
    path = target / f"{0:020}.log"
    path.chmod(0o644)
    batch = list(mb.Log(path).batches())[2]
    data = bytearray(path.read_bytes())
    data[batch.position + batch.size - 1] ^= 1
    path.write_bytes(data)
    return path, batch.position


def test_damage_names_file_and_position(session: Any, logs: Path, tmp_path: Path) -> None:
    path, position = broken(logs, tmp_path)
    with pytest.raises(Exception, match="CorruptRecordError") as error:
        session.read.format("magicbyte").load(str(path.parent)).count()
    assert str(path) in str(error.value)
    assert str(position) in str(error.value)


def test_damage_passed_over_or_reported(session: Any, logs: Path, tmp_path: Path) -> None:
    path, position = broken(logs, tmp_path)
    whole = mb.Log(logs / "basic-0").scan().count()
    lost = next(batch.count for batch in mb.Log(logs / "basic-0").batches() if batch.position == position)
    frame = session.read.format("magicbyte").option("mode", "DROPMALFORMED").load(str(path.parent))
    assert frame.count() == whole - lost
    frame = session.read.format("magicbyte").option("mode", "PERMISSIVE").load(str(path.parent))
    assert frame.columns[-1] == "_corrupt_record"
    rows = frame.collect()
    [report] = [row for row in rows if row._corrupt_record is not None]
    assert str(position) in report._corrupt_record
    assert len(rows) == whole - lost + 1


def test_nothing_there(session: Any, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="looked for"):
        session.read.format("magicbyte").load(str(tmp_path)).count()
    (tmp_path / "empty-0").mkdir()
    (tmp_path / "empty-0" / f"{0:020}.log").touch()
    assert session.read.format("magicbyte").load(str(tmp_path)).collect() == []


def test_a_condition_on_headers_is_asked_in_the_reader(session: Any, logs: Path) -> None:
    reader = session.read.format("magicbyte").option("header.filter", '["traceparent", "!nothing"]')
    got = reader.load(str(logs)).select("topic", "partition", "offset").collect()
    expected = list(mb.Log(logs).records(headers=["traceparent"]))
    assert expected
    assert sorted(map(tuple, got)) == sorted((r.topic, r.partition, r.offset) for r in expected)
    with pytest.raises(Exception, match=r"option header\.filter: 'd=hex:0' is not right"):
        session.read.format("magicbyte").option("header.filter", "d=hex:0").load(str(logs)).count()
