"""Records to bytes: one batch, a batch with all its fields, or a stream of records cut into batches by size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

from magicbyte import _core

if TYPE_CHECKING:
    from magicbyte._core import ConsumerRecord, Record, RecordBatch
    from magicbyte.records import ProducerRecord

    AnyRecord: TypeAlias = ConsumerRecord | ProducerRecord | Record

__all__ = ["encode", "encode_batch", "encode_batches"]

BATCH_SIZE = 16_384  # bytes: Kafka's own default of `batch.size`


def encode(
    records: Iterable[AnyRecord],
    *,
    format: str = "v2",
    codec: str = "none",
    base_offset: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    control: bool = False,
    leader_epoch: int = -1,
    timestamp_type: int = 0,
    max_timestamp: int | None = None,
    delete_horizon: int | None = None,
    level: int | None = None,
) -> bytes:
    """One batch of the records; of ``v0``, ``v1``, ``kip87``, ``kip82a`` one wrapper, or without a codec an entry each.

    Uncompressed output is byte for byte what Kafka's own builder writes for v0 to v2.

    Args:
        records: a ``ConsumerRecord`` or ``Record`` keeps its offset; ``ProducerRecord`` count on from the one before,
            the first from ``base_offset``. A timestamp of None is −1, none at all. v0 drops timestamps.
        format: ``v0`` ``v1`` ``v2`` ``v3`` ``kip87`` ``kip82a`` ``kip82b``.
        codec: ``none`` ``gzip`` ``snappy`` ``lz4`` ``zstd`` (not in message sets); ``level`` is the codec's own.
        timestamp_type: 0 create time, 1 append time; then ``max_timestamp`` is the time of all records.
        delete_horizon: milliseconds from which on the cleaner may drop the batch (KIP-534).

    Raises:
        ValueError: what the format cannot carry, with the index of the record that has it: headers, a tombstone with a
            value outside ``kip87``, a live null, a timestamp below −1, offsets that do not rise, a header key over
            32,767 bytes, producer state or transactions in a message set.
        UnsupportedCodecError: the format does not have the codec.
        TypeError: a key or value that is not bytes: a serializer comes first.
    """
    fields = {
        "codec": codec,
        "producer_id": producer_id,
        "producer_epoch": producer_epoch,
        "base_sequence": base_sequence,
        "transactional": transactional,
        "control": control,
        "leader_epoch": leader_epoch,
        "timestamp_type": timestamp_type,
        "max_timestamp": max_timestamp,
        "delete_horizon": delete_horizon,
        "level": level,
    }
    return _core.encode(records, format, base_offset, fields)


def encode_batch(batch: RecordBatch, *, format: str = "v2", level: int | None = None) -> bytes:
    """A batch with just the fields that it has, those of its header and of each record, in any format.

    ``batch`` is one that was read, or ``RecordBatch(**fields, records=[Record(…)])``, where a field that is not given
    is computed as Kafka's own builder computes it. Fields that the format does not have are ignored, where they hold
    what stands for none.

    Raises:
        ValueError, UnsupportedCodecError: as ``encode``.
        CorruptRecordError: a batch that was read and is not sound.
    """
    return _core.encode_batch(batch, format, level)


def encode_batches(
    records: Iterable[AnyRecord],
    *,
    batch_size: int = BATCH_SIZE,
    format: str = "v2",
    base_offset: int = 0,
    **fields: Any,
) -> Iterator[bytes]:
    """Batches formed by size from a stream of records, as a producer forms them, with memory for one batch only.

    A batch is closed before the record that would take it over ``batch_size`` bytes, counted before compression; a
    larger record gets one of its own. ``base_sequence`` counts on from batch to batch. Other arguments and errors as in
    ``encode``; the index of a record counts in the whole stream.
    """
    if batch_size < 1:
        raise ValueError("batch_size must be above 0")
    return _core.EncodeIterator(records, format, base_offset, batch_size, fields)
