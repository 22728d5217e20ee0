"""Gathers what a report says: the surveys of `inspect`, the figures of `savings`, the defects of `verify`, and more."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING

from magicbyte.cli import savings
from magicbyte.cli.gather import SMALL, Gather
from magicbyte.cli.options import Selection, Source, Sources, part_size
from magicbyte.cli.reporting.watch import Watch
from magicbyte.cli.survey import Survey

if TYPE_CHECKING:
    from magicbyte._core import Part
    from magicbyte._report import Defect
    from magicbyte.log import Segment


@dataclass
class Topic:
    """One topic's figures."""

    name: str
    partitions: int = 0
    survey: Survey = field(default_factory=lambda: Survey(deep=True))
    watch: Watch = field(default_factory=Watch)
    savings: savings.Savings | None = None

    @property
    def uncompressed(self) -> int | None:
        """Bytes of its batches without compression; None where that is not known."""
        if set(self.survey.codecs) <= {"none"}:
            return self.survey.batch_bytes
        known = self.savings is not None and not self.savings.other
        return self.savings.plain.v2 if known and self.savings is not None else None

    @property
    def framing(self) -> int | None:
        """Bytes that are neither keys nor values nor headers: lengths, offsets, times, checksums, control records."""
        return None if self.uncompressed is None else max(self.uncompressed - self.survey.payload, 0)


@dataclass
class Facts:
    """All that a report says.

    Attributes:
        defects: the first of each kind and severity, as `verify` keeps them; counts: all, by (kind, severity).
    """

    source: str
    topics: list[Topic]
    total: Survey
    watch: Watch
    savings: savings.Savings | None
    batches: int = 0
    records: int = 0
    defects: list[tuple[str, Defect]] = field(default_factory=list)
    counts: dict[tuple[str, str], int] = field(default_factory=dict)
    left_out: list[tuple[str, str]] = field(default_factory=list)

    @property
    def errors(self) -> int:
        """Defects that are errors."""
        return sum(count for (_, severity), count in self.counts.items() if severity == "error")


def gather(opened: Sources, selection: Selection, *, with_savings: bool, advance: Callable[[int], None]) -> Facts:
    """Reads all parts: twice, and with savings twice more. ``advance`` is told the bytes behind us, of all turns."""
    pairs = [(source, part) for source in opened.logs for part in selection.parts(source)]
    pairs.sort(key=lambda pair: (pair[1].topic or pair[0].name, pair[1].partition))
    sizes = {id(part): part_size(part) for _, part in pairs}
    arrow = sum(sizes.values()) > SMALL and importlib.util.find_spec("pyarrow") is not None
    done = 0
    topics = []
    for name, group in groupby(pairs, key=lambda pair: pair[1].topic or pair[0].name):
        mine = list(group)
        topic = Topic(name, len({part.partition for _, part in mine}))
        topic.watch.topic = name
        topic.savings = savings.Savings() if with_savings else None
        last = None
        for _source, part in mine:
            if part.partition != last:
                topic.watch.partition()
                last = part.partition
            size = sizes[id(part)]
            told = _behind(advance, done - part.start)
            looking = Gather(selection, arrow=arrow, advance=told, watch=topic.watch)
            topic.survey.merge(looking.segment(part, size))
            done += size
            if topic.savings is not None:
                _measure(part, selection, topic.savings, _behind(advance, done))
                done += 2 * size
            advance(done)
        topics.append(topic)
    total, watch = Survey(deep=True), Watch()
    for topic in topics:
        total.merge(topic.survey)
        watch.merge(topic.watch)
    whole = savings.Savings() if with_savings else None
    if whole is not None:
        for topic in topics:
            whole.add(topic.savings or savings.Savings())
    facts = Facts(", ".join(s.name for s in opened.logs), topics, total, watch, whole, left_out=opened.left_out)
    _verify(facts, pairs, opened, selection, _behind(advance, done))
    return facts


def _behind(advance: Callable[[int], None], before: int) -> Callable[[int], None]:
    return lambda done: advance(before + done)


def _measure(part: Part, selection: Selection, into: savings.Savings, advance: Callable[[int], None]) -> None:
    own = Selection(**{**selection.__dict__, "control": True})
    # What is wrong with the bytes, `verify` tells.
    savings.Measure(part, own, (savings.OWN,), into).run([], advance)


def _verify(
    facts: Facts,
    pairs: list[tuple[Source, Part]],
    opened: Sources,
    selection: Selection,
    advance: Callable[[int], None],
) -> None:
    from magicbyte._report import run

    wanted = {(part.topic, part.partition) for _, part in pairs}
    done = 0
    for source in opened.logs:
        segments = [(segment, part) for segment, part in source.log.pairs() if (part.topic, part.partition) in wanted]
        reached: dict[str, int] = {}

        def told(segment: Segment, position: int, reached: dict[str, int] = reached, base: int = done) -> None:
            reached[segment.path] = position
            advance(base + sum(reached.values()))

        report = run(segments, format=selection.format, advance=told)
        done += sum(segment.size for segment, _ in segments)
        facts.batches += report.batches
        facts.records += report.records
        facts.defects += [(source.show(defect.path or None), defect) for defect in report.defects]
        for key, count in report.counts.items():
            facts.counts[key] = facts.counts.get(key, 0) + count
