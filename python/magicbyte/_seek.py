"""Where in a segment to begin: the index files as hints, and cuts between batches.

An index is written by another hand and may be old, empty, cut short or wrong. So it only ever says where to look: what
stands at that place must be a whole entry, with its checksum, that fits what the index said. Otherwise the reading
begins where the segment begins. Records are never lost to a bad index, time is.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _remote
from ._remote import is_address
from .errors import MagicbyteError

if TYPE_CHECKING:
    from ._core import OffsetIndex, TimeIndex
    from ._layout import Segment

MAX_INDEX = 64 << 20
"""Bytes of an index that are read; a broker makes them 10 MiB unless told otherwise (``segment.index.bytes``)."""
MAX_TRIED = 1_000
"""Batches that are looked at to confirm one entry of a time index."""
MAX_HOPS = 250_000
"""Entries that a cut without an index walks over, header by header, in one segment."""
LAST_BATCHES = (64 << 10, 1 << 20)
"""Bytes at the end of a segment that are looked through for its last batch, before its index is asked."""
SMALL_TAIL = 1 << 20
"""Bytes behind the last time index entry that are looked through, to leave the segment out."""


class Batch(NamedTuple):
    """What an entry's header says."""

    base_offset: int
    last_offset: int
    max_timestamp: int
    end: int


def start_of_offset(segment: Segment, first: int, format: str) -> int:
    """A byte position where an entry begins, with no offset from ``first`` on before it."""
    index = _offset_index(segment)
    if index is None:
        return 0
    _, position = index.lookup(first)
    batch = entry_at(segment, position, format) if position else None
    return position if batch is not None and batch.base_offset <= first else 0


def end_of_offset(segment: Segment, end: int, format: str) -> int | None:
    """A byte position where an entry begins, with no offset below ``end`` from there on; ``None`` if not known."""
    index = _offset_index(segment)
    if index is None:
        return None
    entries = index.entries()
    # An entry names the last offset of its batch, so the first at or behind `end` may still begin before it.
    at = bisect_left(entries, (end, 0))
    for _, position in entries[at : at + 2]:
        batch = entry_at(segment, position, format) if position else None
        if batch is not None and batch.base_offset >= end:
            return position
    return None


def start_of_time(segment: Segment, since: int, format: str) -> int | None:
    """A byte position where an entry begins, with no timestamp (ms) from ``since`` on before it.

    ``None``: none in the whole segment. A time index claims running maxima, which only a walk over all headers could
    prove. So its claims are tried on the batches around the place, and trusted for those further off.
    """
    times = _time_index(segment)
    index = _offset_index(segment)
    if times is None or index is None:
        return 0
    entries = times.entries()
    if any(later <= earlier for earlier, later in pairwise(entries)):
        return 0
    # Strictly below: records of the same millisecond may stand before the one that is named.
    at = bisect_left(entries, (since, -1 << 63)) - 1
    if at < 0:
        return 0
    last = at == len(entries) - 1
    position = _maximum(segment, index, entries, at, format)
    if position is None or not (last or _maximum(segment, index, entries, at + 1, format) is not None):
        return 0
    if last and segment.size - position <= SMALL_TAIL and _none_since(segment, position, since, format):
        return None
    return position


def _maximum(segment: Segment, index: OffsetIndex, entries: list[tuple[int, int]], at: int, format: str) -> int | None:
    """Where the batch begins that an entry of the time index names, if it is the first to reach that timestamp."""
    timestamp, offset = entries[at]
    _, position = index.lookup(entries[at - 1][1]) if at else (0, 0)
    for batch in islice(_entries(segment, position, format), MAX_TRIED):
        if batch.last_offset >= offset:
            return position if batch.base_offset <= offset and batch.max_timestamp == timestamp else None
        if batch.max_timestamp >= timestamp:
            return None
        position = batch.end
    return None


def end_offset(segments: list[Segment], format: str, options: dict[str, Any]) -> int:
    """The offset behind the last sound batch of a partition; where there is none, the last segment's base offset."""
    from magicbyte import _core

    for segment in reversed(segments):
        for place, exact in _ends(segment, format):
            reader = _core.Reader(
                [_core.Part(segment.path, start=place)], format=format, control=True, mode="DROPMALFORMED", **options
            )
            most, batch = None, None
            for batch in reader.batches():
                most = batch.last_offset if most is None else max(most, batch.last_offset)
            if exact and most is not None:
                return most + 1
            # In the midst of a batch another can seem to begin; what ends where the file ends is one.
            if batch is not None and batch.position + batch.size == segment.size:
                return batch.last_offset + 1
    return max(segments[-1].base_offset, 0)


def _ends(segment: Segment, format: str) -> Iterator[tuple[int, bool]]:
    """Where to begin in search of the last batch, the cheapest first; whether a batch begins there."""
    yield from ((segment.size - window, False) for window in LAST_BATCHES if window < segment.size)
    # An index of a large segment has megabytes, too.
    if segment.size > LAST_BATCHES[-1] and (place := last_indexed(segment, format)):
        yield place, True
    yield 0, True


