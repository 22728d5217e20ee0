"""A Python client as a peer: ``peer_bench.py aiokafka | kafka-python``; ../src/child.rs has the protocol."""

from __future__ import annotations

import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

MODULES = {"aiokafka": "aiokafka.record.memory_records", "kafka-python": "kafka.record.memory_records"}


def load(path: str, mebibytes: int) -> bytes:
    """Whole batches of a file, up to the first that reaches the limit."""
    file = Path(path).read_bytes()
    end = 0
    while end < min(len(file), mebibytes << 20):
        end += 12 + int.from_bytes(file[end + 8 : end + 12], "big")
    return file[:end]


def one_pass(reader: Any, file: bytes) -> tuple[int, ...]:
    """Touches every field of every record."""
    records = keys = values = header_keys = header_values = offsets = timestamps = 0
    start = time.perf_counter_ns()
    batches = reader(file)
    while batches.has_next():
        batch = batches.next_batch()
        if not batch.validate_crc():
            raise SystemExit("wrong checksum")
        for record in batch:
            records += 1
            offsets += record.offset
            timestamps += record.timestamp
            if record.key is not None:
                keys += len(record.key)
            if record.value is not None:
                values += len(record.value)
            for key, value in record.headers:
                header_keys += len(key)
                header_values += 0 if value is None else len(value)
    took = time.perf_counter_ns() - start
    # The sum wraps at 64 bits in the other languages.
    wrapped = (timestamps + 2**63) % 2**64 - 2**63
    return took, records, keys, values, header_keys, header_values, offsets, wrapped


ROOM = 128

# One record as aiokafka's builder takes it, and a batch of them with its size.
Row = tuple[int, int, "bytes | None", "bytes | None", list[tuple[str, "bytes | None"]]]
Batch = tuple[int, list[Row]]


def rows(reader: Any, file: bytes) -> list[Batch]:
    """All records as a producer has them, whose offsets count from 0 in every batch."""
    batches = reader(file)
    made: list[Batch] = []
    at = 0
    while batches.has_next():
        records = batches.next_batch()
        size = 12 + int.from_bytes(file[at + 8 : at + 12], "big")
        at += size
        batch = [(offset, r.timestamp, r.key, r.value, list(r.headers)) for offset, r in enumerate(records)]
        made.append((size, batch))
    return made


def encode(batches: list[Batch]) -> tuple[int, list[bytes]]:
    """Nanoseconds, and every batch."""
    builder_of = import_module("aiokafka.record.default_records").DefaultRecordBatchBuilder
    out = []
    start = time.perf_counter_ns()
    for size, batch in batches:
        # It asks for a little more room than a record takes.
        builder = builder_of(2, 0, 0, -1, -1, -1, size + ROOM)
        append = builder.append
        for offset, timestamp, key, value, headers in batch:
            append(offset, timestamp, key, value, headers)
        out.append(builder.build())
    return time.perf_counter_ns() - start, out


def main() -> None:
    """Answers line by line until the input ends."""
    reader = import_module(MODULES[sys.argv[1]]).MemoryRecords
    if sys.argv[1] == "aiokafka" and "_crecords" not in reader.__module__:
        raise SystemExit("aiokafka runs without its compiled reader")
    file = b""
    batches: list[Batch] = []
    for line in sys.stdin:
        words = line.split()
        if words[0] == "load":
            file = load(words[1], int(words[2]))
            batches = []
            print("ok", len(file), flush=True)
        elif words[0] in ("encode", "write"):
            batches = batches or rows(reader, file)
            took, out = encode(batches)
            if words[0] == "write":
                print("ok", Path(words[1]).write_bytes(b"".join(out)), flush=True)
            else:
                print(took, sum(map(len, out)), flush=True)
        else:
            print(*one_pass(reader, file), flush=True)


if __name__ == "__main__":
    main()
