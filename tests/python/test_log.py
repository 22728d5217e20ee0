"""`Log`: what is a log and what is not, and that seeking finds exactly what a full read finds, whatever the indexes say."""

from __future__ import annotations

import os
import random
import shutil
import struct
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import magicbyte as mb
from magicbyte import _core, _seek

SEGMENTED = "payments-0"  # six segments, an index entry each 512 bytes
RECORDS = 930


@pytest.fixture
def logs(data: Path) -> Path:
    return data / "kafka-logs"


@pytest.fixture
def copy(logs: Path, tmp_path: Path) -> Path:
    """A copy of the segmented partition, to be damaged."""
    target = tmp_path / SEGMENTED
    shutil.copytree(logs / SEGMENTED, target)
    for file in target.iterdir():
        file.chmod(0o644)
    return target


def everything(path: Path) -> list[tuple[int, int]]:
    return [(record.offset, record.timestamp) for record in mb.Log(path).records(control=True)]


# What is a log


def test_a_directory_of_partitions(logs: Path) -> None:
    log = mb.Log(logs)
    assert not log.single
    assert ("orders", 0) in log.partitions
    assert len(log.segments) > len(log.partitions)
    keys = [(segment.topic, segment.partition, segment.base_offset) for segment in log.segments]
    assert keys == sorted(keys)
    assert log.size == sum(Path(segment.path).stat().st_size for segment in log.segments)
    assert "partitions" in repr(log)


def test_file_directory_and_bytes_are_the_same_log(logs: Path) -> None:
    directory = logs / "headers-0"
    [segment] = mb.Log(directory).segments
    file = Path(segment.path)
    assert (segment.topic, segment.partition, segment.base_offset) == ("headers", 0, 0)
    expected = [(record.offset, record.key, record.value) for record in mb.Log(directory).records()]
    assert len(expected) == 18
    for source in (file, str(file), file.read_bytes(), bytearray(file.read_bytes()), memoryview(file.read_bytes())):
        assert [(record.offset, record.key, record.value) for record in mb.Log(source).records()] == expected
    assert {record.topic for record in mb.Log(file).records()} == {"headers"}
    assert {record.topic for record in mb.Log(file.read_bytes(), topic="t", partition=3).records()} == {"t"}


def test_a_caller_names_one_partition_and_chooses_among_many(logs: Path) -> None:
    assert mb.Log(logs / "headers-0", topic="other", partition=7).partitions == [("other", 7)]
    assert mb.Log(logs, topic="headers").partitions == [("headers", 0), ("headers", 1)]
    with pytest.raises(FileNotFoundError, match="there are .*basic-0"):
        mb.Log(logs, topic="nothing")


def test_a_brokers_data_directory(logs: Path, tmp_path: Path) -> None:
    """What a broker leaves beside its partitions is no partition; links are as good as directories."""
    (tmp_path / "headers-0").symlink_to(logs / "headers-0")
    for name in ("meta.properties", "recovery-point-offset-checkpoint", ".lock", "cleaner-offset-checkpoint"):
        (tmp_path / name).write_text("0\n")
    (tmp_path / "orders-0.0123456789abcdef0123456789abcdef-delete").mkdir()
    (tmp_path / "empty-1").mkdir()
    (tmp_path / os.fsdecode(b"\xff\xfe-0")).mkdir()
    log = mb.Log(tmp_path)
    assert log.partitions == [("headers", 0)]
    assert {reason for _, reason in log.left_out} == {"not named topic-partition"}


def test_left_out_with_a_word(logs: Path, tmp_path: Path) -> None:
    partition = tmp_path / "__cluster_metadata-0"
    partition.mkdir()
    [segment] = mb.Log(logs / "headers-0").segments
    for name in (
        "00000000000000000000.log",
        "00000000000000000000.log.deleted",
        "00000000000000000007.log.cleaned",
        "00000000000000000018-0000000001.checkpoint",
        "quorum-state",
        "leader-epoch-checkpoint",
    ):
        shutil.copyfile(segment.path, partition / name)
    log = mb.Log(partition)
    assert [segment.base_offset for segment in log.segments] == [0]
    assert sorted(Path(path).suffix for path, _ in log.left_out) == [".checkpoint", ".cleaned", ".deleted"]
    assert all(reason for _, reason in log.left_out)
    # By its own path, a snapshot or a deleted segment is a log like any other.
    assert len(list(mb.Log(partition / "00000000000000000018-0000000001.checkpoint").records())) == 18
    assert len(list(mb.Log(partition / "00000000000000000000.log.deleted").records())) == 18