def last_indexed(segment: Segment, format: str) -> int:
    """The last byte position by the index where an entry begins; 0 where there is none to be trusted."""
    index = _offset_index(segment)
    for _, position in index.entries()[-1:] if index is not None else []:
        if position and entry_at(segment, position, format) is not None:
            return position
    return 0


def cuts(segment: Segment, start: int, end: int, target: int, format: str) -> list[int]:
    """Positions between ``start`` and ``end`` where entries begin, for pieces of about ``target`` bytes.

    A tenth more than ``target`` is one piece still, as in Hadoop's splits: a task costs more than it would save.
    """
    target = max(target, 1)
    pieces = -(-(end - start - target // 10) // target)
    if pieces < 2:
        return []
    goals = [start + (end - start) * piece // pieces for piece in range(1, pieces)]
    index = _offset_index(segment)
    positions = [position for _, position in index.entries()] if index is not None else []
    if positions and all(a < b for a, b in pairwise(positions)):
        found = sorted({positions[at] for goal in goals if (at := bisect_left(positions, goal)) < len(positions)})
        found = [position for position in found if start < position < end]
        if found and all(entry_at(segment, position, format) is not None for position in found):
            return found
    # A request for each header costs more than the pieces bring.
    return [] if is_address(segment.path) else list(_hop(segment.path, start, end, goals))


def entry_at(segment: Segment, position: int, format: str) -> Batch | None:
    """The entry at that byte position, if a whole one with its checksum stands there."""
    return next(_entries(segment, position, format), None)


def _entries(segment: Segment, position: int, format: str) -> Iterator[Batch]:
    """The entries from a byte position on, as long as they are whole and in place."""
    from magicbyte import _core

    if not 0 <= position < segment.size:
        return
    part = _core.Part(segment.path, start=position)
    try:
        for batch in _core.Reader([part], format=format, control=True).batches():
            if batch.position != position:
                return
            position += batch.size
            yield Batch(batch.base_offset, batch.last_offset, batch.max_timestamp, position)
    except MagicbyteError:  # for the reader to tell
        return


def _none_since(segment: Segment, position: int, since: int, format: str) -> bool:
    from magicbyte import _core

    part = _core.Part(segment.path, start=position)
    reader = _core.Reader([part], format=format, control=True, timestamps=(since, None))
    try:
        return reader.scan(["offset"]).count() == 0 and not reader.findings
    except MagicbyteError:  # for the reader to tell
        return False


def _hop(path: str, start: int, end: int, goals: list[int]) -> Iterator[int]:
    """The first entry at or behind each goal, found by going from header to header; ends early where one is odd."""
    goal = iter(goals)
    wanted = next(goal, None)
    position = start
    with Path(path).open("rb", buffering=0) as file:
        for _ in range(MAX_HOPS):
            if wanted is None or position >= end:
                return
            if position >= wanted and position > start:
                yield position
                while wanted is not None and wanted <= position:
                    wanted = next(goal, None)
            size = entry_size(os.pread(file.fileno(), 18, position))
            if size is None:
                return
            position += size


def entry_size(header: bytes) -> int | None:
    """Bytes of the entry that begins so, ``None`` if that is not sure.

    Classic: offset int64, size int32, then 4 bytes and the magic. v3: the size is a uvarint, so that its first byte is
    0x80 or above for all but tiny batches; those below are the walker's to tell.
    """
    if len(header) < 18:
        return None
    if header[8] < 0x20:
        size = int.from_bytes(header[8:12])
        return 12 + size if size >= 14 and header[16] <= 2 else None
    size = 0
    for count, byte in enumerate(header[8:13]):
        size |= (byte & 0x7F) << 7 * count
        if byte < 0x80:
            magic = header[8 + count + 1 + 4]
            return 8 + count + 1 + size if header[8] >= 0x80 and magic == 3 else None
    return None


def _offset_index(segment: Segment) -> OffsetIndex | None:
    from magicbyte import _core

    data = beside(segment, ".index")
    try:
        return _core.OffsetIndex(data, segment.base_offset) if data else None
    except MagicbyteError:
        return None


def _time_index(segment: Segment) -> TimeIndex | None:
    from magicbyte import _core

    data = beside(segment, ".timeindex")
    try:
        return _core.TimeIndex(data, segment.base_offset) if data else None
    except MagicbyteError:
        return None


@lru_cache(maxsize=8)
def _object(address: str) -> bytes | None:
    # Asked for several times to find one place: an object that is there stays as it is.
    try:
        return _remote.read(address, MAX_INDEX)
    except OSError:
        return None


def beside(segment: Segment, suffix: str) -> bytes | None:
    """An index file's bytes; ``None`` where there is none that can be read."""
    path = Path(segment.path)
    if segment.base_offset < 0 or path.suffix != ".log":
        return None
    if is_address(segment.path):
        return _object(segment.path.removesuffix(".log") + suffix)
    beside = path.with_suffix(suffix)
    try:
        if not beside.is_file():  # a pipe would block for ever
            return None
        with beside.open("rb") as file:
            return file.read(MAX_INDEX)
    except OSError:
        return None
