"""kill -9 of a whole Spark that writes: a reader sees one job as a whole, and the next job finds nothing amiss.

One moment here; MAGICBYTE_KILLS=50 (``make test-all``) for as many as the issue asks for.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import magicbyte as mb
from magicbyte._journal import JOURNAL

MOMENTS = max(1, int(os.environ.get("MAGICBYTE_KILLS", "1")))
PARTITIONS, RECORDS = 3, 2000

#: Job after job into the same directory, each with values of its own number.
SCRIPT = f"""
import sys
from pyspark.sql import SparkSession, functions as F
spark = (SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
         .config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1").getOrCreate())
spark.sparkContext.setLogLevel("OFF")
out, number = sys.argv[1], int(sys.argv[2])
while True:
    rows = spark.range(0, {PARTITIONS * RECORDS}, 1, 4)
    frame = rows.select(
        F.lit("orders").alias("topic"), (F.col("id") % {PARTITIONS}).cast("int").alias("partition"),
        F.concat(F.lit(f"{{number}}-"), F.col("id").cast("string")).cast("binary").alias("value"))
    print("start", number, flush=True)
    frame.write.format("magicbyte").option("offsets", "assign").mode("overwrite").save(out)
    print("done", number, flush=True)
    number += 1
"""


def state(out: Path) -> dict[str, int]:
    """By partition, the number of the job whose records it holds: all of them, in a sound log."""
    found = {}
    for directory in sorted(out.glob("orders-*")) if out.exists() else []:
        if directory.name.endswith("-delete"):
            continue
        log = mb.Log(directory)
        values = [(record.value or b"").split(b"-") for record in log.records()]
        [number] = {value[0] for value in values}
        assert len({value[1] for value in values}) == RECORDS == len(values), directory
        assert log.verify().ok is True
        found[directory.name] = int(number)
    return found


def test_the_old_or_the_new(tmp_path: Path) -> None:
    out = tmp_path / "logs"
    moment = random.Random(5)
    number, taken, halves = 1, 1.0, 0
    for kill in range(MOMENTS):
        command = [sys.executable, "-c", SCRIPT, str(out), str(number)]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True
        ) as process:
            assert process.stdout is not None
            try:
                # The first job warms up, and finds what the one before was killed in.
                assert process.stdout.readline() == f"start {number}\n"
                assert process.stdout.readline() == f"done {number}\n", kill
                assert set(state(out).values()) == {number}
                number += 1
                assert process.stdout.readline() == f"start {number}\n"
                begun = time.monotonic()
                if kill == 0:
                    assert process.stdout.readline() == f"done {number}\n"
                    taken = time.monotonic() - begun
                    number += 1
                    assert process.stdout.readline() == f"start {number}\n"
                time.sleep(moment.uniform(0, taken * 1.2))
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
        jobs = state(out)
        assert len(jobs) == PARTITIONS
        # The journal tells a reader which of two jobs he sees; what the renames came to is another thing.
        halves += (out / JOURNAL).exists()
        [seen] = set(jobs.values())
        assert number - 1 <= seen <= number + 1
        number += 3
    print(f"{MOMENTS} kills of Spark, jobs of {taken:.2f} s: {halves} in the middle of the renames")
