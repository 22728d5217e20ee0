"""Records as rows of Kafka's columns in Arrow, and back: what Spark hands to `mapInArrow`."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

import magicbyte as mb
from magicbyte.middleware._arrow import record_of

KAFKA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("timestampType", pa.int32()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)
"""The columns of Spark's Kafka source with ``includeHeaders``."""


def rows_of(records: Iterable[mb.ConsumerRecord | mb.ProducerRecord]) -> pa.RecordBatch:
    """Records as rows; no headers are null, as in Spark. Records to be sent get offset −1."""
    rows = [
        {
            "key": record.key,
            "value": record.value,
            "topic": record.topic,
            "partition": -1 if record.partition is None else record.partition,
            "offset": getattr(record, "offset", -1),
            "timestamp": None if record.timestamp is None else record.timestamp * 1000,
            "timestampType": getattr(record, "timestamp_type", 0),
            "headers": [{"key": header.key, "value": header.value} for header in record.headers] or None,
        }
        for record in records
    ]
    return pa.RecordBatch.from_pylist(rows, KAFKA)


def records_of(batches: Iterable[pa.RecordBatch]) -> list[mb.ConsumerRecord]:
    """Rows as records."""
    return [record_of(batch, row) for batch in batches for row in range(batch.num_rows)]
