"""Whether two logs hold the same records, as a Spark job: a task for each segment's offsets, in both logs."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from magicbyte._compare import Difference, Digest, first_difference
from magicbyte._layout import absolute
from magicbyte.errors import CorruptRecordError
from magicbyte.log import Log, Stretch
from magicbyte.spark.jobs import bounds_of, collect

if TYPE_CHECKING:
    from magicbyte._core import ConsumerRecord
    from magicbyte._layout import Segment
    from magicbyte.log import Source

__all__ = ["diff", "digest"]

Name = tuple[str, int]
Range = tuple[int | None, int | None]
Stretches = tuple[Stretch, ...]
Task = tuple[Stretches, Stretches]
LEAST = 16 << 20
"""Bytes of a task: segments that are smaller go together."""


def diff(
    spark: SparkSession,
    first: Log | Source,
    second: Log | Source,
    *,
    format: str = "kafka",
    progress: Callable[[int], object] | None = None,
) -> list[Difference]:
    """``magicbyte.diff``: the same answer. The offsets of each segment of ``first`` (of small ones, of several) are a task, which
    digests them in both logs; only where the digests differ are records compared one by one.

    The files must be there under the same paths on every worker. ``progress`` is told the bytes of both logs that are done.

    Raises:
        CorruptRecordError: damage in one of them.
    """
    one, other = (log if isinstance(log, Log) else Log(log, format=format) for log in (first, second))
    names = one.partitions
    theirs = {name: name for name in other.partitions}
    if len(names) == len(theirs) == 1 and one.single and other.single:
        theirs = {names[0]: other.partitions[0]}
    found = {name: Difference(*name, None, ("partition",), None, None, "first") for name in names if name not in theirs}
    found |= {
        name: Difference(*name, None, ("partition",), None, None, "second") for name in theirs if name not in names
    }

    mine_of, yours_of = _Partitions(one), _Partitions(other)
    places: list[tuple[Name, Task]] = []
    tasks: list[tuple[int, Task]] = []
    for name in names:
        if name not in theirs:
            continue
        for wanted in mine_of.ranges(name):
            (a, mine), (b, yours) = mine_of.stretches(name, wanted), yours_of.stretches(theirs[name], wanted)
            places.append((name, (mine, yours)))
            tasks.append((a + b, (mine, yours)))
    work = partial(
        _same, formats=(one.format, other.format), checks=(_checks(one), _checks(other)),
        bounds=(bounds_of(one.digest_options["limits"]), bounds_of(other.digest_options["limits"])),
    )  # fmt: skip
    for (name, stretches), same in zip(places, collect(spark, "diff", tasks, work, progress), strict=True):
        if isinstance(same, CorruptRecordError):
            raise same
        if not same and name not in found:
            streams = (_records(log, own) for log, own in zip((one, other), stretches, strict=True))
            found.update((name, it) for it in first_difference(name, *streams))
    return [found[name] for name in sorted(found)]


def digest(
    spark: SparkSession,
    source: Log | Source,
    *,
    format: str = "kafka",
    progress: Callable[[int], object] | None = None,
) -> dict[Name, Digest]:
    """``magicbyte.digest``, a task a partition: its digest is one over all of its records, in order.

    Raises:
        CorruptRecordError: damage; a digest of a part would prove nothing.
    """
    log = source if isinstance(source, Log) else Log(source, format=format)
    partitions = _Partitions(log)
    tasks = [partitions.stretches(name, (None, None)) for name in log.partitions]
    work = partial(_digest, format=log.format, check_crc=_checks(log), bounds=bounds_of(log.digest_options["limits"]))
    found = {}
    for name, one in zip(log.partitions, collect(spark, "digest", tasks, work, progress), strict=True):
        if isinstance(one, CorruptRecordError):
            raise one
        found[name] = one
    return found


class _Partitions:
    """The segments of a log by partition, and the stretches of a range of offsets, without a look at all the others."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.segments: dict[Name, list[Segment]] = {}
        for segment in log.segments:
            self.segments.setdefault((segment.topic, segment.partition), []).append(segment)
        self.bases = {name: [it.base_offset for it in own] for name, own in self.segments.items()}
        self.sizes = {absolute(segment.path): segment.size for segment in log.segments}

    def ranges(self, name: Name) -> list[Range]:
        """The offsets of each segment, from its base to the next one's; small ones together. Open on both sides."""
        if any(segment.path in self.log.bounds for segment in self.segments[name]):
            return [(None, None)]  # segments that overlap may give what lies behind the next one's base
        cuts: list[int] = []
        size = 0
        for segment, following in pairwise(self.segments[name]):
            size += segment.size
            if size >= LEAST and following.base_offset > (cuts[-1] if cuts else self.bases[name][0]):
                cuts.append(following.base_offset)
                size = 0
        return list(zip([None, *cuts], [*cuts, None], strict=True))

    def stretches(self, name: Name, wanted: Range) -> tuple[int, Stretches]:
        """Their bytes, and they themselves."""
        first, end = wanted
        bases = self.bases[name]
        start = 0 if first is None else max(bisect_left(bases, first) - 1, 0)
        stop = len(bases) if end is None else bisect_left(bases, end)
        found = self.log.stretches_of(self.segments[name][start:stop], wanted)
        # A worker may stand in another directory.
        own = tuple(stretch._replace(path=absolute(stretch.path)) for stretch in found)
        ends = ((stretch, self.sizes[stretch.path] if stretch.end is None else stretch.end) for stretch in own)
        return sum(max(end - stretch.start, 0) for stretch, end in ends), own


def _records(log: Log, stretches: Stretches) -> Iterator[ConsumerRecord]:
    from magicbyte import _core

    parts = [_core.Part(*stretch) for stretch in stretches]
    return _core.Reader(parts, format=log.format, **log.digest_options).records()


def _checks(log: Log) -> bool:
    return bool(log.digest_options["check_crc"])


def _digest(
    stretches: Stretches, *, format: str, check_crc: bool, bounds: dict[str, int] | None
) -> Digest | CorruptRecordError:
    """In the worker."""
    from magicbyte import _core

    limits = None if bounds is None else _core.Limits(**bounds)
    parts = [_core.Part(*stretch) for stretch in stretches]
    try:
        sha256, records, offsets = _core.digest(parts, format=format, check_crc=check_crc, limits=limits)
    except CorruptRecordError as error:
        # Trying again would not mend it.
        return error
    first, last = offsets or (None, None)
    return Digest(sha256, records, first, last)


def _same(
    task: Task, *, formats: tuple[str, str], checks: tuple[bool, bool], bounds: tuple[dict[str, int] | None, ...]
) -> bool | CorruptRecordError:
    """In the worker: whether a range of offsets holds the same in both logs."""
    found = []
    for stretches, format, check_crc, limits in zip(task, formats, checks, bounds, strict=True):
        one = _digest(stretches, format=format, check_crc=check_crc, bounds=limits)
        if isinstance(one, CorruptRecordError):
            return one
        found.append(one)
    return found[0] == found[1]
