"""What every Python test may ask for: the data that ships, the corpus beside the repository, a local Spark."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from places import DATA, REPOSITORY, shared_directory

# No test may depend on how fast the machine is: Hypothesis would else fail one that takes over 200 ms an example, or whose
# examples take long to make.
settings.register_profile("magicbyte", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("magicbyte")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The room says what a test needs, so that nobody has to mark each one."""
    for item in items:
        rooms = item.path.relative_to(REPOSITORY).parts
        if "spark" in rooms or "spark" in getattr(item, "fixturenames", ()):
            item.add_marker("spark")
        if "kafka" in rooms or "broker" in rooms:
            item.add_marker("broker")
        if "golden" in rooms:
            item.add_marker("golden")
            # The selection that ships is enough for a quick run.
            name = item.callspec.id if isinstance(item, pytest.Function) and hasattr(item, "callspec") else ""
            if name.startswith("golden/"):
                item.add_marker("slow")


@pytest.fixture(scope="session")
def data() -> Path:
    """`tests/data`, which ships."""
    return DATA


@pytest.fixture(scope="session")
def shared() -> Path:
    """The corpus; a test that asks for it skips where it is absent."""
    path = shared_directory()
    if path is None:
        pytest.skip("the golden corpus is not here (MAGICBYTE_SHARED)")
    return path


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """One local Spark for all tests, on two cores, with workers of this very interpreter."""
    sql = pytest.importorskip("pyspark.sql", reason="pyspark is not installed")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    session = (
        sql.SparkSession.builder.master("local[2]")
        .appName("magicbyte-tests")
        .config("spark.ui.enabled", "false")
        # The golden corpus is collected as a whole; decompressed it is 200 MB, of which Spark keeps several copies.
        .config("spark.driver.memory", "3g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.execution.pyspark.udf.faulthandler.enabled", "true")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def s3() -> Iterator[dict[str, Any]]:
    """What s3fs must be told of an S3 on loopback, whose bucket ``bucket`` holds ``tests/data/kafka-logs`` under ``logs``."""
    server = pytest.importorskip("moto.server", reason="moto's server is not installed")
    s3fs = pytest.importorskip("s3fs", reason="s3fs is not installed")
    running = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    storage = {"endpoint_url": f"http://{host}:{port}", "key": "any", "secret": "any"}
    system = s3fs.S3FileSystem(**storage)
    system.mkdir("bucket")
    system.put(f"{DATA / 'kafka-logs'}/", "bucket/logs/", recursive=True)
    yield storage
    running.stop()
