"""Spark, ``local[2]``, no sink: magicbyte against empty pipes that yield ready-made record batches of the same shape, and
against Spark's own Kafka source beside a broker. Writes ``bench-spark.json``; figures are million rows a second.

    python benches/python/spark.py [--rounds 5]

Ways that cannot be measured on a machine (no broker's jars, no Maven Central) are left out with a word.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

REPO = Path(__file__).resolve().parents[2]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", REPO / "target"))
DATA = TARGET / "bench-data"
PARTITIONS = 4
# Maven Central has the Kafka source of some releases only; these go together, and run in Spark 4.2 and later.
SOURCE = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.1",
    "org.apache.commons:commons-pool2:2.12.0",
)


def empty_source(folder: str) -> type:
    """A data source whose tasks know their record batches beforehand."""
    from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

    class Empty(DataSource):  # type: ignore[misc]
        @classmethod
        def name(cls) -> str:
            return "empty_pipe"

        def schema(self) -> Any:
            from magicbyte.spark import SCHEMA

            return SCHEMA

        def reader(self, schema: Any) -> Any:
            class Reader(DataSourceReader):  # type: ignore[misc]
                def partitions(self) -> list[Any]:
                    return [InputPartition(number) for number in range(PARTITIONS)]

                def read(self, partition: Any) -> Iterator[Any]:
                    import pyarrow as pa

                    with pa.memory_map(f"{folder}/{partition.value}.arrow") as file:
                        yield from pa.ipc.open_stream(file)

            return Reader()

    return Empty


def logs(folder: Path) -> int:
    """File A as partitions of one topic, and their record batches as the data source makes them; returns the rows."""
    import pyarrow as pa

    from magicbyte._core import Part, Reader

    source = (DATA / f"A-{os.environ.get('MAGICBYTE_BENCH_MB', '128')}.bin").read_bytes()
    rows = 0
    for number in range(PARTITIONS):
        directory = folder / "logs" / f"bench-{number}"
        directory.mkdir(parents=True)
        log = directory / f"{0:020}.log"
        log.write_bytes(source)
        batches = list(Reader([Part(str(log), "bench", number)]).scan(spark=True))
        # Memory that is touched already, as ready-made as can be.
        with pa.OSFile(f"{folder}/{number}.arrow", "wb") as file, pa.ipc.new_stream(file, batches[0].schema) as stream:
            for batch in batches:
                stream.write_batch(batch)
        rows += sum(batch.num_rows for batch in batches)
    return rows


def fetched(path: str) -> Any:
    """A log as a column of raw batches, about 1 MiB in each row: what a fetch brings. Mapped, as the empty pipe's file is."""
    import pyarrow as pa

    with pa.memory_map(path) as file:
        data = file.read_buffer()
    view, ends, at = memoryview(data), [0], 0
    while at < len(view):
        at += 12 + int.from_bytes(view[at + 8 : at + 12], "big")
        if at - ends[-1] >= 1 << 20 or at == len(view):
            ends.append(at)
    buffers = [None, pa.py_buffer(array("q", ends)), data]
    return pa.record_batch({"value": pa.Array.from_buffers(pa.large_binary(), len(ends) - 1, buffers)})


