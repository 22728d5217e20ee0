"""A clean copy of what is readable in a damaged log. The input is only ever read."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from magicbyte._others import Filled, Input, Others, rows
from magicbyte._report import Report, run
from magicbyte.errors import CorruptRecordError
from magicbyte.log import Log, Segment
from magicbyte.writer import Writer, topic_id_of

if TYPE_CHECKING:
    from magicbyte._core import LedgerRow, Limits, Part
    from magicbyte.log import Source

    Pairs = list[tuple[Segment, Part]]

__all__ = ["Filled", "Lost", "Recovered", "recover", "recover_partition"]

PIECE = 8 << 20  # bytes that are copied in one go
SEGMENT_BYTES = 1 << 30
TAILS = ("torn_tail", "zero_tail")


@dataclass(frozen=True, slots=True)
class Lost:
    """Bytes of the input that are not in the copy.

    Attributes:
        path, position, size: the bytes.
        first_offset, last_offset: as the batch's header has them, which may itself be damaged; ``None`` for bytes that are
            no batch.
        why: in words.
        replaced: whether other copies of the partition had all the records that are missing here.
    """

    path: str
    position: int
    size: int
    first_offset: int | None
    last_offset: int | None
    why: str
    replaced: bool = False


@dataclass(frozen=True, slots=True)
class Recovered:
    """What was copied, and what is missing.

    Attributes:
        batches, records, bytes: copied.
        filled: what of it comes from other copies, where the log is one of several and damaged.
        lost: what is not in the copy, in the order of the log. Tails (torn, or zeros) are among it.
        report: the strict pass over the input.
    """

    batches: int = 0
    records: int = 0
    bytes: int = 0
    lost: list[Lost] = field(default_factory=list)
    filled: list[Filled] = field(default_factory=list)
    report: Report = field(default_factory=Report)

    def __add__(self, other: Recovered) -> Recovered:
        return Recovered(
            self.batches + other.batches,
            self.records + other.records,
            self.bytes + other.bytes,
            [*self.lost, *other.lost],
            [*self.filled, *other.filled],
            self.report + other.report,
        )


def recover(
    source: Log | Source,
    directory: str | os.PathLike[str],
    *,
    format: str = "kafka",
    limits: Limits | None = None,
    segment_bytes: int = SEGMENT_BYTES,
    progress: Callable[[int], object] | None = None,
) -> Recovered:
    """Writes a clean copy of all that is readable: partition directories with fresh indexes, which a broker opens.

    Batches are copied byte by byte where their checksum holds, all their records can be read, and their offsets follow the
    ones before; the rest is left out and told. One partition goes to ``directory`` itself, a directory of partitions to
    directories of the same names below it. Each appears as a whole or not at all. ``progress`` is told the bytes done.

    Of a log that is one of several copies (``Log([…])``, chosen by lineage), what damage took is filled from the others, as
    far as they are of the same lineage.

    Raises:
        ValueError: ``directory`` is the input, or inside of it, or around it; segments overlap, and nothing tells which is
            right (see ``Log``).
        FileExistsError: something stands there already.
        OSError: what can't be read or written.
    """
    log = source if isinstance(source, Log) else Log(source, format=format, limits=limits)
    target = Path(directory)
    _keep_apart(log, target)
    _ = log.bounds  # refused before anything is written
    pairs = log.pairs()
    whole = Recovered()
    done = 0
    for _, group in groupby(pairs, lambda pair: (pair[0].topic, pair[0].partition)):
        partition = list(group)
        # The name of a directory that is there: it becomes no other path.
        place = target if log.single else target / Path(partition[0][0].path).parent.name
        if place.exists() and (not place.is_dir() or any(place.iterdir())):
            raise FileExistsError(f"{place}: something stands there already")
        before = done

        def advance(position: int, before: int = before) -> None:
            if progress is not None:
                progress(before + position)

        whole += recover_partition(log, partition, place, limits=limits, segment_bytes=segment_bytes, advance=advance)
        done += sum(segment.size for segment, _ in partition)
    return whole


def recover_partition(
    log: Log,
    pairs: Pairs,
    directory: Path,
    *,
    limits: Limits | None = None,
    segment_bytes: int = SEGMENT_BYTES,
    advance: Callable[[int], object] | None = None,
) -> Recovered:
    """``recover`` of one partition, whose segments are ``pairs``."""
    report = run(pairs, format=log.format, limits=limits)
    told: dict[tuple[str, int], str] = {}
    # The first error at a place says the most; then the note of a tail.
    for d in sorted(report.defects, key=lambda d: d.severity == "note" or d.kind == "gap"):
        if d.severity == "error" or d.kind in TAILS:
            told.setdefault((d.path, d.position), d.message)
    writer = Writer(
        directory,
        segment_bytes=segment_bytes,
        read_format=log.format if log.format.startswith("kip") else "kafka",
        topic_id=topic_id_of([segment for segment, _ in pairs]),
    )
    copy = _Copy(writer)
    others = Others(log, pairs[0][0].topic, pairs[0][0].partition, limits)
    with writer:
        before = 0
        for segment, part in pairs:
            with Input(segment, part) as source:
                position = 0
                broken: LedgerRow | None = None
                for row in rows(segment, part, log.format, limits):
                    if row.position > position:
                        why = told.get((segment.path, position), "no sound batch")
                        copy.lose(segment, position, row.position - position, broken, why)
                    position, broken = row.position, None
                    if not row.crc_ok:
                        # Its length may be false: it ends where the next one begins.
                        broken = row
                        continue
                    if row.readable and not _within(row, log.bounds.get(segment.path, (None, None))):
                        copy.lose(segment, row.position, row.size, row, "another segment gives these offsets")
                    elif row.readable:
                        copy.fill(others, row.first_offset)
                        copy.take(segment, row, source)
                    else:
                        why = told.get((segment.path, row.position), "records that can't be read")
                        copy.lose(segment, row.position, row.size, row, why)
                    position += row.size
                    if advance is not None:
                        advance(before + position)
                copy.flush()
                if position < segment.size:
                    why = told.get((segment.path, position), "no whole batch up to the end")
                    copy.lose(segment, position, segment.size - position, broken, why)
            before += segment.size
        copy.fill(others, None)
    return Recovered(copy.batches, copy.records, copy.bytes, copy.lost, copy.filled, report)


class _Copy:
    """Copies batches one after the other, several at a time."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.batches = self.records = self.bytes = 0
        self.lost: list[Lost] = []
        self.filled: list[Filled] = []
        self._unfilled = 0
        self._waiting: list[tuple[Segment, LedgerRow, bytes]] = []
        self._size = 0

    def take(self, segment: Segment, row: LedgerRow, source: Input) -> None:
        self._waiting.append((segment, row, source.read(row.position, row.size)))
        self._size += row.size
        if self._size >= PIECE:
            self.flush()

    def lose(self, segment: Segment, position: int, size: int, row: LedgerRow | None, why: str) -> None:
        self.flush()
        first, last = (None, None) if row is None else (row.first_offset, row.last_offset)
        self.lost.append(Lost(segment.path, position, size, first, last, why))

    def fill(self, others: Others, end: int | None) -> None:
        """What was lost since the last call, from other copies: offsets up to ``end``, or to where the copies part."""
        lost = self.lost[self._unfilled :]
        if not lost or not others.any:
            return
        self.flush()
        self._unfilled = len(self.lost)
        due = self.writer.next_offset
        for found, data in others.batches(due, end):
            if found.first_offset < self.writer.next_offset:
                continue
            self.writer.append(data)
            whole = found.first_offset == due
            due = found.last_offset + 1 if whole else due
            self.filled.append(found)
            self.batches += 1
            self.records += found.records
            self.bytes += found.size
        if due == end:
            self.lost[-len(lost) :] = [replace(one, replaced=True) for one in lost]

    def flush(self) -> None:
        waiting, self._waiting, self._size = self._waiting, [], 0
        if not waiting:
            return
        try:
            self.writer.append(b"".join(data for _, _, data in waiting))
        except (CorruptRecordError, ValueError):
            # Which one it is: one by one.
            for segment, row, data in waiting:
                try:
                    self.writer.append(data)
                except (CorruptRecordError, ValueError) as error:
                    self.lost.append(
                        Lost(segment.path, row.position, row.size, row.first_offset, row.last_offset, str(error))
                    )
                else:
                    self._count(row)
            return
        for _, row, _ in waiting:
            self._count(row)

    def _count(self, row: LedgerRow) -> None:
        self.batches += 1
        self.records += row.records
        self.bytes += row.size


def _within(row: LedgerRow, bounds: tuple[int | None, int | None]) -> bool:
    first, end = bounds
    return (first is None or row.first_offset >= first) and (end is None or row.last_offset < end)


def _keep_apart(log: Log, target: Path) -> None:
    out = target.resolve()
    for source in (Path(path).resolve() for path in log.sources):
        if out.is_relative_to(source) or source.is_relative_to(out):
            raise ValueError(f"{target}: the copy must not stand where the input stands")
