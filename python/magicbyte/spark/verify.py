"""The strict pass as a Spark job, for logs of many segments: a task a segment, then a task a partition.

The first stage looks at every byte: checksums, records, index files. What it tells of each batch (offsets, epochs,
sequences, markers) goes, compressed, to the second stage, which judges the order of each partition over all of its
segments. So the report is that of ``Log.verify``.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession

from magicbyte._layout import Segment, absolute
from magicbyte._report import Defect, Report, begin, beside_log, reported
from magicbyte._state import DAMAGE, State
from magicbyte.log import Log
from magicbyte.spark.jobs import bounds_of, watched

if TYPE_CHECKING:
    from pyspark.accumulators import Accumulator

    from magicbyte._core import Limits, Verifier
    from magicbyte.log import Source

__all__ = ["verify"]

Key = tuple[int, int, int]
"""Number of the partition, of the segment in it, of the piece in that."""
KEPT = 1000
"""Defects of one kind and severity that a partition's report keeps in words, as in the core."""


def verify(
    spark: SparkSession,
    source: Log | Source,
    *,
    format: str = "kafka",
    limits: Limits | None = None,
    replicas: str | None = None,
    progress: Callable[[int], object] | None = None,
) -> Report:
    """``Log.verify``, a task a segment. The files must be there under the same paths on every worker. ``progress`` is told the
    bytes of the segments that are done.

    Raises:
        OSError: the path can't be read, or holds no segment.
        ValueError: as for ``Log``.
    """
    log = source if isinstance(source, Log) else Log(source, format=format, limits=limits, replicas=replicas)
    if any(not segment.path for segment in log.segments):
        return log.verify()  # bytes in hand are not worth a job
    return verify_segments(spark, log.segments, format=log.format, limits=limits, progress=progress)


def verify_segments(
    spark: SparkSession,
    segments: Sequence[Segment],
    *,
    format: str = "kafka",
    limits: Limits | None = None,
    progress: Callable[[int], object] | None = None,
) -> Report:
    """The same for segments in the order of topic, partition, base offset."""
    if not segments:
        return Report()
    # A worker may stand in another directory.
    own = [replace(it, path=absolute(it.path)) for it in segments]
    partitions = [list(group) for _, group in groupby(own, lambda it: (it.topic, it.partition))]
    tasks = [(at, number) for at, own in enumerate(partitions) for number in range(len(own))]
    job = _Job(partitions, format, bounds_of(limits))

    def run(done: Accumulator[int]) -> dict[int, Report]:
        def look(task: tuple[int, int]) -> Iterator[tuple[Key, Any]]:
            yield from job.look(task)
            done.add(partitions[task[0]][task[1]].size)

        context = spark.sparkContext
        looked = context.parallelize(tasks, len(tasks)).flatMap(look)
        count = min(len(partitions), max(context.defaultParallelism, 1))
        sorted_ = looked.repartitionAndSortWithinPartitions(count, _partition_of)
        return dict(sorted_.mapPartitions(job.judge).collect())

    reports = watched(spark, "verify", run, progress)
    names = {one.path: two.path for one, two in zip(own, segments, strict=True)}
    report = Report()
    for at in range(len(partitions)):
        report += reports[at]
    return Report(report.batches, report.records, [_named(defect, names) for defect in report.defects], report.counts)


def _partition_of(key: Key) -> int:
    return key[0]


def _named(defect: Defect, names: Mapping[str, str]) -> Defect:
    """Under the path that the caller gave."""
    for there, given in names.items():
        if there != given and defect.path.startswith(there.removesuffix(".log")):
            path = given.removesuffix(".log") + defect.path.removeprefix(there.removesuffix(".log"))
            return Defect(path, defect.position, defect.kind, defect.severity, defect.message)
    return defect


class _Job:
    """What the tasks do. Travels to the workers: plain values only."""

    def __init__(self, partitions: list[list[Segment]], format: str, limits: dict[str, int] | None) -> None:
        self.partitions = partitions
        self.format = format
        self.limits = limits

    def _verifier(self, *, outline: bool) -> Verifier:
        from magicbyte import _core

        limits = None if self.limits is None else _core.Limits(**self.limits)
        return _core.Verifier(format=self.format, limits=limits, outline=outline)

    def look(self, task: tuple[int, int]) -> Iterator[tuple[Key, Any]]:
        """One segment: what its batches told, in pieces; then what was found."""
        from magicbyte import _core

        at, number = task
        segments = self.partitions[at]
        segment = segments[number]
        verifier = self._verifier(outline=True)
        part = _core.Part(segment.path, segment.topic, segment.partition)
        begin(verifier, segment, part, last=number == len(segments) - 1, outline=True)
        ended, piece = False, 0
        while not ended:
            _, ended, _ = verifier.step()
            if outline := verifier.outline():
                yield (at, number, piece), zlib.compress(outline, 1)
                piece += 1
        yield (
            (at, number, piece),
            (verifier.defects(), verifier.counts(), verifier.batches, verifier.records),
        )

    def judge(self, told: Iterable[tuple[Key, Any]]) -> Iterator[tuple[int, Report]]:
        """Partitions, each of whose segments come in order."""
        for at, lines in groupby(told, lambda line: line[0][0]):
            segments = self.partitions[at]
            verifier = self._verifier(outline=False)
            state = State(segments)
            report = Report()
            for number, pieces in groupby(lines, lambda line: line[0][1]):
                segment = segments[number]
                state.before(segment, verifier)
                begin(verifier, segment, None, last=number == len(segments) - 1)
                for _, piece in pieces:
                    if isinstance(piece, bytes):
                        verifier.replay(zlib.decompress(piece))
                        continue
                    defects, counts, batches, records = piece
                    state.damaged = state.damaged or any(kind in DAMAGE for kind, _, _ in counts)
                    report += Report(
                        batches,
                        records,
                        [Defect(beside_log(segment.path, suffix), *rest) for _, suffix, *rest in defects],
                        {(kind, severity): count for kind, severity, count in counts},
                    )
                verifier.end()
            verifier.finish()
            yield at, _kept(report + reported(verifier, segments, state))


def _kept(report: Report) -> Report:
    """As many defects in words as the core keeps of a partition, by file and position."""
    seen: Counter[tuple[str, str]] = Counter()
    kept = []
    for defect in sorted(report.defects, key=lambda it: (it.path, it.position)):
        seen[(defect.kind, defect.severity)] += 1
        if seen[(defect.kind, defect.severity)] <= KEPT:
            kept.append(defect)
    return Report(report.batches, report.records, kept, report.counts)
