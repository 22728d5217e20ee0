"""What the jobs share: work done in tasks on files that every worker sees, with progress told to the driver."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from pyspark import InheritableThread
from pyspark.sql import SparkSession

__all__ = ["bounds_of", "collect", "session", "watched"]

if TYPE_CHECKING:
    from pyspark.accumulators import Accumulator

    from magicbyte._core import Limits

T = TypeVar("T")
R = TypeVar("R")
PACE = 0.2  # seconds between two looks at how far the tasks are


@contextmanager
def session(master: str, name: str) -> Iterator[SparkSession]:
    """A session at this master that ends with the block."""
    builder = SparkSession.builder.master(master).appName(f"magicbyte {name}")
    spark = builder.config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        spark.stop()


def collect(
    spark: SparkSession,
    name: str,
    tasks: Sequence[tuple[int, T]],
    work: Callable[[T], R],
    progress: Callable[[int], object] | None = None,
) -> list[R]:
    """Does ``work`` on each of ``tasks`` in a task of its own; the results in the same order.

    Tasks come with their sizes in bytes. The largest begin first, so that none of them is left over at the end.
    ``progress`` is told the bytes of the tasks that are done. Ctrl-C cancels the job.
    """
    if not tasks:
        return []
    order = sorted(range(len(tasks)), key=lambda at: -tasks[at][0])

    def job(done: Accumulator[int]) -> list[tuple[int, R]]:
        def one(task: tuple[int, tuple[int, T]]) -> tuple[int, R]:
            at, (size, what) = task
            result = work(what)
            done.add(size)
            return at, result

        given = [(at, tasks[at]) for at in order]
        found: list[tuple[int, R]] = spark.sparkContext.parallelize(given, len(given)).map(one).collect()
        return found

    return [result for _, result in sorted(watched(spark, name, job, progress), key=lambda it: it[0])]


def watched(
    spark: SparkSession,
    name: str,
    job: Callable[[Accumulator[int]], R],
    progress: Callable[[int], object] | None = None,
) -> R:
    """Runs ``job``, whose tasks add what they have done to the accumulator that it is given; ``progress`` is told its value.

    The job is in a group of its own: Ctrl-C cancels it and no other.
    """
    context = spark.sparkContext
    done = context.accumulator(0)
    results: list[R] = []
    failures: list[BaseException] = []
    group = f"magicbyte-{name}-{uuid.uuid4().hex}"

    def run() -> None:
        try:
            context.setJobGroup(group, f"magicbyte {name}", interruptOnCancel=True)
            results.append(job(done))
        except BaseException as error:
            failures.append(error)

    thread = InheritableThread(target=run)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(PACE)
            if progress is not None:
                progress(done.value)
    except BaseException:
        context.cancelJobGroup(group)
        thread.join()
        raise
    if failures:
        raise failures[0]
    if progress is not None:
        progress(done.value)
    return results[0]


def bounds_of(limits: Limits | None) -> dict[str, int] | None:
    """Limits as plain values: what travels to a worker holds nothing of the extension."""
    if limits is None:
        return None
    return {name: getattr(limits, name) for name in ("record", "batch", "decompressed", "headers")}
