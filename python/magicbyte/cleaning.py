"""The log cleaner: what a broker's compaction keeps of a log, written into another directory. The source is never touched."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from magicbyte import _core
from magicbyte._layout import Segment
from magicbyte._segments import (
    Written,
    by_partition,
    bytes_of,
    copied,
    copy_beside,
    in_order,
    put,
    put_aside,
    retained,
    size_of,
)
from magicbyte.errors import CorruptRecordError

if TYPE_CHECKING:
    from magicbyte._compacting import Compaction
    from magicbyte.interceptors import Chain
    from magicbyte.log import Log, Source

__all__ = ["Cleaned", "CleanedPartition", "Cleaning", "clean", "clean_partition"]

DAY = 86_400_000  # milliseconds


@dataclass(frozen=True, slots=True)
class Cleaning:
    """A broker's settings, under its names with ``_`` for ``.``; the defaults are Kafka's. Times are milliseconds.

    Attributes:
        now: the time of the cleaning, since 1970; None: the clock's.
        delete_retention_ms: how long tombstones, and markers whose data is gone, stay from the first cleaning on that could
            have dropped them; that one stamps the time into the batch (KIP-534).
        min_compaction_lag_ms: segments with a younger record, and all behind the first of them, are not cleaned.
        strategy: which record of a key wins: the highest ``offset``, ``timestamp``, or version in a ``header`` (KIP-280).
        header: that header's name; its value is 8 bytes, big-endian, or ASCII digits. Without one a record ranks lowest.
        segment_bytes, segment_index_bytes: small segments are joined up to these sizes.
        index_interval_bytes: between two entries of an index.
        producer_id_expiration_ms: a producer that was silent so long needs no batch any more to remember its sequences by.
        retention_ms, retention_bytes: with these the policy is ``compact,delete``: oldest segments go whole, before
            cleaning and after it. None: no limit.
        dedupe_buffer_size: bytes of memory for keys, 24 for each (32 unless ``strategy`` is ``offset``). Where the keys do
            not fit there are more passes over the log, and the outcome is the same.
        clean_active: cleans the last segment, too. A broker never does; for a log that is not written any more. An entry that
            is not all there at its end is left out, as by a broker that starts.

    ``max.compaction.lag.ms`` and ``min.cleanable.dirty.ratio`` tell a broker when to clean, not what to keep: a cleaning
    that is asked for takes place.
    """

    now: int | None = None
    delete_retention_ms: int = DAY
    min_compaction_lag_ms: int = 0
    strategy: Literal["offset", "timestamp", "header"] = "offset"
    header: str = "version"
    segment_bytes: int = 1 << 30
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    producer_id_expiration_ms: int = DAY
    retention_ms: int | None = None
    retention_bytes: int | None = None
    dedupe_buffer_size: int = 128 << 20
    clean_active: bool = False

    def __post_init__(self) -> None:
        if self.strategy not in ("offset", "timestamp", "header"):
            raise ValueError(f"strategy is offset, timestamp or header, not {self.strategy!r}")
        for name in ("delete_retention_ms", "min_compaction_lag_ms", "segment_bytes", "dedupe_buffer_size"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is not below 0")


@dataclass(slots=True)
class CleanedPartition:
    """What was done to one partition.

    Attributes:
        counts: ``records`` read below ``bound`` and ``kept``; those that are gone: ``outranked`` (another one of the key
            won), ``tombstones``, ``aborted``, ``without_key`` (a cleaner drops them); ``markers`` of transactions that are
            gone; ``batches`` read, ``copied`` as they are, ``rebuilt``, ``emptied``, ``stamped`` with a delete horizon;
            ``rounds``: how many tables of keys it took; with a chain, ``chain_records`` that it got, and which of them it
            changed and dropped: ``chain_changed``, ``chain_dropped``.
        bound: the offset that was cleaned up to; what lies behind is copied.
        bytes, written: of all ``.log`` files before and after.
        segments, segments_written: their number.
        deleted: segments that retention took.
    """

    topic: str
    partition: int
    directory: str
    counts: Counter[str] = field(default_factory=Counter)
    bound: int = 0
    bytes: int = 0
    written: int = 0
    segments: int = 0
    segments_written: int = 0
    deleted: int = 0


@dataclass(slots=True)
class Cleaned:
    """What was done: partition by partition, and in all.

    Attributes:
        uncleanable: partitions that are damaged, and the error of each; nothing was written for them.
        seconds: how long it took.
    """

    partitions: list[CleanedPartition] = field(default_factory=list)
    uncleanable: list[tuple[str, int, CorruptRecordError]] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def counts(self) -> Counter[str]:
        """The sums."""
        return sum((one.counts for one in self.partitions), Counter())

    @property
    def bytes(self) -> int:
        """Of all ``.log`` files before."""
        return sum(one.bytes for one in self.partitions)

    @property
    def written(self) -> int:
        """And after."""
        return sum(one.written for one in self.partitions)


def clean(
    source: Log | Source,
    target: str | os.PathLike[str],
    cleaning: Cleaning | None = None,
    *,
    format: str = "kafka",
    limits: _core.Limits | None = None,
    strict: bool = True,
    chain: Chain | None = None,
    progress: Callable[[int], object] | None = None,
) -> Cleaned:
    """Cleans a partition directory into the directory ``target``, or a directory of partitions into directories below it.

    What stands in a target directory is replaced, as a whole and when all of it is written. Memory: a batch,
    ``dedupe_buffer_size`` (where keys do not fit, a bit a record, too), and 8 to 50 bytes for each open transaction and
    active producer. ``progress`` is told the bytes read so far; in all they are at least twice the size of what is cleaned.

    Raises:
        CorruptRecordError: a damaged segment. A cleaner must not guess: its partition is not written, as a broker leaves
            it uncleaned. ``recover`` makes a sound copy. Unless ``strict``, the others are cleaned, and the error
            stands in ``uncleanable``.
        ValueError: source and target are the same, or one holds the other; or the chain changed a record's key or time, gave
            more records than it got or others, or held some back.
        OSError: as the system gives it.
        What an interceptor raises, where the chain has ``errors="raise"``.
    """
    from magicbyte.log import Log

    log = source if isinstance(source, Log) else Log(source, format=format, limits=limits)
    cleaning = _timed(cleaning or Cleaning())
    done = Cleaned()

    def one(segments: list[Segment], directory: Path, told: Callable[[int], None]) -> None:
        partition = clean_partition(
            segments, directory, cleaning, format=log.format, limits=limits, chain=chain, progress=told
        )
        done.partitions.append(partition)

    done.seconds = by_partition(log, target, one, done.uncleanable, strict=strict, progress=progress)
    return done


def _compaction(chain: Chain, segment: Segment, format: str, limits: _core.Limits | None) -> Compaction:
    from magicbyte._compacting import Compaction

    return Compaction(chain, segment.topic, segment.partition, format, limits)


def _timed(cleaning: Cleaning) -> Cleaning:
    """With the time of the cleaning, the same for all partitions."""
    return cleaning if cleaning.now is not None else replace(cleaning, now=time.time_ns() // 1_000_000)


def clean_partition(
    segments: Sequence[Segment],
    directory: str | os.PathLike[str],
    cleaning: Cleaning,
    *,
    format: str = "kafka",
    limits: _core.Limits | None = None,
    chain: Chain | None = None,
    progress: Callable[[int], object] | None = None,
) -> CleanedPartition:
    """``clean`` for the segments of one partition, in order. ``progress`` is told how many bytes more were read."""
    cleaning = _timed(cleaning)
    with put_aside(directory) as made:
        done = _Partition(list(segments), made, cleaning, format, limits, chain, progress or (lambda count: None)).run()
    done.directory = str(directory)
    return done


@dataclass(slots=True)
class _Looked:
    """A segment, and what its headers say."""

    segment: Segment
    records: int
    newest: int  # milliseconds, -1 for none
    base: int
    modified: int  # milliseconds
    index_size: int
    time_index_size: int

    @property
    def largest(self) -> int:
        """What retention goes by: the largest timestamp, the file's time where there is none."""
        return self.newest if self.newest >= 0 else self.modified


