"""How time grows in Spark, ``local[2]``, all columns, no sink: over segments, over partitions; and what planning costs.

    python benches/python/spark_growth.py [--mb 64] [--segments 10000] [--rounds 3]

``segments``: 1, 4, 16 segments of ``--mb`` each in one partition. ``partitions``: the same four times ``--mb`` in 1, 10, 100,
1,000 partitions. ``plan``: what the driver does before the first task, for ``--segments`` segments in partitions of ten: by
names and sizes alone; with each segment cut by its index; and under read_committed, where the headers of all batches are
walked. Best of ``--rounds``, files in the page cache. Writes ``bench-spark-growth.json`` into the target directory.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import magicbyte as mb
from spark import TARGET, session

VALUE = 200
TENANTS = [b"acme", b"globex", b"initech", b"umbrella"]


def partition(directory: Path, size: int, segment: int) -> int:
    """A partition of about ``size`` bytes: keys, values of 200 bytes, two headers; returns its records."""
    count = size // 248  # bytes a record, as it comes out
    value = bytes(range(VALUE))
    with mb.Writer(directory, segment_bytes=segment) as writer:
        for first in range(0, count, 50_000):
            writer.write(
                mb.ProducerRecord(
                    "orders", value, b"%012d" % n, timestamp=n, headers=[("tenant", TENANTS[n % 4]), ("n", b"%08d" % n)]
                )
                for n in range(first, min(first + 50_000, count))
            )
    return count


def linked(source: Path, target: Path, segments: int | None = None) -> None:
    """The same files under another name, or the first segments of them."""
    target.mkdir(parents=True)
    bases = sorted(path.stem for path in source.glob("*.log"))[:segments]
    for path in source.iterdir():
        if path.stem in bases:
            os.link(path, target / path.name)


def best(work: Callable[[], Any], rounds: int) -> float:
    """Seconds; a first round warms up."""
    times = []
    for turn in range(rounds + 1):
        begun = time.perf_counter()
        work()
        if turn:
            times.append(time.perf_counter() - begun)
    return min(times)


def read(spark: Any, logs: Path, rounds: int) -> dict[str, Any]:
    """Seconds until every row went through Spark."""
    log = mb.Log(logs)
    rows = log.scan(["offset"]).count()
    frame = lambda: spark.read.format("magicbyte").load(str(logs))  # noqa: E731
    seconds = best(lambda: frame().write.format("noop").mode("overwrite").save(), rounds)
    return {
        "segments": len(log.segments), "partitions": len(log.partitions), "bytes": log.size, "rows": rows,
        "tasks": frame().rdd.getNumPartitions(), "seconds": round(seconds, 3),
        "ns a row": round(seconds * 1e9 / rows), "MB/s": round(log.size / 1e6 / seconds),
    }  # fmt: skip


def show(name: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A table."""
    print(f"\n{name}\n" + "".join(f"{column:>12}" for column in rows[0]))
    for row in rows:
        print("".join(f"{value:>12,}" if isinstance(value, int) else f"{value:>12}" for value in row.values()))
    return rows


def plans(folder: Path, segments: int, rounds: int) -> list[dict[str, Any]]:
    """What the driver does before the first task, pickling for the executors included."""
    from magicbyte.spark import DataSource

    model = folder / "model-0"
    with mb.Writer(model, segment_bytes=16 << 10, batch_size=2000, index_interval=4096) as writer:
        writer.write(mb.ProducerRecord("orders", bytes(range(VALUE)), timestamp=n) for n in range(680))
    assert len(list(model.glob("*.log"))) == 10, len(list(model.glob("*.log")))
    logs = folder / "many"
    for number in range(segments // 10):
        shutil.copytree(model, logs / f"orders-{number}")
    found = []
    for name, options in (
        ("names", {}),
        ("indexes", {"maxPartitionBytes": "6k"}),
        ("read_committed", {"isolation": "read_committed"}),
    ):
        source = DataSource({"path": str(logs), **options})
        schema = source.schema()
        planned = lambda: source.reader(schema=schema).partitions()  # noqa: B023, E731
        seconds = best(lambda: [pickle.dumps(it) for it in planned()], rounds)  # noqa: B023
        tasks = planned()
        pieces = sum(len(it.pieces) for it in tasks)  # type: ignore[attr-defined]
        found.append(
            {"plan": name, "segments": segments, "pieces": pieces, "tasks": len(tasks), "s": round(seconds, 2)}
        )
    return found


def main() -> None:
    """Measures, prints, writes."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--mb", type=int, default=64)
    arguments.add_argument("--segments", type=int, default=10_000)
    arguments.add_argument("--rounds", type=int, default=3)
    given = arguments.parse_args()
    size = given.mb << 20
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        figures["plan"] = show("driver", plans(folder, given.segments, given.rounds))
        shutil.rmtree(folder / "many")
        spark = session()
        # The last segment is never filled to the brim.
        partition(folder / "large" / "orders-0", 16 * size + size // 2, size)
        rows = []
        for count in (1, 4, 16):
            linked(folder / "large" / "orders-0", folder / f"s{count}" / "orders-0", count)
            rows.append(read(spark, folder / f"s{count}", given.rounds))
        figures["segments"] = show("segments", rows)
        shutil.rmtree(folder / "large")
        rows = []
        for count in (1, 10, 100, 1000):
            partition(folder / "one" / "orders-0", 4 * size // count, 1 << 30)
            for number in range(count):
                linked(folder / "one" / "orders-0", folder / f"p{count}" / f"orders-{number}")
            shutil.rmtree(folder / "one")
            rows.append(read(spark, folder / f"p{count}", given.rounds))
        figures["partitions"] = show("partitions", rows)
        spark.stop()
    TARGET.mkdir(parents=True, exist_ok=True)
    (TARGET / "bench-spark-growth.json").write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
