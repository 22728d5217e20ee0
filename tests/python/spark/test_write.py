"""``df.write.format("magicbyte")`` through a real Spark: what is written, what is refused, and what a failure leaves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import magicbyte as mb
from magicbyte.spark import in_order


@pytest.fixture
def logs(data: Path) -> Path:
    return data / "kafka-logs"


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


def names(directory: Path) -> list[str]:
    """Everything below, without the lock that stays."""
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if path.name != ".magicbyte-lock")


def final(directory: Path) -> list[str]:
    """Without what is aside: a task that Spark lets run on after its job failed may still write there; ``sweep`` takes it."""
    return [name for name in names(directory) if not name.startswith(".magicbyte-")]


def rows(spark: Any, n: int, start: int = 0, step: int = 1, partitions: int = 1) -> Any:
    frame = spark.range(start, start + n * step, step, partitions)
    return frame.selectExpr(
        "cast(id as string) key", "cast(concat('v', id) as binary) value", "'t' topic", "0 partition", "id offset"
    )


def write(frame: Any, out: Path, mode: str = "append", **options: Any) -> None:
    frame.write.format("magicbyte").options(**options).mode(mode).save(str(out))


def test_a_log_goes_through_a_dataframe_and_is_the_same(spark: Any, logs: Path, out: Path) -> None:
    frame = (
        spark.read.format("magicbyte")
        .option("columns", "+leaderEpoch,tombstone,rawHeaderKeys,timestampMs")
        .option("maxPartitionBytes", "16k")
        .option("subscribe", "headers,audit")
        .load(str(logs))
    )
    assert frame.rdd.getNumPartitions() > 4
    write(frame, out, codec="zstd", segmentBytes="8k")
    log = mb.Log(out)
    assert log.partitions == [(t, p) for t, p in mb.Log(logs).partitions if t in ("headers", "audit")]
    for topic, partition in log.partitions:
        columns = [*mb.DEFAULT_COLUMNS, "rawHeaderKeys", "timestampMs"]
        name = f"{topic}-{partition}"
        source = mb.Log(logs / name)
        had = source.scan(columns).to_arrow()
        assert mb.Log(out / name).scan(columns).to_arrow().equals(had), name
        assert not [it for it in mb.Log(out / name).verify().defects if it.severity == "error"]
        assert {batch.codec for batch in mb.Log(out / name).batches()} == {"zstd"}
        epochs = [record.leader_epoch for record in source.records()]
        assert [record.leader_epoch for record in mb.Log(out / name).records()] == epochs


def test_rows_of_anything_get_offsets_when_all_is_known(spark: Any, out: Path) -> None:
    frame = spark.range(0, 1000, 1, 2).selectExpr(
        "concat('k', id) key", "cast(id as string) value", "cast(id % 3 as int) partition",
        "array(struct('n' as key, cast(cast(id as string) as binary) as value)) headers",
    )  # fmt: skip
    write(frame, out, topic="made", batchSize="512", segmentBytes="2k", indexInterval="1k")
    write(frame, out, topic="made", batchSize="512", leaderEpoch=4)
    assert mb.Log(out).partitions == [("made", 0), ("made", 1), ("made", 2)]
    for partition in range(3):
        directory = out / f"made-{partition}"
        report = mb.Log(directory).verify()
        assert report.ok and not report.defects
        records = list(mb.Log(directory).records())
        once = [str(n).encode() for n in range(1000) if n % 3 == partition]
        assert [record.value for record in records] == once * 2
        assert [record.offset for record in records] == list(range(2 * len(once)))
        assert all(record.headers.last_header("n").value == record.value for record in records)
        assert [record.leader_epoch for record in records] == [0] * len(once) + [4] * len(once)
        assert (directory / "leader-epoch-checkpoint").read_text() == f"0\n2\n0 0\n4 {len(once)}\n"
        assert len(list(directory.glob("*.log"))) > 5
        assert records[0].timestamp > 1_700_000_000_000  # now, where nobody says when
        # The indexes lead to the right places after numbers were changed.
        middle = records[len(records) // 2].offset
        assert next(iter(mb.Log(directory).records(offsets=(middle, None)))).offset == middle


@pytest.mark.parametrize("format", ["v1", "v0", "v3", "kip82a", "kip82b", "kip87"])
@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_every_format_when_told(spark: Any, out: Path, format: str, codec: str) -> None:
    frame = rows(spark, 50, partitions=2).selectExpr("*", "timestamp_millis(1700000000000 + offset) timestamp")
    offsets = "keep" if format == "v0" else "assign"
    write(frame, out, format=format, codec=codec, draft="true", offsets=offsets)
    log = mb.Log(out, format="kafka" if format.startswith("v") else format)
    assert [(r.offset, r.value) for r in log.records()] == [(n, f"v{n}".encode()) for n in range(50)]
    assert log.verify().ok


def test_drafts_are_not_written_by_mistake(spark: Any, out: Path) -> None:
    with pytest.raises(Exception, match="a proposal that no broker serves"):
        write(rows(spark, 1), out, format="v3")
    assert not out.exists()


@pytest.mark.parametrize(
    "change, options, words",
    [
        (["*", "1 extra"], {}, "column extra is no part of a record"),
        (["*", "1 as headrs"], {}, "did you mean headers"),
        (["key"], {}, "no column value"),
        (["value", "partition"], {}, "no column topic"),
        (["value", "topic"], {}, "no column partition"),
        (["value", "topic", "partition"], {"offsets": "keep"}, "no column offset to keep"),
        (["cast(offset as double) offset", "value", "topic", "partition"], {}, "cannot be double"),
        (["*"], {"compression": "zstd"}, "option compression is not known"),
        (["*"], {"compression": "zstd", "codec": "zstd"}, "option compression is not known to the writer"),
        (["*"], {"codec": "brotli"}, "one of none, gzip, snappy, lz4, zstd"),
        (["*"], {"topic": "../up"}, "topic '../up', partition 0"),
        (["value", "'../up' topic", "partition"], {}, "topic '../up', partition 0"),
        (["value", "topic", "-1 partition"], {}, "partition -1"),
        (["value", "topic", "cast(null as int) partition"], {}, "no partition"),
    ],
)
def test_what_cannot_be_written_is_said(
    spark: Any, out: Path, change: list[str], options: dict[str, str], words: str
) -> None:
    with pytest.raises(Exception, match=words):
        write(rows(spark, 3).selectExpr(*change), out, **options)
    assert not out.exists() or names(out) == []


def test_offsets_that_cannot_be_kept(spark: Any, out: Path) -> None:
    with pytest.raises(Exception, match=r"row 1 \(t-0\): offset 3 does not rise over 4"):
        write(rows(spark, 5).orderBy("offset", ascending=False), out)
    # (Spark makes one task of two frames with one each.)
    twice = rows(spark, 5, partitions=2).union(rows(spark, 5, start=3))
    with pytest.raises(Exception, match="two tasks have offsets that overlap"):
        write(twice, out)
    assert names(out) == []
    # Two tasks with every second offset: brought together by the helper.
    odd = rows(spark, 50, start=1, step=2).union(rows(spark, 50, step=2))
    write(in_order(odd), out)
    assert [record.offset for record in mb.Log(out).records()] == list(range(100))
    with pytest.raises(Exception, match="goes to offset 99 already, and rows to be appended begin at 99"):
        write(rows(spark, 5, start=99), out)
    write(rows(spark, 5, start=105), out)
    assert [record.offset for record in mb.Log(out).records()][-6:] == [99, 105, 106, 107, 108, 109]


def test_overwrite_replaces_the_partitions_that_are_written(spark: Any, out: Path) -> None:
    write(rows(spark, 10).union(rows(spark, 10).selectExpr("key", "value", "topic", "1 partition", "offset")), out)
    (out / "t-0" / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n")
    before = names(out)
    write(rows(spark, 3, start=7), out, "overwrite")
    assert [(r.partition, r.offset) for r in mb.Log(out).records()] == [
        *((0, n) for n in (7, 8, 9)),
        *((1, n) for n in range(10)),
    ]
    assert [name.replace(f"{7:020d}", f"{0:020d}") for name in names(out)] == before
    # From the very directory that it goes to.
    again = spark.read.format("magicbyte").load(str(out))
    write(again.where("partition = 1"), out, "overwrite", codec="lz4")
    assert [record.offset for record in mb.Log(out / "t-1").records()] == list(range(10))
    assert {batch.codec for batch in mb.Log(out / "t-1").batches()} == {"lz4"}


def test_a_task_that_fails_leaves_nothing(spark: Any, out: Path) -> None:
    def fail(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            yield batch
            if batch.column(4)[0].as_py() >= 500:
                raise RuntimeError("this task fails late")

    frame = rows(spark, 1000, partitions=2)
    with pytest.raises(Exception, match="this task fails late"):
        write(frame.mapInArrow(fail, frame.schema), out)
    assert final(out) == []
    write(frame, out)
    had = final(out)
    with pytest.raises(Exception, match="this task fails late"):
        write(frame.mapInArrow(fail, frame.schema), out, offsets="assign")
    assert final(out) == had


def test_an_empty_dataframe_writes_nothing(spark: Any, out: Path) -> None:
    write(rows(spark, 5).where("false"), out)
    assert names(out) == []


def test_append_times_stay(spark: Any, logs: Path, out: Path) -> None:
    name = "legacy-3"
    frame = spark.read.format("magicbyte").option("columns", "+timestampMs").load(str(logs / name))
    write(frame, out)
    had = [(r.offset, r.timestamp, r.timestamp_type) for r in mb.Log(logs / name).records()]
    assert {it[2] for it in had} == {1}
    assert [(r.offset, r.timestamp, r.timestamp_type) for r in mb.Log(out).records()] == had


def test_a_stream_writes_each_batch_once(spark: Any, out: Path, tmp_path: Path) -> None:
    from magicbyte.spark import commit

    source, checkpoint = tmp_path / "source", tmp_path / "checkpoint"
    source.mkdir()

    def run() -> str:
        frame = spark.readStream.schema("value string, partition int").json(str(source))
        query = (
            frame.writeStream.format("magicbyte").option("checkpointLocation", str(checkpoint)).option("topic", "s")
            .trigger(availableNow=True).start(str(out))
        )  # fmt: skip
        query.awaitTermination()
        return str(query.id)

    (source / "a.json").write_text('{"value":"a","partition":0}\n{"value":"b","partition":1}\n')
    name = run()
    (source / "b.json").write_text('{"value":"c","partition":0}\n')
    assert run() == name
    expected = [("s", 0, 0, b"a"), ("s", 0, 1, b"c"), ("s", 1, 0, b"b")]
    assert [(r.topic, r.partition, r.offset, r.value) for r in mb.Log(out).records()] == expected
    assert commit.last_batch(out, name) == 1
    # Spark dies before it takes note of its last batch, and asks for it again.
    (checkpoint / "commits" / "1").unlink()
    (checkpoint / "commits" / ".1.crc").unlink(missing_ok=True)
    run()
    assert [(r.topic, r.partition, r.offset, r.value) for r in mb.Log(out).records()] == expected
    assert sorted(path.name for path in out.iterdir()) == [".magicbyte-lock", ".magicbyte-streams", "s-0", "s-1"]


PRODUCERS = "+producerId,producerEpoch,sequence,isTransactional,isControl,leaderEpoch"


def test_producers_and_their_transactions_are_kept(spark: Any, logs: Path, out: Path) -> None:
    reader = spark.read.format("magicbyte").option("columns", PRODUCERS).option("control", "true")
    frame = reader.load(str(logs / "payments-0"))
    write(in_order(frame), out, producers="keep", codec="lz4")
    here, there = mb.Log(logs / "payments-0"), mb.Log(out / "payments-0")
    columns = [*mb.DEFAULT_COLUMNS, "producerId", "producerEpoch", "sequence", "isTransactional", "transactionState"]
    for control, isolation in ((True, "read_uncommitted"), (False, "read_committed")):
        had = here.scan(columns, isolation=isolation, control=control).to_arrow()
        assert there.scan(columns, isolation=isolation, control=control).to_arrow().equals(had)
    assert not [it for it in there.verify().defects if it.severity == "error"]
    # Aborted transactions are in an index, as a broker wants to see them.
    assert list((out / "payments-0").glob("*.txnindex"))
    with pytest.raises(Exception, match="is there already, and producers are kept only"):
        write(in_order(frame), out, producers="keep")
    write(in_order(frame), out, mode="overwrite", producers="keep")
    assert there.scan().count() == mb.Log(out / "payments-0").scan().count()


def test_producers_cannot_be_kept(spark: Any, logs: Path, out: Path) -> None:
    reader = spark.read.format("magicbyte").option("columns", PRODUCERS).option("control", "true")
    frame = reader.load(str(logs / "payments-0"))
    for options, words in (
        ({"offsets": "assign"}, "sequences go with offsets"),
        ({"format": "v1"}, "v1 has none"),
    ):
        with pytest.raises(Exception, match=words):
            write(frame, out, producers="keep", **options)
    with pytest.raises(Exception, match="there is no column sequence"):
        write(frame.drop("sequence"), out, producers="keep")
    split = reader.option("maxPartitionBytes", "4k").load(str(logs / "payments-0"))
    assert split.rdd.getNumPartitions() > 1
    with pytest.raises(Exception, match="tasks have rows of it"):
        write(split, out, producers="keep")
    assert names(out) == []
