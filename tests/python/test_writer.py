"""Partition directories: what stands in them, how they are cut, and that nobody ever sees half of one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import magicbyte as mb
from magicbyte import _core


def records(count: int, size: int = 50) -> list[mb.ProducerRecord]:
    return [mb.ProducerRecord("t", bytes([n % 251]) * size, str(n).encode(), timestamp=1000 + n) for n in range(count)]


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_a_partition(tmp_path: Path) -> None:
    directory = tmp_path / "orders-0"
    with mb.Writer(directory, codec="gzip", topic_id="7Y3Z2nFtTvWr9Q1s5wX0aA") as writer:
        writer.write(records(100))
        writer.append(mb.encode(records(3), base_offset=writer.next_offset, leader_epoch=2))
        assert not directory.exists()
        assert writer.next_offset == 103
    name = "00000000000000000000"
    assert names(directory) == [
        f"{name}.index",
        f"{name}.log",
        f"{name}.timeindex",
        "leader-epoch-checkpoint",
        "partition.metadata",
    ]
    assert (directory / "partition.metadata").read_text() == "version: 0\ntopic_id: 7Y3Z2nFtTvWr9Q1s5wX0aA"
    assert _core.leader_epochs((directory / "leader-epoch-checkpoint").read_bytes()) == [(0, 0), (2, 100)]
    assert [r.offset for r in mb.Log(directory).records()] == list(range(103))
    assert names(tmp_path) == ["orders-0"]


def test_segments_are_cut_and_indexed(tmp_path: Path) -> None:
    directory = tmp_path / "orders-0"
    with mb.Writer(directory, batch_size=500, segment_bytes=10_000, index_interval=1000, base_offset=7) as writer:
        writer.write(records(1000))
    logs = sorted(directory.glob("*.log"))
    assert len(logs) > 5 and logs[0].stem == f"{7:020d}" and [p.name for p in logs] == writer.segments
    assert all(9000 < log.stat().st_size <= 10_000 for log in logs[:-1])
    assert sum(log.stat().st_size for log in logs) == writer.bytes
    for log in logs:
        batches = {batch.last_offset: batch for batch in mb.Log(log).batches()}
        index = _core.OffsetIndex(log.with_suffix(".index").read_bytes(), int(log.stem))
        index.check()
        assert len(index) >= 6 or log == logs[-1]
        assert all(batches[offset].position == position for offset, position in index.entries())
        times = _core.TimeIndex(log.with_suffix(".timeindex").read_bytes(), int(log.stem))
        times.check()
        last = max(batches)
        assert times.entries()[-1] == (batches[last].max_timestamp, last)
    assert [r.offset for r in mb.Log(directory).records()] == list(range(7, 1007))
    assert [r.offset for r in mb.Log(directory).records(offsets=(500, 510))] == list(range(500, 510))


def test_a_transaction_leaves_its_marks(tmp_path: Path) -> None:
    directory = tmp_path / "orders-0"
    producer: dict[str, Any] = {"producer_id": 9, "producer_epoch": 0, "transactional": True}
    with mb.Writer(directory) as writer:
        writer.append(mb.encode(records(5), base_sequence=0, **producer))
        marker = mb.Record(5, 2000, b"\0\0\0\0", b"\0\0\0\0\0\3")
        writer.append(mb.encode([marker], control=True, **producer))
    name = "00000000000000000000"
    aborted = _core.aborted_transactions((directory / f"{name}.txnindex").read_bytes())
    assert aborted == [(9, 0, 5, 6)]
    assert (directory / "00000000000000000006.snapshot").stat().st_size == 2 + 4 + 4 + 46
    assert [r.control.type for r in mb.Log(directory).records(control=True) if r.control] == ["ABORT"]


def test_a_sequence_counts_on_over_calls(tmp_path: Path) -> None:
    with mb.Writer(tmp_path / "t-0", producer_id=1, producer_epoch=0, base_sequence=2**31 - 3) as writer:
        for _ in range(3):
            writer.write(records(2))
    sequences = [b.base_sequence for b in mb.Log(tmp_path / "t-0").batches()]
    assert sequences == [2**31 - 3, 2**31 - 1, 1]


@pytest.mark.parametrize("format", ["v0", "v1", "v2", "v3", "kip87", "kip82a", "kip82b"])
@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_every_format(tmp_path: Path, format: str, codec: str) -> None:
    with mb.Writer(tmp_path / "t-0", format=format, codec=codec, batch_size=1000, segment_bytes=3000) as writer:
        writer.write(records(300))
    read = list(mb.Log(tmp_path / "t-0", format=format).records())
    assert [r.offset for r in read] == list(range(300))
    assert [r.key for r in read] == [r.key for r in records(300)]
    assert len(writer.segments) > 1


def test_nothing_is_seen_of_what_failed(tmp_path: Path) -> None:
    directory = tmp_path / "t-0"
    with mb.Writer(directory) as writer:
        writer.write(records(3))

    def failing() -> Iterator[mb.ProducerRecord]:
        yield from records(500)
        raise RuntimeError

    with pytest.raises(RuntimeError), mb.Writer(directory) as writer:
        writer.write(failing())
    assert len(list(mb.Log(directory).records())) == 3
    assert names(tmp_path) == ["t-0"]
    with mb.Writer(directory) as writer:
        writer.write(records(4))
    assert len(list(mb.Log(directory).records())) == 4
    assert names(tmp_path) == ["t-0"]
    with pytest.raises(ValueError, match="closed"):
        writer.append(b"")


def test_what_a_killed_writer_leaves_is_no_partition(tmp_path: Path) -> None:
    """A broker deletes such a directory at its start, and a reader leaves it out."""
    with mb.Writer(tmp_path / "t-0") as writer:
        writer.write(records(3))
    unfinished = mb.Writer(tmp_path / "t-0")
    unfinished.write(records(500))
    (left,) = (name for name in names(tmp_path) if name != "t-0")
    assert left.startswith("t-0.") and left.endswith("-delete")
    assert _core.topic_partition(left) is None
    assert len(list(mb.Log(tmp_path).records())) == 3
    unfinished.abandon()
    assert names(tmp_path) == ["t-0"]


@pytest.mark.parametrize("swaps", [True, False])
def test_a_directory_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, swaps: bool) -> None:
    if not swaps:
        monkeypatch.setattr("magicbyte._aside._swapped", lambda one, other: False)
    for count in (3, 4):
        with mb.Writer(tmp_path / "t-0") as writer:
            writer.write(records(count))
        assert len(list(mb.Log(tmp_path / "t-0").records())) == count
        assert names(tmp_path) == ["t-0"]
    # Its mode is that of any directory made here.
    (tmp_path / "other").mkdir()
    assert (tmp_path / "t-0").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_an_empty_partition(tmp_path: Path) -> None:
    with mb.Writer(tmp_path / "t-0", base_offset=5):
        pass
    assert names(tmp_path / "t-0") == [f"{5:020d}.{end}" for end in ("index", "log", "timeindex")]


def test_what_is_no_entry_is_not_appended(tmp_path: Path) -> None:
    good = mb.encode(records(2))
    with mb.Writer(tmp_path / "t-0") as writer:
        writer.append(good)
        with pytest.raises(ValueError, match="offset 0 is below 2"):
            writer.append(good)
        for bad in (b"no entry", good[:-1], mb.encode(records(2), base_offset=2) + b"x"):
            with pytest.raises(mb.CorruptRecordError):
                writer.append(bad)
        with pytest.raises(ValueError, match="record 0"):
            writer.write([mb.ProducerRecord("t", tombstone=False)])
    assert len(list(mb.Log(tmp_path / "t-0").records())) == 2
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(NotADirectoryError):
        mb.Writer(tmp_path / "file")
    with pytest.raises(ValueError, match="no topic id"):
        mb.Writer(tmp_path / "t-1", topic_id="x")


def test_a_partition_converted(tmp_path: Path, data: Path) -> None:
    for name in ("orders-0", "payments-0", "payments-1", "legacy-0", "profiles-1"):
        source = mb.Log(data / "kafka-logs" / name)
        told: list[int] = []
        done = mb.convert_partition(source, tmp_path / name, "v3", segment_bytes=20_000, progress=told.append)
        assert not done.dropped
        assert told[-1] <= source.size
        back = mb.Log(tmp_path / name)
        parts = ("offset", "timestamp", "key", "value", "control", "sequence", "producer_id")
        have, want = (
            [(*(getattr(r, part) for part in parts), r.headers) for r in log.records(control=True)]
            for log in (back, source)
        )
        assert have == want
        assert {batch.format for batch in back.batches()} == {"v3"}
    with pytest.raises(ValueError, match="partitions"):
        mb.convert_partition(mb.Log(data / "kafka-logs"), tmp_path / "all-0", "v3")
