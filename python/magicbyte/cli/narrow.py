"""What `dump` shows of much: the last records of each partition; and why it shows nothing, where that is so."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from magicbyte.cli.output import place

if TYPE_CHECKING:
    from magicbyte._core import ConsumerRecord, Part
    from magicbyte.cli.options import Selection, Source, Sources

NAMED = 10  # topics or partitions that are listed at most


def last_of_each(
    parts: Sequence[tuple[Source, Part]], most: int, read: Callable[[Source, Part], Iterable[ConsumerRecord]]
) -> Iterator[ConsumerRecord]:
    """The last records of each partition, which is read from its last segment backwards, only as far as needed."""
    for _, group in groupby(parts, lambda one: (one[0].name, one[1].topic, one[1].partition)):
        found: list[ConsumerRecord] = []
        for source, part in reversed(list(group)):
            if len(found) < most:
                found[:0] = deque(read(source, part), maxlen=most - len(found))
        yield from found


def tail_of_each(records: Iterable[ConsumerRecord], most: int) -> Iterator[ConsumerRecord]:
    """The same of records that come in order."""
    found: dict[tuple[str, int], deque[ConsumerRecord]] = {}
    for record in records:
        found.setdefault((record.topic, record.partition), deque(maxlen=most)).append(record)
    for kept in found.values():
        yield from kept


def why_nothing(opened: Sources, selection: Selection) -> str:
    """A word for who asked about a part of a log and got nothing: an empty answer looks like no answer."""
    segments = [segment for source in opened.logs for segment in source.log.segments]
    topics = {segment.topic for segment in segments}
    missing = [topic for topic in selection.topics if topic not in topics]
    if missing:
        return f"no topic {' or '.join(missing)}; there: {_some(sorted(topics))}"
    partitions = {
        segment.partition for segment in segments if not selection.topics or segment.topic in selection.topics
    }
    if selection.partitions and not partitions & set(selection.partitions):
        named = (place(segment.topic, segment.partition) for segment in segments)
        return f"no such partition; there: {_some(list(dict.fromkeys(named)))}"
    return "no record is like that; magicbyte inspect shows the offsets and times that are there"


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
