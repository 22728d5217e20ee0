"""kill -9 of a whole Spark that writes, and of its Python processes alone: a reader sees one job as a whole, the next job finds
nothing amiss, and what was read stays as it was.

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
import threading
import time
from pathlib import Path

import pytest

import magicbyte as mb
from magicbyte._journal import JOURNAL

from processes import descendants, name

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


#: The same, a job for each line that comes in; what becomes of it is told.
ONE_BY_ONE = (
    SCRIPT.partition("while True:")[0]
    + """
for line in sys.stdin:
    number = int(line)
    try:
        rows = spark.read.format("magicbyte").option("maxPartitionBytes", "64k").load(source).drop("offset")
        frame = rows.withColumn("value", F.concat(F.lit(f"{number}-").cast("binary"), F.col("value")))
        frame.write.format("magicbyte").option("offsets", "assign").mode("overwrite").save(out)
        print("done", number, flush=True)
    except Exception:
        print("failed", number, flush=True)
"""
)


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


@pytest.fixture
def source(tmp_path: Path) -> Path:
    for partition in range(PARTITIONS):
        with mb.Writer(tmp_path / "source" / f"orders-{partition}", segment_bytes=64 << 10) as writer:
            writer.write(mb.ProducerRecord("orders", b"%d" % n, timestamp=n) for n in range(RECORDS))
    return tmp_path / "source"


def test_the_old_or_the_new(tmp_path: Path, source: Path) -> None:
    out, before = tmp_path / "logs", checksums(source)
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


def workers(pid: int) -> set[int]:
    """What Spark's Python daemons have forked; the daemons stay, for they take long to begin."""
    daemons = (below for below in descendants(pid) if name(below).startswith("python"))
    return {worker for daemon in daemons for worker in descendants(daemon)}


@pytest.mark.long
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="finds processes in /proc")
def test_its_python_processes_are_killed(tmp_path: Path, source: Path) -> None:
    """Tasks, and the process that commits: as where a machine has too little memory. Spark itself goes on."""
    out, before = tmp_path / "logs", checksums(source)
    moment = random.Random(os.environ.get("MAGICBYTE_SEED", "5"))
    command = [sys.executable, "-c", ONE_BY_ONE, str(source), str(out), "0"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:

        def begin(number: int) -> None:
            assert process.stdin is not None
            process.stdin.write(f"{number}\n")
            process.stdin.flush()

        def end(number: int) -> bool:
            assert process.stdout is not None
            said = process.stdout.readline().split()
            assert said in (["done", str(number)], ["failed", str(number)])
            return said[0] == "done"

        patience = threading.Timer(1800, process.kill)
        patience.start()
        try:
            taken, killed, failed, new = 0.0, 0, 0, 0
            for number in (1, 2):
                begun = time.monotonic()
                begin(number)
                assert end(number)
                taken = time.monotonic() - begun
            seen = number
            for number in range(3, 3 + MOMENTS):
                begin(number)
                time.sleep(moment.uniform(0, taken * 1.2))
                for pid in workers(process.pid):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                        killed += 1
                done = end(number)
                jobs = state(out)
                assert len(jobs) == PARTITIONS
                [now] = set(jobs.values())
                assert now == number if done else now in (seen, number)
                failed += not done
                new += now == number and not done
                seen = now
                assert checksums(source) == before
            begin(number + 1)
            assert end(number + 1) and set(state(out).values()) == {number + 1}
        finally:
            patience.cancel()
            process.kill()
    print(f"{killed} processes killed at {MOMENTS} moments, jobs of {taken:.2f} s: {failed} failed, {new} of them new")
