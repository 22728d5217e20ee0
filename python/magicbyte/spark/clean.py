"""The log cleaner as a Spark job: a task a partition, from segment to segment inside the task."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from magicbyte._layout import Segment
from magicbyte._segments import tasks_of
from magicbyte.cleaning import Cleaned, CleanedPartition, Cleaning, clean_partition
from magicbyte.errors import CorruptRecordError
from magicbyte.log import Log
from magicbyte.spark.jobs import bounds_of, collect

if TYPE_CHECKING:
    from magicbyte._core import Limits
    from magicbyte.interceptors import Chain
    from magicbyte.log import Source

__all__ = ["clean"]

Task = tuple[list[Segment], str]
Outcome = CleanedPartition | tuple[str, int, CorruptRecordError]


def clean(
    spark: SparkSession,
    source: Log | Source,
    target: str | os.PathLike[str],
    cleaning: Cleaning | None = None,
    *,
    format: str = "kafka",
    limits: Limits | None = None,
    strict: bool = True,
    chain: Chain | None = None,
    progress: Callable[[int], object] | None = None,
) -> Cleaned:
    """``magicbyte.clean``, a task a partition. Source and target must be there under the same paths on every worker.

    A partition's target takes its place when all of it is written: a task that fails, or runs twice, leaves either nothing
    or the whole. Keys are held in ``dedupe_buffer_size`` bytes a task; a partition with more of them takes more passes.
    ``progress`` is told the bytes of the partitions that are done. Each task has a copy of ``chain``, its timings are its own.

    Raises:
        As ``magicbyte.clean``; a damaged partition is told when the others are done.
    """
    log = source if isinstance(source, Log) else Log(source, format=format, limits=limits)
    cleaning = cleaning or Cleaning()
    if cleaning.now is None:
        cleaning = replace(cleaning, now=time.time_ns() // 1_000_000)
    began = time.monotonic()
    work = partial(_one, cleaning=cleaning, format=log.format, bounds=bounds_of(limits), chain=chain)
    done = Cleaned()
    for outcome in collect(spark, "clean", tasks_of(log, target), work, progress):
        if isinstance(outcome, CleanedPartition):
            done.partitions.append(outcome)
        elif strict:
            raise outcome[2]
        else:
            done.uncleanable.append(outcome)
    done.seconds = time.monotonic() - began
    return done


def _one(task: Task, *, cleaning: Cleaning, format: str, bounds: dict[str, int] | None, chain: Chain | None) -> Outcome:
    """In the worker: one partition."""
    from magicbyte import _core

    segments, directory = task
    limits = None if bounds is None else _core.Limits(**bounds)
    try:
        return clean_partition(segments, Path(directory), cleaning, format=format, limits=limits, chain=chain)
    except CorruptRecordError as error:
        # Trying again would not mend it.
        return segments[0].topic, segments[0].partition, error
