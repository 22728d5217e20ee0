"""All public objects from many threads at once, and in forked processes: the same answers, no crash, no deadlock."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import sysconfig
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import magicbyte as mb

from places import REPOSITORY

FIRST = "00000000000000000000.log"
THREADS = 8
COUNT = 20_000
TIME = 600  # seconds until it counts as a deadlock


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("threads") / "orders-0"
    records = [
        mb.ProducerRecord("", b"%d" % at, b"k%d" % (at % 7), [("h", b"%d" % at), ("n", None)]) for at in range(COUNT)
    ]
    with mb.Writer(directory, codec="lz4", segment_bytes=60_000) as writer:
        writer.write(records)
    assert len(writer.segments) > 2
    return directory


def at_once(work: Callable[[int], Any]) -> list[Any]:
    """The results of `work` in threads that begin together."""
    barrier = threading.Barrier(THREADS)

    def run(number: int) -> Any:
        barrier.wait(TIME)
        return work(number)

    with ThreadPoolExecutor(THREADS) as pool:
        futures = [pool.submit(run, number) for number in range(THREADS)]
        return [future.result(TIME) for future in futures]


def test_one_log_many_readers(path: Path) -> None:
    log = mb.Log(path)
    work = [
        lambda: [record.offset for record in log.records()],
        lambda: [offset for batch in log.scan(["offset"]) for offset in batch.column(0).to_pylist()],
        lambda: [record.offset for batch in log.batches() for record in batch.records],
        lambda: log.verify().records,
    ]
    expected: list[Any] = [list(range(COUNT))] * 3 + [COUNT]
    for number, got in enumerate(at_once(lambda number: work[number % 4]())):
        assert got == expected[number % 4]


@pytest.mark.parametrize("what", ["records", "batches"])
def test_one_iterator_many_threads(path: Path, what: str) -> None:
    """Each item goes to one thread; none is lost, none comes twice."""
    iterator = getattr(mb.Log(path), what)()

    def take(_: int) -> list[int]:
        return [item.offset if what == "records" else item.base_offset for item in iterator]

    got = [offset for some in at_once(take) for offset in some]
    expected = [
        getattr(item, "offset", None) or getattr(item, "base_offset", 0) for item in getattr(mb.Log(path), what)()
    ]
    assert sorted(got) == expected


def test_one_reader_and_scan_many_threads(path: Path) -> None:
    reader = mb.Log(path).reader()
    scan = reader.scan(["offset", "value"])
    assert at_once(lambda _: scan.count()) == [COUNT] * THREADS
    sums = at_once(lambda _: sum(sum(batch.column(0).to_pylist()) for batch in scan))
    assert set(sums) == {COUNT * (COUNT - 1) // 2}
    assert reader.findings == []


def test_one_batch_and_its_records_many_threads(path: Path) -> None:
    batch = next(mb.Log(path).batches())
    records = batch.records

    def look(_: int) -> tuple[Any, ...]:
        return (
            batch.crc_ok,
            tuple(r.value for r in batch.records),
            tuple(r.headers.to_list()[0] for r in records),
            repr(records[3]),
            hash(records[0].headers.last_header("h").value),
        )

    assert len(set(at_once(look))) == 1


def test_one_headers_changed_by_many(path: Path) -> None:
    headers = mb.Headers([("h", b"0")])

    def change(number: int) -> None:
        for at in range(300):
            headers.add(f"k{number}", b"%d" % at)
            headers.add("gone", b"")
            headers.remove("gone")
            assert headers.last_header("h") == mb.Header("h", b"0")
            assert len(headers) == len(list(headers)) or True  # both are whole, at their own moments

    at_once(change)
    headers.remove("gone")
    counts = Counter(headers.keys())
    assert counts["h"] == 1 and len(headers) == 1 + 300 * THREADS
    for number in range(THREADS):
        assert headers.get(f"k{number}") == [b"%d" % at for at in range(300)]


def test_one_transactions_object_many_threads(path: Path) -> None:
    log = mb.Log(path)
    known = log.transactions("orders", 0)
    assert set(at_once(lambda _: (known.last_stable_offset, known.left_behind))) == {(None, 0)}


def test_limits_are_shared(path: Path) -> None:
    limits = mb.Limits(batch=10)

    def read(_: int) -> str:
        with pytest.raises(mb.CorruptRecordError) as caught:
            list(mb.Log(path, limits=limits).records())
        return caught.value.kind

    assert set(at_once(read)) == {"limit"}


def test_encoding_and_converting_many_threads(path: Path) -> None:
    data = next(iter(sorted(path.glob("*.log")))).read_bytes()
    records = list(mb.decode(data))
    assert len(set(at_once(lambda _: mb.encode(records, codec="zstd")))) == 1
    assert len(set(at_once(lambda _: mb.convert(data, "v1", codec="none").data))) == 1


def _child(path: str, started: Any, log: Any) -> None:
    found = [record.offset for record in (log or mb.Log(path)).records()]
    rows = mb.Log(path).scan(["offset"]).count()
    os._exit(0 if found == list(range(COUNT)) and rows == COUNT and mb.Log(path).verify().ok else 1)


@pytest.mark.skipif(sys.platform == "win32", reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_forked_after_use(path: Path) -> None:
    """As Spark's daemon does: everything was used before, by this thread and by others, one of which is at work."""
    log = mb.Log(path)
    half = log.records()
    for _ in range(1000):
        next(half)
    at_once(lambda _: log.scan().count())
    # (All modules are there: a fork in the midst of another thread's import is lost in Python itself.)
    assert log.verify().ok
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            log.verify()

    thread = threading.Thread(target=work)
    thread.start()
    context = multiprocessing.get_context("fork")
    children = [context.Process(target=_child, args=(str(path), None, log)) for _ in range(6)]
    try:
        for child in children:
            child.start()
        for child in children:
            child.join(TIME)
            assert child.exitcode == 0
    finally:
        stop.set()
        thread.join()
        for child in children:
            if child.is_alive():
                os.kill(child.pid or 0, signal.SIGKILL)
    assert [record.offset for record in half] == list(range(1000, COUNT))


IMPORTED = """
import sys, warnings
warnings.simplefilter("error", RuntimeWarning)  # an extension that needs the GIL brings it back, and this says so
import magicbyte as mb, magicbyte._core
assert not sys._is_gil_enabled()
assert [record.value for record in mb.decode(mb.encode([mb.ProducerRecord("", b"v")]))] == [b"v"]
assert not sys._is_gil_enabled()
"""


def test_the_extension_needs_no_gil() -> None:
    """A free-threaded interpreter stays one; elsewhere, that the module is declared so: only such an interpreter looks at it."""
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        environment = {name: value for name, value in os.environ.items() if name != "PYTHON_GIL"}
        done = subprocess.run([sys.executable, "-c", IMPORTED], env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    declared = (REPOSITORY / "rust" / "python" / "src" / "lib.rs").read_text()
    assert "#[pyo3::pymodule(gil_used = false)]\nmod _core {" in declared
