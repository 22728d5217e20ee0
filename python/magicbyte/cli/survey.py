"""What `inspect` gathers about a segment, in bounded memory, and how the figures of several add up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from magicbyte.cli.control import control_type
from magicbyte.cli.output import TIMESTAMP_TYPES

if TYPE_CHECKING:
    from magicbyte._core import RecordBatch

MOST_KEYS = 10_000  # distinct header keys, and producer ids, that are told apart; a hostile log could have any number

UNKNOWN_CODEC = "unknown"  # a codec id that no codec has

Span = tuple[int | None, int | None]  # first and last offset


@dataclass(frozen=True)
class Finding:
    """Something that a reader stopped at or passed over."""

    path: str
    position: int
    kind: str
    message: str


@dataclass
class Weight:
    """How many of something, and their bytes."""

    count: int = 0
    bytes: int = 0

    def add(self, count: int, size: int) -> None:
        self.count += count
        self.bytes += size


@dataclass
class Codec:
    """Batches of one codec: their bytes as stored, and the bytes of keys, values and headers in them."""

    batches: int = 0
    bytes: int = 0
    payload: int = 0

    @property
    def ratio(self) -> float | None:
        """Bytes of payload for one byte stored; None where the payload was not looked at."""
        return self.payload / self.bytes if self.bytes and self.payload else None


@dataclass
class Survey:
    """The figures of a segment, of a partition, of everything. Times in ms, sizes in bytes."""

    segments: int = 0
    size: int = 0
    batches: int = 0
    empty_batches: int = 0
    batch_bytes: int = 0
    records: int = 0
    deep: bool = False  # whether payloads were looked at, and so `records` and what follows are whole
    first_offset: int | None = None
    last_offset: int | None = None
    first_time: int | None = None
    last_time: int | None = None
    key_bytes: int = 0
    value_bytes: int = 0
    headers: Weight = field(default_factory=Weight)
    header_keys: dict[str, Weight] = field(default_factory=dict)
    header_keys_cut: bool = False
    codecs: dict[str, Codec] = field(default_factory=dict)
    magics: Counter[int] = field(default_factory=Counter)
    timestamp_types: Counter[str] = field(default_factory=Counter)
    producers: set[int] = field(default_factory=set)
    transactional: int = 0
    control: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)

    @property
    def payload(self) -> int:
        """Bytes of keys, values and headers, without lengths and other framing."""
        return self.key_bytes + self.value_bytes + self.headers.bytes

    @property
    def header_share(self) -> float | None:
        """The part of the payload that is header keys and values."""
        return self.headers.bytes / self.payload if self.payload else None

    def see_batch(self, batch: RecordBatch, *, sound: bool = True) -> None:
        """Adds what a batch's own header says; of one whose checksum is wrong, only that it is there."""
        self.batches += 1
        self.batch_bytes += batch.size
        self.empty_batches += batch.count == 0
        self.magics[batch.magic] += 1
        self.timestamp_types[TIMESTAMP_TYPES.get(batch.timestamp_type, "NoTimestampType")] += 1
        codec = self.codecs.setdefault(batch.codec or UNKNOWN_CODEC, Codec())
        codec.batches += 1
        codec.bytes += batch.size
        if not sound:
            return
        self.see_offsets(batch.base_offset, batch.last_offset)
        self.see_times(batch.max_timestamp, batch.max_timestamp)
        if batch.producer_id >= 0 and len(self.producers) < MOST_KEYS:
            self.producers.add(batch.producer_id)
        if batch.control:
            for record in batch.records:
                self.control[control_type(record.key)] += 1
        else:
            self.transactional += batch.transactional

    def see_offsets(self, first: int | None, last: int | None) -> None:
        """Widens the range of offsets."""
        self.first_offset = _least(self.first_offset, first)
        self.last_offset = _most(self.last_offset, last)

    def see_times(self, first: int | None, last: int | None) -> None:
        """Widens the range of times; −1 is none."""
        self.first_time = _least(self.first_time, None if first == -1 else first)
        self.last_time = _most(self.last_time, None if last == -1 else last)

    def see_payload(self, codec: str, records: int, keys: int, values: int, headers: int) -> None:
        """Adds bytes of keys, values and headers found in batches of one codec."""
        self.records += records
        self.key_bytes += keys
        self.value_bytes += values
        self.codecs.setdefault(codec, Codec()).payload += keys + values + headers

    def see_headers(self, weights: Iterable[tuple[str, int, int]]) -> None:
        """Adds headers: key, how many, bytes of keys and values."""
        for key, count, size in weights:
            self.headers.add(count, size)
            self._see_header_key(key, count, size)

    def _see_header_key(self, key: str, count: int, size: int) -> None:
        weight = self.header_keys.get(key)
        if weight is None:
            if len(self.header_keys) >= MOST_KEYS:
                self.header_keys_cut = True
                return
            weight = self.header_keys[key] = Weight()
        weight.add(count, size)

    def merge(self, other: Survey) -> None:
        """Adds another's figures to these."""
        for name in ("segments", "size", "batches", "empty_batches", "batch_bytes", "records", "transactional",
                     "key_bytes", "value_bytes"):  # fmt: skip
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.deep |= other.deep
        self.see_offsets(other.first_offset, other.last_offset)
        self.see_times(other.first_time, other.last_time)
        self.headers.add(other.headers.count, other.headers.bytes)
        for key, weight in other.header_keys.items():
            self._see_header_key(key, weight.count, weight.bytes)
        self.header_keys_cut |= other.header_keys_cut
        for name, codec in other.codecs.items():
            mine = self.codecs.setdefault(name, Codec())
            mine.batches += codec.batches
            mine.bytes += codec.bytes
            mine.payload += codec.payload
        self.magics += other.magics
        self.timestamp_types += other.timestamp_types
        self.control += other.control
        self.producers |= other.producers
        self.findings += other.findings

    def as_json(self) -> dict[str, Any]:
        """The figures by their names in JSON; what was not looked at is null."""
        deep = self.deep
        heaviest = sorted(self.header_keys.items(), key=lambda item: -item[1].bytes)
        return {
            "segments": self.segments,
            "bytes": self.size,
            "batches": self.batches,
            "emptyBatches": self.empty_batches,
            "batchBytes": self.batch_bytes,
            "records": self.records,
            "firstOffset": self.first_offset,
            "lastOffset": self.last_offset,
            "firstTimestampMs": self.first_time,
            "lastTimestampMs": self.last_time,
            "keyBytes": self.key_bytes if deep else None,
            "valueBytes": self.value_bytes if deep else None,
            "headerBytes": self.headers.bytes if deep else None,
            "headerShare": self.header_share,
            "headers": self.headers.count if deep else None,
            "headerKeys": [{"key": k, "count": w.count, "bytes": w.bytes} for k, w in heaviest] if deep else None,
            "headerKeysComplete": not self.header_keys_cut,
            "codecs": {
                name: {"batches": c.batches, "bytes": c.bytes, "payloadBytes": c.payload if deep else None,
                       "ratio": c.ratio}
                for name, c in self.codecs.items()
            },
            "magics": {str(magic): count for magic, count in sorted(self.magics.items())},
            "timestampTypes": dict(self.timestamp_types),
            "producers": len(self.producers),
            "transactionalBatches": self.transactional,
            "controlRecords": dict(self.control),
        }  # fmt: skip


def _least(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else min(one, other)


def _most(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else max(one, other)
