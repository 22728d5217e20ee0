"""A standalone cluster on loopback: a master, two workers, executors that have the package as users ship it, in an archive.

``MAGICBYTE_WHEEL`` names a wheel to ship, or the directory that has it (``make test-all``); without it, what is installed here is packed.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pytest

pytest.importorskip("pyspark")

import pyarrow.parquet as pq
import pyspark

import magicbyte as mb
from magicbyte.cleaning import Cleaning, clean
from magicbyte.landing import Landing, land

from processes import descendants

HOME = Path(pyspark.__file__).parent
PARTITIONS, RECORDS, KEYS = 4, 6000, 1000
READY = 300.0
"""Seconds in which a daemon must have begun, and a job ended."""

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="finds executors in /proc, and uses 127.0.0.2"),
]

#: The driver, as an application of its own: a job by its name. A task on the second worker stops itself (SIGSTOP) where it has
#: done a part of its work; one on the first waits until the test has killed the second.
DRIVER = """
import json, os, signal, sys, threading, time
from pathlib import Path
from pyspark.sql import SparkSession
job, master, archive, source, out, marks = sys.argv[1:]

def second():
    return "work-127.0.0.2" in os.getcwd()

def wait():
    Path(marks, "first").touch()
    while not Path(marks, "go").exists():
        time.sleep(0.05)

def stop():
    Path(marks, "stopped").touch()
    os.kill(os.getpid(), signal.SIGSTOP)

def files():
    return {os.path.join(place, name) for place, _, names in os.walk(out) for name in names}

def stop_midway():
    had = files()
    def watch():
        while not any(os.path.getsize(path) for path in files() - had if os.path.exists(path)):
            time.sleep(0.001)
        stop()
    threading.Thread(target=watch, daemon=True).start()

def where(batches):
    import magicbyte, pyarrow as pa
    # Both executors have a task at the same time.
    Path(marks, str(second())).touch()
    while len(os.listdir(marks)) < 2:
        time.sleep(0.05)
    for batch in batches:
        yield pa.RecordBatch.from_pydict({"path": [magicbyte.__file__], "pid": [os.getppid()], "rows": [batch.num_rows]})

