"""Spark on logs behind addresses: each task reads its ranges by itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import magicbyte as mb


def test_a_bucket(spark: Any, s3: dict[str, Any], data: Path) -> None:
    def read(path: str, **options: str) -> list[tuple[Any, ...]]:
        reader = spark.read.format("magicbyte").option("storage", json.dumps(s3)).options(**options)
        rows = reader.load(path).select("topic", "partition", "offset", "value").collect()
        return sorted((row[0], row[1], row[2], row[3] and bytes(row[3])) for row in rows)

    def local(*names: str, **chosen: Any) -> list[tuple[Any, ...]]:
        logs = [mb.Log(data / "kafka-logs" / name) for name in names]
        return sorted((r.topic, r.partition, r.offset, r.value) for log in logs for r in log.records(**chosen))

    assert read("s3://bucket/logs") == local("")
    assert read("s3://bucket/logs/headers-*,s3://bucket/logs/{orders,audit}-0") == local(
        "headers-0", "headers-1", "orders-0", "audit-0"
    )
    assert read("s3://bucket/logs/payments-*", isolation="read_committed", maxPartitionBytes="4k") == local(
        "payments-0", "payments-1", "payments-2", isolation="read_committed"
    )
    with pytest.raises(Exception, match="s3://bucket/nothing"):
        read("s3://bucket/nothing")


def test_a_stream_follows_new_objects(spark: Any, s3: dict[str, Any], tmp_path: Path) -> None:
    import s3fs

    system = s3fs.S3FileSystem(**s3)

    def put(first: int, count: int) -> None:
        records = [mb.Record(n, 1000, None, b"%d" % n) for n in range(first, first + count)]
        system.pipe_file(f"bucket/growing/t-0/{first:020d}.log", mb.encode(records, base_offset=first))

    def run() -> list[int]:
        frame = spark.readStream.format("magicbyte").option("storage", json.dumps(s3)).load("s3://bucket/growing")
        query = (
            frame.select("offset").writeStream.format("parquet").option("path", str(tmp_path / "out"))
            .option("checkpointLocation", str(tmp_path / "check")).trigger(availableNow=True).start()
        )  # fmt: skip
        query.awaitTermination()
        return sorted(row[0] for row in spark.read.parquet(str(tmp_path / "out")).collect())

    put(0, 10)
    assert run() == list(range(10))
    put(10, 5)
    assert run() == list(range(15))


def test_nothing_is_written_to_an_address(spark: Any) -> None:
    rows = spark.range(1).selectExpr("cast(id as string) value", "'t' topic", "0 partition")
    with pytest.raises(Exception, match="only local files can be written"):
        rows.write.format("magicbyte").mode("append").save("s3://bucket/out")
