"""Custom retention and redaction as Spark jobs: a task a partition, from segment to segment inside the task."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from magicbyte._layout import Segment
from magicbyte._segments import tasks_of
from magicbyte.errors import CorruptRecordError
from magicbyte.log import Log
from magicbyte.rewriting import Redaction, Retaining, Rewritten, rewrite_partition, timed
from magicbyte.spark.jobs import bounds_of, collect

if TYPE_CHECKING:
    from magicbyte._core import Limits
    from magicbyte.log import Source

__all__ = ["rewrite"]


def rewrite(
    spark: SparkSession,
    source: Log | Source,
    target: str | os.PathLike[str],
    what: Retaining | Redaction,
    *,
    format: str = "kafka",
    limits: Limits | None = None,
    strict: bool = True,
    progress: Callable[[int], object] | None = None,
) -> Rewritten:
    """``magicbyte.retain`` or ``magicbyte.redact``, by what is given, a task a partition.

    Source and target must be there under the same paths on every worker; a ``Retention`` must pickle. ``progress`` is told
    the bytes of the partitions that are done. Errors are those of ``retain``; a damaged partition is told when the others
    are done.
    """
    log = source if isinstance(source, Log) else Log(source, format=format, limits=limits)
    if isinstance(what, Retaining):
        what = timed(what)
    began = time.monotonic()
    work = partial(_one, what=what, format=log.format, bounds=bounds_of(limits))
    done = Rewritten()
    for one in collect(spark, "rewrite", tasks_of(log, target), work, progress):
        if strict and one.unreadable:
            raise one.unreadable[0][2]
        done.add(one)
    done.seconds = time.monotonic() - began
    return done


def _one(
    task: tuple[list[Segment], str], *, what: Retaining | Redaction, format: str, bounds: dict[str, int] | None
) -> Rewritten:
    """In the worker: one partition."""
    from magicbyte import _core

    segments, directory = task
    limits = None if bounds is None else _core.Limits(**bounds)
    try:
        return rewrite_partition(segments, directory, what, format=format, limits=limits)
    except CorruptRecordError as error:
        # Trying again would not mend it.
        return Rewritten(unreadable=[(segments[0].topic, segments[0].partition, error)])
