"""A standalone cluster on loopback: a master, two workers, executors that have the package as users ship it, in an archive.

``MAGICBYTE_WHEEL`` names a wheel to ship; without it, what is installed here is packed.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pytest

pytest.importorskip("pyspark")

import pyspark

import magicbyte as mb

HOME = Path(pyspark.__file__).parent
PARTITIONS, RECORDS = 4, 6000
READY = 60.0
"""Seconds until a daemon must have begun."""

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="finds executors in /proc, and uses 127.0.0.2"),
]

#: The driver, as an application of its own: spark-submit's settings, then a job by its name.
DRIVER = """
import json, sys, time
from pathlib import Path
from pyspark.sql import SparkSession, functions as F
job, master, archive, source, out, marks = sys.argv[1:]
spark = (SparkSession.builder.master(master).appName(job)
    .config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.ui.enabled", "false").config("spark.executor.memory", "512m").config("spark.executor.cores", "1")
    .config("spark.archives", archive + "#packed").config("spark.executorEnv.PYTHONPATH", "./packed")
    .config("spark.task.maxFailures", "8").getOrCreate())
spark.sparkContext.setLogLevel("OFF")
frame = spark.read.format("magicbyte").option("maxPartitionBytes", "16k").load(source)

def where(batches):
    import os, magicbyte, pyarrow as pa
    for batch in batches:
        yield pa.RecordBatch.from_pydict({"path": [magicbyte.__file__], "pid": [os.getppid()], "rows": [batch.num_rows]})

def slow(batches):
    import os
    for batch in batches:
        Path(marks, str(os.getppid())).touch()
        time.sleep(0.4)
        yield batch

if job == "read":
    found = frame.mapInArrow(where, "path string, pid long, rows long").collect()
    print(json.dumps([row.asDict() for row in found]))
else:
    frame = frame.mapInArrow(slow, frame.schema)
    frame.write.format("magicbyte").option("offsets", "keep").mode("append").save(out)
    print(json.dumps("written"))
spark.stop()
"""


@dataclass
class Cluster:
    master: str
    workers: list[subprocess.Popen[bytes]]
    archive: Path

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


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def packed(folder: Path) -> Path:
    """An archive that a worker can put on its path."""
    made = folder / "packed"
    wheel = os.environ.get("MAGICBYTE_WHEEL")
    if wheel:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(made), wheel]
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


def children(pid: int) -> list[int]:
    found = []
    for thread in Path(f"/proc/{pid}/task").iterdir():
        found += [int(child) for child in (thread / "children").read_text().split()]
    return found


def wait_for(file: Path, text: str, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + READY
    while text not in file.read_text(errors="replace"):
        assert process.poll() is None and time.monotonic() < until, file.read_text(errors="replace")[-2000:]
        time.sleep(0.1)


@contextlib.contextmanager
def daemon(name: str, folder: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
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
            for pid in (*children_if_any(process.pid), process.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            process.wait()


def children_if_any(pid: int) -> list[int]:
    try:
        return children(pid)
    except OSError:
        return []


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    port = free_port()
    master = f"spark://127.0.0.1:{port}"
    of_master = "org.apache.spark.deploy.master.Master"
    with contextlib.ExitStack() as stack:
        process, log = stack.enter_context(
            daemon("master", folder, of_master, "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0")
        )
        wait_for(log, "I have been elected leader", process)
        workers = []
        for host in ("127.0.0.1", "127.0.0.2"):
            own = ["--host", host, "-c", "1", "-m", "600m", "-d", str(folder / f"work-{host}"), "--webui-port", "0"]
            workers.append(
                stack.enter_context(daemon(host, folder, "org.apache.spark.deploy.worker.Worker", *own, master))
            )
        for process, log in workers:
            wait_for(log, "Successfully registered with master", process)
        yield Cluster(master, [process for process, _ in workers], packed(folder))


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("source")
    for partition in range(PARTITIONS):
        with mb.Writer(root / f"orders-{partition}", batch_size=2000, index_interval=4096) as writer:
            writer.write(
                mb.ProducerRecord(
                    "orders", b"%d-%d" % (partition, n), b"%d" % n, timestamp=n, headers=[("n", b"%d" % n)]
                )
                for n in range(RECORDS)
            )
    return root


def done(process: subprocess.Popen[bytes], errors: Path) -> Any:
    output, _ = process.communicate(timeout=240)
    assert process.returncode == 0, errors.read_text(errors="replace")[-4000:]
    return json.loads(output.decode().strip().splitlines()[-1])


def test_executors_read_with_the_package_that_was_shipped(cluster: Cluster, source: Path, tmp_path: Path) -> None:
    errors = tmp_path / "errors"
    with errors.open("wb") as file:
        found = done(cluster.start("read", source, "-", "-", errors=file), errors)
    assert sum(row["rows"] for row in found) == PARTITIONS * RECORDS
    assert {Path(row["path"]).parts[-3] for row in found} == {"packed"}
    assert all("work-127.0.0." in row["path"] for row in found)
    assert len({row["pid"] for row in found}) == 2, "both executors took part"


def test_a_worker_that_is_killed_loses_and_doubles_nothing(cluster: Cluster, source: Path, tmp_path: Path) -> None:
    out, marks, errors = tmp_path / "out", tmp_path / "marks", tmp_path / "errors"
    marks.mkdir()
    with errors.open("wb") as file:
        job = cluster.start("write", source, out, marks, errors=file)
        try:
            until = time.monotonic() + READY
            while len(list(marks.iterdir())) < 2:
                assert job.poll() is None and time.monotonic() < until, errors.read_text(errors="replace")[-4000:]
                time.sleep(0.05)
            time.sleep(0.5)
            # In the midst of its tasks: the worker first, so that it starts no other executor, then that one.
            worker = cluster.workers[1].pid
            executors = children(worker)
            assert executors and job.poll() is None
            for pid in (worker, *executors):
                os.kill(pid, signal.SIGKILL)
            assert not list(out.glob("orders-*"))
            assert done(job, errors) == "written"
        finally:
            job.kill()
            job.wait()
    for partition in range(PARTITIONS):
        columns = ["key", "value", "offset", "timestamp", "headers"]
        name = f"orders-{partition}"
        assert mb.Log(out / name).scan(columns).to_arrow().equals(mb.Log(source / name).scan(columns).to_arrow())
        assert mb.Log(out / name).verify().ok
    assert not [path for path in out.iterdir() if path.name.endswith("-delete")]
