"""Records to bytes: one batch, a batch with all its fields, or a stream of records cut into batches by size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

from magicbyte import _core
from magicbyte._extras import extra

if TYPE_CHECKING:
    import pyarrow as pa

    from magicbyte._core import ConsumerRecord, Record, RecordBatch
    from magicbyte.records import ProducerRecord

    AnyRecord: TypeAlias = ConsumerRecord | ProducerRecord | Record

__all__ = ["encode", "encode_arrow", "encode_batch", "encode_batches"]

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


def encode_arrow(
    data: Any,
    *,
    batch_size: int = BATCH_SIZE,
    format: str = "v2",
    base_offset: int = 0,
    timestamp: int = -1,
    **fields: Any,
) -> Iterator[bytes]:
    """Batches of one partition formed by size from Arrow columns, with no Python object a record.

    Args:
        data: a ``pyarrow`` table, record batch or reader, or what has ``__arrow_c_stream__`` (a Polars frame, a ``Scan``).
            Columns go by the names that ``scan`` gives them: ``value``, ``key``, ``headers`` (lists of key and value),
            ``timestamp`` or ``timestampMs``, ``timestampType``, ``offset``, ``tombstone``, ``leaderEpoch``,
            ``rawHeaderKeys`` (with ``headers``). Others are passed over. A batch ends where ``leaderEpoch`` or
            ``timestampType`` changes.
        batch_size: bytes before compression, as in ``encode_batches``.
        base_offset: where offsets are counted from, if there is no column ``offset``.
        timestamp: of rows that have none, in ms since the epoch.
        fields: as in ``encode``.

    Raises:
        TypeError: a column's type is none that the field can have.
        ValueError, UnsupportedCodecError: as ``encode``, with the row.
    """
    if batch_size < 1:
        raise ValueError("batch_size must be above 0")
    return _encoded(data, batch_size, format, base_offset, timestamp, fields)


def _encoded(
    data: Any, batch_size: int, format: str, base_offset: int, timestamp: int, fields: dict[str, Any]
) -> Iterator[bytes]:
    with extra("arrow"):
        import pyarrow as pa

    if isinstance(data, pa.RecordBatch):
        batches, names = iter([data]), data.schema.names
    else:
        reader = data if isinstance(data, pa.RecordBatchReader) else pa.RecordBatchReader.from_stream(data)
        batches, names = reader, reader.schema.names
    encoder = _core.ColumnEncoder(
        format,
        batch_size,
        fields,
        topic="",
        partition=0,
        timestamp=timestamp,
        keep_offsets="offset" in names,
        base_offset=base_offset,
    )
    for batch in batches:
        for piece in pieces(batch):
            for _, _, ready in encoder.push(piece):
                yield ready
    for _, _, ready in encoder.finish():
        yield ready


PIECE_BYTES = 16 << 20


def pieces(batch: pa.RecordBatch) -> Iterator[bytes]:
    """A record batch as IPC streams of about ``PIECE_BYTES`` each, so that no copy is large."""
    import pyarrow as pa

    rows = batch.num_rows
    step = max(1, rows * PIECE_BYTES // max(batch.nbytes, 1)) if rows else 1
    for at in range(0, rows, step):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch.slice(at, step))
        yield sink.getvalue().to_pybytes()
