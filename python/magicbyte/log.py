"""Stored logs: one noun for a segment file, a partition directory, a directory of partitions, or bytes in hand."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

from . import _remote, _seek
from ._conditions import Headers, conditions
from ._layout import UNKNOWN, Found, Segment, beside, find, in_order, joined
from ._overlap import Bounds, settled
from .replicas import Replica, resolve

if TYPE_CHECKING:
    from ._core import ConsumerRecord, LedgerRow, Limits, Part, Reader, RecordBatch, Scan, Transactions
    from ._report import Report

__all__ = ["Log", "Segment"]

Path: TypeAlias = "str | os.PathLike[str]"
Source: TypeAlias = "Path | bytes | bytearray | memoryview | Sequence[Path]"
Range: TypeAlias = "tuple[int | None, int | None] | range"
Offsets: TypeAlias = "Range | Mapping[int, Range] | Mapping[tuple[str, int], Range]"
Times: TypeAlias = "tuple[int | datetime | None, int | datetime | None] | range"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Stretch(NamedTuple):
    """What a ``_core.Part`` is made of, but plain, so that it travels to a worker without the extension."""

    path: str
    topic: str
    partition: int
    start: int
    end: int | None
    first_offset: int | None
    end_offset: int | None


class Log:
    """A log as it is stored, read without a broker.

    A log is what stood there when it was opened: later segments are not seen (open it again), and nothing is ever
    written beside it.

    Args:
        source: a segment file, a partition directory (``orders-0``), a directory of such directories (a broker's data
            directory: what is no partition in it is not looked at), a list of such paths, or the bytes of a segment or of
            a fetch response. Paths may be addresses, ``s3://``, ``gs://``, ``abfss://``, ``hdfs://`` and whatever else
            fsspec reaches (extra ``storage``, and the storage's own package, such as s3fs).
        format: ``kafka`` (v0 to v3, mixed) | ``kip87`` | ``kip82a`` | ``kip82b`` (magic 2 read so) | ``v0`` … ``v3``
            (that one only).
        topic, partition: name a single partition, in place of its directory's name; of a directory of partitions they
            choose some.
        check_crc: whether each entry's checksum is computed.
        mode: at damage: ``FAILFAST`` raises, ``DROPMALFORMED`` goes on behind it, ``PERMISSIVE`` reports it as well.
        limits: bounds for records, batches, decompressed bytes and headers.
        mmap: map the files instead of reading them, with the caller's word that they stay as they are meanwhile.
        replicas: of several paths that hold copies of one partition, which is read: ``lineage``, the one that the leader
            epochs of their checkpoints prove right (KIP-101, KIP-279); ``longest``; ``first``. ``None`` takes the lineage
            where every copy has its checkpoint. ``replicas`` of the log says what was decided, and what is a fork. The
            rule also decides between segments of one directory that hold the same offsets; ``bounds`` says how.

        storage: options of the file system behind addresses, as fsspec takes them (``{"endpoint_url": …}``); they hold for
            that address in the whole process. Usual: what the storage's own package finds in the environment.

    Raises:
        ValueError: several copies of one partition, and no rule that decides between them; segments that overlap, and the
            rule that was named can't tell. Where none was named, overlaps are looked for when it is first read, and
            refused then; ``verify`` and ``ledger`` take segments as they are.
        OSError: the path can't be read.
        FileNotFoundError: nothing is there, or a directory without a segment.
    """

    def __init__(
        self,
        source: Source,
        *,
        format: str = "kafka",
        topic: str | None = None,
        partition: int | None = None,
        check_crc: bool = True,
        mode: str = "FAILFAST",
        limits: Limits | None = None,
        mmap: bool = False,
        replicas: str | None = None,
        storage: Mapping[str, Any] | None = None,
    ) -> None:
        self.format = format
        self._options: dict[str, Any] = {"check_crc": check_crc, "mode": mode, "limits": limits, "mmap": mmap}
        self._data: bytes | None = None
        if storage is not None:
            for path in [source] if isinstance(source, str | os.PathLike) else source:
                if isinstance(path, str | os.PathLike):
                    _remote.use(os.fspath(path), storage)
        if isinstance(source, bytes | bytearray | memoryview):
            # Bytes are immutable; what may change under the reader is copied.
            self._data = bytes(source)
            name = Segment("", topic or "", UNKNOWN if partition is None else partition, UNKNOWN, len(self._data))
            found = Found([name], [], True)
            self.source, self.sources = "", []
        elif isinstance(source, str | os.PathLike):
            self.source = _remote.located(os.fspath(source))
            self.sources = [self.source]
            found = find(self.source, topic, partition)
        else:
            self.sources = [_remote.located(os.fspath(path)) for path in source]
            self.source = ", ".join(self.sources)
            found = joined([find(path, topic, partition) for path in self.sources])
        chosen = found.segments
        copies: list[Replica] = []
        if self._data is None:
            chosen, copies = resolve(found.segments, replicas, self.end_offset)
        self.segments: list[Segment] = in_order(chosen)
        """The segments, in the order of (topic, partition, base offset)."""
        self._rule = replicas
        self._bounds: Bounds | None = {} if self._data is not None else None
        if replicas is not None:
            self.bounds = self.bounds
        self.left_out: list[tuple[str, str]] = found.left_out
        """Paths that look like a part of the log and are not read, each with the reason."""
        self.single: bool = found.single
        """Whether this is one partition, not a directory of partitions."""
        self.replicas: list[Replica] = copies
        """Of partitions that are there several times, each copy: which is read, and where the others differ from it."""

    @property
    def bounds(self) -> Bounds:
        """By path, the offsets that a segment gives (first, end), of segments of one directory that hold the same ones.

        Found out when it is first asked for, and by the first reading; what is set instead is believed.

        Raises:
            ValueError: no rule was named, and the leader epochs can't tell which segment is right.
        """
        if self._bounds is None:
            self._bounds = settled(self.segments, self._rule, self.format, self.end_offset)
        return self._bounds

    @bounds.setter
    def bounds(self, bounds: Bounds) -> None:
        self._bounds = bounds

    def end_offset(self, segments: list[Segment]) -> int:
        """The offset behind the last sound batch of a partition's segments."""
        options = {key: self._options[key] for key in ("check_crc", "limits")}
        return _seek.end_offset(segments, self.format, options)

    @property
    def partitions(self) -> list[tuple[str, int]]:
        """The partitions, as (topic, partition), sorted."""
        return sorted({(segment.topic, segment.partition) for segment in self.segments})

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return sum(segment.size for segment in self.segments)

    def records(
        self,
        isolation: str = "read_uncommitted",
        control: bool = False,
        *,
        offsets: Offsets | None = None,
        timestamps: Times | None = None,
        headers: Headers | None = None,
        past_lso: bool = False,
    ) -> Iterator[ConsumerRecord]:
        """The records, in offset order in each partition. Control records come only if asked for.

        ``headers`` chooses by headers: ``{"trace-id": b"abc"}`` (``None`` is a null value, ``True`` any, ``False`` no header of
        that key), or conditions as text, ``"trace-id=abc"``, ``"tenant!=acme"``, ``"retry"``, ``"!poison"``, one or several
        that must all hold. Of a key that repeats, one header is enough. A batch in which the value does not occur is passed
        over once its checksum was compared: its records are not decoded.

        ``isolation="read_committed"`` leaves out what transactions aborted and, as in Kafka, ends a partition at its
        last stable offset: where the first transaction begins whose end is not in the data. ``past_lso=True`` goes on
        behind it and leaves only such unknown ones out. ``reader`` has findings that say where it ended and how many
        records are left behind.
        """
        reader = self.reader(
            offsets=offsets,
            timestamps=timestamps,
            headers=headers,
            isolation=isolation,
            past_lso=past_lso,
            control=control,
        )
        return reader.records()

    def batches(self, *, offsets: Offsets | None = None, timestamps: Times | None = None) -> Iterator[RecordBatch]:
        """The batches (of v0 and v1: entries), control batches too: header fields at once, ``.records`` when asked."""
        return self.reader(offsets=offsets, timestamps=timestamps, control=True).batches()

    def scan(
        self,
        columns: Sequence[str] | None = None,
        offsets: Offsets | None = None,
        timestamps: Times | None = None,
        isolation: str = "read_uncommitted",
        views: bool = False,
        *,
        headers: Headers | None = None,
        control: bool = False,
        batch_rows: int = 65_536,
        batch_bytes: int = 4 << 20,
        past_lso: bool = False,
    ) -> Scan:
        """The records as Arrow columns; only the columns asked for are built.

        ``headers``, ``isolation`` and ``past_lso`` are as in ``records``; the column ``transactionState`` says ``committed``,
        ``aborted``, ``unknown`` or (outside of transactions, and for markers) ``none``, under either isolation.
        ``views=True`` gives BinaryView columns that point into the mapped file: the file must stay as it is meanwhile.
        ``batch_rows`` and ``batch_bytes`` bound each Arrow batch.
        """
        reader = self.reader(
            offsets=offsets,
            timestamps=timestamps,
            headers=headers,
            isolation=isolation,
            past_lso=past_lso,
            control=control,
        )
        return reader.scan(columns, views=views, batch_rows=batch_rows, batch_bytes=batch_bytes)

    def reader(
        self,
        *,
        offsets: Offsets | None = None,
        timestamps: Times | None = None,
        headers: Headers | None = None,
        isolation: str = "read_uncommitted",
        past_lso: bool = False,
        control: bool = False,
    ) -> Reader:
        """The reader behind ``records``, ``batches`` and ``scan``; its ``.findings`` tell what it passed over, in tuples
        of path, position, kind, size, message.

        Kinds are those of damage, ``txnindex`` (an index at odds with the markers) and ``unknown_transaction``: where
        ``read_committed`` ended, with the bytes left behind as the size, and the number of records in the message.
        """
        from magicbyte import _core

        span = None if timestamps is None else _times(timestamps)
        parts = self.parts(offsets, timestamps)
        return _core.Reader(
            parts,
            format=self.format,
            isolation=isolation,
            past_lso=past_lso,
            control=control,
            timestamps=span,
            headers=None if headers is None else conditions(headers),
            **self._options,
        )

    def transactions(self, topic: str, partition: int, since: int | None = None) -> Transactions:
        """What became of the transactions of one partition, found out when it is first asked for.

        All segments of the partition are walked then, header by header: a marker may lie segments behind its records,
        and a transaction that is still open may lie before what is to be read. Of a segment that was opened by its own
        path, those beside it are walked too. ``since``: an offset before which every transaction is known to have ended, so
        that segments before it need not be walked. Memory: what alternates between commit and abort, 24 bytes each time.
        """
        from magicbyte import _core

        segments = [segment for segment in self.segments if (segment.topic, segment.partition) == (topic, partition)]
        if self._data is None and self.single and len(segments) == 1:
            segments = beside(segments[0])
        if since is not None:
            behind = [number for number, it in enumerate(segments) if 0 <= it.base_offset <= since]
            segments = segments[behind[-1] :] if behind else segments
        options = {key: self._options[key] for key in ("check_crc", "limits")}
        if self._data is not None:
            return _core.Transactions([_core.Part(self._data)], format=self.format, **options)
        parts = []
        for segment in segments:
            first, end = self.bounds.get(segment.path, (None, None))
            parts.append(_core.Part(segment.path, first_offset=first, end_offset=end))
        return _core.Transactions(parts, format=self.format, **options)

    def verify(self) -> Report:
        """The strict pass: every defect by kind, place and severity, and whether the log is sound.

        It names what the ordinary reader passes over as well, the order of the log over all segments, and index files that
        lead to wrong places. Checksums are always compared, and damage never ends it, whatever ``check_crc`` and ``mode``
        are.

        Raises:
            OSError: a file can't be read.
        """
        from ._report import run

        return run(self.pairs(), format=self.format, limits=self._options["limits"])

    def ledger(self) -> Iterator[tuple[Segment, LedgerRow]]:
        """One row a batch, those with a wrong checksum too: the segment, and position, size, magic, codec, offsets, epoch,
        producer, records and whether the checksum holds."""
        from ._report import ledger

        return ledger(self.pairs(), format=self.format, limits=self._options["limits"])

    def pairs(self) -> list[tuple[Segment, Part]]:
        """Each segment with the part that is all of it, overlaps left as they are: for ``verify`` and its like."""
        from magicbyte import _core

        source = self._data
        return [(it, _core.Part(it.path if source is None else source, it.topic, it.partition)) for it in self.segments]

    @property
    def digest_options(self) -> dict[str, Any]:
        """The reader's options that a digest or a comparison goes by: damage is always an error there."""
        return {"check_crc": self._options["check_crc"], "limits": self._options["limits"]}

    def parts(self, offsets: Offsets | None = None, timestamps: Times | None = None) -> list[Part]:
        """The stretches of files that hold these offsets and timestamps, in order, each to be read by itself.

        Segments and bytes outside are left out by name and by index. ``offsets``: (first, end), half-open, ``None`` =
        open; or a ``range``; or a mapping from (topic, partition), or from the partition, to these: then other
        partitions are left out. ``timestamps``: (from, to) likewise, in ms or as ``datetime`` with a time zone; a part
        still holds records outside them, for the reader to leave out.
        """
        return self._parts(self.stretches(offsets, timestamps))

    def split(self, target_bytes: int, offsets: Offsets | None = None, timestamps: Times | None = None) -> list[Part]:
        """As ``parts``, but large ones cut between batches into pieces of about ``target_bytes``, without a scan."""
        return self._parts(self.stretches(offsets, timestamps, target_bytes))

    def stretches(
        self, offsets: Offsets | None = None, timestamps: Times | None = None, target_bytes: int | None = None
    ) -> list[Stretch]:
        """What ``parts`` and ``split`` give, as plain tuples."""
        since = None if timestamps is None else _times(timestamps)[0]
        found: list[Stretch] = []
        for name, group in groupby(self.segments, lambda segment: (segment.topic, segment.partition)):
            wanted = _wanted(offsets, *name)
            if wanted is not None:
                found += self.stretches_of(list(group), wanted, since, target_bytes)
        return found

    def stretches_of(
        self,
        segments: Sequence[Segment],
        wanted: tuple[int | None, int | None],
        since: int | None = None,
        target_bytes: int | None = None,
    ) -> list[Stretch]:
        """The same of neighbouring segments of one partition."""
        found: list[Stretch] = []
        for segment, following in zip(segments, [*segments[1:], None], strict=True):
            stretch = self._stretch(segment, following, wanted, since)
            if stretch is not None:
                found += [stretch] if target_bytes is None else self._cut(segment, stretch, target_bytes)
        return found

    def _parts(self, stretches: Iterable[Stretch]) -> list[Part]:
        from magicbyte import _core

        if self._data is not None:
            return [_core.Part(self._data, *stretch[1:]) for stretch in stretches]
        known: dict[tuple[str, int], Transactions] = {}
        parts = []
        for stretch in stretches:
            name = (stretch.topic, stretch.partition)
            if name not in known:
                known[name] = self.transactions(*name)
            parts.append(_core.Part(*stretch, transactions=known[name]))
        return parts

    def _stretch(
        self, segment: Segment, following: Segment | None, wanted: tuple[int | None, int | None], since: int | None
    ) -> Stretch | None:
        """The bytes of a segment that can hold what is wanted; ``None`` if it can't hold any."""
        first, end = _meet(wanted, self.bounds.get(segment.path, (None, None)))
        if first is not None and end is not None and first >= end and segment.path in self.bounds:
            return None
        start, stop = 0, None
        if segment.base_offset >= 0:
            # A segment ends where the next one begins, and begins where its name says.
            if end is not None and segment.base_offset >= end:
                return None
            overlaps = segment.path in self.bounds
            if (
                first is not None
                and following is not None
                and not overlaps
                and (segment.base_offset < following.base_offset <= first)
            ):
                return None
            if first is not None and first > segment.base_offset:
                start = _seek.start_of_offset(segment, first, self.format)
            if end is not None and (following is None or end < following.base_offset):
                stop = _seek.end_of_offset(segment, end, self.format)
            if since is not None:
                begin = _seek.start_of_time(segment, since, self.format)
                if begin is None:
                    return None
                start = max(start, begin)
        if stop is not None and stop <= start:  # two hints at odds, or nothing wanted: for the reader to find out
            stop = None
        return Stretch(segment.path, segment.topic, segment.partition, start, stop, first, end)

    def _cut(self, segment: Segment, stretch: Stretch, target_bytes: int) -> list[Stretch]:
        if self._data is not None:
            return [stretch]
        end = segment.size if stretch.end is None else stretch.end
        places = [
            stretch.start,
            *_seek.cuts(segment, stretch.start, end, target_bytes, self.format),
            stretch.end,
        ]
        return [stretch._replace(start=a or 0, end=b) for a, b in pairwise(places)]

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from ._html import log_table

        return log_table(self)

    def __repr__(self) -> str:
        names = self.partitions
        topics = len({topic for topic, _ in names})
        one = f"{names[0][0]}-{names[0][1]}" if len(names) == 1 else f"{topics} topics, {len(names)} partitions"
        what = repr(self.source) if self._data is None else "bytes"
        return f"<Log {what}: {one}, {len(self.segments)} segments, {self.size:,} bytes>"


def _meet(one: tuple[int | None, int | None], other: tuple[int | None, int | None]) -> tuple[int | None, int | None]:
    """What lies in both ranges."""
    firsts = [first for first, _ in (one, other) if first is not None]
    ends = [end for _, end in (one, other) if end is not None]
    return max(firsts, default=None), min(ends, default=None)


def _wanted(offsets: Offsets | None, topic: str, partition: int) -> tuple[int | None, int | None] | None:
    """The offsets (first, end) that are wanted of a partition; ``None`` for none of it."""
    if isinstance(offsets, Mapping):
        by_name = cast("Mapping[int | tuple[str, int], Range]", offsets)
        chosen = by_name.get((topic, partition), by_name.get(partition))
        return None if chosen is None else _pair(chosen, "offsets")
    return (None, None) if offsets is None else _pair(offsets, "offsets")


def _pair(value: Range, what: str) -> tuple[int | None, int | None]:
    if isinstance(value, range):
        if value.step != 1:
            raise ValueError(f"{what}: a range in steps of {value.step}; only 1 is possible")
        return (value.start, value.stop)
    try:
        first, end = value
    except (TypeError, ValueError):
        raise TypeError(f"{what}: (first, end) or a range expected, not {value!r}") from None
    return (
        None if first is None else operator.index(first),
        None if end is None else operator.index(end),
    )


def _times(value: Times) -> tuple[int | None, int | None]:
    if isinstance(value, range):
        return _pair(value, "timestamps")
    try:
        first, end = value
    except (TypeError, ValueError):
        raise TypeError(f"timestamps: (from, to) or a range expected, not {value!r}") from None
    return (_milliseconds(first), _milliseconds(end))


def _milliseconds(value: int | datetime | None) -> int | None:
    """The first whole millisecond at or behind a moment: right for both ends of a half-open range."""
    if not isinstance(value, datetime):
        return None if value is None else operator.index(value)
    if value.tzinfo is None:
        raise ValueError(f"timestamps: {value!r} has no time zone")
    return -((_EPOCH - value) // timedelta(milliseconds=1))
