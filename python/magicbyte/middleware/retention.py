"""Retention by header: how long a record lives is told by the record, not by its topic.

    Retention(ttl_header="ttl", hold="legal-hold")       # a record's own time to live; what is on hold stays
    Retention(expires_header="expires-at")               # or the time at which it ends
    Retention(max_age=86_400_000, drop=equals("env", b"test"))

The same object drops expired records around a consumer, over a log, at ingest, and gives Spark's jobs their mask.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from magicbyte._core import ConsumerRecord, Headers
from magicbyte.records import ProducerRecord

from ._base import HeaderMiddleware, HeaderName, Policy, Quarantine, header_name
from .predicates import Predicate, as_predicate
from .trail import now

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Retention", "milliseconds"]

LATEST = 1 << 47
"""Milliseconds: the year 6429. What lasts longer lasts for ever."""


def milliseconds(data: bytes | None) -> int:
    """A time or a duration in a header: ASCII digits (at most 18), or int64, big-endian, below 2**47.

    Stricter than the vocabulary, since records are dropped by it: four bytes may be any word, and eight letters are no time.

    Raises:
        ValueError: with what is wrong.
    """
    if data is None:
        raise ValueError("null")
    if 0 < len(data) <= 18 and data.isdigit():
        return int(data)
    if len(data) == 8 and 0 <= (number := int.from_bytes(data, "big", signed=True)) < LATEST:
        return number
    raise ValueError(f"{len(data)} bytes, neither digits nor an int64 of milliseconds")


class Retention(HeaderMiddleware):
    """Drops what has expired.

    Asked in this order: what is on ``hold`` stays; then ``expires_header``, ``ttl_header``, ``drop`` and ``max_age`` drop. Where
    headers say several things the earliest end counts.

    Args:
        ttl_header: milliseconds that the record lives from its own timestamp on.
        expires_header: milliseconds since 1970 at which it ends.
        hold: a predicate, or the name of a header; what it holds for is never dropped.
        drop: a predicate for what goes in any case.
        max_age: milliseconds after which a record goes that says nothing itself.
        set_ttl: the sending side gives records without a ``ttl_header`` this one (digits).
        clock: milliseconds since 1970; a job gives one time to all its tasks.
        policy: for headers that are ``broken`` (unreadable, null, several that differ, or a time to live on a record without a
            timestamp). By default such a record stays: a bad header loses no data.

    Outcomes: ``kept``, ``held``, ``expired``, ``broken``; on the sending side ``sent``.
    """

    def __init__(
        self,
        *,
        ttl_header: HeaderName | None = "mb.ttl",
        expires_header: HeaderName | None = "mb.expires",
        hold: Predicate | str | Callable[[Headers], Any] | None = None,
        drop: Predicate | str | Callable[[Headers], Any] | None = None,
        max_age: int | None = None,
        set_ttl: int | None = None,
        clock: Callable[[], int] = now,
        policy: Policy = "pass",
        quarantine: Quarantine | None = None,
    ) -> None:
        super().__init__(policy=policy, quarantine=quarantine)
        self.ttl_header = None if ttl_header is None else header_name(ttl_header)
        self.expires_header = None if expires_header is None else header_name(expires_header)
        self.hold = None if hold is None else as_predicate(hold)
        self.drop = None if drop is None else as_predicate(drop)
        if (max_age is not None and max_age < 0) or (set_ttl is not None and set_ttl < 0):
            raise ValueError("max_age and set_ttl are milliseconds, 0 or more")
        if set_ttl is not None and self.ttl_header is None:
            raise ValueError("set_ttl needs a ttl_header")
        self.max_age, self.set_ttl, self.clock = max_age, set_ttl, clock

    def look(self, headers: Headers, timestamp: int, time: int) -> tuple[str, str]:
        """Outcome and detail for a record with these headers and timestamp at a time, all in milliseconds."""
        if self.hold is not None and self.hold(headers):
            return "held", ""
        ends: list[int] = []
        told = False
        for name, since in ((self.expires_header, 0), (self.ttl_header, timestamp)):
            values = [] if name is None else headers.get(name)
            if not values:
                continue
            if len(set(values)) > 1:
                return "broken", f"{len(values)} times {name}"
            try:
                lasts = milliseconds(values[0])
            except ValueError as error:
                return "broken", f"{name}: {error}"
            if since < 0:
                return "broken", f"{name} on a record without a timestamp"
            told = True
            if lasts < LATEST:
                ends.append(since + lasts)
        if self.drop is not None and self.drop(headers):
            return "expired", "by its headers"
        if not told and self.max_age is not None and timestamp >= 0:
            ends.append(timestamp + self.max_age)
        if ends and min(ends) <= time:
            return "expired", f"at {min(ends)}"
        return "kept", ""

    def keeps(self, record: ConsumerRecord, time: int | None = None) -> bool:
        """Whether a record stays at a time (by default: now). What has broken headers stays."""
        return self.look(record.headers, record.timestamp, self.clock() if time is None else time)[0] != "expired"

    def post_serialize(self, record: ProducerRecord) -> ProducerRecord:
        """Gives a record its time to live, where it has none."""
        if self.set_ttl is not None and self.ttl_header is not None and self.ttl_header not in record.headers:
            if record.headers.read_only:
                record = record.copy()
            record.headers.add(self.ttl_header, b"%d" % self.set_ttl)
        self.counts.add("sent")
        return record

    def pre_deserialize(self, record: ConsumerRecord) -> Any:
        """The record, or ``()`` once it has expired."""
        outcome, detail = self.look(record.headers, record.timestamp, self.clock())
        if outcome == "broken":
            return self.bad(record, outcome, detail)
        self.counts.add(outcome)
        return () if outcome == "expired" else record

    def arrow(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The receiving side over Kafka's columns, one time for all rows of a batch."""
        from ._retention_arrow import retained

        for batch in batches:
            yield retained(self, batch) if batch.num_rows else batch

    def sending_arrow(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The sending side over Kafka's columns."""
        from ._retention_arrow import given

        for batch in batches:
            yield given(self, batch) if batch.num_rows else batch
