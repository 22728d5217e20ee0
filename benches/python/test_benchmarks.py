"""Python's ways by pytest-benchmark, on 8 MiB of file A: ``make bench`` runs it and writes ``bench-pytest.json``.

The history of one machine: ``pytest benches/python/test_benchmarks.py -o addopts= --benchmark-autosave --benchmark-compare``.
Figures that are held against others take turns with them instead (``records.py``, ``arrow.py``).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import magicbyte as mb
from magicbyte._core import Part, Reader

TARGET = Path(os.environ.get("CARGO_TARGET_DIR", Path(__file__).resolve().parents[2] / "target"))
FILE = TARGET / "bench-data" / f"A-{os.environ.get('MAGICBYTE_BENCH_MB', '128')}.bin"
SIZE = 8 << 20


def touched(records: Any) -> int:
    """Reads each field of each record; returns the bytes of keys, values and headers."""
    count = 0
    for record in records:
        _ = record.offset, record.timestamp
        count += len(record.key) + len(record.value)
        for key, value in record.headers:
            count += len(key) + len(value)
    return count


@pytest.fixture(scope="module")
def data() -> bytes:
    """Whole batches."""
    with FILE.open("rb") as file:
        found = file.read(SIZE)
    end = 0
    while end + 12 <= len(found) and end + 12 + int.from_bytes(found[end + 8 : end + 12], "big") <= len(found):
        end += 12 + int.from_bytes(found[end + 8 : end + 12], "big")
    return found[:end]


WAYS: dict[str, Callable[[bytes], int]] = {
    "scan": lambda data: sum(batch.num_rows for batch in Reader([Part(data)]).scan(batch_bytes=512 << 10)),
    "decode_arrow": lambda data: int(mb.decode_arrow(data).num_rows),
    "decode_arrow, views": lambda data: int(mb.decode_arrow(data, views=True).num_rows),
    "count": lambda data: Reader([Part(data)]).scan(["offset"]).count(),
    "decode": lambda data: sum(1 for _ in mb.decode(data)),
    "decode, all fields": lambda data: touched(mb.decode(data)),
    "decode_batches": lambda data: sum(1 for _ in mb.decode_batches(data)),
    "verify": lambda data: mb.verify(data).records,
}


@pytest.mark.parametrize("way", WAYS)
def test_read(benchmark: Any, data: bytes, way: str) -> None:
    """MB/s are the file's size, in ``extra_info``, over the time."""
    benchmark.extra_info["bytes"] = len(data)
    assert benchmark(WAYS[way], data) > 0


def test_encode(benchmark: Any, data: bytes) -> None:
    """A thousand records with their headers, as a producer has them, to one batch."""
    records = [record.to_producer_record() for record, _ in zip(mb.decode(data), range(1000), strict=False)]
    assert len(benchmark(mb.encode, records)) > 100_000
