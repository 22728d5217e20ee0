"""What a Spark worker is spared behind each task."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

pytest.importorskip("pyspark")

LOOK = """
import gc, weakref
from magicbyte.spark.worker import settle

class Cycle:
    def __init__(self):
        self.own = self

gc.disable()
garbage = weakref.ref(Cycle())
before = gc.get_freeze_count()
settle()
frozen = gc.get_freeze_count() - before
kept = garbage() is not None
later = weakref.ref(Cycle())
settle()
assert later() is not None
gc.collect()
assert later() is None and garbage() is None
print(frozen > 10_000, kept)
"""


@pytest.mark.parametrize(("reuse", "says"), [("1", "True False"), ("", "False True"), (None, "False True")])
def test_garbage_is_collected_and_the_rest_left_out_of_later_collections(reuse: str | None, says: str) -> None:
    """Only in a worker that Spark uses again; what is made afterwards is collected as ever."""
    given = {name: value for name, value in os.environ.items() if name != "SPARK_REUSE_WORKER"}
    if reuse is not None:
        given["SPARK_REUSE_WORKER"] = reuse
    told = subprocess.run([sys.executable, "-c", LOOK], env=given, check=True, capture_output=True, text=True)
    assert told.stdout.strip() == says


def test_spark_says_that_it_uses_its_workers_again(spark: Any) -> None:
    """By a name that is Spark's own: were it another, workers would go on as before, and tasks be slower."""
    assert spark.sparkContext.range(1).map(lambda _: os.environ.get("SPARK_REUSE_WORKER")).collect() == ["1"]
