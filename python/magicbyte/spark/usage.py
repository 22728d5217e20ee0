"""Charge-back and routes as Spark jobs: each task sums up its stretch of a log, the driver adds the sums up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from magicbyte.log import Stretch
from magicbyte.routes import Routes
from magicbyte.routes import routes as routes_with
from magicbyte.spark.jobs import collect
from magicbyte.usage import Rows
from magicbyte.usage import chargeback as chargeback_with

if TYPE_CHECKING:
    from magicbyte.log import Log, Source
    from magicbyte.middleware.chargeback import ChargeBack

__all__ = ["chargeback", "routes"]


def chargeback(
    spark: SparkSession,
    source: Log | Source,
    *by: str,
    groups: int = 10_000,
    format: str = "kafka",
    progress: Callable[[int], object] | None = None,
) -> ChargeBack:
    """``magicbyte.usage.chargeback``, a task for 256 MiB of a segment. The files must be there under the same paths on every
    worker."""

    def run(tasks: Sequence[tuple[int, Stretch]], work: Callable[[Stretch], Rows]) -> list[Rows]:
        return collect(spark, "chargeback", tasks, work, progress)

    return chargeback_with(source, *by, groups=groups, format=format, run=run)


def routes(
    spark: SparkSession,
    source: Log | Source,
    *,
    header: str = "mb.trail",
    groups: int = 10_000,
    format: str = "kafka",
    progress: Callable[[int], object] | None = None,
) -> Routes:
    """``magicbyte.routes.routes``, in the same tasks."""

    def run(tasks: Sequence[tuple[int, Stretch]], work: Callable[[Stretch], Routes]) -> list[Routes]:
        return collect(spark, "trail", tasks, work, progress)

    return routes_with(source, header=header, groups=groups, format=format, run=run)
