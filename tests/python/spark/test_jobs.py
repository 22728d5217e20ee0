"""Cleaning, retention and redaction as Spark jobs do what they do in this process."""

from __future__ import annotations

import contextlib
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

import magicbyte as mb
from magicbyte import routes, usage
from magicbyte.interceptors import Chain
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


@pytest.fixture(scope="module")
def few(logs: Path) -> Path:
    """Some of them, of many segments and of one."""
    root = logs.parent / "few"
    for name in ("payments-0", "orders-0", "headers-0"):
        shutil.copytree(logs / name, root / name)
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


def test_clean_with_a_chain(spark: Any, logs: Path, tmp_path: Path) -> None:
    from magicbyte.spark.clean import clean

    def shout(record: Any) -> Any:
        return (
            record
            if record.value is None
            else ()
            if record.offset % 3 == 0
            else record.replace(value=record.value + b"!")
        )

    cleaning, chain = mb.Cleaning(now=1_800_000_000_000, clean_active=True), Chain(shout, errors="raise")
    done = clean(spark, logs, tmp_path / "spark", cleaning, chain=chain)
    here = mb.clean(logs, tmp_path / "here", cleaning, chain=chain)
    assert files(tmp_path / "spark") == files(tmp_path / "here")
    assert done.counts == here.counts and done.counts["chain_dropped"] > 3 and done.counts["chain_changed"] > 3


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
    # Spark itself reads what landed as it reads the log; what is not there is not what the Kafka source makes of it.
    columns = ["topic", "partition", "offset", "key", "value", "timestamp", "timestampType", "headers"]
    with_names = spark.read.parquet(str(tmp_path / "lake"))
    ours = with_names.select(
        [with_names[name].cast("string") if name == "topic" else with_names[name] for name in columns]
    )
    theirs = spark.read.format("magicbyte").option("includeHeaders", "true").load(str(logs)).selectExpr(
        *columns[:5], "if(unix_millis(timestamp) = -1, null, timestamp) as timestamp", "timestampType",
        "coalesce(headers, array()) as headers",
    )  # fmt: skip
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


@pytest.mark.parametrize(("to", "codec"), [("v3", None), ("v1", "gzip")])
def test_convert(spark: Any, logs: Path, tmp_path: Path, to: str, codec: str | None) -> None:
    from magicbyte.spark.convert import convert

    told: list[int] = []
    done = convert(spark, logs, tmp_path / "spark", to, codec=codec, progress=told.append)
    log = mb.Log(logs)
    assert [(one.topic, one.partition) for one in done] == log.partitions
    assert told[-1] == log.size
    for one in done:
        here = tmp_path / "here" / f"{one.topic}-{one.partition}"
        alone = mb.Log(logs, topic=one.topic, partition=one.partition)
        converted = mb.convert_partition(alone, here, to, codec=codec)
        assert mb.diff(here, one.directory) == []
        # Small entries beside each other become one batch here, and not over the end of a segment there.
        assert one.converted.dropped["headers"] == converted.dropped["headers"]
        report = mb.Log(one.directory).verify()
        assert report.ok is mb.Log(here).verify().ok, report.defects
        own = {path.name for path in Path(one.directory).glob("*.log")}
        assert own == {Path(segment.path).name for segment in alone.segments}
    assert not list((tmp_path / "spark").glob("*-delete"))


def test_convert_puts_transactions_and_producers_beside_the_segments(spark: Any, logs: Path, tmp_path: Path) -> None:
    from magicbyte.spark.convert import convert

    # Many segments, with transactions that go over their ends.
    convert(spark, logs / "payments-0", tmp_path / "payments-0", "v3")
    for path in sorted((logs / "payments-0").glob("*.txnindex")):
        assert (tmp_path / "payments-0" / path.name).read_bytes() == path.read_bytes()
    committed = [record.offset for record in mb.Log(tmp_path / "payments-0").records("read_committed")]
    assert committed == [record.offset for record in mb.Log(logs / "payments-0").records("read_committed")]
    assert committed
    names = {path.name for path in (tmp_path / "payments-0").iterdir()}
    assert "leader-epoch-checkpoint" in names
    assert any(name.endswith(".snapshot") for name in names)


