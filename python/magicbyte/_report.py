"""The strict pass over logs: `Log.verify` and `magicbyte.verify`, what they report, and the ledger."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Literal

from . import _core
from ._layout import UNKNOWN, Segment
from ._seek import beside
from ._state import State

if TYPE_CHECKING:
    from ._core import LedgerRow, Limits, Part

__all__ = ["Defect", "Report", "ledger", "run"]

Severity = Literal["error", "note"]


@dataclass(frozen=True, slots=True)
class Defect:
    """One defect.

    Attributes:
        path: the file; ``""`` for bytes in memory.
        position: byte position in that file of the batch, or of the index entry, that is at fault.
        kind: ``crc length magic codec decompress record count wrapper canonical torn_tail zero_tail hole gap overlap
            disorder sequence epoch index txnindex limit``.
        severity: ``error`` where something is lost, contradicts itself, or is refused or read differently by other
            readers; ``note`` where every reader gets the same records: unusual forms, gaps as compaction leaves them, the
            tail of the last segment.
        message: in words.
    """

    path: str
    position: int
    kind: str
    severity: Severity
    message: str


@dataclass(frozen=True, slots=True)
class Report:
    """What the strict pass found.

    Attributes:
        batches: batches (in message sets: entries) whose checksum holds.
        records: sound records in them, control records too.
        defects: by partition, in the order they were found; at most 1,000 of each kind and severity a partition.
        counts: how many there are in all, by (kind, severity).
    """

    batches: int = 0
    records: int = 0
    defects: list[Defect] = field(default_factory=list)
    counts: Mapping[tuple[str, str], int] = field(default_factory=dict)

    @property
    def errors(self) -> int:
        """How many defects are errors."""
        return sum(count for (_, severity), count in self.counts.items() if severity == "error")

    @property
    def notes(self) -> int:
        """How many are notes."""
        return sum(count for (_, severity), count in self.counts.items() if severity == "note")

    @property
    def ok(self) -> bool | None:
        """False if there is an error; None if no record was checked, which is never a pass; else True."""
        if self.errors:
            return False
        return True if self.records else None

    def __add__(self, other: Report) -> Report:
        counts = Counter(dict(self.counts))
        counts.update(dict(other.counts))
        return Report(
            self.batches + other.batches, self.records + other.records, [*self.defects, *other.defects], dict(counts)
        )


Advance = Callable[[Segment, int], None]


def run(
    pairs: list[tuple[Segment, Part]],
    *,
    format: str = "kafka",
    limits: Limits | None = None,
    advance: Advance | None = None,
) -> Report:
    """Verifies segments, each with the part that is all of it, in the order of (topic, partition, base offset).

    ``advance`` is told the segment and the byte position from time to time.
    """
    report = Report()
    for _, group in groupby(pairs, lambda pair: (pair[0].topic, pair[0].partition)):
        partition = list(group)
        verifier = _core.Verifier(format=format, limits=limits)
        segments = [segment for segment, _ in partition]
        state = State(segments)
        for segment, _row in _walk(verifier, partition, rows=False, advance=advance, before=state.before):
            raise AssertionError(f"rows were not asked for: {segment}")  # pragma: no cover
        report += reported(verifier, segments, state)
    return report


def reported(verifier: _core.Verifier, segments: list[Segment], state: State) -> Report:
    """What was found in one partition."""
    defects = [
        Defect(beside_log(segments[at].path, suffix), position, kind, severity, message)
        for at, suffix, position, kind, severity, message in verifier.defects()
    ]
    counts: Counter[tuple[str, str]] = Counter()
    counts.update({(kind, severity): count for kind, severity, count in verifier.counts()})
    for found in state.end(verifier):
        defects.append(Defect(*found))
        counts[(found[2], found[3])] += 1
    return Report(verifier.batches, verifier.records, defects, dict(counts))


def ledger(
    pairs: list[tuple[Segment, Part]], *, format: str = "kafka", limits: Limits | None = None
) -> Iterator[tuple[Segment, LedgerRow]]:
    """One row a batch, those with a wrong checksum too, of segments as for ``run``."""
    for _, group in groupby(pairs, lambda pair: (pair[0].topic, pair[0].partition)):
        yield from _walk(_core.Verifier(format=format, limits=limits), list(group), rows=True, advance=None)


def _walk(
    verifier: _core.Verifier,
    partition: list[tuple[Segment, Part]],
    *,
    rows: bool,
    advance: Advance | None,
    before: Callable[[Segment, _core.Verifier], None] | None = None,
) -> Iterator[tuple[Segment, LedgerRow]]:
    for number, (segment, part) in enumerate(partition):
        if before is not None:
            before(segment, verifier)
        begin(verifier, segment, part, last=number == len(partition) - 1)
        ended = False
        while not ended:
            position, ended, found = verifier.step(rows)
            if advance is not None:
                advance(segment, position)
            for row in found:
                yield segment, row
    verifier.finish()


def begin(verifier: _core.Verifier, segment: Segment, part: Part | None, *, last: bool, outline: bool = False) -> None:
    """Begins a segment with the index files beside it. ``outline``: the transaction index is for another to judge."""
    named = segment.base_offset > UNKNOWN and segment.path.endswith(".log")
    verifier.begin(
        part,
        base_offset=segment.base_offset if named else None,
        last=last,
        index=None if part is None else beside(segment, ".index"),
        time_index=None if part is None else beside(segment, ".timeindex"),
        txn_index=None if outline else beside(segment, ".txnindex"),
    )


def beside_log(log: str, suffix: str) -> str:
    return log.removesuffix(".log") + suffix if suffix else log
