"""Custom retention and redaction: records go, or change, and every offset stays what it is. The source is never touched."""

from __future__ import annotations

import copy
import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from magicbyte import _core
from magicbyte._layout import Segment
from magicbyte._segments import Written, by_partition, bytes_of, copy_beside, in_order, put, put_aside, retained
from magicbyte.errors import CorruptRecordError

if TYPE_CHECKING:
    from magicbyte.log import Log, Source
    from magicbyte.middleware.retention import Retention

__all__ = ["Redaction", "Retaining", "Rewritten", "redact", "retain", "rewrite_partition"]

INDEX_INTERVAL = 4096


@dataclass(frozen=True, slots=True)
class Retaining:
    """What stays: whole segments as a broker's retention has it, and records by their own headers.

    Attributes:
        retention: a ``Retention``: a time to live, an end, a legal hold, any predicate over headers, an age.
        retention_ms: segments whose latest record is older go, from the oldest on; not the last one. None: no limit.
        retention_bytes: oldest segments go while the others are no less than this. None: no limit.
        now: the time that all is measured by, in milliseconds since 1970; None: the clock's.
    """

    retention: Retention | None = None
    retention_ms: int | None = None
    retention_bytes: int | None = None
    now: int | None = None

    def __post_init__(self) -> None:
        whole = self.retention_ms is not None or self.retention_bytes is not None
        if whole and self.retention is not None and self.retention.hold is not None:
            raise ValueError(
                "retention_ms and retention_bytes take whole segments, records on hold among them; "
                "max_age of the Retention goes by records"
            )


@dataclass(frozen=True, slots=True)
class Redaction:
    """What is blotted out: all records that have one of these keys, those of aborted transactions too.

    Attributes:
        keys: keys as they are stored.
        drop: the records go. Else they stay, with ``value``.
        value: the new value; None is null. On a compacted topic a null deletes the key in the end.
        without_headers: their headers go with the value: people's data stand there, too.
    """

    keys: frozenset[bytes]
    drop: bool = False
    value: bytes | None = None
    without_headers: bool = True


@dataclass(slots=True)
class Rewritten:
    """What was done.

    Attributes:
        counts: ``records`` read, ``dropped``, ``changed``; ``batches`` read, ``rebuilt``, ``emptied`` (a header stays for
            the sake of a producer's sequences, or of the log's end); ``segments`` that went as a whole, ``segment_records`` in
            them at most; and what ``Retention`` counts of each record, under its names.
        bytes, written: of all ``.log`` files before and after.
        unreadable: partitions that are damaged, and the error of each; nothing was written for them.
        seconds: how long it took.
    """

    counts: Counter[str] = field(default_factory=Counter)
    bytes: int = 0
    written: int = 0
    partitions: int = 0
    unreadable: list[tuple[str, int, CorruptRecordError]] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, other: Rewritten) -> None:
        """Takes in what was done to others."""
        self.counts.update(other.counts)
        self.bytes += other.bytes
        self.written += other.written
        self.partitions += other.partitions
        self.unreadable += other.unreadable


def retain(
    source: Log | Source,
    target: str | os.PathLike[str],
    retaining: Retaining,
    *,
    format: str = "kafka",
    limits: _core.Limits | None = None,
    strict: bool = True,
    progress: Callable[[int], object] | None = None,
) -> Rewritten:
    """Writes what ``retaining`` keeps of a partition directory, or of a directory of partitions, into ``target``.

    Files, memory, ``strict`` and errors are those of ``clean``; the last segment is written again like the others, without
    an entry that is not all there at its end.
    """
    return _each(source, target, timed(retaining), format, limits, strict, progress)


def redact(
    source: Log | Source,
    target: str | os.PathLike[str],
    redaction: Redaction,
    *,
    format: str = "kafka",
    limits: _core.Limits | None = None,
    strict: bool = True,
    progress: Callable[[int], object] | None = None,
) -> Rewritten:
    """Writes a partition directory, or a directory of partitions, into ``target`` with these keys' records blotted out.

    Files, memory, ``strict`` and errors are those of ``clean``; the last segment is written again like the others, without
    an entry that is not all there at its end. Batches without such a record are copied byte for byte.
    """
    return _each(source, target, redaction, format, limits, strict, progress)


