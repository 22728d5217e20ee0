"""Records as Python objects, magicbyte and aiokafka's Cython taking turns in one process: best and median M records/s.

    python benches/python/records.py DIRECTORY [--files A B H] [--rounds 5] [--check]

DIRECTORY holds A.bin, B.bin, H.bin (or A-128.bin and so on, as `make bench` leaves them): v2 batches as Kafka's own builder
writes them. Both sides decode from memory and check each batch's CRC. Two loops, the same for both sides:

- "touched": each field is read into a variable, and nothing else is done; the goals are about these rows;
- "added up": a loop that also counts, adds offsets and timestamps and asks for the lengths, as a small job over records
  would. A third to half of magicbyte's time there is the interpreter's sums, so the two sides are closer together.

The sums are the check. Those of each reader, over the same file, must agree, or the comparison is void; and a loop that only
touches must end at the same last record and the same last header on both sides.
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

Field = int | str | bytes | None
Sums = tuple[Field, ...]
"""What a loop comes to: its sums, or the fields of the last record and the last header."""

GOALS = {("A", "all fields"): 1.5, ("B", "all fields"): 1.5, ("H", "all fields"): 1.5} | {
    ("A", "offset, value"): 3.0,
    ("H", "offset, value"): 1.8,
}
"""Times aiokafka's speed, by file and by what is touched."""


def aiokafka_touch_all(data: bytes) -> Sums:
    offset = timestamp = key = value = name = content = None
    batches = MemoryRecords(data)
    while batches.has_next():
        batch = batches.next_batch()
        if not batch.validate_crc():
            raise ValueError("crc")
        for record in batch:
            offset = record.offset
            timestamp = record.timestamp
            key = record.key
            value = record.value
            for name, content in record.headers:  # noqa: B007
                pass
    return offset, timestamp, key, value, name, content


def magicbyte_touch_all(data: bytes) -> Sums:
    offset = timestamp = key = value = name = content = None
    for record in mb.decode(data):
        offset = record.offset
        timestamp = record.timestamp
        key = record.key
        value = record.value
        for name, content in record.headers:  # noqa: B007
            pass
    return offset, timestamp, key, value, name, content


def magicbyte_touch_attributes(data: bytes) -> Sums:
    """The same, headers by their attributes."""
    offset = timestamp = key = value = name = content = None
    for record in mb.decode(data):
        offset = record.offset
        timestamp = record.timestamp
        key = record.key
        value = record.value
        for header in record.headers:
            name = header.key
            content = header.value
    return offset, timestamp, key, value, name, content


def aiokafka_touch_two(data: bytes) -> Sums:
    offset = value = None
    batches = MemoryRecords(data)
    while batches.has_next():
        batch = batches.next_batch()
        if not batch.validate_crc():
            raise ValueError("crc")
        for record in batch:
            offset = record.offset
            value = record.value
    return offset, value


def magicbyte_touch_two(data: bytes) -> Sums:
    offset = value = None
    for record in mb.decode(data):
        offset = record.offset
        value = record.value
    return offset, value


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
TOUCHED, ADDED = "touched", "added up"
CASES: dict[tuple[str, str], dict[str, Case]] = {
    ("all fields", TOUCHED): {
        "aiokafka": aiokafka_touch_all,
        "magicbyte pairs": magicbyte_touch_all,
        "magicbyte attributes": magicbyte_touch_attributes,
    },
    ("all fields", ADDED): {
        "aiokafka": aiokafka_all,
        "magicbyte pairs": magicbyte_all,
        "magicbyte attributes": magicbyte_attributes,
    },
    ("offset, value", TOUCHED): {"aiokafka": aiokafka_touch_two, "magicbyte": magicbyte_touch_two},
    ("offset, value", ADDED): {"aiokafka": aiokafka_two, "magicbyte": magicbyte_two},
}
"""The loops, by fields and by what is done with them. The goals are about what is touched."""


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


def agreed(name: str, cases: dict[str, Case], data: bytes) -> int:
    """How many records there are, by sums that all readers agree on. Not timed."""
    counted = {label: case(data) for label, case in cases.items()}
    expected = counted["aiokafka"]
    for label, sums in counted.items():
        if sums != expected:
            raise SystemExit(f"{name}, {label}: sums {sums}, not {expected}")
    count = expected[0]
    assert isinstance(count, int)
    return count


def measured(name: str, cases: dict[str, Case], data: bytes, rounds: int) -> dict[str, list[float]]:
    """The seconds of each loop, turn by turn. What they come to must be the same."""
    runs: dict[str, list[float]] = {label: [] for label in cases}
    expected: Sums | None = None
    for _ in range(rounds):
        for label, case in cases.items():
            took, came = seconds(case, data)
            expected = expected or came
            if came != expected:
                raise SystemExit(f"{name}, {label}: {came}, not {expected}")
            runs[label].append(took)
    return runs


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
        for (fields, what), cases in CASES.items():
            count = agreed(name, CASES[fields, ADDED], data) / 1e6
            runs = measured(name, cases, data, arguments.rounds)
            base, middle = min(runs["aiokafka"]), statistics.median(runs["aiokafka"])
            for label, times in runs.items():
                ratio = base / min(times)
                goal = GOALS.get((name, fields)) if what == TOUCHED and label != "aiokafka" else None
                beside = "" if goal is None else f"  goal {goal} {'reached' if ratio >= goal else 'missed'}"
                print(
                    f"{name}  {f'{fields}, {what}':23} {label:20} {count / min(times):6.2f} "
                    f"{count / statistics.median(times):6.2f}  {ratio:5.2f} x  {middle / statistics.median(times):5.2f} x"
                    f"{beside}",
                    flush=True,
                )
                low += goal is not None and ratio < goal
    return 1 if arguments.check and low else 0


if __name__ == "__main__":
    sys.exit(main())