class _Partition:
    """Cleans one partition into a directory that nobody sees yet."""

    def __init__(
        self,
        segments: list[Segment],
        made: Path,
        cleaning: Cleaning,
        format: str,
        limits: _core.Limits | None,
        chain: Chain | None,
        progress: Callable[[int], object],
    ) -> None:
        self.segments, self.made, self.cleaning, self.progress = segments, made, cleaning, progress
        self.compaction = None if chain is None else _compaction(chain, segments[0], format, limits)
        self.indexer = _core.Rewriter(format=format, limits=limits)
        self.now = cleaning.now or 0
        parts = [_core.Part(segment.path, segment.topic, segment.partition) for segment in segments]
        transactions = _core.Transactions(parts, format=format, limits=limits)
        self.stable = transactions.last_stable_offset
        self.core = _core.Cleaner(
            transactions, strategy=cleaning.strategy, header=cleaning.header, format=format, limits=limits
        )
        self.end = 0  # the offset behind the log's last

    def run(self) -> CleanedPartition:
        first = self.segments[0]
        done = CleanedPartition(first.topic, first.partition, "")
        looked = [self._look(segment) for segment in self.segments]
        done.bytes = sum(one.segment.size for one in looked)
        done.segments = len(looked)
        left = self._retained([(one.largest, one.segment.size) for one in looked])
        done.deleted, looked = len(looked) - len(left), looked[len(looked) - len(left) :]
        bound, dirty = self._bound(looked)
        done.bound = bound
        self._find_latest(dirty)
        kept = [self._write(group) for group in self._groups(dirty, bound)]
        done.counts = Counter(self.core.counts())
        if self.compaction is not None:
            self.compaction.end()
            done.counts.update(self.compaction.counts)
        behind = looked[len(dirty) :]
        sizes = [(largest, size) for _, largest, size in kept] + [(one.largest, one.segment.size) for one in behind]
        gone = len(sizes) - len(self._retained(sizes))
        for base, _, _ in kept[:gone]:
            for suffix in ("log", "index", "timeindex", "txnindex"):
                (self.made / f"{base:020d}.{suffix}").unlink(missing_ok=True)
        done.deleted += gone
        done.written = sum(size for _, size in sizes[gone:])
        done.segments_written = len(sizes) - gone
        names = {base for base, _, _ in kept[gone:]} | {one.base for one in behind}
        self._copy(behind, names)
        return done

    def _look(self, segment: Segment) -> _Looked:
        records, newest, first, last = self.core.survey(segment.path)
        if 0 <= first < self.end:
            text = f"{segment.path}: at byte 0: offsets fall: {first} comes after {self.end - 1}"
            raise CorruptRecordError(text, segment.path, 0, "disorder")
        self.end = max(self.end, last + 1, segment.base_offset)
        beside = Path(segment.path)
        return _Looked(
            segment,
            records,
            newest,
            segment.base_offset if segment.base_offset >= 0 else max(first, 0),
            os.stat(segment.path).st_mtime_ns // 1_000_000,
            size_of(beside.with_suffix(".index")),
            size_of(beside.with_suffix(".timeindex")),
        )

    def _retained(self, sizes: list[tuple[int, int]]) -> list[tuple[int, int]]:
        return retained(sizes, self.now, self.cleaning.retention_ms, self.cleaning.retention_bytes)

    def _bound(self, looked: list[_Looked]) -> tuple[int, list[_Looked]]:
        """The offset that is not cleaned any more, and the segments wholly below it."""
        bound = self.end if self.cleaning.clean_active else looked[-1].base
        if self.stable is not None:
            bound = min(bound, self.stable)
        if self.cleaning.min_compaction_lag_ms > 0:
            young = (one.base for one in looked if one.newest > self.now - self.cleaning.min_compaction_lag_ms)
            bound = min(bound, next(young, bound))
        ends = [one.base for one in looked[1:]] + [self.end]
        if not self.cleaning.clean_active:
            ends.pop()
        return bound, looked[: sum(end <= bound for end in ends)]

    def _find_latest(self, dirty: list[_Looked]) -> None:
        core, cleaning = self.core, self.cleaning
        core.start(
            now=self.now,
            delete_retention=cleaning.delete_retention_ms,
            producer_expiration=cleaning.producer_id_expiration_ms,
            high_watermark=self.end,
            expected=sum(one.records for one in dirty),
            memory=cleaning.dedupe_buffer_size,
        )
        while True:
            self._pass(dirty, core.map)
            if core.is_mapped():
                break
            self._pass(dirty, core.mark)
            if not core.goes_on():
                break
        core.write_from_here()

    def _pass(self, dirty: list[_Looked], step: Callable[[], tuple[int, bool]]) -> None:
        for one in dirty:
            self.core.open(one.segment.path, tail=one.segment is self.segments[-1])
            before, ended = 0, False
            while not ended:
                position, ended = step()
                self.progress(position - before)
                before = position

    def _groups(self, dirty: list[_Looked], bound: int) -> list[list[_Looked]]:
        """Segments that become one, by their sizes before cleaning."""
        groups: list[list[_Looked]] = []
        for number, one in enumerate(dirty):
            last = (dirty[number + 1].base if number + 1 < len(dirty) else bound) - 1
            if groups:
                group = [*groups[-1], one]
                fits = (
                    sum(it.segment.size for it in group) <= self.cleaning.segment_bytes
                    and sum(it.index_size for it in group) <= self.cleaning.segment_index_bytes
                    and sum(it.time_index_size for it in group) <= self.cleaning.segment_index_bytes
                    and (one.segment.size == 0 or last - group[0].base < 1 << 31)
                )
                if fits:
                    groups[-1] = group
                    continue
            groups.append([one])
        return groups

    def _write(self, group: list[_Looked]) -> Written:
        """Writes the segment that a group becomes."""
        core = self.core
        base, modified = group[0].base, group[-1].modified
        horizon = self._legacy_horizon()
        core.target(base, self.cleaning.index_interval_bytes)
        path = self.made / f"{base:020d}.log"
        with path.open("wb") as file:
            for one in group:
                index = bytes_of(Path(one.segment.path).with_suffix(".txnindex"))
                core.open(one.segment.path, index, tail=one.segment is self.segments[-1])
                before, ended = 0, False
                while not ended:
                    with in_order(one.segment.path, before):
                        data, position, ended = core.write(one.modified > horizon)
                    file.write(data)
                    self.progress(position - before)
                    before = position
            file.flush()
            os.fsync(file.fileno())
            size = file.tell()
        index, times, transactions, newest = core.close_target()
        if self.compaction is not None:
            size, (index, times, transactions, newest) = self._chained(self.compaction, path, base, transactions)
        # As a broker does: retention goes by it where a segment has no timestamp.
        os.utime(path, ns=(modified * 1_000_000, modified * 1_000_000))
        put(path.with_suffix(".index"), index)
        put(path.with_suffix(".timeindex"), times)
        if transactions:
            put(path.with_suffix(".txnindex"), transactions)
        return Written(base, newest if newest >= 0 else modified, size)

    def _chained(self, compaction: Compaction, path: Path, base: int, transactions: bytes) -> tuple[int, Any]:
        """A written segment through the chain: its bytes then, and its indexes."""
        plain = path.with_suffix(".plain")
        path.rename(plain)
        changed = path.with_suffix(".changed")
        with changed.open("wb") as file:
            compaction.write(plain, file)
        plain.unlink()
        core = self.indexer
        core.target(base, self.cleaning.index_interval_bytes)
        core.open(str(changed), transactions)
        with path.open("wb") as file:
            ended = False
            while not ended:
                data, _, ended = core.write(self.end)
                file.write(data)
            file.flush()
            os.fsync(file.fileno())
            size = file.tell()
        changed.unlink()
        return size, core.close_target()

    def _legacy_horizon(self) -> int:
        """Message sets have no delete horizon of their own: their tombstones go with segments whose file is older than the
        last cleaned one by ``delete.retention.ms``. Which one that is, the broker's checkpoint tells; without it none goes."""
        own = Path(self.segments[0].path).absolute().parent
        first_dirty = _checkpoint(own.parent / "cleaner-offset-checkpoint", own.name)
        clean = [one for one in self.segments if 0 <= one.base_offset < first_dirty]
        if not clean:
            return 0
        return os.stat(clean[-1].path).st_mtime_ns // 1_000_000 - self.cleaning.delete_retention_ms

    def _copy(self, behind: list[_Looked], bases: set[int]) -> None:
        """What was not cleaned, with what stands beside it; snapshots of the segments that stay; epochs, the topic's id."""
        for one in behind:
            path = Path(one.segment.path)
            copied(path, self.made / f"{one.base:020d}.log")
            self.progress(one.segment.size)
            for suffix in (".index", ".timeindex", ".txnindex"):
                if path.with_suffix(suffix).is_file():
                    copied(path.with_suffix(suffix), self.made / f"{one.base:020d}{suffix}")
        copy_beside(self.segments[0], self.made, bases)


def _checkpoint(path: Path, name: str) -> int:
    """A partition's offset in a broker's checkpoint file; 0 where there is none."""
    try:
        lines = path.read_text("utf-8").splitlines()[2:]
    except (OSError, UnicodeDecodeError):
        return 0
    for line in lines:
        topic, _, rest = line.partition(" ")
        partition, _, offset = rest.partition(" ")
        if f"{topic}-{partition}" == name and offset.isdecimal():
            return int(offset)
    return 0
