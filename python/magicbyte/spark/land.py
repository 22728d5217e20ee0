"""Logs into Parquet as a Spark job: tasks write the files from Arrow columns, without a hop through the JVM."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from magicbyte.landing import Landed, Landing, Outcome, Task
from magicbyte.landing import land as land_with
from magicbyte.spark.jobs import collect

if TYPE_CHECKING:
    from magicbyte.log import Log, Source

__all__ = ["land"]


def land(
    spark: SparkSession,
    source: Log | Source,
    target: str | os.PathLike[str],
    landing: Landing | None = None,
    *,
    progress: Callable[[int], object] | None = None,
) -> Landed:
    """``magicbyte.land``, a task for ``target_bytes`` of a log. Source and target must be there under the same paths on every
    worker. A task that fails, or runs twice, leaves nothing under the final names: what it wrote is named only by its
    result."""

    def run(tasks: Sequence[tuple[int, Task]], work: Callable[[Task], Outcome]) -> list[Outcome]:
        return collect(spark, "land", tasks, work, progress)

    return land_with(source, target, landing, run=run)
