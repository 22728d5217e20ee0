"""kill -9 of a whole Spark that writes: a reader sees one job as a whole, the next job finds nothing amiss, and what was
read stays as it was.

One moment here; MAGICBYTE_KILLS=50 (``make test-all``) for as many as the issue asks for.
"""

from __future__ import annotations

import contextlib
import hashlib
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

#: Job after job out of one log into the same directory, each with values of its own number.
SCRIPT = """
import sys
from pyspark.sql import SparkSession, functions as F
spark = (SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
         .config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1").getOrCreate())
spark.sparkContext.setLogLevel("OFF")
source, out, number = sys.argv[1], sys.argv[2], int(sys.argv[3])
while True:
    rows = spark.read.format("magicbyte").option("maxPartitionBytes", "64k").load(source).drop("offset")
    frame = rows.withColumn("value", F.concat(F.lit(f"{number}-").cast("binary"), F.col("value")))
    print("start", number, flush=True)
    frame.write.format("magicbyte").option("offsets", "assign").mode("overwrite").save(out)
    print("done", number, flush=True)
    number += 1
"""


def checksums(root: Path) -> dict[str, str]:
    """Of each file below, and its time of change."""
    return {
        str(path.relative_to(root)): f"{hashlib.sha256(path.read_bytes()).hexdigest()} {path.stat().st_mtime_ns}"
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def state(out: Path) -> dict[str, int]:
    """By partition, the number of the job whose records it holds: all of them, in a sound log."""
    found = {}
    for directory in sorted(out.glob("orders-*")) if out.exists() else []:
        if directory.name.endswith("-delete"):
            continue
        log = mb.Log(directory)
        values = [(record.value or b"").split(b"-") for record in log.records()]
        [number] = {value[0] for value in values}
        assert [int(value[1]) for value in values] == list(range(RECORDS)), directory
        assert log.verify().ok is True
        found[directory.name] = int(number)
    return found


def test_the_old_or_the_new(tmp_path: Path) -> None:
    source, out = tmp_path / "source", tmp_path / "logs"
    for partition in range(PARTITIONS):
        with mb.Writer(source / f"orders-{partition}", segment_bytes=64 << 10) as writer:
            writer.write(mb.ProducerRecord("orders", b"%d" % n, timestamp=n) for n in range(RECORDS))
    before = checksums(source)
    moment = random.Random(os.environ.get("MAGICBYTE_SEED", "5"))
    number, taken, halves, new = 1, 1.0, 0, 0
    for kill in range(MOMENTS):
        command = [sys.executable, "-c", SCRIPT, str(source), str(out), str(number)]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True
        ) as process:
            assert process.stdout is not None
            try:
                # The first job warms up, and finds what the one before was killed in.
                assert process.stdout.readline() == f"start {number}\n"
                assert process.stdout.readline() == f"done {number}\n", kill
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
            # On a machine that was slow when it was measured, there may have been several jobs meanwhile.
            said = [line.split() for line in process.stdout.read().splitlines(keepends=True) if line.endswith("\n")]
        finished = max([number - 1, *(int(line[1]) for line in said if line[0] == "done")])
        jobs = state(out)
        assert len(jobs) == PARTITIONS
        # The journal tells a reader which of two jobs he sees; what the renames came to is another thing.
        halves += (out / JOURNAL).exists()
        [seen] = set(jobs.values())
        assert seen in (finished, finished + 1)
        new += seen > finished
        assert checksums(source) == before
        number = finished + 2
    print(
        f"{MOMENTS} kills of Spark, jobs of {taken:.2f} s: {halves} in the middle of the renames, {new} just behind them"
    )