def timed(retaining: Retaining) -> Retaining:
    """With one time for all partitions."""
    return retaining if retaining.now is not None else replace(retaining, now=time.time_ns() // 1_000_000)


def _each(
    source: Log | Source,
    target: str | os.PathLike[str],
    what: Retaining | Redaction,
    format: str,
    limits: _core.Limits | None,
    strict: bool,
    progress: Callable[[int], object] | None,
) -> Rewritten:
    from magicbyte.log import Log

    log = source if isinstance(source, Log) else Log(source, format=format, limits=limits)
    done = Rewritten()

    def one(segments: list[Segment], directory: Path, told: Callable[[int], None]) -> None:
        done.add(rewrite_partition(segments, directory, what, format=log.format, limits=limits, progress=told))

    done.seconds = by_partition(log, target, one, done.unreadable, strict=strict, progress=progress)
    return done


def rewrite_partition(
    segments: Sequence[Segment],
    directory: str | os.PathLike[str],
    what: Retaining | Redaction,
    *,
    format: str = "kafka",
    limits: _core.Limits | None = None,
    progress: Callable[[int], object] | None = None,
) -> Rewritten:
    """``retain`` or ``redact`` for the segments of one partition, in order. ``progress`` is told how many bytes more were read."""
    with put_aside(directory) as made:
        return _Partition(list(segments), made, what, format, limits, progress or (lambda count: None)).run()


class _Partition:
    def __init__(
        self,
        segments: list[Segment],
        made: Path,
        what: Retaining | Redaction,
        format: str,
        limits: _core.Limits | None,
        progress: Callable[[int], object],
    ) -> None:
        self.segments, self.made, self.what, self.progress = segments, made, what, progress
        self.format, self.limits = format, limits
        keys = list(what.keys) if isinstance(what, Redaction) else []
        self.core = _core.Rewriter(
            keys=keys,
            replace=isinstance(what, Redaction) and not what.drop,
            value=what.value if isinstance(what, Redaction) else None,
            without_headers=isinstance(what, Redaction) and what.without_headers,
            format=format,
            limits=limits,
        )

    def run(self) -> Rewritten:
        done = Rewritten(bytes=sum(segment.size for segment in self.segments), partitions=1)
        end, left = self._survey(done)
        kept = [self._write(segment, end, done) for segment in left]
        done.counts.update(self.core.counts())
        done.written = sum(one.size for one in kept)
        copy_beside(self.segments[0], self.made, {one.base for one in kept})
        return done

    def _survey(self, done: Rewritten) -> tuple[int, list[Segment]]:
        """The offset behind the log's last, and the segments that retention leaves."""
        looker = _core.Cleaner(_core.Transactions([]), format=self.format, limits=self.limits)
        end, sizes, records = 0, [], []
        for segment in self.segments:
            count, newest, _, last = looker.survey(segment.path)
            end = max(end, last + 1, segment.base_offset)
            modified = os.stat(segment.path).st_mtime_ns // 1_000_000
            sizes.append((newest if newest >= 0 else modified, segment.size))
            records.append(count)
        if isinstance(self.what, Redaction):
            return end, self.segments
        left = retained(sizes, self.what.now or 0, self.what.retention_ms, self.what.retention_bytes)
        gone = len(sizes) - len(left)
        done.counts["segments"] += gone
        done.counts["segment_records"] += sum(records[:gone])
        return end, self.segments[gone:]

    def _write(self, segment: Segment, end: int, done: Rewritten) -> Written:
        base = max(segment.base_offset, 0)
        path = self.made / f"{base:020d}.log"
        offsets = self._expired(segment, done)
        self.core.target(base, INDEX_INTERVAL)
        index = bytes_of(Path(segment.path).with_suffix(".txnindex"))
        self.core.open(segment.path, index, offsets, tail=segment is self.segments[-1])
        with path.open("wb") as file:
            before, ended = 0, False
            while not ended:
                with in_order(segment.path, before):
                    data, position, ended = self.core.write(end)
                file.write(data)
                self.progress(position - before)
                before = position
            file.flush()
            os.fsync(file.fileno())
            size = file.tell()
        modified = os.stat(segment.path).st_mtime_ns
        os.utime(path, ns=(modified, modified))
        index, times, transactions, newest = self.core.close_target()
        put(path.with_suffix(".index"), index)
        put(path.with_suffix(".timeindex"), times)
        if transactions:
            put(path.with_suffix(".txnindex"), transactions)
        return Written(base, newest if newest >= 0 else modified // 1_000_000, size)

    def _expired(self, segment: Segment, done: Rewritten) -> bytes:
        """Offsets of the records that their headers let go: 8 bytes for each."""
        if isinstance(self.what, Redaction) or self.what.retention is None:
            return b""
        import numpy as np

        from magicbyte.log import Log

        now = self.what.now or 0
        retention = copy.copy(self.what.retention)
        retention.clock = lambda: now
        part = Log(segment.path, format=self.format, limits=self.limits, topic="", partition=0)
        # A policy may want to see the whole record; headers and times are what decides.
        columns = ("offset", "timestamp", "headers") if retention.policy == "pass" else None
        gone = []
        before = Counter(dict(retention.counts))
        for batch in part.scan(columns=columns):
            offsets = batch.column("offset").to_numpy()
            (kept,) = retention.arrow([batch])
            if kept.num_rows < batch.num_rows:
                gone.append(np.setdiff1d(offsets, kept.column("offset").to_numpy()))
        done.counts.update(Counter(dict(retention.counts)) - before)
        return np.sort(np.concatenate(gone)).astype("=i8").tobytes() if gone else b""
