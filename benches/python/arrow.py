"""Arrow in Python: bytes to pyarrow on file A, two logs on two threads, memory of a count. Writes ``bench-python.json``.

    python benches/python/arrow.py [--rounds 9]

The files are those of ``cargo bench --bench table`` in the target directory, which makes them.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import magicbyte as mb
from magicbyte._core import Part, Reader

REPO = Path(__file__).resolve().parents[2]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", REPO / "target"))
DATA = TARGET / "bench-data"
MB = 1_000_000


def file(name: str) -> bytes:
    """One of the files A to H."""
    return (DATA / f"{name}-{os.environ.get('MAGICBYTE_BENCH_MB', '128')}.bin").read_bytes()


def measure(size: int, rounds: int, work: Callable[[], object]) -> dict[str, object]:
    """Best and median MB/s of passes."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    speed = [size / MB / seconds for seconds in times]
    return {"best": round(max(speed), 1), "median": round(statistics.median(speed), 1), "unit": "MB/s"}


def batches(data: bytes) -> int:
    """Batch after batch, each let go before the next: the way of ``Log.scan``, from bytes."""
    scan = Reader([Part(data)]).scan(batch_bytes=512 << 10)
    return sum(batch.num_rows for batch in scan)


def whole(data: bytes) -> int:
    """One table of all."""
    return int(mb.decode_arrow(data).num_rows)


def aiokafka(data: bytes) -> int:
    """Every record by aiokafka's compiled reader."""
    from aiokafka.record.memory_records import MemoryRecords

    records = 0
    memory = MemoryRecords(data)
    while memory.has_next():
        batch = memory.next_batch()
        if not batch.validate_crc():
            raise ValueError("crc")
        for record in batch:
            records += 1
            _ = record.offset, record.timestamp, record.key, record.value, record.headers
    return records


def together(logs: list[bytes]) -> None:
    """A thread a log, each on its own core: the scheduler would have them share one for a while."""

    def run(log: bytes, core: int) -> None:
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(threading.get_native_id(), {core})
        batches(log)

    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [0, 1]
    threads = [threading.Thread(target=run, args=pair) for pair in zip(logs, cores, strict=False)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def two_threads(data: bytes, rounds: int) -> dict[str, object]:
    """How many times the work of one thread two do in the same time. The two logs are two copies."""
    logs = [data, bytes(bytearray(data))]
    one, two = [], []
    # In turns, so that a noisy neighbour hits both.
    for _ in range(rounds):
        for logs_now, times in ((logs[:1], one), (logs, two)):
            start = time.perf_counter()
            together(logs_now)
            times.append(time.perf_counter() - start)
    times_one = round(2 * min(one) / min(two), 2)
    return {"best": times_one, "median": round(2 * statistics.median(one) / statistics.median(two), 2), "unit": "times"}


ALONE = """
import time, zlib
data = bytes(32768)
start = time.perf_counter()
for _ in range(20000):
    zlib.crc32(data)
print(time.perf_counter() - start)
"""


def two_processes(rounds: int) -> dict[str, object]:
    """The same of two processes that stay in their own caches: what the machine's second core is worth."""

    def run(count: int) -> float:
        running = [subprocess.Popen([sys.executable, "-c", ALONE], stdout=subprocess.PIPE) for _ in range(count)]
        return max(float(process.communicate()[0]) for process in running)

    ones, twos = zip(*((run(1), run(2)) for _ in range(rounds)), strict=True)
    median = 2 * statistics.median(ones) / statistics.median(twos)
    return {"best": round(2 * min(ones) / min(twos), 2), "median": round(median, 2), "unit": "times"}


COUNT = """
import re, sys
import magicbyte as mb
from magicbyte._core import Part, Reader
def peak():
    # What getrusage says includes the process that started this one.
    return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read()).group(1))
before = peak()
Reader([Part(sys.argv[1])]).scan(["offset"]).count()
print((peak() - before) / 1000)
"""


def memory() -> dict[str, object]:
    """Peak MB, as Linux counts them, that a count of a 1 GB segment takes above the interpreter and its imports."""
    path = DATA / "1GB.log"
    if not path.exists():
        part = file("A")
        with path.open("wb") as out:
            for _ in range(-(-(10**9) // len(part))):
                out.write(part)
    out_text = subprocess.run([sys.executable, "-c", COUNT, path], check=True, capture_output=True, text=True).stdout
    path.unlink()
    return {"best": round(float(out_text), 1), "median": round(float(out_text), 1), "unit": "MB"}


def main() -> None:
    """Measures and writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    data = file("A")
    part = data[: 8 << 20]
    figures = {"A": {}}
    figures["A"]["decode_arrow, pyarrow batches"] = measure(len(data), rounds, lambda: batches(data))
    figures["A"]["decode_arrow, one pyarrow table"] = measure(len(data), rounds, lambda: whole(data))
    figures["A"]["aiokafka iterating"] = measure(len(part), 3, lambda: aiokafka(part))
    if (os.cpu_count() or 1) > 1:
        figures["A"]["two threads against one"] = two_threads(data, rounds)
        figures["A"]["two processes that share nothing"] = two_processes(5)
    if Path("/proc/self/status").exists():
        figures["A"]["memory of a count of 1 GB"] = memory()
    for name, figure in figures["A"].items():
        print(f"{name:36} {figure['best']} {figure['unit']} ({figure['median']})")
    (TARGET / "bench-python.json").write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
