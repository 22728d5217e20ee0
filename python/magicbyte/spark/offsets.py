"""Which partitions are read, and from which offset to which: the Kafka source's options, applied to files."""

from __future__ import annotations

import re
from collections.abc import Sequence

from magicbyte.log import Log

from .options import EARLIEST, LATEST, Bound, Options

Name = tuple[str, int]
Spans = dict[Name, tuple[int | None, int | None]]
"""By (topic, partition): first offset and end (exclusive), ``None`` where open."""


def spans(opened: Sequence[Log], options: Options) -> Spans:
    """The offsets to read of each partition that is wanted.

    Raises ``ValueError`` where the options name partitions that are not there, or not all that are, as the Kafka source
    does.
    """
    wanted = wanted_names(opened, options)
    for bound in (options.starting, options.ending):
        if bound.each is not None and set(bound.each) != set(wanted):
            raise ValueError(
                f"option {bound.name} must name all partitions that are read, and no other (use -1 for latest, -2 for "
                f"earliest): it names {_list(sorted(bound.each))}; read are {_list(wanted)}"
            )
    return {name: (_first(opened, name, options), _end(opened, name, options)) for name in wanted}


def wanted_names(opened: Sequence[Log], options: Options) -> list[Name]:
    """The partitions that the options choose; ``ValueError`` where they name some that are not there."""
    return _wanted(sorted({name for log in opened for name in log.partitions}), options)


def offset_at(opened: Sequence[Log], name: Name, timestamp: int) -> int | None:
    """The first offset whose record is of that time (ms) or later: what a broker answers to ``offsetsForTimes``."""
    found = []
    for log in opened:
        if name not in log.partitions:
            continue
        every: Spans = {name: (None, None)}
        reader = log.reader(offsets=every, timestamps=(timestamp, None), control=True)
        for batch in reader.scan(["offset"], batch_rows=1):
            if batch.num_rows:
                found.append(batch.column(0)[0].as_py())
                break
    return min(found, default=None)


def _first(opened: Sequence[Log], name: Name, options: Options) -> int | None:
    bound = options.starting
    value = _value(bound, name)
    if not bound.by_time:
        return None if value == EARLIEST else value
    offset = offset_at(opened, name, value)
    if offset is None and not options.start_at_latest_without_match:
        raise ValueError(
            f"option {bound.name}: no record of {name[0]}-{name[1]} has the timestamp {value} or a later one "
            "(startingOffsetsByTimestampStrategy=latest leaves such partitions out)"
        )
    return _BEHIND_ALL if offset is None else offset


def _end(opened: Sequence[Log], name: Name, options: Options) -> int | None:
    bound = options.ending
    value = _value(bound, name)
    if not bound.by_time:
        return None if value == LATEST else value
    return offset_at(opened, name, value)


_BEHIND_ALL = (1 << 63) - 1


def _value(bound: Bound, name: Name) -> int:
    value = bound.each[name] if bound.each is not None else bound.all
    assert value is not None
    return value


def _wanted(there: Sequence[Name], options: Options) -> list[Name]:
    named = [name for name in there if options.topic is None or name[0] == options.topic]
    named = [name for name in named if options.partition is None or name[1] == options.partition]
    if options.assigned is not None:
        missing = sorted(options.assigned - set(named))
        named = [name for name in named if name in options.assigned]
        if missing:
            raise ValueError(f"option assign: {_list(missing)} not found; there are {_list(there)}")
    if options.topics is not None:
        absent = sorted(set(options.topics) - {topic for topic, _ in named})
        if absent:
            raise ValueError(f"option subscribe: no topic {', '.join(absent)}; there are {_list(there)}")
        named = [name for name in named if name[0] in options.topics]
    if options.topic_pattern is not None:
        named = [name for name in named if re.fullmatch(options.topic_pattern, name[0])]
    if not named:
        raise ValueError(f"no partition is chosen by the options; there are {_list(there)}")
    return named


def _list(names: Sequence[Name]) -> str:
    shown = ", ".join(f"{topic}-{partition}" for topic, partition in names[:10])
    return shown + (f" and {len(names) - 10} more" if len(names) > 10 else "") if names else "none"
