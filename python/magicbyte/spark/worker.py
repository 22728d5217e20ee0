"""Spark's Python workers: processes that take one task after the other."""

from __future__ import annotations

import gc
import os
from functools import cache


@cache
def settle() -> None:
    """Once in a worker that is used again: leaves what is loaded by now out of later garbage collections.

    Spark's daemon runs a full collection behind every task, which walks all that pyspark, pandas and pyarrow have loaded: 25 ms,
    as long as it takes to decode 128 MiB. Nothing is lost by it: objects go when nobody refers to them, as before, and what is
    made later is collected as before. Only cycles among what is alive now stay to the worker's end, so garbage is collected
    first. Does nothing outside of such a worker: a driver's garbage is not ours to order.
    """
    if os.environ.get("SPARK_REUSE_WORKER"):
        gc.collect()
        gc.freeze()
