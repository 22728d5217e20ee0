"""Logs behind addresses: the same as on this machine, in ranges, whatever fails on the way."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import magicbyte as mb
from magicbyte import _remote

fsspec = pytest.importorskip("fsspec")


@pytest.fixture
def logs(data: Path) -> Path:
    return data / "kafka-logs"


@pytest.fixture
def memory(logs: Path) -> Iterator[str]:
    system = fsspec.filesystem("memory")
    system.put(f"{logs}/", "/logs/", recursive=True)
    yield "memory://logs"
    system.rm("/", recursive=True)


@pytest.fixture
def ranges(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """What is asked for, by begin and end."""
    asked: list[tuple[int, int]] = []
    get = _remote.Object._get

    def noted(self: _remote.Object, start: int, end: int) -> bytes:
        asked.append((start, min(end, self.size)))
        return get(self, start, end)

    monkeypatch.setattr(_remote.Object, "_get", noted)
    return asked


@pytest.fixture
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_remote.time, "sleep", lambda seconds: None)


def same(address: str, local: Path) -> None:
    there, here = mb.Log(address), mb.Log(local)
    assert there.partitions == here.partitions and there.size == here.size
    assert [segment.path.removeprefix(address) for segment in there.segments] == [
        segment.path.removeprefix(str(local)) for segment in here.segments
    ]
    expected = here.scan().to_arrow()
    assert there.scan().to_arrow().equals(expected)
    assert there.scan(views=True).to_arrow().num_rows == expected.num_rows
    for isolation in ("read_uncommitted", "read_committed"):
        columns = ["topic", "partition", "offset", "transactionState"]
        assert (
            there.scan(columns, isolation=isolation)
            .to_arrow()
            .equals(here.scan(columns, isolation=isolation).to_arrow())
        )
    every = [(r.topic, r.partition, r.offset, r.value) for r in here.records(timestamps=(0, None))]
    assert [(r.topic, r.partition, r.offset, r.value) for r in there.records(timestamps=(0, None))] == every
    first = there.split(4096)
    assert sum(mb._core.Reader([pickle.loads(pickle.dumps(p))]).scan().count() for p in first) == expected.num_rows


def test_a_log_in_memory(memory: str, logs: Path) -> None:
    same(memory, logs)
    assert mb.Log(f"{memory}/orders-0").single
    assert mb.Log(f"{memory}/orders-0").verify().ok
    segment = mb.Log(logs / "orders-0").segments[0]
    one = mb.Log(f"{memory}/orders-0/{Path(segment.path).name}")
    assert one.segments[0].base_offset == segment.base_offset and one.partitions == [("orders", 0)]
    several = mb.Log([f"{memory}/orders-0", str(logs / "headers-0")])
    assert several.partitions == [("headers", 0), ("orders", 0)]


def test_a_log_in_s3(s3: dict[str, Any], logs: Path) -> None:
    mb.Log("s3://bucket/logs", storage=s3)
    same("s3://bucket/logs/payments-0", logs / "payments-0")
    assert mb.Log("s3://bucket/logs").scan().to_arrow().equals(mb.Log(logs).scan().to_arrow())
    assert mb.Log("s3a://bucket/logs/orders-0", storage=s3).scan().count() == mb.Log(logs / "orders-0").scan().count()
    with pytest.raises(FileNotFoundError, match=r"s3://bucket/nothing"):
        mb.Log("s3://bucket/nothing", storage=s3)
    assert _remote.matching("s3://bucket/logs/headers*") == [f"s3://bucket/logs/headers-{n}" for n in range(2)]


def test_file_addresses_are_paths(logs: Path, tmp_path: Path) -> None:
    odd = tmp_path / "a b%-0"
    odd.symlink_to(logs / "orders-0")
    log = mb.Log(odd.as_uri())
    assert log.source == str(odd) and log.scan().count() == mb.Log(logs / "orders-0").scan().count()


def test_what_is_not_there(memory: str, data: Path) -> None:
    for address in (f"{memory}/nothing-0", f"{memory}/orders-0/nothing.log"):
        with pytest.raises(FileNotFoundError) as caught:
            mb.Log(address)
        assert caught.value.filename == address
    name = Path(mb.Log(f"{memory}/orders-0").segments[0].path).stem
    with pytest.raises(FileNotFoundError, match="not a log"):
        mb.Log(f"{memory}/orders-0/{name}.index")
    with pytest.raises(FileNotFoundError, match="there are __consumer_offsets-0"):
        mb.Log(memory, topic="nothing")
    log = mb.Log(f"{memory}/orders-0")
    fsspec.filesystem("memory").rm("/logs/orders-0", recursive=True)
    with pytest.raises(FileNotFoundError) as caught:
        log.scan().to_arrow()
    assert caught.value.filename == log.segments[0].path
    with pytest.raises(ValueError, match="Protocol not known"):
        mb.Log("nowhere://a/b")


def large(count: int) -> bytes:
    """A segment with an index."""
    batches = [mb.encode([mb.Record(n, n, None, b"%08d" % n * 1024)], base_offset=n) for n in range(count)]
    return b"".join(batches)


def test_ranges_grow_and_only_what_is_wanted_is_read(
    ranges: list[tuple[int, int]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with mb.Writer(tmp_path / "big-0") as writer:
        writer.write(mb.ProducerRecord("big", b"%08d" % n * 1024, timestamp=n) for n in range(3000))
    system = fsspec.filesystem("memory")
    system.put(f"{tmp_path}/", "/big/", recursive=True)
    log = mb.Log("memory://big/big-0")
    assert log.size > 20 << 20
    assert [r.offset for r in log.records()] == list(range(3000))
    own = [end - start for start, end in ranges]
    assert max(own) == _remote.MOST and own[0] <= 2 * _remote.FIRST and sum(own) == log.size
    assert sorted(ranges) == ranges and all(a[1] == b[0] for a, b in itertools.pairwise(ranges))
    ranges.clear()
    # By the index: neither what is before nor much of what is behind.
    assert [r.offset for r in log.records(offsets=(1200, 1210))] == list(range(1200, 1210))
    assert sum(end - start for start, end in ranges) < 4 << 20
    ranges.clear()
    pieces = log.split(4 << 20)
    assert len(pieces) == 6 and sum(mb._core.Reader([piece]).scan().count() for piece in pieces) == 3000
    system.rm("/big", recursive=True)


@pytest.mark.usefixtures("no_pause")
def test_lost_connections_are_tried_again(memory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    system = fsspec.filesystem("memory")
    cat, fails = system.cat_file, [3]

    def lost(path: str, start: int | None = None, end: int | None = None, **more: Any) -> bytes:
        if fails[0]:
            fails[0] -= 1
            raise ConnectionResetError("connection reset by peer")
        return bytes(cat(path, start=start, end=end))

    monkeypatch.setattr(type(system), "cat_file", lambda self, *a, **k: lost(*a, **k))
    log = mb.Log(f"{memory}/headers-0")
    assert log.scan().count() == 18
    fails[0] = 4
    with pytest.raises(OSError, match=r"memory://logs/headers-0/0+\.log: connection reset by peer \(tried 4 times\)"):
        log.scan().count()
    assert fails[0] == 0


@pytest.mark.usefixtures("no_pause")
def test_an_object_that_is_replaced_by_a_shorter_one(memory: str) -> None:
    path = mb.Log(f"{memory}/headers-0").segments[0].path
    there = _remote.Object(path)
    fsspec.filesystem("memory").pipe_file(path.removeprefix("memory:/"), b"short")
    with pytest.raises(OSError, match="was it replaced"):
        there.read_at(0, 100)


def test_an_object_by_position(memory: str) -> None:
    data = bytes(range(256)) * 8192
    fsspec.filesystem("memory").pipe_file("/logs/object", data)
    there = _remote.Object("memory://logs/object")
    assert there.size == len(data)
    for position, length in [(0, 10), (10, 300_000), (300_010, 1 << 20), (5, 5), (len(data) - 3, 10), (len(data), 1)]:
        got = b""
        while len(got) < length and (piece := there.read_at(position + len(got), length - len(got))):
            got += piece
        assert got == data[position : position + length]


def test_jobs_read_what_is_behind_an_address(memory: str, logs: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    from magicbyte import usage

    landing = mb.Landing(isolation="read_committed", target_bytes=20_000)
    done, here = mb.land(memory, tmp_path / "far", landing), mb.land(logs, tmp_path / "near", landing)
    assert (done.records, done.files, done.offsets) == (here.records, here.files, here.offsets)
    assert mb.land(memory, tmp_path / "far", landing).records == 0
    assert usage.chargeback(memory, "topic").table() == usage.chargeback(logs, "topic").table()
    # What needs the files beside a log says so before it writes.
    for job in (mb.clean, lambda a, b: mb.redact(a, b, mb.Redaction(frozenset({b"k"})))):
        with pytest.raises(ValueError, match="needs files of a disk"):
            job(memory, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_what_a_storage_raises_of_its_own_is_an_oserror_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_remote.time, "sleep", lambda seconds: None)
    tried: list[Exception] = []

    def fail(error: Exception) -> None:
        tried.append(error)
        raise error

    class Unreachable(Exception):
        """As botocore's errors are: none of the system's."""

    with pytest.raises(OSError, match=r"s3://bucket/logs: no endpoint \(tried 4 times\)"):
        _remote.again(lambda: fail(Unreachable("no endpoint")), "s3://bucket/logs")
    assert len(tried) == _remote.TRIES
    # A fault in the program is none of the storage, and tried once.
    with pytest.raises(TypeError, match="ours"):
        _remote.again(lambda: fail(TypeError("ours")), "s3://bucket/logs")
    assert len(tried) == _remote.TRIES + 1
