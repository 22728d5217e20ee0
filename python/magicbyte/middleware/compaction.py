"""Compaction by header: which record of a key wins is told by a version in its headers (KIP-280), not by when it came.

newest = Compaction("version")                        # or strategy="timestamp", strategy="offset"
for record in newest.compacted(mb.Log("profiles-0").records): ...   # a log, one record a key
Chain(newest)                                         # inline: drops updates that are older than one seen before
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Literal

from magicbyte._core import ConsumerRecord, Headers

from ._base import HeaderMiddleware, HeaderName, Policy, Quarantine, header_name

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Compaction", "version"]

MOST = (1 << 63) - 1


def version(data: bytes | None) -> int:
    """A record's version: int64, big-endian, as KIP-280 has it, or ASCII digits (all bytes, at most 19); not below 0.

    Raises:
        ValueError: with what is wrong.
    """
    if data is None:
        raise ValueError("null")
    if 0 < len(data) <= 19 and data.isdigit():
        if (number := int(data)) <= MOST:
            return number
        raise ValueError(f"{number} has more than 64 bits")
    if len(data) != 8:
        raise ValueError(f"{len(data)} bytes, neither digits nor an int64")
    if (number := int.from_bytes(data, "big", signed=True)) < 0:
        raise ValueError(f"{number} is below 0")
    return number


def digest(topic: str, partition: int, key: bytes) -> bytes:
    """What stands for a key: 16 bytes, as Kafka's cleaner has them."""
    return blake2b(b"%d %s %s" % (partition, topic.encode("utf-8", "replace"), key), digest_size=16).digest()


class Compaction(HeaderMiddleware):
    """Ranks records of a key.

    Args:
        header: the version's name, for ``strategy="header"``. A record without a version, or with one that cannot be read, ranks
            below all that have one, as −1; among equals the later offset wins (KIP-280).
        strategy: ``header``, ``timestamp`` or ``offset``.
        keys: keys that are remembered inline; the one not seen for longest is forgotten first. Each costs some 150 bytes.
        policy: for a version that is ``broken``: unreadable, null, or several that differ. Passed on it ranks as −1.

    Outcomes: ``newest``, ``stale`` (dropped inline), ``no key`` (never dropped), ``broken``.
    """

    def __init__(
        self,
        header: HeaderName = "version",
        *,
        strategy: Literal["header", "timestamp", "offset"] = "header",
        keys: int = 1_000_000,
        policy: Policy = "pass",
        quarantine: Quarantine | None = None,
    ) -> None:
        super().__init__(policy=policy, quarantine=quarantine)
        if strategy not in ("header", "timestamp", "offset"):
            raise ValueError(f"strategy is header, timestamp or offset, not {strategy!r}")
        self.header, self.strategy, self.keys = header_name(header), strategy, keys
        self._ready()

    def _ready(self) -> None:
        self._lock = threading.Lock()
        self._seen: OrderedDict[bytes, int] = OrderedDict()

    def version_of(self, headers: Headers) -> int:
        """A record's version by its headers; −1 without one.

        Raises:
            ValueError: it cannot be read.
        """
        values = headers.get(self.header)
        if len(set(values)) > 1:
            raise ValueError(f"{len(values)} times {self.header}")
        return version(values[0]) if values else -1

    def rank(self, record: ConsumerRecord) -> tuple[int, int]:
        """What is compared: the record with the highest one wins. Broken versions rank as −1."""
        if self.strategy == "offset":
            return (record.offset, record.offset)
        if self.strategy == "timestamp":
            return (record.timestamp, record.offset)
        try:
            return (self.version_of(record.headers), record.offset)
        except ValueError:
            return (-1, record.offset)

    def pre_deserialize(self, record: ConsumerRecord) -> Any:
        """The record, or ``()`` where one of its key that came before has a higher version."""
        if self.strategy == "header":
            try:
                self.version_of(record.headers)
            except ValueError as error:
                # Nothing to rank by: as it is, or as the policy has it, and the key's newest stays.
                return self.bad(record, "broken", str(error))
        if record.key is None:
            self.counts.add("no key")
            return record
        return record if self._newest(digest(record.topic, record.partition, record.key), self.rank(record)[0]) else ()

    def _newest(self, key: bytes, rank: int) -> bool:
        with self._lock:
            seen = self._seen.pop(key, rank)
            self._seen[key] = max(seen, rank)
            if len(self._seen) > self.keys:
                self._seen.popitem(last=False)
        self.counts.add("newest" if rank >= seen else "stale")
        return rank >= seen

    def flush(self) -> tuple[()]:
        """The log ended: what was seen is forgotten."""
        with self._lock:
            self._seen.clear()
        return ()

    def compacted(self, read: Callable[[], Iterable[ConsumerRecord]]) -> Iterator[ConsumerRecord]:
        """One record a key and partition, in order; records without a key all stay, tombstones are records like others.

        Args:
            read: gives the records, in the same order each time: it is called twice, so that memory holds a hash and an offset
                a key, and no records.
        """
        best: dict[bytes, tuple[int, int]] = {}
        for record in read():
            if record.key is not None:
                key = digest(record.topic, record.partition, record.key)
                rank = self.rank(record)
                if rank >= best.get(key, rank):
                    best[key] = rank
        for record in read():
            if record.key is None:
                self.counts.add("no key")
                yield record
            elif best[digest(record.topic, record.partition, record.key)] == self.rank(record):
                self.counts.add("newest")
                yield record
            else:
                self.counts.add("stale")

    def ranks(self, batch: pa.RecordBatch) -> pa.Array:
        """The first part of ``rank`` for the rows of a batch, as int64: Spark orders by it, then by ``offset``."""
        from ._compaction_arrow import ranks

        return ranks(self, batch)[0]

    def arrow(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The receiving side over Kafka's columns: drops what is stale, as ``pre_deserialize`` does."""
        from ._compaction_arrow import compacted

        for batch in batches:
            yield compacted(self, batch) if batch.num_rows else batch
        self.flush()
