"""Whether two logs hold the same records: digests of partitions, and the first place where they differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from . import _core
from .log import Log

if TYPE_CHECKING:
    from ._core import ConsumerRecord
    from .log import Source

__all__ = ["Difference", "Digest", "diff", "digest", "first_difference"]

FIELDS = ("timestamp", "key", "value", "headers")


@dataclass(frozen=True, slots=True)
class Digest:
    """What a partition's records come to.

    SHA-256 over its records of data in order (control records are left out), each as: offset int64, timestamp int64 (ms,
    as a consumer sees it, -1 for none), key and value (int32 length, -1 for null, and the bytes), int32 number of headers,
    and each header's key bytes and value likewise; all big-endian. Batches, codecs, formats, leader epochs and producers do
    not count.
    """

    sha256: str
    records: int
    first_offset: int | None
    last_offset: int | None


@dataclass(frozen=True, slots=True)
class Difference:
    """The first place where two partitions differ.

    Attributes:
        topic, partition: of the first log; of the second where only that one has the partition.
        offset: the offset; ``None`` where a partition is missing as a whole.
        what: names of what differs: of ``timestamp key value headers``; or ``offset``: only one has a record there;
            or ``partition``: only one has it.
        first, second: the records there; ``None`` for one that has none.
        only_in: ``"first"`` or ``"second"`` where only that log has the partition, or a record at the offset; else None.
    """

    topic: str
    partition: int
    offset: int | None
    what: tuple[str, ...]
    first: ConsumerRecord | None
    second: ConsumerRecord | None
    only_in: str | None = None


Advance = Callable[[int], object]


def digest(
    log: Log | Source, *, format: str = "kafka", advance: Advance | None = None
) -> dict[tuple[str, int], Digest]:
    """The digest of each partition.

    ``advance`` is told from time to time how many bytes more were read.

    Raises:
        CorruptRecordError: damage; a digest of a part would prove nothing.
    """
    opened = _opened(log, format)
    found = {}
    for name, group in groupby(opened.parts(), lambda part: (part.topic, part.partition)):
        found[name] = _digest(opened, list(group), advance)
    return found


def diff(first: Log | Source, second: Log | Source, *, format: str = "kafka") -> list[Difference]:
    """The first difference of each partition; nothing if both logs hold the same records, which may be none at all.

    Partitions are compared by name; of two logs that are one partition each, the names do not count.

    Raises:
        CorruptRecordError: damage in one of them.
    """
    return list(differences(_opened(first, format), _opened(second, format)))


def differences(one: Log, other: Log, advance: Advance | None = None) -> Iterator[Difference]:
    """As ``diff``, of logs that are open; ``advance`` as for ``digest``."""
    mine, yours = _by_partition(one), _by_partition(other)
    if len(mine) == len(yours) == 1 and one.single and other.single:
        yours = dict(zip(mine, yours.values(), strict=True))
    for name in sorted(mine.keys() | yours.keys()):
        if name not in mine or name not in yours:
            yield Difference(*name, None, ("partition",), None, None, "first" if name in mine else "second")
        elif _digest(one, mine[name], advance) != _digest(other, yours[name], advance):
            yield from first_difference(name, _records(one, mine[name]), _records(other, yours[name]))


def first_difference(
    name: tuple[str, int], mine: Iterator[ConsumerRecord], yours: Iterator[ConsumerRecord]
) -> Iterator[Difference]:
    """The first place where two streams of one partition's records differ, if there is one."""
    while True:
        a, b = next(mine, None), next(yours, None)
        if a is None and b is None:
            return
        if a is None or b is None or a.offset != b.offset:
            offset = min(record.offset for record in (a, b) if record is not None)
            a, b = (record if record is not None and record.offset == offset else None for record in (a, b))
            yield Difference(*name, offset, ("offset",), a, b, "first" if b is None else "second")
            return
        what = tuple(field for field in FIELDS if _value(a, field) != _value(b, field))
        if what:
            yield Difference(*name, a.offset, what, a, b)
            return


def _value(record: ConsumerRecord, field: str) -> Any:
    if field != "headers":
        return getattr(record, field)
    return [(header.raw_key, header.value) for header in record.headers]


def _opened(log: Log | Source, format: str) -> Log:
    if isinstance(log, Log):
        return log
    return Log(log, format=format)


def _by_partition(log: Log) -> dict[tuple[str, int], list[_core.Part]]:
    grouped = groupby(log.parts(), lambda part: (part.topic, part.partition))
    return {name: list(group) for name, group in grouped}


def _digest(log: Log, parts: list[_core.Part], advance: Advance | None) -> Digest:
    sha256, records, offsets = _core.digest(parts, format=log.format, advance=advance, **log.digest_options)
    first, last = offsets or (None, None)
    return Digest(sha256, records, first, last)


def _records(log: Log, parts: list[_core.Part]) -> Iterator[ConsumerRecord]:
    return _core.Reader(parts, format=log.format, **log.digest_options).records()
