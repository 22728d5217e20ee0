"""``spark.readStream.format("magicbyte")``: a log that grows, is cut and loses segments; its steps without Spark first."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

import magicbyte as mb

pytest.importorskip("pyspark.sql.streaming.datasource")

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from magicbyte.spark import SCHEMA, DataSource

ALL = ReadAllAvailable()


def batch(first: int, count: int) -> bytes:
    records = [mb.ProducerRecord("t", f"v{n}".encode(), timestamp=n) for n in range(first, first + count)]
    return mb.encode(records, base_offset=first, leader_epoch=0)


def append(directory: Path, base: int, data: bytes) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{base:020d}.log"
    with path.open("ab") as file:
        file.write(data)
    return path


def reader(path: Path, **options: str) -> Any:
    return DataSource({"path": str(path), **options}).streamReader(SCHEMA)


def offsets(stream: Any, start: Any, end: Any) -> list[tuple[str, int, int]]:
    found = []
    for task in stream.partitions(start, end):
        other, piece = pickle.loads(pickle.dumps((stream, task)))
        for rows in other.read(piece):
            found += [(row["topic"], row["partition"], row["offset"]) for row in rows.to_pylist()]
    return found


def t(*numbers: int, partition: int = 0) -> list[tuple[str, int, int]]:
    return [("t", partition, n) for n in numbers]


def test_follows_what_is_appended_to_its_last_complete_entry(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    append(logs / "t-0", 0, batch(0, 3))
    stream = reader(logs)
    start = stream.initialOffset()
    assert start == {"t": {"0": 0}}
    one = stream.latestOffset(start, ALL)
    assert one == {"t": {"0": 3}}
    assert offsets(stream, start, one) == t(0, 1, 2)
    # Half a batch, then all of it, then a new segment, and a partition that was not there.
    more = batch(3, 4)
    append(logs / "t-0", 0, more[:-5])
    assert stream.latestOffset(one, ALL) == one
    append(logs / "t-0", 0, more[-5:])
    append(logs / "t-0", 7, b"")
    append(logs / "t-0", 7, batch(7, 2))
    append(logs / "t-1", 0, batch(0, 1))
    two = stream.latestOffset(one, ALL)
    assert two == {"t": {"0": 9, "1": 1}}
    assert offsets(stream, one, two) == t(3, 4, 5, 6, 7, 8) + t(0, partition=1)
    assert stream.latestOffset(two, ALL) == two
    assert offsets(stream, two, two) == []
    # Another instance, as after a restart, says the same of the same offsets.
    assert offsets(reader(logs), one, two) == t(3, 4, 5, 6, 7, 8) + t(0, partition=1)
    assert json.loads(json.dumps(two)) == two


def test_latest_and_limits(tmp_path: Path) -> None:
    append(tmp_path / "t-0", 0, batch(0, 30))
    append(tmp_path / "t-1", 0, batch(0, 10))
    assert reader(tmp_path, startingoffsets="latest").initialOffset() == {"t": {"0": 30, "1": 10}}
    stream = reader(tmp_path, maxoffsetspertrigger="8", subscribe="t")
    assert stream.getDefaultReadLimit() == ReadMaxRows(8)
    seen: list[tuple[str, int, int]] = []
    at = stream.initialOffset()
    stream.prepareForTriggerAvailableNow()
    append(tmp_path / "t-1", 0, batch(10, 10))  # too late for this trigger
    for _ in range(10):
        following = stream.latestOffset(at, ReadMaxRows(8))
        if following == at:
            break
        rows = offsets(stream, at, following)
        assert 0 < len(rows) <= 8
        seen += rows
        at = following
    assert sorted(seen) == t(*range(30)) + t(*range(10), partition=1)


def test_segments_that_retention_deletes(tmp_path: Path) -> None:
    first = append(tmp_path / "t-0", 0, batch(0, 5))
    append(tmp_path / "t-0", 5, batch(5, 5))
    stream = reader(tmp_path)
    start = {"t": {"0": 2}}
    first.unlink()
    end = stream.latestOffset(start, ALL)
    with pytest.raises(ValueError, match="t-0: offsets 2 to 4 are not there any more"):
        stream.partitions(start, end)
    lenient = reader(tmp_path, failondataloss="false")
    with pytest.warns(UserWarning, match="offsets 2 to 4"):
        assert offsets(lenient, start, end) == t(5, 6, 7, 8, 9)
    # The log was made anew, and is shorter than what was read.
    with pytest.raises(ValueError, match="t-0: it ends at offset 10, and was read up to 20"):
        stream.partitions({"t": {"0": 20}}, stream.latestOffset({"t": {"0": 20}}, ALL))
    with pytest.raises(ValueError, match="t-9: its directory is gone; it was read up to offset 4"):
        stream.partitions({"t": {"9": 4}}, stream.latestOffset({"t": {"9": 4}}, ALL))


def test_damage_is_told_and_options_that_make_no_sense_too(tmp_path: Path) -> None:
    data = bytearray(batch(0, 5) + batch(5, 5) + batch(10, 5))
    data[len(data) // 2] ^= 1
    append(tmp_path / "t-0", 0, bytes(data))
    with pytest.raises(mb.CorruptRecordError, match="wrong checksum"):
        reader(tmp_path).latestOffset({"t": {"0": 0}}, ALL)
    assert reader(tmp_path, mode="DROPMALFORMED").latestOffset({"t": {"0": 0}}, ALL) == {"t": {"0": 15}}
    for options, words in (
        ({"isolation": "read_committed", "pastLso": "true"}, "pastLso"),
        ({"endingOffsets": '{"t":{"0":5}}'}, "a stream has no end"),
        ({"maxOffsetsPerTrigger": "0"}, "above 0"),
    ):
        with pytest.raises(ValueError, match=words):
            reader(tmp_path, **options)


def test_through_spark_killed_and_begun_again(spark: Any, tmp_path: Path) -> None:
    """Three runs with one checkpoint; the log grows between them, and one batch is asked for twice."""
    logs, out, checkpoint = tmp_path / "logs", tmp_path / "out", tmp_path / "checkpoint"

    def run() -> None:
        frame = spark.readStream.format("magicbyte").option("maxOffsetsPerTrigger", 7).load(str(logs))
        query = (
            frame.writeStream.format("parquet").option("path", str(out)).option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True).start()
        )  # fmt: skip
        query.awaitTermination()

    append(logs / "t-0", 0, batch(0, 10))
    run()
    append(logs / "t-0", 0, batch(10, 5))
    append(logs / "t-1", 0, batch(0, 3))
    run()
    last = max(int(path.name) for path in (checkpoint / "commits").glob("[0-9]*"))
    for path in (checkpoint / "commits" / str(last), checkpoint / "commits" / f".{last}.crc"):
        path.unlink(missing_ok=True)  # it died before it took note
    append(logs / "t-0", 15, batch(15, 5))
    run()
    found = spark.read.parquet(str(out)).orderBy("topic", "partition", "offset")
    rows = [(row.topic, row.partition, row.offset) for row in found.collect()]
    assert rows == t(*range(20)) + t(*range(3), partition=1)


def test_read_committed_waits_at_the_last_stable_offset(tmp_path: Path, data: Path) -> None:
    source = mb.Log(data / "kafka-logs" / "payments-0")
    expected = [(r.topic, r.partition, r.offset) for r in source.records(isolation="read_committed")]
    every = [(r.topic, r.partition, r.offset) for r in source.records()]
    assert len(expected) < len(every)
    logs = tmp_path / "logs"
    stream = reader(logs, isolation="read_committed") if logs.exists() else None
    at: Any = None
    got: list[tuple[str, int, int]] = []
    waited = False
    for segment in source.segments:
        content = Path(segment.path).read_bytes()
        for batch in mb.Log(segment.path).batches():
            end = append(
                logs / "payments-0", segment.base_offset, content[batch.position : batch.position + batch.size]
            )
            assert end.exists()
            if stream is None:
                stream = reader(logs, isolation="read_committed")
                at = stream.initialOffset()
            latest = stream.latestOffset(at, ALL)
            stable = mb.Log(logs / "payments-0").transactions("payments", 0).last_stable_offset
            waited |= stable is not None
            assert latest == {"payments": {"0": batch.last_offset + 1 if stable is None else stable}}
            # The very stream, and one that was started anew, which walks all of the log.
            new = offsets(stream, at, latest)
            assert new == offsets(reader(logs, isolation="read_committed"), at, latest)
            got += new
            at = latest
    assert waited and got == expected
    # In small steps, which end within transactions.
    small = reader(logs, isolation="read_committed")
    at, steps = small.initialOffset(), []
    while (latest := small.latestOffset(at, ReadMaxRows(3))) != at:
        steps += offsets(small, at, latest)
        at = latest
    assert steps == expected


def test_read_committed_that_begins_behind_the_last_stable_offset(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    fields: dict[str, Any] = {"producer_id": 7, "producer_epoch": 0, "transactional": True}
    first = mb.encode([mb.ProducerRecord("t", b"a")], base_offset=0, base_sequence=0, **fields)
    append(logs / "t-0", 0, first + batch(1, 4))
    stream = reader(logs, isolation="read_committed", startingOffsets='{"t": {"0": 3}}')
    start = stream.initialOffset()
    assert start == stream.latestOffset(start, ALL) == {"t": {"0": 3}}
    # A commit marker: version 0, type 1; version 0, coordinator epoch 0.
    marker = mb.Record(5, 0, b"\0\0\0\1", b"\0\0\0\0\0\0")
    append(logs / "t-0", 0, mb.encode([marker], base_offset=5, control=True, **fields))
    end = stream.latestOffset(start, ALL)
    assert end == {"t": {"0": 6}}
    assert offsets(stream, start, end) == t(3, 4)
    assert reader(logs, isolation="read_committed", startingOffsets="latest").initialOffset() == end
