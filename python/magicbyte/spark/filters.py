"""Filters that Spark hands over: what they allow to skip. Spark checks every row again, so skipping may be too little,
never too much."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Range:
    """Whole numbers from ``first`` to before ``end``; ``None`` = open."""

    first: int | None = None
    end: int | None = None

    def meet(self, other: Range) -> Range:
        """What lies in both."""
        firsts = [value for value in (self.first, other.first) if value is not None]
        ends = [value for value in (self.end, other.end) if value is not None]
        return Range(max(firsts, default=None), min(ends, default=None))

    def __contains__(self, value: int) -> bool:
        return (self.first is None or self.first <= value) and (self.end is None or value < self.end)

    @property
    def empty(self) -> bool:
        """Whether nothing lies in it."""
        return self.first is not None and self.end is not None and self.first >= self.end


@dataclass(frozen=True)
class Wanted:
    """What a conjunction of filters leaves."""

    topics: frozenset[str] | None = None
    partitions: Range = Range()
    offsets: Range = Range()
    timestamps: Range = Range()
    """In ms, as records have them."""

    def takes(self, topic: str, partition: int) -> bool:
        """Whether any row of that partition can pass."""
        return (self.topics is None or topic in self.topics) and partition in self.partitions

    @property
    def empty(self) -> bool:
        """Whether no row at all can pass."""
        return any(span.empty for span in (self.partitions, self.offsets, self.timestamps))


def wanted(filters: Iterable[Filter]) -> Wanted:
    """What all these filters together leave. Those that say nothing of place or time are passed over."""
    topics: frozenset[str] | None = None
    spans = {"partition": Range(), "offset": Range(), "timestamp": Range()}
    for one in filters:
        column: tuple[str, ...] = getattr(one, "attribute", ())
        if column == ("topic",):
            names = _names(one)
            if names is not None:
                topics = names if topics is None else topics & names
        elif len(column) == 1 and column[0] in spans:
            span = _times(one) if column[0] == "timestamp" else _numbers(one)
            spans[column[0]] = spans[column[0]].meet(span)
    return Wanted(topics, spans["partition"], spans["offset"], spans["timestamp"])


def _names(one: Filter) -> frozenset[str] | None:
    if isinstance(one, EqualTo | EqualNullSafe) and isinstance(one.value, str):
        return frozenset({one.value})
    if isinstance(one, In) and all(isinstance(value, str) or value is None for value in one.value):
        return frozenset(value for value in one.value if value is not None)
    return None


def _numbers(one: Filter) -> Range:
    return _range(one, lambda value: value if type(value) is int else None)


def _times(one: Filter) -> Range:
    """Spark compares microseconds; a record has whole milliseconds, so its rows have whole thousands of them."""
    span = _range(one, _microseconds)
    # The first millisecond at or behind a moment, for both ends: the end is exclusive.
    return Range(_ceil(span.first), _ceil(span.end))


def _ceil(microseconds: int | None) -> int | None:
    return None if microseconds is None else -(-microseconds // 1000)


def _microseconds(value: Any) -> int | None:
    if isinstance(value, datetime) and value.tzinfo is not None:
        return (value - _EPOCH) // timedelta(microseconds=1)
    return None


def _range(one: Filter, read: Callable[[Any], int | None]) -> Range:
    """The numbers that pass, everything where the filter says nothing that can be used."""
    if isinstance(one, In):
        given = [value for value in one.value if value is not None]
        values = [number for value in given if (number := read(value)) is not None]
        return Range(min(values), max(values) + 1) if values and len(values) == len(given) else Range()
    value = read(getattr(one, "value", None))
    if value is None:
        return Range()
    match one:
        case EqualTo() | EqualNullSafe():
            return Range(value, value + 1)
        case GreaterThan():
            return Range(value + 1, None)
        case GreaterThanOrEqual():
            return Range(value, None)
        case LessThan():
            return Range(None, value)
        case LessThanOrEqual():
            return Range(None, value + 1)
        case _:
            return Range()
