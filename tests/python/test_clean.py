"""The log cleaner on logs made here; `kafka/test_clean.py` holds it against a broker's own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import magicbyte as mb

from partitions import Given, T, batch, kept, partition
from places import DATA


def test_the_latest_of_a_key_stays_and_the_source_is_as_it_was(tmp_path: Path) -> None:
    a, b = batch(0, (b"k", b"1"), (b"l", b"1")), batch(2, (b"k", b"2"), (None, b"no key"))
    source = partition(tmp_path / "in", a, b)
    before = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in source.iterdir()}
    done = mb.clean(tmp_path / "in", tmp_path / "out")
    assert kept(tmp_path / "out" / "t-0") == [(1, b"l", b"1"), (2, b"k", b"2")]
    assert (done.counts["without_key"], done.counts["outranked"], done.counts["kept"]) == (1, 1, 2)
    assert {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in source.iterdir()} == before
    # Small segments become one, and the active one stays as it is.
    assert sorted(path.name for path in (tmp_path / "out" / "t-0").glob("*.log")) == [f"{0:020d}.log", f"{4:020d}.log"]
    assert os.stat(tmp_path / "out" / "t-0" / f"{0:020d}.log").st_mtime_ns // 1_000_000 == (
        before[f"{2:020d}.log"][1] // 1_000_000
    )


def test_compaction_lag_ends_the_cleaning_at_the_first_young_segment(tmp_path: Path) -> None:
    segments = [batch(n, (b"k", b"%d" % n), at=T + 1000 * n) for n in (0, 1, 2)]
    source = partition(tmp_path, *segments)
    cleaning = mb.Cleaning(now=T + 2000, min_compaction_lag_ms=1500)
    done = mb.clean(source, tmp_path / "out-0", cleaning)
    assert done.partitions[0].bound == 1
    assert [offset for offset, _, _ in kept(tmp_path / "out-0")] == [0, 1, 2]


def test_compact_and_delete(tmp_path: Path) -> None:
    segments = [batch(n, (b"%d" % n, b"v" * 100), at=T + 1000 * n) for n in range(4)]
    source = partition(tmp_path, *segments)
    by_time = mb.Cleaning(now=T + 2500, retention_ms=1500, segment_bytes=1)
    assert mb.clean(source, tmp_path / "time-0", by_time).partitions[0].deleted == 1
    assert [offset for offset, _, _ in kept(tmp_path / "time-0")] == [1, 2, 3]
    by_size = mb.Cleaning(retention_bytes=2 * len(segments[0]), segment_bytes=1)
    assert mb.clean(source, tmp_path / "size-0", by_size).partitions[0].deleted == 2
    assert [offset for offset, _, _ in kept(tmp_path / "size-0")] == [2, 3]


def test_a_log_that_nobody_writes_is_cleaned_to_its_end(tmp_path: Path) -> None:
    one = batch(0, (b"k", b"1"), (b"l", b"1"))
    source = partition(tmp_path, one, batch(2, (b"k", b"2")))
    (source / f"{3:020d}.log").write_bytes(batch(3, (b"l", None), producer_id=5, producer_epoch=0, base_sequence=9))
    done = mb.clean(source, tmp_path / "out-0", mb.Cleaning(now=T, clean_active=True, delete_retention_ms=0))
    assert (done.partitions[0].bound, kept(tmp_path / "out-0")) == (4, [(2, b"k", b"2"), (3, b"l", None)])
    # The tombstone goes, and the batch that remembers the end of the log stays.
    mb.clean(tmp_path / "out-0", tmp_path / "again-0", mb.Cleaning(now=T, clean_active=True))
    last = list(mb.Log(tmp_path / "again-0").batches())[-1]
    assert (last.last_offset, last.count, last.size, last.base_sequence, last.base_timestamp) == (3, 0, 61, 9, -1)


@pytest.mark.parametrize("silent, stays", [(1000, True), (86_400_000, False)])
def test_a_producer_that_is_silent_for_a_day_is_forgotten(tmp_path: Path, silent: int, stays: bool) -> None:
    data = batch(0, (b"k", b"1"), producer_id=5, producer_epoch=0, base_sequence=0)
    source = partition(tmp_path, data, batch(1, (b"k", b"2")))
    mb.clean(source, tmp_path / "out-0", mb.Cleaning(now=T + silent))
    assert [b.base_offset for b in mb.Log(tmp_path / "out-0").batches()] == ([0, 1] if stays else [1])


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("format", ["v0", "v1", "v2", "v3"])
def test_every_format_and_codec(tmp_path: Path, format: str, codec: str) -> None:
    if (format, codec) in (("v0", "zstd"), ("v1", "zstd")):
        pytest.skip("a message set has no zstd")
    records: list[Given] = [(b"%d" % (n % 3), b"v%d" % n) for n in range(7)]
    source = partition(tmp_path, batch(0, *records, format=format, codec=codec))
    mb.clean(source, tmp_path / "out-0")
    assert kept(tmp_path / "out-0") == [(n, b"%d" % (n % 3), b"v%d" % n) for n in (4, 5, 6)]
    assert {b.codec for b in mb.Log(tmp_path / "out-0").batches()} == {codec}


def test_append_times_stay(tmp_path: Path) -> None:
    made = mb.encode([mb.ProducerRecord("t", b"v", b"k", timestamp=5)] * 2, timestamp_type=1, max_timestamp=T)
    mb.clean(partition(tmp_path, made), tmp_path / "out-0")
    assert [(r.timestamp, r.timestamp_type) for r in mb.Log(tmp_path / "out-0").records()] == [(T, 1)]


@pytest.mark.parametrize("name", sorted(path.name for path in (DATA / "kafka-logs").iterdir() if path.is_dir()))
def test_golden_logs_of_every_kind_lose_no_latest_record(name: str, tmp_path: Path) -> None:
    """What stays is, of each key below the bound, the last record of no aborted transaction, by a dictionary."""
    log = mb.Log(DATA / "kafka-logs" / name)
    done = mb.clean(log, tmp_path / name, mb.Cleaning(now=T, dedupe_buffer_size=1000)).partitions[0]
    latest: dict[bytes, int] = {}
    table = [(r.offset, r.key) for r in log.records(isolation="read_committed", past_lso=True) if r.offset < done.bound]
    for offset, key in table:
        if key is not None:
            latest[key] = offset
    ours = [offset for offset, _, _ in kept(tmp_path / name) if offset < done.bound]
    gone = set(latest.values()) - set(ours)
    assert set(ours) <= set(latest.values())
    assert len(gone) == done.counts["tombstones"]


def test_a_damaged_partition_is_left_alone_and_the_others_are_cleaned(tmp_path: Path) -> None:
    partition(tmp_path / "in", batch(0, (b"k", b"1"), (b"k", b"2")), name="sound-0")
    bad = bytearray(batch(0, (b"k", b"1" * 300)))
    bad[100] ^= 1
    source = partition(tmp_path / "in", batch(0, (b"k", b"1" * 300)), name="bad-0")
    (source / f"{0:020d}.log").write_bytes(bad)
    with pytest.raises(mb.CorruptRecordError):
        mb.clean(tmp_path / "in", tmp_path / "strict")
    done = mb.clean(tmp_path / "in", tmp_path / "out", strict=False)
    assert [(topic, error.kind, error.position) for topic, _, error in done.uncleanable] == [("bad", "crc", 0)]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["sound-0"]
    assert kept(tmp_path / "out" / "sound-0") == [(1, b"k", b"2")]


def test_offsets_that_fall_are_told(tmp_path: Path) -> None:
    one = b"".join(batch(n, (b"%d" % n, b"v" * 3000)) for n in range(8))
    source = partition(tmp_path, one, name="within-0")
    (source / f"{0:020d}.log").write_bytes(one + one)
    with pytest.raises(mb.CorruptRecordError, match="offsets fall, or are there twice") as told:
        mb.clean(source, tmp_path / "out-0")
    assert (told.value.kind, told.value.path) == ("disorder", str(source / f"{0:020d}.log"))
    with pytest.raises(mb.CorruptRecordError, match="offsets fall, or are there twice"):
        mb.redact(source, tmp_path / "out-0", mb.Redaction(frozenset({b"1"})))
    source = partition(tmp_path, one, batch(8, (b"k", b"v")), name="between-0")
    (source / f"{8:020d}.log").write_bytes(batch(3, (b"k", b"v")))
    with pytest.raises(mb.CorruptRecordError, match="3 comes after 7"):
        mb.clean(source, tmp_path / "out-0")
    assert not (tmp_path / "out-0").exists()


def test_the_source_is_never_the_target(tmp_path: Path) -> None:
    source = partition(tmp_path, batch(0, (b"k", b"1")))
    for target in (source, source / "in-0", tmp_path):
        with pytest.raises(ValueError, match="never written to"):
            mb.clean(source, target)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from magicbyte.cli import main

    partition(tmp_path / "in", batch(0, (b"k", b"1", [("version", b"9")]), (b"k", b"2", [("version", b"1")])))
    assert main(["clean", str(tmp_path / "in"), str(tmp_path / "out"), "--strategy", "header", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["partitions"][0]["counts"]["outranked"], document["uncleanable"]) == (1, [])
    assert kept(tmp_path / "out" / "t-0") == [(0, b"k", b"1")]
    assert main(["clean", str(tmp_path / "in"), str(tmp_path / "out")]) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert main(["clean", str(tmp_path / "in"), str(tmp_path / "out"), "--overwrite"]) == 0
    assert "2 records read, 1 kept" in capsys.readouterr().out
    assert main(["clean", str(tmp_path / "in"), str(tmp_path / "in")]) == 2


PEAK = """
import re, sys
import magicbyte as mb
source, target, memory = sys.argv[1:]
done = mb.clean(source, target, mb.Cleaning(clean_active=True, dedupe_buffer_size=int(memory)))
print(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1], done.counts["rounds"])
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="peak memory is read from /proc")
def test_keys_take_the_memory_that_they_are_given_and_no_more(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    count = 1_000_000
    keys = pa.array([b"%d" % n for n in range(count)], pa.binary())
    with mb.Writer(tmp_path / "in-0") as writer:
        for piece in mb.encode_arrow(pa.table({"key": keys, "value": keys}), batch_size=1 << 20):
            writer.append(piece)

    def peak(memory: int) -> tuple[int, int]:
        command = [sys.executable, "-c", PEAK, str(tmp_path / "in-0"), str(tmp_path / f"{memory}-0"), str(memory)]
        kilobytes, rounds = subprocess.run(command, capture_output=True, check=True, text=True).stdout.split()
        return int(kilobytes) << 10, int(rounds)

    (much, once), (little, often) = peak(64 << 20), peak(2 << 20)
    assert (once, often > 10) == (1, True)
    # A million keys are 24 MB and a tenth; instead, 2 MB and a bit a record.
    assert much - little > 18 << 20
    files = [sorted(path.name for path in (tmp_path / f"{memory << 20}-0").iterdir()) for memory in (64, 2)]
    assert files[0] == files[1]
    logs = [(tmp_path / f"{memory << 20}-0" / f"{0:020d}.log").read_bytes() for memory in (64, 2)]
    assert logs[0] == logs[1] == (tmp_path / "in-0" / f"{0:020d}.log").read_bytes()


def test_a_torn_tail_is_left_out_where_the_last_segment_is_written(tmp_path: Path) -> None:
    whole = batch(0, (b"a", b"1"), (b"b", b"2"), (b"a", b"3"))
    directory = tmp_path / "t-0"
    directory.mkdir()
    (directory / f"{0:020d}.log").write_bytes(whole + batch(3, (b"c", b"4"))[:-1])
    mb.clean(directory, tmp_path / "cleaned-0", mb.Cleaning(clean_active=True))
    assert kept(tmp_path / "cleaned-0") == [(1, b"b", b"2"), (2, b"a", b"3")]
    mb.redact(directory, tmp_path / "redacted-0", mb.Redaction(frozenset({b"b"}), value=b"x"))
    assert kept(tmp_path / "redacted-0") == [(0, b"a", b"1"), (1, b"b", b"x"), (2, b"a", b"3")]
    # In the midst of a log it is damage.
    (directory / f"{9:020d}.log").write_bytes(batch(9, (b"d", b"5")))
    with pytest.raises(mb.CorruptRecordError):
        mb.redact(directory, tmp_path / "redacted-0", mb.Redaction(frozenset({b"b"})))
