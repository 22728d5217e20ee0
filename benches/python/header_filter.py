"""What a condition on headers saves: one record in a thousand carries the trace that is looked for.

    python benches/python/header_filter.py [--records 1000000] [--spark]

Each way twice: everything read and chosen from afterwards, and chosen in the reader. ``clustered``: the records of a trace
follow each other, as they do where a consumer handled one order; ``spread``: every batch may have one, but few have.
Best of five, in ms, over a log of 16 KB batches with three headers a record and values of 200 bytes.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import magicbyte as mb

WANTED = b"4bf92f3577b34da6a3ce929d0e0e4736"


def log(directory: Path, count: int, codec: str, clustered: bool) -> Path:
    """A partition directory in which one record in a thousand has the trace."""
    other = b"00000000000000000000000000000000"
    with mb.Writer(directory, codec=codec) as writer:
        for first in range(0, count, 50_000):
            records = []
            for n in range(first, min(first + 50_000, count)):
                has = n % 50_000 < 50 if clustered else n % 1000 == 7
                trace = WANTED if has else other[:24] + b"%08x" % n
                value = (b"%012d" % n) * 17
                headers = [("trace-id", trace), ("tenant", b"acme"), ("retry", b"%d" % (n % 3))]
                records.append(mb.ProducerRecord("orders", value, b"%d" % n, timestamp=n, headers=headers))
            writer.write(records)
    return directory


def best(of: Callable[[], int], expected: int) -> float:
    """Milliseconds."""
    times = []
    for _ in range(5):
        begun = time.perf_counter()
        found = of()
        times.append(time.perf_counter() - begun)
        assert found == expected, (found, expected)
    return min(times) * 1000


def columns_after(directory: Path) -> int:
    """All columns, then Arrow's own functions."""
    found = 0
    for batch in mb.Log(directory).scan():
        headers = pa.record_batch(batch)["headers"]
        values = pc.struct_field(pc.list_flatten(headers), "value")
        rows = pc.list_parent_indices(headers).filter(pc.equal(values, pa.scalar(WANTED)))
        found += pa.record_batch(batch).take(rows).num_rows
    return found


def records_after(directory: Path) -> int:
    """Each record as an object."""
    return sum(any(h.key == "trace-id" and h.value == WANTED for h in r.headers) for r in mb.Log(directory).records())


def ways(directory: Path) -> dict[str, tuple[Callable[[], int], Callable[[], int]]]:
    """Name, what it is afterwards, what it is in the reader."""
    asked: dict[str, Any] = {"trace-id": WANTED}
    return {
        "columns": (
            lambda: columns_after(directory),
            lambda: mb.Log(directory).scan(headers=asked).to_arrow().num_rows,
        ),
        "records": (lambda: records_after(directory), lambda: sum(1 for _ in mb.Log(directory).records(headers=asked))),
    }


def in_spark(directory: Path) -> tuple[Callable[[], int], Callable[[], int]]:
    """The same as a data source, ``local[2]``; all columns cross to the JVM."""
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as f

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.driver.host", "127.0.0.1").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    reader = spark.read.format("magicbyte").option("maxPartitionBytes", "64m")
    has = f.expr(f"exists(headers, h -> h.key = 'trace-id' and h.value = cast('{WANTED.decode()}' as binary))")

    def after() -> int:
        return int(reader.load(str(directory)).where(has).count())

    def pushed() -> int:
        own = spark.read.format("magicbyte").option("maxPartitionBytes", "64m")
        return int(own.option("header.filter", f"trace-id={WANTED.decode()}").load(str(directory)).count())

    return after, pushed


def main() -> None:
    """Prints a table."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--records", type=int, default=1_000_000)
    arguments.add_argument("--spark", action="store_true")
    given = arguments.parse_args()
    print(f"{'log':<20} {'way':<8} {'afterwards':>11} {'in the reader':>14} {'times':>6}")
    with tempfile.TemporaryDirectory() as folder:
        for codec in ("none", "lz4", "zstd"):
            for clustered in (True, False):
                name = f"{codec} {'clustered' if clustered else 'spread'}"
                directory = log(Path(folder) / f"{name.replace(' ', '_')}-0", given.records, codec, clustered)
                own = ways(directory)
                if given.spark and codec != "zstd":
                    own["spark"] = in_spark(directory)
                for way, (after, pushed) in own.items():
                    expected = given.records // 1000
                    slow, fast = best(after, expected), best(pushed, expected)
                    print(f"{name:<20} {way:<8} {slow:11.1f} {fast:14.1f} {slow / fast:6.1f}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