def test_what_is_no_log_says_so(logs: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        mb.Log(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match=r"looked for <20 digits>\.log"):
        mb.Log(tmp_path)
    (tmp_path / "orders-0").mkdir()
    with pytest.raises(FileNotFoundError, match="looked for"):
        mb.Log(tmp_path)
    (tmp_path / "orders-0" / f"{0:020}.log.deleted").touch()
    with pytest.raises(FileNotFoundError, match="left out"):
        mb.Log(tmp_path / "orders-0")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="neither a regular file"):
        mb.Log(tmp_path / "pipe")
    with pytest.raises(FileNotFoundError, match="open the .log"):
        mb.Log(logs / SEGMENTED / f"{0:020}.index")
    (tmp_path / "empty-0").mkdir()
    (tmp_path / "empty-0" / f"{0:020}.log").touch()
    assert list(mb.Log(tmp_path / "empty-0").records()) == []


def test_links_that_lead_nowhere_and_segments_that_are_no_files(logs: Path, tmp_path: Path) -> None:
    partition = tmp_path / "orders-0"
    partition.mkdir()
    shutil.copyfile(logs / "headers-0" / f"{0:020}.log", partition / f"{0:020}.log")
    (partition / f"{18:020}.log").symlink_to(tmp_path / "gone")
    (partition / f"{19:020}.log").mkdir()
    os.mkfifo(partition / f"{0:020}.index")
    log = mb.Log(partition)
    assert [reason for _, reason in log.left_out] == ["not there any more", "not a regular file"]
    assert len(list(log.records(offsets=(3, None)))) == 15


# Seeking

