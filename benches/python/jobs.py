"""The jobs beside what users have today, on two cores. Writes ``bench-jobs.json``.

    python benches/python/jobs.py [--mb 2048] [--rounds 2] [--only land|clean]

- ``land``: the same log into Parquet by topic and date: ``magicbyte.spark.land`` from the files, and Spark's own Kafka source
  from a broker that was given the same files, both on ``local[2]``.
- ``clean``: one partition of updates over again and again: ``magicbyte.clean``, and the rate that a broker's cleaner logs.

Ways that cannot be measured on a machine (no broker's jars, no Maven Central) are left out with a word.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
from spark import DATA, REPO, TARGET, session, source_jars

sys.path.insert(0, str(REPO / "tests" / "python" / "kafka"))
PARTITIONS = 4
SEGMENT = 128 << 20
KEYS = 300_000


def repeated(folder: Path, topic: str, size: int, partitions: int = PARTITIONS) -> int:
    """File A again and again as partitions of a topic, a segment a time; returns the records."""
    source = (DATA / f"A-{SEGMENT >> 20}.bin").read_bytes()
    heads = []
    at = 0
    while at < len(source):
        base, length = struct.unpack_from(">qi", source, at)
        heads.append((at, base))
        at += 12 + length
    count = struct.unpack_from(">i", source, heads[-1][0] + 57)[0] + heads[-1][1]
    times = max(size // partitions // len(source), 1)
    for number in range(partitions):
        directory = folder / f"{topic}-{number}"
        directory.mkdir(parents=True)
        for copy in range(times):
            # The checksum does not cover a batch's base offset.
            data = bytearray(source)
            for at, base in heads:
                struct.pack_into(">q", data, at, base + copy * count)
            (directory / f"{copy * count:020}.log").write_bytes(data)
    return partitions * times * count


def updates(directory: Path, size: int) -> None:
    """One partition of records like those of file A, each key of ``KEYS`` coming again and again, at random."""
    import numpy as np
    import pyarrow as pa

    import magicbyte as mb

    table = mb.Log(str(DATA / f"A-{SEGMENT >> 20}.bin")).scan(["key", "value", "timestamp", "headers"]).to_arrow()
    random = np.random.default_rng(7)
    with mb.Writer(directory, segment_bytes=SEGMENT) as writer:
        while writer.bytes < size:
            keys = table["key"].take(pa.array(random.integers(0, KEYS, table.num_rows)))
            for piece in mb.encode_arrow(table.set_column(0, "key", keys), base_offset=writer.next_offset):
                writer.append(piece)
        # The active segment is not cleaned.
        writer.write([mb.ProducerRecord("bench", b"value", b"key")])


def timed(work: Callable[[], Any], rounds: int, before: Callable[[], Any] = lambda: None) -> dict[str, Any]:
    """Seconds, best and median."""
    seconds = []
    for _ in range(rounds):
        before()
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return {"best": round(min(seconds), 2), "median": round(statistics.median(seconds), 2), "unit": "s"}


def size_of(folder: Path) -> int:
    """Bytes of all ``.log`` files."""
    return sum(path.stat().st_size for path in folder.rglob("*.log"))


def land(folder: Path, size: int, rounds: int) -> dict[str, Any]:
    """magicbyte's job; then Spark's Kafka source in a process of its own, since a JVM that runs takes no more jars."""
    from magicbyte.spark.land import land as land_here

    logs, out = folder / "logs", folder / "lake"
    rows = repeated(logs, "bench", size)
    found = {"bytes": size_of(logs), "records": rows}
    spark = session()
    spark.range(1000).selectExpr("sum(id)").collect()
    found["magicbyte"] = timed(
        lambda: land_here(spark, logs, out), rounds, lambda: shutil.rmtree(out, ignore_errors=True)
    )
    found["magicbyte rows"] = spark.read.parquet(str(out)).count()
    spark.stop()
    print(f"land, magicbyte: {found['magicbyte']}", flush=True)
    command = [sys.executable, __file__, "--kafka", str(folder), "--rounds", str(rounds)]
    subprocess.run(command, check=False)
    if (folder / "kafka.json").exists():
        found["Spark's Kafka source"] = json.loads((folder / "kafka.json").read_text())
    print(f"land: {found}", flush=True)
    return found


def land_from_a_broker(folder: Path, rounds: int) -> None:
    """The same through Spark's Kafka source."""
    from broker import Broker
    from jars import COPY_GOAL

    spark = session({"spark.jars": source_jars(COPY_GOAL.replace("copy-dependencies", "copy")),
                     "spark.sql.session.timeZone": "UTC"})  # fmt: skip
    out = folder / "lake-kafka"
    with Broker(folder / "broker", heap="700m") as broker:
        broker.create_topic("bench", PARTITIONS)
        broker.stop()
        for number in range(PARTITIONS):
            broker.put("bench", number, (folder / "logs" / f"bench-{number}").glob("*.log"))
        broker.start(timeout=300)
        reader = spark.read.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap)
        reader = reader.option("subscribe", "bench").option("includeHeaders", "true")

        def work() -> None:
            frame = reader.load().selectExpr("*", "to_date(timestamp) as date")
            frame.write.partitionBy("topic", "date").option("compression", "zstd").parquet(str(out))

        found = timed(work, rounds, lambda: shutil.rmtree(out, ignore_errors=True))
        found["rows"] = spark.read.parquet(str(out)).count()
    spark.stop()
    shutil.rmtree(folder / "broker", ignore_errors=True)
    (folder / "kafka.json").write_text(json.dumps(found))


