"""`magicbyte dump --follow`: what is appended to logs while we look, in segments that grow and in new ones.

A broker appends whole batches, so only whole ones are shown; the beginning of one at the end waits for its rest. Nothing
is locked, and nothing is held open between two looks: the broker may roll, truncate and delete as it likes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from magicbyte.cli import problems
from magicbyte.cli.narrow import tail_of_each
from magicbyte.cli.options import Selection, Sources
from magicbyte.cli.output import place
from magicbyte.errors import CorruptRecordError, MagicbyteError

if TYPE_CHECKING:
    from magicbyte._core import ConsumerRecord, Part
    from magicbyte.log import Segment

INTERVAL = 0.5  # seconds between two looks


@dataclass
class Place:
    """How far a segment was read: bytes, and what the file looked like then."""

    position: int = 0
    seen: tuple[int, int] = (-1, -1)  # size, mtime in ns
    doubted: int = -1  # where a batch looked damaged, once: it may have been half written


@dataclass
class Follow:
    """Reads logs to their ends, and what comes behind, for ever.

    Attributes:
        told: called where a look is over, for output that waits.
        wanted: which records are let through; None for all.
        last: of what is there at the first look, only the last so many of each partition.
    """

    opened: Sources
    selection: Selection
    told: Callable[[], None]
    wanted: Callable[[ConsumerRecord], bool] | None = None
    last: int | None = None
    places: dict[str, Place] = field(default_factory=dict)
    defects: int = 0

    def records(self) -> Iterator[ConsumerRecord]:
        """The records in the order in which they are met; in each partition that of their offsets."""
        last = self.last
        while True:
            yield from self._look() if last is None else tail_of_each(self._look(), last)
            if self.defects and self.selection.mode == "FAILFAST":
                return
            last = None
            self.told()
            time.sleep(INTERVAL)

    def _look(self) -> Iterator[ConsumerRecord]:
        for segment in self._segments():
            for record in self._of_segment(segment):
                if self.wanted is None or self.wanted(record):
                    yield record
            if self.defects and self.selection.mode == "FAILFAST":
                return

    def _segments(self) -> Iterator[Segment]:
        from magicbyte.log import Log

        s = self.selection
        for source in self.opened.logs:
            try:
                segments = Log(source.log.source, format=s.format).segments
            except FileNotFoundError:
                continue  # every segment has gone; one may come again
            for segment in segments:
                if (not s.topics or segment.topic in s.topics) and (
                    not s.partitions or segment.partition in s.partitions
                ):
                    yield segment

    def _of_segment(self, segment: Segment) -> Iterator[ConsumerRecord]:
        from magicbyte._core import Part

        try:
            status = Path(segment.path).stat()
        except FileNotFoundError:
            return  # retention was faster
        at = self.places.setdefault(segment.path, Place())
        seen = (status.st_size, status.st_mtime_ns)
        if seen == at.seen:
            return
        at.seen = seen
        if status.st_size < at.position:
            name = place(segment.topic, segment.partition)
            problems.complain(
                f"{segment.path}: cut from {at.position} to {status.st_size} bytes; {name} goes on from there",
                level="warning",
            )
            at.position = status.st_size
            return
        s = self.selection
        end = self._whole(segment, at)
        if end > at.position:
            part = Part(segment.path, segment.topic, segment.partition, at.position, end, s.from_offset, s.to_offset)
            yield from self._read(s, part)
            at.position = end

    def _whole(self, segment: Segment, at: Place) -> int:
        """The end of the last whole batch. Damage is believed when it is there at a second look, too."""
        from magicbyte._core import Part

        part = Part(segment.path, segment.topic, segment.partition, at.position)
        end = at.position
        try:
            for batch in Selection(format=self.selection.format, control=True).reader([part]).batches():
                end = batch.position + batch.size
        except CorruptRecordError as error:
            if at.doubted == error.position:
                return max(segment.size, end)  # the reading tells of it, and goes by --mode
            at.doubted, at.seen = error.position, (-1, -1)
        return end

    def _read(self, selection: Selection, part: Part) -> Iterator[ConsumerRecord]:
        reader = selection.reader([part])
        try:
            yield from reader.records()
        except MagicbyteError as error:
            self.defects += 1
            problems.damage(getattr(error, "path", None) or "-", error, "--mode DROPMALFORMED goes on behind it")
            return
        for path, position, kind, _size, message in reader.findings:
            if kind not in problems.TAILS:
                self.defects += 1
                problems.complain(problems.located(str(path), position, message), level="warning")
