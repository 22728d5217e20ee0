"""Cleaning, retention and redaction as Spark jobs do what they do in this process."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import magicbyte as mb
from magicbyte import routes, usage
from magicbyte.middleware.retention import Retention
from magicbyte.middleware.trail import Hop

from partitions import T, batch, partition
from places import DATA

pytest.importorskip("pyspark.sql", reason="pyspark is not installed")


def files(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("jobs") / "logs"
    shutil.copytree(DATA / "kafka-logs", root, ignore=shutil.ignore_patterns("*.jsonl*"))
    return root


def test_clean(spark: Any, logs: Path, tmp_path: Path) -> None:
    from magicbyte.spark.clean import clean

    cleaning = mb.Cleaning(now=1_800_000_000_000, clean_active=True)
    told: list[int] = []
    done = clean(spark, logs, tmp_path / "spark", cleaning, progress=told.append)
    here = mb.clean(logs, tmp_path / "here", cleaning)
    assert files(tmp_path / "spark") == files(tmp_path / "here")
    assert done.counts == here.counts
    assert [one.topic for one in done.partitions] == [one.topic for one in here.partitions]
    assert told[-1] == here.bytes


def test_a_damaged_partition_is_told_when_the_others_are_done(spark: Any, logs: Path, tmp_path: Path) -> None:
    from magicbyte.spark.clean import clean

    shutil.copytree(logs / "basic-0", tmp_path / "in" / "basic-0")
    shutil.copytree(logs / "basic-0", tmp_path / "in" / "broken-0")
    (segment,) = sorted((tmp_path / "in" / "broken-0").glob("*.log"))[:1]
    bad = bytearray(segment.read_bytes())
    bad[80] ^= 1
    segment.write_bytes(bad)
    done = clean(spark, tmp_path / "in", tmp_path / "out", mb.Cleaning(clean_active=True), strict=False)
    assert [(topic, error.kind) for topic, _, error in done.uncleanable] == [("broken", "crc")]
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["basic-0"]
    with pytest.raises(mb.CorruptRecordError):
        clean(spark, tmp_path / "in", tmp_path / "out", mb.Cleaning(clean_active=True))


@pytest.mark.parametrize(
    "what",
    [
        mb.Redaction(frozenset({b"key-003", b"customer-1"}), value=b"gone"),
        mb.Retaining(Retention(max_age=1000), now=1_700_000_001_100),
    ],
    ids=["redact", "retain"],
)
def test_rewrite(spark: Any, logs: Path, tmp_path: Path, what: Any) -> None:
    from magicbyte.spark.rewrite import rewrite

    done = rewrite(spark, logs, tmp_path / "spark", what)
    job = mb.redact if isinstance(what, mb.Redaction) else mb.retain
    here = job(logs, tmp_path / "here", what)
    assert files(tmp_path / "spark") == files(tmp_path / "here")
    assert (done.counts, done.partitions, done.written) == (here.counts, here.partitions, here.written)


def test_land(spark: Any, logs: Path, tmp_path: Path) -> None:
    from magicbyte.spark.land import land

    landing = mb.Landing(target_bytes=50_000)
    done = land(spark, logs, tmp_path / "lake", landing)
    assert land(spark, logs, tmp_path / "lake", landing).records == 0
    # Spark itself reads what landed as it reads the log.
    columns = ["topic", "partition", "offset", "key", "value", "timestamp", "timestampType", "headers"]
    with_names = spark.read.parquet(str(tmp_path / "lake"))
    ours = with_names.select(
        [with_names[name].cast("string") if name == "topic" else with_names[name] for name in columns]
    )
    theirs = spark.read.format("magicbyte").option("includeHeaders", "true").load(str(logs)).select(columns)
    assert done.records == theirs.count() == ours.count()
    assert ours.exceptAll(theirs).count() == 0
    assert "date" in with_names.columns


def test_chargeback(spark: Any, logs: Path) -> None:
    from magicbyte.spark.usage import chargeback

    assert chargeback(spark, logs, "topic", "dup").table() == usage.chargeback(logs, "topic", "dup").table()


def test_routes(spark: Any, tmp_path: Path) -> None:
    from magicbyte.spark.usage import routes as on_spark

    headers = [("mb.trail", Hop("shop", T + 5, cluster="eu", topic="t").to_bytes())]
    for number in range(3):
        partition(tmp_path, batch(0, *[(b"k", b"v", headers)] * 4), name=f"t-{number}")
    found = on_spark(spark, tmp_path)
    assert found == routes.routes(tmp_path)
    assert [(row["from"], row["to"], row["records"]) for row in found.table()] == [("shop", "eu:t", 12)]