def clean(folder: Path, size: int, rounds: int) -> dict[str, Any]:
    """This machine's rate, and the rate that a broker's cleaner logs, of the same input."""
    import magicbyte as mb

    directory = folder / "updates" / "bench-0"
    updates(directory, size)
    found: dict[str, Any] = {"bytes": size_of(directory)}
    done: list[Any] = []
    ours = timed(lambda: done.append(mb.clean(directory, folder / "cleaned" / "bench-0")), rounds)
    found["magicbyte"] = ours | {
        "MB/s": round(found["bytes"] / 1e6 / ours["best"]),
        "rounds": done[-1].counts["rounds"],
    }
    found["left"] = done[-1].written
    print(f"clean, magicbyte: {found['magicbyte']}", flush=True)
    from broker import Broker, Unavailable

    try:
        # As a broker comes: 128 MiB for keys.
        settings = {"log.cleaner.dedupe.buffer.size": str(128 << 20)}
        with Broker(folder / "cleaner", heap="1g", settings=settings) as broker:
            broker.create_topic("bench", config={"cleanup.policy": "compact"})
            broker.stop()
            broker.put("bench", 0, [*directory.glob("*.log")])
            broker.start(timeout=300)
            broker.wait_cleaned("bench", timeout=300)
            found["broker's size"] = sum(path.stat().st_size for path in broker.segments("bench"))
            deadline = time.monotonic() + 30
            while not (rates := re.findall(RATE, broker.log_file.read_text(errors="replace"))):
                if time.monotonic() > deadline:
                    raise SystemExit("the cleaner logged no rate")
                time.sleep(0.2)
            megabytes, seconds, rate = max(rates, key=lambda it: float(it[0].replace(",", "")))
            found["broker"] = {"MB": megabytes, "s": seconds, "MiB/s": float(rate.replace(",", ""))}
    except Unavailable as reason:
        print(f"left out: a broker's cleaner ({reason})", file=sys.stderr)
    print(f"clean: {found}", flush=True)
    return found


RATE = r"([\d.,]+) MB of log processed in ([\d.,]+) seconds \(([\d.,]+) MB/sec\)"


def main() -> None:
    """Measures and writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mb", type=int, default=2048)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--only", choices=("land", "clean"))
    parser.add_argument("--kafka", type=Path, help=argparse.SUPPRESS)
    wanted = parser.parse_args()
    if wanted.kafka:
        land_from_a_broker(wanted.kafka, wanted.rounds)
        return
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    place = TARGET / "bench-jobs.json"
    figures: dict[str, Any] = json.loads(place.read_text()) if place.exists() else {}
    with tempfile.TemporaryDirectory(dir=TARGET) as made:
        folder = Path(made)
        if wanted.only in (None, "land"):
            figures["land"] = land(folder, wanted.mb << 20, wanted.rounds)
            shutil.rmtree(folder / "logs", ignore_errors=True)
        if wanted.only in (None, "clean"):
            figures["clean"] = clean(folder, wanted.mb << 19, wanted.rounds)
    place.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
