"""``spark.readStream.format("magicbyte")``: follows a log directory that grows.

Progress is an offset a partition, kept by Spark in the query's checkpoint; nothing is written beside the log. A trigger
reads from one set of offsets to the next, and the same set again after a failure, so a sink that Spark can checkpoint
gets each record once.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import datasource
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from magicbyte.errors import CorruptRecordError

from . import offsets, paths
from .offsets import Name
from .options import Options

if TYPE_CHECKING:
    import pyarrow as pa

    from magicbyte.log import Log, Segment

Offsets = dict[Name, int]
PATIENCE = 0.2
"""Seconds until bytes at a log's end that are no sound entry are looked at again: they may be half-written."""


class StreamReader(datasource.DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows the partitions that the options choose, those that appear later too."""

    def __init__(self, settings: Options, schema: StructType, at_latest: bool) -> None:
        from .source import Reader

        if settings.past_lso:
            raise ValueError("option pastLso: a stream would never come back to what was undecided when it passed")
        if settings.ending != Options().ending:
            raise ValueError(f"option {settings.ending.name}: a stream has no end")
        self._settings = settings
        self._at_latest = at_latest
        self._reader = Reader(settings, schema)
        self._fixed: Offsets | None = None
        # Where the end was last found: segment, byte position, offset.
        self._ends: dict[Name, tuple[str, int, int]] = {}
        # Under read_committed, by partition: the end for which it was last found out, and the last stable offset then.
        self._stable: dict[Name, tuple[int, int]] = {}

    def initialOffset(self) -> dict[str, Any]:
        """Where a new query begins."""
        opened = self._logs()
        if self._at_latest:
            return _json(self._latest(opened))
        spans = offsets.spans(opened, self._settings)
        firsts = _firsts(opened)
        return _json({name: firsts[name] if first is None else first for name, (first, _) in spans.items()})

    def getDefaultReadLimit(self) -> ReadLimit:
        """``maxOffsetsPerTrigger``, over all partitions together, as the Kafka source has it."""
        most = self._settings.max_offsets
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:
        """What is there now is what the query reads."""
        self._fixed = self._latest(self._logs())

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The end of each partition, behind its last complete entry; nearer, where the limit says so."""
        begin = _offsets(start)
        there = self._fixed if self._fixed is not None else self._latest(self._logs(), begin)
        # A partition that is not there any more stays where it was: whether that is a loss, `partitions` decides.
        ends = {**begin, **{name: max(end, begin.get(name, end)) for name, end in there.items()}}
        if self._fixed is None:
            ends |= {name: end for name, end in there.items() if end < begin.get(name, end)}
        if isinstance(limit, ReadMaxRows):
            ends = self._limited(begin, ends, limit.max_rows)
        return _json(ends)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """For Spark's metrics: what was last seen."""
        return _json({name: end for name, (_, _, end) in self._ends.items()}) if self._ends else None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[datasource.InputPartition]:
        """The stretches between two sets of offsets."""
        opened = self._logs()
        firsts = _firsts(opened)
        begin, stop = _offsets(start), _offsets(end)
        chosen: dict[Name, tuple[int | None, int | None]] = {}
        for name, last in sorted(stop.items()):
            if name not in firsts:
                if name in begin:
                    self._lost(name, f"its directory is gone; it was read up to offset {begin[name]}")
                continue
            first = begin.get(name, firsts[name])
            if last < first:
                self._lost(name, f"it ends at offset {last}, and was read up to {first}: it was made anew, or cut")
                continue
            if last > first < firsts[name]:
                self._lost(name, f"offsets {first} to {firsts[name] - 1} are not there any more; it begins later now")
            if last > first:
                chosen[name] = (first, last)
        settled = {name: min(self._stable[name][1], begin.get(name, 0)) for name in chosen if name in self._stable}
        return self._reader.plan(opened, chosen, settled)

    def read(self, partition: datasource.InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task, as the batch reader has them."""
        return self._reader.read(partition)

    def _logs(self) -> list[Log]:
        return paths.logs(self._settings)

    def _lost(self, name: Name, what: str) -> None:
        text = f"{name[0]}-{name[1]}: {what}"
        if self._settings.fail_on_data_loss:
            raise ValueError(f"{text} (failOnDataLoss=false goes on with what is there)")
        warnings.warn(text, stacklevel=2)

    def _latest(self, opened: Sequence[Log], begin: Offsets | None = None) -> Offsets:
        ends = self._last(opened)
        if self._settings.isolation == "read_uncommitted":
            return ends
        # A query may begin behind the last stable offset: it waits there, as a consumer does.
        least = {name: min(first, ends[name]) for name, first in (begin or {}).items() if name in ends}
        return {name: max(self._decided(opened, name, end), least.get(name, 0)) for name, end in ends.items()}

    def _decided(self, opened: Sequence[Log], name: Name, end: int) -> int:
        """The last stable offset of a partition that ends at ``end``.

        What lies before the one of the last time is not walked again: every transaction there has ended.
        """
        known, before = self._stable.get(name, (-1, 0))
        if known != end:
            [log] = [log for log in opened if name in log.partitions]
            found = log.transactions(*name, since=before if known <= end else None).last_stable_offset
            self._stable[name] = end, end if found is None else min(found, end)
        return self._stable[name][1]

    def _last(self, opened: Sequence[Log]) -> Offsets:
        names = offsets.wanted_names(opened, self._settings)
        segments: dict[Name, list[Segment]] = {}
        for log in opened:
            for segment in log.segments:
                segments.setdefault((segment.topic, segment.partition), []).append(segment)
        return {name: self._end(name, segments[name]) for name in names}

    def _end(self, name: Name, segments: list[Segment]) -> int:
        """The offset behind the last complete entry: entries that were seen are not looked at again."""
        last = max(segments, key=lambda segment: segment.base_offset)
        path, position, end = self._ends.get(name, ("", 0, 0))
        if path != last.path or position > last.size:
            from magicbyte._seek import last_indexed

            position, end = last_indexed(last, self._settings.format), max(last.base_offset, 0)
        try:
            position, end = self._walked(last, position, end, "FAILFAST")
        except CorruptRecordError:
            time.sleep(PATIENCE)
            position, end = self._walked(last, position, end, self._settings.mode)
        self._ends[name] = (last.path, position, end)
        return end

    def _walked(self, segment: Segment, position: int, end: int, mode: str) -> tuple[int, int]:
        from magicbyte import _core

        if position >= segment.size:
            return position, end
        part = _core.Part(segment.path, segment.topic, segment.partition, position)
        settings = replace(self._settings, mode=mode, check_crc=True)
        for batch in _core.Reader([part], control=True, **settings.reading()).batches():
            position, end = batch.position + batch.size, batch.last_offset + 1
        return position, end

    def _limited(self, begin: Offsets, ends: Offsets, most: int) -> Offsets:
        """Each partition's share of ``most``, by how much it has: all get on."""
        firsts = _firsts(self._logs()) if any(name not in begin for name in ends) else {}
        starts = {name: begin.get(name, firsts.get(name, end)) for name, end in ends.items()}
        total = sum(max(ends[name] - starts[name], 0) for name in ends)
        if total <= most:
            return ends
        limited = {}
        for name, end in ends.items():
            behind = end - starts[name]
            share = behind * most // total if behind > 0 else behind
            limited[name] = starts[name] + (max(share, 1) if behind > 0 else behind)
        return limited


def _firsts(opened: Sequence[Log]) -> Offsets:
    """Where each partition begins, by its first segment's name."""
    firsts: Offsets = {}
    for log in opened:
        for segment in log.segments:
            name = (segment.topic, segment.partition)
            base = max(segment.base_offset, 0)
            firsts[name] = min(firsts.get(name, base), base)
    return firsts


def _json(of: Offsets) -> dict[str, Any]:
    """As the Kafka source writes them: ``{"orders": {"0": 23}}``."""
    found: dict[str, Any] = {}
    for (topic, partition), offset in sorted(of.items()):
        found.setdefault(topic, {})[str(partition)] = offset
    return found


def _offsets(of: dict[str, Any] | None) -> Offsets:
    return {
        (topic, int(partition)): int(offset)
        for topic, numbers in (of or {}).items()
        for partition, offset in numbers.items()
    }
