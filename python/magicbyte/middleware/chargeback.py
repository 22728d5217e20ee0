"""Charge-back: who uses how much, by headers and topic: records and bytes a producer, a tenant or a route.

meter = ChargeBack("tenant", "topic")
Chain(meter)                                            # around a client, over a log; records pass untouched
meter.table()                                           # [{"tenant": "a", "topic": "t", "records": 7, …}, …]
df.mapInArrow(meter.totals, meter.schema)               # in Spark: a few rows a task, to be summed
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from magicbyte.vocabulary import decode

from ._base import AnyRecord, HeaderMiddleware, HeaderName, header_name

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["OTHERS", "SUMS", "ChargeBack"]

SUMS = ("records", "key_bytes", "value_bytes", "header_bytes")
"""What is summed. Bytes are those of keys, of values, and of headers' keys and values: what producers gave, not what batches and
codecs make of it."""
OTHERS = "(others)"
"""Where everything goes once there are as many groups as ``groups`` allows."""
LONGEST = 100


class ChargeBack(HeaderMiddleware):
    """Counts by groups.

    Args:
        given: names of headers, or ``topic``: what a group is. The last header of a name counts.
        groups: how many groups there may be: values of headers are chosen by who sends. What comes later is ``(others)``.

    A value that is no UTF-8 is grouped by its hex digits, a longer one by its first hundred characters; without the header the
    group's field is None. Numbers of known conventions are read in any encoding.
    """

    def __init__(self, *given: HeaderName, groups: int = 10_000) -> None:
        super().__init__()
        by = tuple(header_name(name) for name in given)
        if not by or len(set(by)) < len(by) or set(by) & set(SUMS):
            raise ValueError(f"by names headers, each once, and none of {', '.join(SUMS)}")
        self.by, self.groups = by, groups
        self._ready()

    def _ready(self) -> None:
        self._lock = threading.Lock()
        self._sums: dict[tuple[str | None, ...], list[int]] = {}

    def group(self, record: AnyRecord) -> tuple[str | None, ...]:
        """The group that a record belongs to."""
        last = record.headers.last
        return tuple(record.topic if name == "topic" else shown(name, last.get(name)) for name in self.by)

    def __call__(self, record: Any) -> Any:
        """Counts a record, and returns it."""
        key, value = record.key or b"", record.value or b""
        in_headers = sum(len(header.raw_key) + len(header.value or b"") for header in record.headers)
        self.add(self.group(record), (1, len(key), len(value), in_headers))
        return record

    post_serialize = __call__
    pre_deserialize = __call__

    def add(self, group: tuple[str | None, ...], sums: Iterable[int]) -> None:
        """Adds sums, in the order of ``SUMS``, to a group."""
        some = tuple(sums)
        with self._lock:
            if group not in self._sums and len(self._sums) >= self.groups:
                group = (OTHERS,) * len(self.by)
            held = self._sums.setdefault(group, [0] * len(SUMS))
            for at, number in enumerate(some):
                held[at] += number
        self.counts.add("counted", some[0])

    def merge(self, rows: Iterable[Any]) -> ChargeBack:
        """Adds rows of another table (dicts, or Spark's rows), and returns itself."""
        for row in rows:
            fields = row if isinstance(row, dict) else row.asDict()
            self.add(tuple(fields[name] for name in self.by), [fields[name] for name in SUMS])
        return self

    def table(self) -> list[dict[str, Any]]:
        """A row for each group, the most bytes first."""
        with self._lock:
            rows = [
                {**dict(zip(self.by, group, strict=True)), **dict(zip(SUMS, sums, strict=True))}
                for group, sums in self._sums.items()
            ]
        return sorted(rows, key=lambda row: (-sum(row[name] for name in SUMS[1:]), str(row)))

    def totals_of(self, records: Iterable[AnyRecord]) -> Iterator[dict[str, Any]]:
        """``rdd.mapPartitions(meter.totals_of)``: the table of a partition's records alone."""
        own = ChargeBack(*self.by, groups=self.groups)
        for record in records:
            own(record)
        yield from own.table()

    # Arrow

    @property
    def schema(self) -> str:
        """The schema of ``totals``, in Spark's words."""
        quoted = [f"`{name.replace('`', '``')}` string" for name in self.by]
        return ", ".join([*quoted, *(f"{name} bigint" for name in SUMS)])

    def arrow(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Counts the rows of batches with Kafka's columns, and gives them back untouched."""
        from ._chargeback_arrow import measured

        for batch in batches:
            measured(self, batch)
            yield batch

    def totals(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The table of these batches alone, as one batch: ``df.mapInArrow(meter.totals, meter.schema)``."""
        import pyarrow as pa

        from ._chargeback_arrow import measured

        own = ChargeBack(*self.by, groups=self.groups)
        for batch in batches:
            measured(own, batch)
        kinds = [*((name, pa.string()) for name in self.by), *((name, pa.int64()) for name in SUMS)]
        yield pa.RecordBatch.from_pylist(own.table(), pa.schema(kinds))

    sending_arrow = arrow


def shown(name: str, value: bytes | None) -> str | None:
    """A header's value as the name of a group."""
    if value is None:
        return None
    said = decode(name, value)
    if said.error is None and isinstance(said.value, str | int) and not isinstance(said.value, bool):
        word = str(said.value)
    else:
        try:
            word = value.decode()
        except UnicodeDecodeError:
            word = value.hex()
    return word if len(word) <= LONGEST else word[: LONGEST - 1] + "…"