def read(batches):
    if not second():
        wait()
    for number, batch in enumerate(batches):
        yield batch.slice(0, batch.num_rows // 2)
        if second():
            stop()
        yield batch.slice(batch.num_rows // 2)

def write(batches):
    if second():
        stop_midway()
    else:
        wait()
    for batch in batches:
        for at in range(0, batch.num_rows, 100):
            yield batch.slice(at, 100)
    if second():
        stop()

spark = (SparkSession.builder.master(master).appName(job)
    .config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.ui.enabled", "false").config("spark.executor.memory", "512m").config("spark.executor.cores", "1")
    .config("spark.archives", archive + "#packed").config("spark.executorEnv.PYTHONPATH", "./packed")
    .config("spark.task.maxFailures", "8").getOrCreate())
spark.sparkContext.setLogLevel("OFF")
frame = spark.read.format("magicbyte").option("maxPartitionBytes", "16k").load(source)
if job == "where":
    said = [row.asDict() for row in frame.mapInArrow(where, "path string, pid long, rows long").collect()]
elif job == "read":
    rows = frame.select("partition", "offset", "key").mapInArrow(read, "partition int, offset long, key binary")
    said = [[row.partition, row.offset, row.key.decode()] for row in rows.collect()]
elif job == "write":
    rows = frame.mapInArrow(write, frame.schema)
    rows.write.format("magicbyte").option("offsets", "keep").mode("append").save(out)
    said = "written"
else:
    # A job whose tasks work on files, with a gate around each.
    import importlib
    from magicbyte.cleaning import Cleaning
    from magicbyte.landing import Landing
    module = importlib.import_module("magicbyte.spark." + job)
    collect = module.collect

    def gated(work):
        def run(task):
            if not second():
                wait()
                return work(task)
            stop_midway()
            done = work(task)
            stop()
            return done
        return run

    module.collect = lambda spark, name, tasks, work, *more: collect(spark, name, tasks, gated(work), *more)
    how = Cleaning(now=1_000_000_000, clean_active=True) if job == "clean" else Landing(target_bytes=64 << 10)
    getattr(module, job)(spark, source, out, how)
    said = "done"
print(json.dumps(said))
spark.stop()
"""


@dataclass
class Cluster:
    folder: Path
    master: str
    archive: Path
    stack: contextlib.ExitStack
    second: subprocess.Popen[bytes] | None = None

    def worker(self, host: str) -> subprocess.Popen[bytes]:
        """A worker that the master knows; one of that host that was there before is dead."""
        shutil.rmtree(self.folder / f"work-{host}", ignore_errors=True)
        own = ["--host", host, "-c", "1", "-m", "600m", "-d", str(self.folder / f"work-{host}"), "--webui-port", "0"]
        daemon = spark_class(host, self.folder, "org.apache.spark.deploy.worker.Worker", *own, self.master)
        process, log = self.stack.enter_context(daemon)
        wait_for(log, "Successfully registered with master", process)
        return process

    def both(self) -> None:
        """Sees to it that there is a second worker."""
        if self.second is None:
            self.second = self.worker("127.0.0.2")

    def kill_second(self) -> None:
        """As when its machine dies: the worker first, so that it starts no other executor."""
        assert self.second is not None
        every = [self.second.pid, *descendants(self.second.pid)]
        assert len(every) > 2, "worker, executor, Python"
        for pid in every:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.second = None

    def start(self, *arguments: str | Path, errors: IO[bytes]) -> subprocess.Popen[bytes]:
        """A job in a process of its own."""
        job, *others = map(str, arguments)
        command = [sys.executable, "-c", DRIVER, job, self.master, str(self.archive), *others]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, env=environment())


def environment() -> dict[str, str]:
    return {
        **os.environ, "SPARK_HOME": str(HOME), "SPARK_DAEMON_MEMORY": "256m", "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable,
    }  # fmt: skip


def packed(folder: Path) -> Path:
    """An archive that a worker can put on its path."""
    made = folder / "packed"
    given = os.environ.get("MAGICBYTE_WHEEL")
    if given:
        # Of a directory, the newest.
        wheel = max(Path(given).glob("*.whl"), key=os.path.getmtime) if Path(given).is_dir() else given
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(made), str(wheel)]
        subprocess.run(command, check=True)
    else:
        package = Path(mb.__file__).parent
        for name in ("magicbyte", "pyspark_magicbyte"):
            there = package.parent / name
            there = there if there.exists() else there.with_suffix(".py")
            copy = shutil.copytree if there.is_dir() else shutil.copy
            made.mkdir(exist_ok=True)
            copy(there, made / there.name)
    return Path(shutil.make_archive(str(folder / "packed"), "zip", made))


def wait_for(file: Path, text: str, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + READY
    while text not in file.read_text(errors="replace"):
        assert process.poll() is None and time.monotonic() < until, file.read_text(errors="replace")[-2000:]
        time.sleep(0.1)


@contextlib.contextmanager
def spark_class(name: str, folder: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """A process of Spark's, which ends with the block, and whatever it started."""
    log = folder / f"{name}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["bash", str(HOME / "bin" / "spark-class"), *arguments],
            stdout=output, stderr=output, env=environment(), cwd=folder, start_new_session=True,
        )  # fmt: skip
        try:
            yield process, log
        finally:
            for pid in (process.pid, *descendants(process.pid)):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            process.wait()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    own = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
    with contextlib.ExitStack() as stack:
        daemon = spark_class("master", folder, "org.apache.spark.deploy.master.Master", *own)
        process, log = stack.enter_context(daemon)
        wait_for(log, "I have been elected leader", process)
        [master] = set(re.findall(r"spark://127\.0\.0\.1:\d+", log.read_text()))
        made = Cluster(folder, master, packed(folder), stack)
        made.worker("127.0.0.1")
        yield made


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("source")
    for partition in range(PARTITIONS):
        with mb.Writer(
            root / f"orders-{partition}", batch_size=2000, index_interval=4096, segment_bytes=100_000
        ) as writer:
            writer.write(
                mb.ProducerRecord(
                    "orders", b"%d-%d" % (partition, n), b"%d" % (n % KEYS), timestamp=n, headers=[("n", b"%d" % n)]
                )
                for n in range(RECORDS)
            )
    return root


def done(process: subprocess.Popen[bytes], errors: Path) -> Any:
    output, _ = process.communicate(timeout=READY)
    assert process.returncode == 0, errors.read_text(errors="replace")[-4000:]
    return json.loads(output.decode().strip().splitlines()[-1])


def test_executors_read_with_the_package_that_was_shipped(cluster: Cluster, source: Path, tmp_path: Path) -> None:
    cluster.both()
    errors, marks = tmp_path / "errors", tmp_path / "marks"
    marks.mkdir()
    with errors.open("wb") as file:
        found = done(cluster.start("where", source, tmp_path, marks, errors=file), errors)
    assert sum(row["rows"] for row in found) == PARTITIONS * RECORDS
    assert {Path(row["path"]).parts[-3] for row in found} == {"packed"}
    assert all("work-127.0.0." in row["path"] for row in found)
    assert len({row["pid"] for row in found}) == 2, "both executors took part"


def killed(cluster: Cluster, job: str, source: Path, folder: Path) -> Any:
    """What a job says whose second worker was killed in the midst of a task."""
    cluster.both()
    out, marks, errors = folder / "out", folder / "marks", folder / "errors"
    marks.mkdir()
    with errors.open("wb") as file:
        process = cluster.start(job, source, out, marks, errors=file)
        try:
            until = time.monotonic() + READY
            while not ((marks / "first").exists() and (marks / "stopped").exists()):
                assert process.poll() is None and time.monotonic() < until, errors.read_text(errors="replace")[-4000:]
                time.sleep(0.05)
            # Nothing is there under a final name yet.
            assert not list(out.glob("orders-[0-9]"))
            cluster.kill_second()
            (marks / "go").touch()
            return done(process, errors)
        finally:
            process.kill()
            process.wait()


def test_a_worker_is_killed_while_it_reads(cluster: Cluster, source: Path, tmp_path: Path) -> None:
    said = killed(cluster, "read", source, tmp_path)
    records = mb.Log(source).records()
    assert sorted(said) == [[r.partition, r.offset, (r.key or b"").decode()] for r in records]


def test_a_worker_is_killed_while_it_writes(cluster: Cluster, source: Path, tmp_path: Path) -> None:
    assert killed(cluster, "write", source, tmp_path) == "written"
    out = tmp_path / "out"
    for partition in range(PARTITIONS):
        columns = ["key", "value", "offset", "timestamp", "headers"]
        name = f"orders-{partition}"
        assert mb.Log(out / name).scan(columns).to_arrow().equals(mb.Log(source / name).scan(columns).to_arrow())
        assert mb.Log(out / name).verify().ok
    assert not [path for path in out.iterdir() if path.name.endswith("-delete")]


def test_a_worker_is_killed_while_it_cleans(cluster: Cluster, source: Path, tmp_path: Path) -> None:
    assert killed(cluster, "clean", source, tmp_path) == "done"
    here, out = tmp_path / "here", tmp_path / "out"
    clean(source, here, Cleaning(now=1_000_000_000, clean_active=True))
    for partition in range(PARTITIONS):
        files = {path.name: path.read_bytes() for path in (here / f"orders-{partition}").iterdir()}
        assert {path.name: path.read_bytes() for path in (out / f"orders-{partition}").iterdir()} == files
        kept = [record.offset for record in mb.Log(out / f"orders-{partition}").records()]
        assert kept == list(range(RECORDS - KEYS, RECORDS))
    # What the dead worker left has a name that a broker removes.
    assert all(path.name.endswith("-delete") for path in out.iterdir() if not path.name.startswith("orders-"))


def test_a_worker_is_killed_while_it_lands(cluster: Cluster, source: Path, tmp_path: Path) -> None:
    assert killed(cluster, "land", source, tmp_path) == "done"
    out = tmp_path / "out"
    paths = [path for path in out.rglob("*.parquet") if "_magicbyte" not in path.parts]
    rows = [row for path in paths for row in pq.ParquetFile(path).read(["partition", "offset", "key"]).to_pylist()]
    found = sorted((row["partition"], row["offset"], row["key"]) for row in rows)
    assert found == [(r.partition, r.offset, r.key) for r in mb.Log(source).records()]
    assert land(source, out, Landing(target_bytes=64 << 10)).records == 0