def turns(rows: int, rounds: int, ways: dict[str, Callable[[], Any]]) -> dict[str, Any]:
    """The ways take turns; a first round warms up."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(rounds + 1):
        for name, frame in ways.items():
            start = time.perf_counter()
            frame().write.format("noop").mode("overwrite").save()
            if turn:
                times[name].append(time.perf_counter() - start)
    figures = {}
    for name, seconds in times.items():
        speed = [rows / 1e6 / second for second in seconds]
        figures[name] = {"best": round(max(speed), 2), "median": round(statistics.median(speed), 2), "unit": "M rows/s"}
        print(f"{name:32} {figures[name]['best']:.2f} ({figures[name]['median']:.2f}) M rows/s", flush=True)
    return figures


def session(more: dict[str, str] | None = None) -> Any:
    """A new ``local[2]``."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master("local[2]").appName("magicbyte-bench")
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.ui.showConsoleProgress": "false",
    }
    for name, value in (settings | (more or {})).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def pipes(spark: Any, folder: Path, rows: int, rounds: int) -> dict[str, Any]:
    """Data source and mapInArrow, each beside its empty pipe."""
    from magicbyte.spark import SCHEMA, decode_arrow

    spark.dataSource.register(empty_source(str(folder)))
    source = spark.read.format("magicbyte").option("includeHeaders", "true")

    def ready(found: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for batch in found:
            for number in batch.column(0).to_pylist():
                with pa.memory_map(f"{folder}/{number}.arrow") as file:
                    yield from pa.ipc.open_stream(file)

    pieces = spark.range(PARTITIONS, numPartitions=PARTITIONS).selectExpr("cast(id as int) n")

    def raw(found: Iterator[Any]) -> Iterator[Any]:
        decode = decode_arrow("value", topic="bench", partition=0)
        for batch in found:
            for number in batch.column(0).to_pylist():
                yield from decode(iter([fetched(f"{folder}/logs/bench-{number}/{0:020}.log")]))

    return turns(
        rows,
        rounds,
        {
            "data source": lambda: source.load(str(folder / "logs")),
            "data source, empty pipe": lambda: spark.read.format("empty_pipe").load(),
            "mapInArrow": lambda: pieces.mapInArrow(raw, SCHEMA),
            "mapInArrow, empty pipe": lambda: pieces.mapInArrow(ready, SCHEMA),
        },
    )


def kafka(folder: Path, rows: int, rounds: int) -> dict[str, Any]:
    """As ``beside_broker``, in a process of its own: a JVM that runs takes no more jars."""
    out = folder / "kafka.json"
    command = [sys.executable, __file__, "--kafka", str(folder), "--rows", str(rows), "--rounds", str(rounds)]
    try:
        subprocess.run(command, check=False, timeout=400)
    except subprocess.TimeoutExpired:
        print("left out: Spark's Kafka source (no answer)", file=sys.stderr)
    figures: dict[str, Any] = json.loads(out.read_text()) if out.exists() else {}
    return figures


def source_jars(goal: str) -> str:
    """The jars of Spark's Kafka source, by Maven, as Spark takes them."""
    place = TARGET / "kafka" / "spark"
    for artifact in SOURCE:
        if not any(place.glob("-".join(artifact.split(":")[1:]) + ".jar")):
            subprocess.run(
                ["mvn", "-q", "-B", goal, f"-Dartifact={artifact}", f"-DoutputDirectory={place}"], check=True
            )
    return ",".join(str(jar) for jar in sorted(place.glob("*.jar")))


def beside_broker(folder: Path, rows: int, rounds: int) -> dict[str, Any]:
    """Spark's Kafka source on the same records, from a broker that found the same files."""
    sys.path.insert(0, str(REPO / "tests" / "python" / "kafka"))
    from broker import Broker
    from jars import COPY_GOAL, Unavailable

    try:
        spark = session({"spark.jars": source_jars(COPY_GOAL.replace("copy-dependencies", "copy"))})
        broker = Broker(folder / "broker", heap="700m")
        with broker:
            broker.create_topic("bench", PARTITIONS)
            broker.stop()
            for number in range(PARTITIONS):
                broker.put("bench", number, (folder / "logs" / f"bench-{number}").glob("*.log"))
            broker.start(timeout=180)
            reader = spark.read.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap)
            reader = reader.option("subscribe", "bench").option("includeHeaders", "true")
            figures = turns(rows, rounds, {"Spark's Kafka source": reader.load})
            spark.stop()
            return figures
    except Unavailable as reason:
        print(f"left out: Spark's Kafka source ({reason})", file=sys.stderr)
    except Exception as error:  # Spark says what is missing in a class of its own, by way of the JVM.
        print(f"left out: Spark's Kafka source ({str(error).splitlines()[0]})", file=sys.stderr)
    return {}


def main() -> None:
    """Measures and writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--kafka", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--rows", type=int, default=0, help=argparse.SUPPRESS)
    wanted = parser.parse_args()
    rounds = wanted.rounds
    if wanted.kafka:
        figures = beside_broker(wanted.kafka, wanted.rows, rounds)
        if figures:
            (wanted.kafka / "kafka.json").write_text(json.dumps(figures))
        return
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        rows = logs(folder)
        spark = session()
        figures = pipes(spark, folder, rows, rounds)
        spark.stop()
        figures |= kafka(folder, rows, max(2, rounds // 2))
    (TARGET / "bench-spark.json").write_text(json.dumps({"A": figures}, indent=2) + "\n")


if __name__ == "__main__":
    main()
