"""``Retention`` over Arrow: each different time to live is read once, ends are compared in columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from magicbyte._core import Headers

from ._arrow import HeaderColumn, column, with_columns
from .retention import LATEST, milliseconds

if TYPE_CHECKING:
    from .retention import Retention

Rows = np.ndarray[Any, Any]
NEVER = np.int64(1 << 62)


def timestamps(batch: pa.RecordBatch) -> Rows:
    """The column ``timestamp`` as milliseconds; −1 where there is none."""
    times = column(batch, "timestamp")
    if pa.types.is_timestamp(times.type):
        times = times.cast(pa.timestamp("us", times.type.tz)).cast(pa.int64())
        found = pc.fill_null(times, -1000).to_numpy(zero_copy_only=False) // 1000
    else:
        found = pc.fill_null(times.cast(pa.int64()), -1).to_numpy(zero_copy_only=False)
    return np.asarray(found)


def _read(values: pa.Array) -> tuple[Rows, Rows]:
    """By row, milliseconds, and whether they could be read."""
    coded = values.dictionary_encode()
    numbers, sound = [], []
    for value in [*coded.dictionary.to_pylist(), None]:
        try:
            numbers.append(min(milliseconds(value), int(NEVER)))
            sound.append(True)
        except ValueError:
            numbers.append(0)
            sound.append(False)
    which = pc.fill_null(coded.indices.cast(pa.int64()), len(numbers) - 1).to_numpy()
    return np.array(numbers, dtype=np.int64)[which], np.array(sound)[which]


def retained(retention: Retention, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch as ``Retention.pre_deserialize`` would have it, row by row."""
    headers = HeaderColumn.of(batch)
    time, stamps = retention.clock(), timestamps(batch)
    rows = headers.rows
    held = np.zeros(rows, dtype=bool) if retention.hold is None else retention.hold.mask(headers)
    ends = np.full(rows, NEVER)
    told, odd = np.zeros(rows, dtype=bool), np.zeros(rows, dtype=bool)
    for name, since in ((retention.expires_header, np.zeros_like(stamps)), (retention.ttl_header, stamps)):
        if name is None:
            continue
        values, times = headers.last(name)
        lasts, sound = _read(values)
        there = times > 0
        # Several of a name are looked at one by one: they may be the same.
        odd |= there & (~sound | (times > 1) | (since < 0))
        told |= there
        ends = np.where(there & (lasts < LATEST), np.minimum(ends, since + np.minimum(lasts, LATEST)), ends)
    if retention.max_age is not None:
        ends = np.where(~told & (stamps >= 0), np.minimum(ends, stamps + min(retention.max_age, LATEST)), ends)
    expired = ends <= time
    if retention.drop is not None:
        expired |= retention.drop.mask(headers)
    odd &= ~held
    expired &= ~held & ~odd
    bad = {}
    listed = column(batch, "headers")
    for row in np.flatnonzero(odd).tolist():
        one = Headers([(header["key"], header["value"]) for header in listed[row].as_py()])
        outcome, detail = retention.look(one, int(stamps[row]), time)
        if outcome == "broken":
            bad[row] = (outcome, detail)
        else:
            expired[row] = outcome == "expired"
    retention.counts.add("held", int(held.sum()))
    retention.counts.add("expired", int(expired.sum()))
    retention.counts.add("kept", rows - int(held.sum()) - int(expired.sum()) - len(bad))
    keep = np.flatnonzero(~expired)
    place = np.cumsum(~expired) - 1
    kept = batch if len(keep) == rows else batch.take(pa.array(keep))
    return retention.bad_rows(kept, {int(place[row]): said for row, said in bad.items()})


def given(retention: Retention, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch as ``Retention.post_serialize`` would have it."""
    retention.counts.add("sent", batch.num_rows)
    if retention.set_ttl is None or retention.ttl_header is None:
        return batch
    headers = HeaderColumn.of(batch)
    without = np.bincount(headers.parents[headers.named(retention.ttl_header)], minlength=headers.rows) == 0
    said = pa.array([b"%d" % retention.set_ttl] * batch.num_rows, pa.binary())
    return with_columns(batch, {"headers": headers.with_header(retention.ttl_header, said, without).array()})