def test_convert_of_a_damaged_segment_leaves_nothing(spark: Any, logs: Path, tmp_path: Path) -> None:
    from magicbyte.spark.convert import convert

    shutil.copytree(logs / "basic-0", tmp_path / "basic-0")
    (segment,) = sorted((tmp_path / "basic-0").glob("*.log"))[:1]
    bad = bytearray(segment.read_bytes())
    bad[80] ^= 1
    segment.write_bytes(bad)
    with pytest.raises(mb.CorruptRecordError) as caught:
        convert(spark, tmp_path / "basic-0", tmp_path / "out" / "basic-0", "v3")
    assert caught.value.path == str(segment)
    assert list((tmp_path / "out").iterdir()) == []
    with pytest.raises(ValueError, match="first_offset"):
        convert(spark, logs, tmp_path / "out", "v3", first_offset=0)


def test_diff(spark: Any, logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from magicbyte.spark import compare

    monkeypatch.setattr(compare, "LEAST", 1)  # each segment by itself
    copy = tmp_path / "copy"
    shutil.copytree(logs, copy)
    # In other batches and segments, with another codec, the same records.
    with mb.Writer(copy / "payments-0", codec="zstd", batch_size=300, segment_bytes=7_000) as writer:
        writer.write(mb.Log(logs / "payments-0").records())
    told: list[int] = []
    assert compare.diff(spark, logs, copy, progress=told.append) == []
    assert told[-1] > mb.Log(logs).size
    assert compare.digest(spark, copy) == mb.digest(logs)
    # One value is another one, and a partition is missing.
    shutil.rmtree(copy / "audit-0")
    with mb.Writer(copy / "payments-0", codec="lz4") as writer:
        for record in mb.Log(logs / "payments-0").records():
            writer.write([record.replace(value=b"other") if record.offset in (500, 700) else record])
    found = compare.diff(spark, logs, copy)
    assert found == mb.diff(logs, copy)
    assert [(one.topic, one.offset, one.what) for one in found] == [
        ("audit", None, ("partition",)),
        ("payments", 500, ("value",)),
    ]


def test_verify_tells_how_far_it_is(spark: Any, logs: Path) -> None:
    from magicbyte.spark import verify

    told: list[int] = []
    report = verify(spark, logs, progress=told.append)
    assert report.ok is mb.Log(logs).verify().ok
    assert told[-1] == mb.Log(logs).size


@pytest.mark.parametrize(
    ("command", "target"),
    [
        (["clean", "--clean-active", "--now", "1800000000000"], True),
        (["retain", "--retention-bytes", "1000"], True),
        (["redact", "--key", "key-003"], True),
        (["land"], True),
        (["convert", "--to", "v3"], True),
        (["chargeback", "--by", "topic"], False),
        (["trail"], False),
        (["verify"], False),
        (["diff"], False),
    ],
    ids=lambda it: it[0] if isinstance(it, list) else None,
)
def test_commands_say_on_spark_what_they_say_here(
    spark: Any,
    few: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: list[str],
    target: bool,
) -> None:
    from magicbyte.cli import main
    from magicbyte.spark import jobs

    monkeypatch.setattr(jobs, "session", lambda _master, _name: contextlib.nullcontext(spark))
    said = []
    for place, more in (("here", []), ("spark", ["--spark-master", "local[2]"])):
        out = [str(tmp_path / place)] if target else []
        status = main([command[0], str(few), *out, *command[1:], "--json", *more])
        text = capsys.readouterr().out.replace(str(tmp_path / place), "OUT")
        said.append((status, re.sub(r'"seconds": [\d.e-]+', "", text)))
    assert said[0] == said[1]
    assert said[0][0] in (0, 3)
    # Segments are cut anew here, and keep their bounds there.
    if target and command[0] != "convert":
        names = [
            {str(path.relative_to(tmp_path / it)) for path in (tmp_path / it).rglob("*.log")}
            for it in ("here", "spark")
        ]
        assert names[0] == names[1]
