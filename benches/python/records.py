"""Records as Python objects, magicbyte and aiokafka's Cython taking turns in one process: best and median M records/s.

    python benches/python/records.py DIRECTORY [--files A B H] [--rounds 5] [--check]

DIRECTORY holds A.bin, B.bin, H.bin (or A-128.bin and so on, as `make bench` leaves them): v2 batches as Kafka's own builder
writes them. Both sides decode from memory and check each batch's CRC. Their sums must agree, or the comparison is void.
The last two columns are magicbyte's speed over aiokafka's, best and median; the goal stands beside them. `--check` fails
where the best is below the goal. Pin it to one core, with the machine quiet: `taskset -c 1 python benches/python/records.py ...`.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

from aiokafka.record.memory_records import MemoryRecords

import magicbyte as mb

Sums = tuple[int, ...]

GOALS = {("A", "all fields"): 1.5, ("B", "all fields"): 1.5, ("H", "all fields"): 1.5} | {
    ("A", "offset, value"): 3.0,
    ("H", "offset, value"): 1.8,
}
"""Times aiokafka's speed, by file and by what is touched.

Most of what is left on B and H is the interpreter's own: its loop, the sums, and the making and freeing of two ints and of
bytes objects. By instructions a record on H (CPython 3.11, all fields): aiokafka 3720, magicbyte 2630, the same loop over
ready objects with `__slots__` 1730; offset and value alone: 2320, 1680, 980."""


def aiokafka_all(data: bytes) -> Sums:
    count = keys = values = header_keys = header_values = offsets = timestamps = 0
    batches = MemoryRecords(data)
    while batches.has_next():
        batch = batches.next_batch()
        if not batch.validate_crc():
            raise ValueError("crc")
        for record in batch:
            count += 1
            offsets += record.offset
            timestamps += record.timestamp
            key = record.key
            if key is not None:
                keys += len(key)
            value = record.value
            if value is not None:
                values += len(value)
            for name, content in record.headers:
                header_keys += len(name)
                if content is not None:
                    header_values += len(content)
    return count, offsets, timestamps, keys, values, header_keys, header_values


def magicbyte_all(data: bytes) -> Sums:
    count = keys = values = header_keys = header_values = offsets = timestamps = 0
    for record in mb.decode(data):
        count += 1
        offsets += record.offset
        timestamps += record.timestamp
        key = record.key
        if key is not None:
            keys += len(key)
        value = record.value
        if value is not None:
            values += len(value)
        for name, content in record.headers:
            header_keys += len(name)
            if content is not None:
                header_values += len(content)
    return count, offsets, timestamps, keys, values, header_keys, header_values


def magicbyte_attributes(data: bytes) -> Sums:
    """The same, headers by their attributes."""
    count = keys = values = header_keys = header_values = offsets = timestamps = 0
    for record in mb.decode(data):
        count += 1
        offsets += record.offset
        timestamps += record.timestamp
        key = record.key
        if key is not None:
            keys += len(key)
        value = record.value
        if value is not None:
            values += len(value)
        for header in record.headers:
            header_keys += len(header.key)
            content = header.value
            if content is not None:
                header_values += len(content)
    return count, offsets, timestamps, keys, values, header_keys, header_values


def aiokafka_two(data: bytes) -> Sums:
    count = values = offsets = 0
    batches = MemoryRecords(data)
    while batches.has_next():
        batch = batches.next_batch()
        if not batch.validate_crc():
            raise ValueError("crc")
        for record in batch:
            count += 1
            offsets += record.offset
            value = record.value
            if value is not None:
                values += len(value)
    return count, offsets, values


def magicbyte_two(data: bytes) -> Sums:
    count = values = offsets = 0
    for record in mb.decode(data):
        count += 1
        offsets += record.offset
        value = record.value
        if value is not None:
            values += len(value)
    return count, offsets, values


Case = Callable[[bytes], Sums]
CASES: dict[str, tuple[Case, list[tuple[str, Case]]]] = {
    "all fields": (aiokafka_all, [("pairs", magicbyte_all), ("attributes", magicbyte_attributes)]),
    "offset, value": (aiokafka_two, [("", magicbyte_two)]),
}


def seconds(case: Case, data: bytes) -> tuple[float, Sums]:
    gc.collect()
    start = time.thread_time()
    sums = case(data)
    return time.thread_time() - start, sums


def found(directory: Path, name: str) -> Path:
    """The file of that name, or the largest of those that `make bench` made."""
    made = sorted(directory.glob(f"{name}-*.bin"), key=lambda path: path.stat().st_size)
    plain = directory / f"{name}.bin"
    if plain.exists() or not made:
        return plain
    return made[-1]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--files", nargs="+", default=["A", "B", "H"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    if "_crecords" not in MemoryRecords.__module__:
        raise SystemExit("aiokafka's Cython extension is not there")
    low = 0
    for name in arguments.files:
        data = found(arguments.directory, name).read_bytes()
        for touched, (peer, ours) in CASES.items():
            runs: dict[str, list[float]] = {"aiokafka": []} | {f"magicbyte {how}".strip(): [] for how, _ in ours}
            cases = dict(zip(runs, [peer, *(case for _, case in ours)], strict=True))
            expected: Sums | None = None
            for _ in range(arguments.rounds):
                for label, case in cases.items():
                    took, sums = seconds(case, data)
                    expected = expected or sums
                    if sums != expected:
                        raise SystemExit(f"{name}, {label}: sums {sums}, not {expected}")
                    runs[label].append(took)
            count = (expected or (0,))[0] / 1e6
            base, middle = min(runs["aiokafka"]), statistics.median(runs["aiokafka"])
            for label, times in runs.items():
                ratio = base / min(times)
                line = (
                    f"{name}  {touched:14} {label:22} {count / min(times):6.2f} {count / statistics.median(times):6.2f}"
                )
                goal = GOALS.get((name, touched)) if label != "aiokafka" else None
                beside = "" if goal is None else f"  goal {goal} {'reached' if ratio >= goal else 'missed'}"
                print(f"{line}  {ratio:5.2f} x  {middle / statistics.median(times):5.2f} x{beside}", flush=True)
                low += goal is not None and ratio < goal
    return 1 if arguments.check and low else 0


if __name__ == "__main__":
    sys.exit(main())
