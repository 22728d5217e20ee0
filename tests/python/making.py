"""Batches of every format, made and read back."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st

import magicbyte as mb
from magicbyte._names import CODECS, TARGETS

FORMATS = TARGETS
BATCHES = ("v2", "v3", "kip82b")
HEADERS = ("v2", "v3", "kip82a", "kip82b")


def codecs(format: str) -> tuple[str, ...]:
    return CODECS if format in BATCHES else CODECS[:-1]


def rows(data: bytes, format: str, *names: str) -> list[tuple[Any, ...]]:
    """What is read back, of these attributes."""
    names = names or ("offset", "timestamp", "key", "value", "tombstone")
    records = [record for batch in mb.decode_batches(data, format=format) for record in batch.records]
    return [(*(getattr(r, name) for name in names), r.headers.to_list()) for r in records]


texts = st.text(max_size=12)
values = st.none() | st.binary(max_size=40)


@st.composite
def batches(draw: st.DrawFn, format: str) -> mb.RecordBatch:
    """Any batch that a format can carry, as it is read back from it."""
    records, offset = [], draw(st.integers(0, 2**62))
    for _ in range(draw(st.integers(1, 8))):
        value = draw(values)
        headers = draw(st.lists(st.tuples(texts, values if format != "kip82b" else st.binary(max_size=9)), max_size=4))
        flag = None
        if format == "kip87":
            flag = value is None or draw(st.booleans())
        records.append(
            mb.Record(
                offset,
                -1 if format == "v0" else draw(st.integers(-1, 2**63 - 1)),
                draw(values),
                value,
                headers if format in HEADERS else [],
                attributes=draw(st.integers(-128, 127)) if format == "v2" else 0,
                tombstone=flag,
            )
        )
        offset += draw(st.integers(1, 1000))
    fields: dict[str, Any] = {"codec": draw(st.sampled_from(codecs(format)))}
    if format in BATCHES:
        fields |= {
            "base_offset": draw(st.integers(max(records[0].offset - 100, 0), records[0].offset)),
            "partition_leader_epoch": draw(st.integers(-1, 2**31 - 1)),
            "producer_id": draw(st.integers(-1, 2**63 - 1)),
            "producer_epoch": draw(st.integers(-1, 2**15 - 1)),
            "base_sequence": draw(st.integers(-1, 2**31 - 1)),
            "transactional": draw(st.booleans()),
            "timestamp_type": draw(st.integers(0, 1)),
            "delete_horizon": draw(st.booleans()),
            "base_timestamp": draw(st.integers(-1, 2**63 - 1)),
        }
    return mb.RecordBatch(**fields, records=records)
