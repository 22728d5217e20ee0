"""A real broker appends while a stream reads its files; the stream is killed twice and begun again: each record once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from broker import Broker
from messages import stream
from oracle import JavaConsumer
from producers import Sender

FOLLOW = """
import sys
from pyspark.sql import SparkSession

logs, out, checkpoint, now = sys.argv[1:]
spark = (
    SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.driver.host", "127.0.0.1")
    .config("spark.sql.shuffle.partitions", "1").getOrCreate()
)
frame = (
    spark.readStream.format("magicbyte").option("subscribe", "followed").option("maxOffsetsPerTrigger", 60).load(logs)
)
writer = frame.writeStream.format("parquet").option("path", out).option("checkpointLocation", checkpoint)
writer = writer.trigger(availableNow=True) if now == "now" else writer.trigger(processingTime="0 seconds")
writer.start().awaitTermination()
"""


@pytest.mark.long
def test_each_record_once_though_the_stream_is_killed_twice(
    broker: Broker, java_consumer: JavaConsumer, spark: Any, tmp_path: Path
) -> None:
    topic = broker.create_topic("followed", 2, {"internal.segment.bytes": "20000", "retention.ms": "-1"})
    out, checkpoint, script = tmp_path / "out", tmp_path / "checkpoint", tmp_path / "follow.py"
    script.write_text(FOLLOW)
    done = threading.Event()

    def send() -> None:
        # Until both streams were killed, whatever time that takes: each must find something new.
        for seed in count():
            Sender(broker.bootstrap, compression_type=("none", "zstd")[seed % 2]).send(
                topic, stream(20, seed=seed), seed % 2
            )
            if done.wait(0.3):
                return

    def follow(now: str) -> subprocess.Popen[bytes]:
        given = [str(broker.data_dir), str(out), str(checkpoint), now]
        with (tmp_path / "said").open("ab") as said:
            return subprocess.Popen(
                [sys.executable, str(script), *given], stdout=said, stderr=said, start_new_session=True
            )

    def commits() -> int:
        return len(list((checkpoint / "commits").glob("[0-9]*")))

    sender = threading.Thread(target=send)
    sender.start()
    try:
        for _ in range(2):
            had, deadline = commits(), time.monotonic() + 400
            process = follow("on")
            while commits() < had + 2:
                assert process.poll() is None and time.monotonic() < deadline, (tmp_path / "said").read_text()[-3000:]
                time.sleep(0.05)
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    finally:
        done.set()
        sender.join()
    assert follow("now").wait(600) == 0, (tmp_path / "said").read_text()[-3000:]
    assert len(broker.segments(topic, 0)) > 1
    found = spark.read.parquet(str(out)).select("partition", "offset", "key", "value").collect()
    received = [(row.partition, row.offset, row.key, row.value) for row in found]
    sent = [
        (partition, row.offset, row.key, row.value)
        for partition in (0, 1)
        for row in java_consumer.rows(topic, partition)
    ]
    key = lambda row: row[:2]  # noqa: E731
    assert sorted(received, key=key) == [
        (p, o, None if k is None else bytearray(k), None if v is None else bytearray(v)) for p, o, k, v in sent
    ]
