"""What other copies of a partition have where the chosen one is damaged, and how batches are read to be copied."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from magicbyte import _core
from magicbyte.log import Log, Segment

if TYPE_CHECKING:
    from magicbyte._core import LedgerRow, Limits, Part
    from magicbyte.replicas import Replica

__all__ = ["Filled", "Input", "Others", "rows"]


@dataclass(frozen=True, slots=True)
class Filled:
    """A batch that another copy of the partition had, where the chosen one is damaged.

    Attributes:
        path, position, size: where it was taken from.
        first_offset, last_offset, records: of the batch.
    """

    path: str
    position: int
    size: int
    first_offset: int
    last_offset: int
    records: int


class Others:
    """The copies of a partition that are not the chosen one, as far as they have its lineage."""

    def __init__(self, log: Log, topic: str, partition: int, limits: Limits | None) -> None:
        self._format, self._limits = log.format, limits
        self._name = (topic, partition)
        self._copies: list[tuple[Replica, int]] = [
            (copy, copy.diverges_at)
            for copy in log.replicas
            if not copy.chosen and copy.diverges_at is not None and (copy.topic, copy.partition) == self._name
        ]

    @property
    def any(self) -> bool:
        """Whether there are any."""
        return bool(self._copies)

    def batches(self, first: int, end: int | None) -> Iterator[tuple[Filled, bytes]]:
        """Sound batches of offsets from ``first`` to before ``end``, lowest first; the same from each copy that has it.

        Memory: the ledger of that stretch. Replicas hold the same batches, byte for byte.
        """
        found: list[tuple[Filled, Segment, Part]] = []
        for copy, parts_at in self._copies:
            bound = parts_at if end is None else min(end, parts_at)
            if bound <= first:
                continue
            topic, partition = self._name
            other = Log(copy.path, format=self._format, limits=self._limits, topic=topic, partition=partition)
            segments = {segment.path: segment for segment in other.segments}
            for part in other.parts((first, bound)):
                segment = segments[str(part.source)]
                for row in rows(segment, part, self._format, self._limits):
                    if row.crc_ok and row.readable and row.first_offset >= first and row.last_offset < bound:
                        place = (segment.path, row.position, row.size)
                        found.append((Filled(*place, row.first_offset, row.last_offset, row.records), segment, part))
        for filled, segment, part in sorted(found, key=lambda one: one[0].first_offset):
            with Input(segment, part) as source:
                yield filled, source.read(filled.position, filled.size)


class Input:
    """A segment's bytes, opened for reading only."""

    def __init__(self, segment: Segment, part: Part) -> None:
        self._data = part.source if isinstance(part.source, bytes) else None
        path = Path(segment.path)
        self._file: BinaryIO | None = None if self._data is not None else path.open("rb")

    def read(self, position: int, size: int) -> bytes:
        if self._file is None:
            return (self._data or b"")[position : position + size]
        self._file.seek(position)
        return self._file.read(size)

    def __enter__(self) -> Input:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()


def rows(segment: Segment, part: Part, format: str, limits: Limits | None) -> Iterator[LedgerRow]:
    """The ledger of one part."""
    verifier = _core.Verifier(format=format, limits=limits)
    verifier.begin(part)
    ended = False
    while not ended:
        _, ended, rows = verifier.step(True)
        yield from rows
