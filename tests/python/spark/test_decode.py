"""Raw batches that are in Spark already: mapPartitions and mapInArrow."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

import magicbyte as mb

pytest.importorskip("pyspark")

from magicbyte.spark import SCHEMA, decode_arrow, decode_partition


@pytest.fixture
def logs(data: Path) -> Path:
    return data / "kafka-logs"


@pytest.fixture
def raw(logs: Path) -> bytes:
    return (logs / "headers-1" / f"{0:020}.log").read_bytes()


def shown(records: Any) -> list[tuple[Any, ...]]:
    return [
        (record.topic, record.partition, record.offset, record.key, record.value, list(record.headers))
        for record in records
    ]


def test_what_a_row_may_be(logs: Path, raw: bytes) -> None:
    from pyspark.sql import Row

    expected = [(r.offset, r.key, r.value) for r in mb.Log(logs / "headers-1").records()]
    for row in (
        raw,
        bytearray(raw),
        memoryview(raw),
        {"value": raw},
        {"batches": raw},
        {"id": 1, "batches": raw},
        Row(value=raw, key=b"k"),
        Row(path="file:/x/headers-1/00000000000000000000.log", length=3, content=raw),
        ("file:/x/headers-1/00000000000000000000.log", raw),
        ("whatever.bin", raw),
    ):
        assert [(r.offset, r.key, r.value) for r in decode_partition([row])] == expected
    assert [(r.offset, r.key, r.value) for r in decode_partition([{"a": raw, "b": b""}], column="a")] == expected
    assert list(decode_partition([None, {"value": None}, b"", (f"x/orders-0/{0:020}.index", b"\1")])) == []
    named = next(iter(decode_partition([("s3://b/orders-12/00000000000000000000.log", raw)], topic="t")))
    assert (named.topic, named.partition) == ("orders", 12)
    named = next(iter(decode_partition([raw], topic="t", partition=4)))
    assert (named.topic, named.partition) == ("t", 4)


def test_what_a_row_may_not_be(raw: bytes) -> None:
    with pytest.raises(TypeError, match="not int"):
        list(decode_partition([3]))
    with pytest.raises(TypeError, match="not binary"):
        list(decode_partition([{"value": "text"}]))
    with pytest.raises(ValueError, match="no column v"):
        list(decode_partition([{"value": raw}], column="v"))
    with pytest.raises(ValueError, match="which column"):
        list(decode_partition([{"a": raw, "b": raw}]))
    bad = bytearray(raw)
    bad[-1] ^= 1
    with pytest.raises(mb.CorruptRecordError, match=r"row 1 of the partition.*") as error:
        list(decode_partition([raw, bytes(bad)]))
    assert error.value.kind == "crc"
    with pytest.raises(mb.CorruptRecordError) as error:
        list(decode_partition([("x/orders-0/00000000000000000000.log", bytes(bad))]))
    assert error.value.path == "x/orders-0/00000000000000000000.log"


def test_binary_files(spark: Any, logs: Path) -> None:
    """A whole partition directory, index files and all, as (path, bytes)."""
    got = spark.sparkContext.binaryFiles(str(logs / "headers-1")).mapPartitions(decode_partition).collect()
    assert shown(got) == shown(mb.Log(logs / "headers-1").records())
    assert isinstance(got[0], mb.ConsumerRecord)
    frame = spark.read.format("binaryFile").option("pathGlobFilter", "*.log").load(str(logs / "headers-1"))
    assert shown(frame.rdd.mapPartitions(decode_partition).collect()) == shown(got)


def test_a_binary_column(spark: Any, logs: Path, raw: bytes) -> None:
    frame = spark.createDataFrame([(1, raw), (2, None)], "id int, batches binary")
    decode = partial(decode_partition, column="batches", topic="t", partition=0)
    offsets = frame.rdd.mapPartitions(decode).map(lambda record: record.offset).collect()
    assert offsets == [record.offset for record in mb.Log(logs / "headers-1").records()]


def test_map_in_arrow(spark: Any, logs: Path, raw: bytes) -> None:
    frame = spark.createDataFrame([(1, raw), (2, None), (3, raw)], "id int, value binary")
    got = frame.coalesce(1).mapInArrow(decode_arrow(topic="headers", partition=1), SCHEMA)
    one = spark.read.format("magicbyte").load(str(logs / "headers-1"))
    assert got.schema == one.schema
    assert got.collect() == one.collect() * 2
    more = frame.mapInArrow(decode_arrow("value", columns=["offset", "codec"]), "offset long, codec string")
    assert {row.codec for row in more.collect()} == {"zstd"}


def test_map_in_arrow_names_the_row(spark: Any, raw: bytes) -> None:
    bad = bytearray(raw)
    bad[-1] ^= 1
    frame = spark.createDataFrame([(raw,), (bytes(bad),)], "value binary").coalesce(1)
    with pytest.raises(Exception, match="row 1 of the Arrow batch, column value"):
        frame.mapInArrow(decode_arrow(), SCHEMA).count()
    with pytest.raises(Exception, match="no column v"):
        frame.mapInArrow(decode_arrow("v"), SCHEMA).count()
