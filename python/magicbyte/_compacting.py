"""A chain of interceptors at compaction time: what a cleaning keeps goes through it, batch by batch."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import BinaryIO

from magicbyte import _core
from magicbyte._core import ConsumerRecord, Record, RecordBatch
from magicbyte.encoding import encode_batch
from magicbyte.interceptors import Chain
from magicbyte.log import Log
from magicbyte.raw import decode


class Compaction:
    """Runs a chain's receiving side over written segments of one partition.

    The log says where a record is and what its key and time are, and a cleaning has gone by these; so a chain may keep a
    record, give it another value, other headers, or drop it. It sees neither control records nor aborted ones.

    Attributes:
        counts: ``chain_records`` that it got, ``chain_changed``, ``chain_dropped``.
    """

    def __init__(self, chain: Chain, topic: str, partition: int, format: str, limits: _core.Limits | None) -> None:
        self.chain, self.topic, self.partition = chain, topic, partition
        self.format, self.limits = format, limits
        self.counts: Counter[str] = Counter()

    def write(self, source: Path, target: BinaryIO) -> None:
        """A segment through the chain. Batches of which nothing changes are copied byte for byte."""
        log = Log(source, topic=self.topic, partition=self.partition, format=self.format, limits=self.limits)
        held: RecordBatch | None = None
        for batch in log.batches():
            if held is not None:
                target.write(self._through(held, last=False))
            held = batch
        if held is not None:
            target.write(self._through(held, last=True))

    def end(self) -> None:
        """All segments are written.

        Raises:
            ValueError: an interceptor held records back, which have lost their place.
        """
        if held := self.chain.flush():
            raise ValueError(
                f"{self.topic}-{self.partition}: the chain held back {len(held)} records, the first of offset "
                f"{held[0].offset}: at compaction each must come out at its place"
            )

    def _through(self, batch: RecordBatch, *, last: bool) -> bytes:
        if batch.control or batch.count == 0:
            return batch.raw
        # Not the batch's format: a draft's log may hold the ordinary ones.
        given = list(
            decode(batch.raw, topic=self.topic, partition=self.partition, format=self.format, limits=self.limits)
        )
        stored = {record.offset: record for record in batch.records}
        kept = self._kept(given)
        records = [_changed(stored[offset], record) for offset, record in kept.items()]
        changed = sum(record is not stored[record.offset] for record in records)
        self.counts.update(chain_records=len(given), chain_changed=changed, chain_dropped=len(given) - len(records))
        if not changed and len(records) == len(given):
            return batch.raw
        # As in a cleaning: the numbers that a producer goes on from stay, and the log's last offset.
        if not records and (batch.count is None or (batch.producer_id < 0 and not last)):
            return b""
        return encode_batch(_rebuilt(batch, records), format=batch.format)

    def _kept(self, given: list[ConsumerRecord]) -> dict[int, ConsumerRecord]:
        before = {record.offset: (record.key, record.timestamp) for record in given}
        opened = [out for record in given for out in self.chain.pre_deserialize(record)]
        kept: dict[int, ConsumerRecord] = {}
        for record in self.chain.on_consume(opened):
            place = (record.topic, record.partition, record.offset)
            if place[:2] != (self.topic, self.partition) or record.offset not in before:
                raise ValueError(
                    f"the chain gave a record of {place[0]}-{place[1]}, offset {place[2]}, which is not its place"
                )
            if (record.key, record.timestamp) != before[record.offset]:
                raise ValueError(f"the chain changed key or time of {place[0]}-{place[1]}, offset {place[2]}")
            if kept and record.offset <= next(reversed(kept)):
                raise ValueError(f"the chain gave offset {place[2]} of {place[0]}-{place[1]} twice, or not in order")
            kept[record.offset] = record
        return kept


def _changed(stored: Record, record: ConsumerRecord) -> Record:
    """The stored record, or another one in its place where the chain changed it."""
    flag = None if stored.tombstone is None else record.tombstone
    if record.value == stored.value and record.headers == stored.headers and flag == stored.tombstone:
        return stored
    return Record(
        stored.offset,
        stored.timestamp,
        stored.key,
        record.value,
        record.headers,
        attributes=stored.attributes,
        tombstone=flag,
    )


def _rebuilt(batch: RecordBatch, records: list[Record]) -> RecordBatch:
    """The batch with other records: its own offsets, sequence and times, as a cleaner rebuilds one."""
    if batch.count is None:
        # An entry of a message set has no header but its records'.
        return RecordBatch(records=records, codec=batch.codec or "none", timestamp_type=max(batch.timestamp_type, 0))
    own_maximum = batch.timestamp_type == 1 or not records
    return RecordBatch(
        records=records,
        base_offset=batch.base_offset,
        last_offset_delta=batch.last_offset_delta,
        codec=(batch.codec or "none") if records else "none",
        timestamp_type=batch.timestamp_type,
        base_timestamp=batch.base_timestamp,
        max_timestamp=batch.max_timestamp if own_maximum else None,
        partition_leader_epoch=batch.partition_leader_epoch,
        transactional=batch.transactional,
        control=batch.control,
        delete_horizon=batch.delete_horizon,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        ignore_message_attributes=batch.ignore_message_attributes,
    )
