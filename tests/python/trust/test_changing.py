"""Files that grow, shrink, vanish or change while they are read: a clear error or a clean end, and never a crash."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import magicbyte as mb

FIRST = "00000000000000000000.log"
COUNT = 40_000


@pytest.fixture
def segment(tmp_path: Path) -> Path:
    """Some megabytes, more than is read at once."""
    path = tmp_path / "orders-0" / FIRST
    path.parent.mkdir()
    records = [mb.ProducerRecord("", b"%06d" % at * 20, b"k") for at in range(COUNT)]
    path.write_bytes(b"".join(mb.encode_batches(records)))
    return path


def records(path: Path) -> Iterator[int]:
    return (record.offset for record in mb.Log(path).records())


def rows(path: Path) -> Iterator[int]:
    for batch in mb.Log(path).scan(["offset"], batch_rows=500):
        yield from batch.column(0).to_pylist()


READERS: dict[str, Callable[[Path], Iterator[int]]] = {"records": records, "columns": rows}


@pytest.mark.parametrize("reader", READERS)
def test_deleted_while_read(segment: Path, reader: str) -> None:
    """What is open stays readable, as on any Unix."""
    read = READERS[reader](segment)
    first = next(read)
    segment.unlink()
    assert [first, *read] == list(range(COUNT))


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("to", [0, 100_000, 1_500_001])
def test_truncated_while_read(segment: Path, reader: str, to: int) -> None:
    """A clean end where the file now ends (a torn tail is one), at most behind what was read before."""
    read = READERS[reader](segment)
    first = next(read)
    os.truncate(segment, to)
    got = [first, *read]
    assert got == list(range(len(got)))
    assert len(got) < COUNT


@pytest.mark.parametrize("reader", READERS)
def test_grows_while_read(segment: Path, reader: str) -> None:
    whole = segment.read_bytes()
    cut = len(whole) // 2
    segment.write_bytes(whole[:cut])
    read = READERS[reader](segment)
    first = next(read)
    with segment.open("ab") as file:
        file.write(whole[cut:])
    got = [first, *read]
    assert got == list(range(len(got)))
    assert len(got) > COUNT // 3


def test_vanished_before_it_is_read(segment: Path) -> None:
    log = mb.Log(segment.parent)
    segment.unlink()
    for read in (lambda: list(log.records()), log.verify, lambda: log.scan().count(), lambda: mb.digest(log)):
        with pytest.raises(FileNotFoundError, match=FIRST) as caught:
            read()
        assert caught.value.filename == str(segment)


def test_overwritten_while_read(segment: Path) -> None:
    """Other bytes in the midst are damage: an error with its place."""
    read = records(segment)
    next(read)
    with segment.open("r+b") as file:
        file.seek(2_000_000)
        file.write(os.urandom(100_000))
    with pytest.raises(mb.CorruptRecordError) as caught:
        list(read)
    assert caught.value.path == str(segment)
    assert 1_900_000 < caught.value.position < 2_100_000


def test_a_reader_beside_a_writer_sees_beginnings(segment: Path) -> None:
    """Appending goes on while it is read, again and again: each read is a beginning of the whole, batch by batch."""
    whole = segment.read_bytes()
    segment.write_bytes(whole[:1])
    done = threading.Event()

    def write() -> None:
        with segment.open("ab", buffering=0) as file:
            for at in range(1, len(whole), 50_021):
                file.write(whole[at : at + 50_021])
        done.set()

    thread = threading.Thread(target=write)
    thread.start()
    seen = [0]
    while not done.is_set():
        got = list(records(segment))
        assert got == list(range(len(got)))
        seen.append(len(got))
    thread.join()
    assert seen == sorted(seen)
    assert list(records(segment)) == list(range(COUNT))


MAPPED = """
import os, sys, magicbyte as mb
from pathlib import Path
path = Path(sys.argv[1])
read = mb.Log(path, mmap={mmap}).records()
next(read)
os.{call}
try:
    print(sum(1 for _ in read))
except (mb.MagicbyteError, OSError) as error:
    print(type(error).__name__)
"""


@pytest.mark.parametrize(
    ("mmap", "call", "ends"),
    [
        (False, "truncate(path, 0)", "well"),
        (True, "unlink(path)", "well"),
        # Whoever maps gives his word that the file stays (DESIGN.md): if he breaks it, the system ends the process.
        (True, "truncate(path, 0)", "SIGBUS"),
    ],
)
def test_mapped(segment: Path, mmap: bool, call: str, ends: str) -> None:
    script = MAPPED.format(mmap=mmap, call=call)
    done: Any = subprocess.run(
        [sys.executable, "-c", script, str(segment)], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == (0 if ends == "well" else -signal.SIGBUS), done.stderr