DAMAGES: dict[str, Callable[[bytes], bytes | None]] = {
    "sound": lambda index: index,
    "missing": lambda index: None,
    "empty": lambda index: b"",
    "zeros": lambda index: bytes(len(index)),
    "zero tail": lambda index: index + bytes(4096),
    "cut": lambda index: index[: len(index) // 2 - 3],
    "garbage": lambda index: random.Random(7).randbytes(len(index)),
    "ones": lambda index: b"\xff" * len(index),
    "half": lambda index: index[: len(index) // 24 * 12],
}


def lie(index: bytes, entry: str, change: Callable[[int, int], tuple[int, int]]) -> bytes:
    return b"".join(struct.pack(entry, *change(*pair)) for pair in struct.iter_unpack(entry, index))


OFFSET_LIES: dict[str, Callable[[bytes], bytes]] = {
    "offsets too low": lambda index: lie(index, ">ii", lambda offset, position: (max(offset - 25, 0), position)),
    "offsets too high": lambda index: lie(index, ">ii", lambda offset, position: (offset + 25, position)),
    "between entries": lambda index: lie(index, ">ii", lambda offset, position: (offset, position + 1)),
    "behind the end": lambda index: lie(index, ">ii", lambda offset, position: (offset, position + (1 << 20))),
    "negative": lambda index: lie(index, ">ii", lambda offset, position: (offset, -position)),
}
TIME_LIES: dict[str, Callable[[bytes], bytes]] = {
    "times too low": lambda index: lie(index, ">qi", lambda time, offset: (time - 40, offset)),
    "times too high": lambda index: lie(index, ">qi", lambda time, offset: (time + 40, offset)),
    "offsets too high": lambda index: lie(index, ">qi", lambda time, offset: (time, offset + 31)),
    "offsets too low": lambda index: lie(index, ">qi", lambda time, offset: (time, max(0, offset - 31))),
}


def damage(directory: Path, suffix: str, change: Callable[[bytes], bytes | None]) -> None:
    for path in directory.glob(f"*{suffix}"):
        index = change(path.read_bytes())
        if index is None:
            path.unlink()
        else:
            path.write_bytes(index)


@pytest.mark.parametrize("how", [*DAMAGES, *OFFSET_LIES])
def test_offsets_are_found_whatever_the_index_says(copy: Path, how: str) -> None:
    full = everything(copy)
    assert len(full) == RECORDS
    damage(copy, ".index", (DAMAGES | OFFSET_LIES)[how])
    log = mb.Log(copy)
    for first in range(0, 960, 37):
        for end in (first + 1, first + 45, first + 400, None):
            got = [record.offset for record in log.records(control=True, offsets=(first, end))]
            assert got == [offset for offset, _ in full if first <= offset and (end is None or offset < end)]


@pytest.mark.parametrize(
    ("suffix", "how"),
    [(".index", how) for how in DAMAGES | OFFSET_LIES] + [(".timeindex", how) for how in DAMAGES | TIME_LIES],
)
def test_times_are_found_whatever_the_index_says(copy: Path, suffix: str, how: str) -> None:
    full = everything(copy)
    damage(copy, suffix, (DAMAGES | (OFFSET_LIES if suffix == ".index" else TIME_LIES))[how])
    log = mb.Log(copy)
    times = sorted({time for _, time in full})
    for since in times[:: len(times) // 15]:
        for until in (since + 1, since + 30, None):
            got = [record.offset for record in log.records(control=True, timestamps=(since, until))]
            assert got == [offset for offset, time in full if since <= time and (until is None or time < until)]


def test_a_sound_index_spares_bytes(copy: Path) -> None:
    [part] = mb.Log(copy).parts((300, 310))
    assert part.start > 0
    assert part.end is not None
    assert part.end - part.start < 5_000
    last = max(time for _, time in everything(copy))
    assert len(mb.Log(copy).parts(timestamps=(last, None))) == 1
    # Names alone leave segments out.
    damage(copy, ".index", DAMAGES["missing"])
    assert [part.start for part in mb.Log(copy).parts(range(300, 310))] == [0]
    assert mb.Log(copy).parts((0, 0)) == []


def test_ranges_by_partition(logs: Path) -> None:
    log = mb.Log(logs)
    got = list(log.records(offsets={("basic", 1): (5, 8), ("headers", 0): range(0, 1)}))
    assert [(record.topic, record.partition, record.offset) for record in got] == [
        ("basic", 1, 5),
        ("basic", 1, 6),
        ("basic", 1, 7),
        ("headers", 0, 0),
    ]
    assert {record.partition for record in log.records(offsets={1: (None, 2)})} == {1}


def test_times_as_datetime(logs: Path) -> None:
    log = mb.Log(logs / "basic-0")
    times = sorted(record.timestamp for record in log.records())
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=times[60], microseconds=-1)
    got = [record.timestamp for record in log.records(timestamps=(moment, None))]
    assert sorted(got) == [time for time in times if time >= times[60]]
    later = moment + timedelta(microseconds=2)
    assert min(record.timestamp for record in log.records(timestamps=(later, None))) > times[60]
    with pytest.raises(ValueError, match="time zone"):
        log.records(timestamps=(datetime(2026, 1, 1), None))


def test_wrong_ranges(logs: Path) -> None:
    log = mb.Log(logs / "basic-0")
    with pytest.raises(ValueError, match="steps"):
        log.records(offsets=range(0, 10, 2))
    with pytest.raises(TypeError, match="offsets"):
        log.records(offsets=5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="timestamps"):
        log.records(timestamps={0: (1, 2)})  # type: ignore[arg-type]


# Splitting


@pytest.mark.parametrize("index", ["sound", "missing", "garbage", "zeros"])
@pytest.mark.parametrize("target", [1, 500, 4_000, 9_000, 1 << 30])
def test_pieces_make_up_the_whole(copy: Path, index: str, target: int) -> None:
    full = everything(copy)
    damage(copy, ".index", DAMAGES[index])
    parts = mb.Log(copy).split(target)
    got = [record.offset for record in _core.Reader(parts, control=True).records()]
    assert got == [offset for offset, _ in full]
    if target == 4_000:
        assert all((part.end or part.start) - part.start <= 2 * target for part in parts)
        assert len(parts) >= 20
    if target == 1 << 30:
        assert len(parts) == 6


def test_a_tenth_too_much_is_no_piece_of_its_own(logs: Path) -> None:
    [segment] = mb.Log(logs / "orders-0").segments
    for target, pieces in (
        (segment.size, 1),
        (segment.size * 10 // 11 + 1, 1),
        (segment.size * 5 // 6, 2),
        (segment.size // 4, 4),
        (segment.size * 40 // 163, 4),
        (segment.size * 5 // 21, 5),
    ):
        assert len(mb.Log(segment.path).split(target)) == pieces, target


def test_pieces_of_mixed_old_formats(logs: Path) -> None:
    """v0, v1 and v2 in one segment, without a usable index."""
    [segment] = mb.Log(logs / "orders-0").segments
    places = list(_seek._hop(segment.path, 0, segment.size, list(range(0, segment.size, 700))))
    boundaries = {batch.position for batch in mb.Log(segment.path).batches()}
    assert len(places) > 10
    assert set(places) <= boundaries


def test_a_range_in_pieces(copy: Path) -> None:
    parts = mb.Log(copy).split(3_000, offsets=(200, 700))
    assert [record.offset for record in _core.Reader(parts, control=True).records()] == [
        offset for offset, _ in everything(copy) if 200 <= offset < 700
    ]


# Ways through


def test_scan_and_batches(logs: Path) -> None:
    log = mb.Log(logs / SEGMENTED)
    batches = list(log.batches())
    assert sum(len(list(batch.records)) for batch in batches) == RECORDS
    table = log.scan(["offset"], offsets=(100, 200)).to_arrow()
    assert table.column("offset").to_pylist() == [
        record.offset for record in log.records() if 100 <= record.offset < 200
    ]
    assert log.scan(control=True).count() == RECORDS


def test_corruption_names_file_and_position(copy: Path) -> None:
    path = copy / f"{185:020}.log"
    batch = list(mb.Log(path).batches())[3]
    data = bytearray(path.read_bytes())
    data[batch.position + batch.size - 1] ^= 1
    path.write_bytes(data)
    with pytest.raises(mb.CorruptRecordError) as error:
        list(mb.Log(copy).records())
    assert (error.value.path, error.value.position, error.value.kind) == (str(path), batch.position, "crc")
