"""``Tracing`` over Arrow: W3C's form is told by one pattern for all rows, what is odd is looked at by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from magicbyte._core import Headers

from ._arrow import HeaderColumn, column, with_columns

if TYPE_CHECKING:
    from .tracing import Tracing

SOUND = "^0[0-9a-e]-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$"
ZEROS = "^..-0{32}|-0{16}-..$"


def received(tracing: Tracing, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch as ``Tracing.pre_deserialize`` would have it, row by row."""
    from .tracing import B3

    headers = HeaderColumn.of(batch)
    values, times = headers.last(tracing.headers["traceparent"])
    # Binary, as no pattern of text may fail on what is no text.
    plain = pc.and_(pc.match_substring_regex(values, SOUND), pc.invert(pc.match_substring_regex(values, ZEROS)))
    sound = pc.fill_null(plain, False).to_numpy(zero_copy_only=False) & (times == 1)
    odd = ~sound & (times > 0)
    if tracing.read_b3:
        for key in headers.keys.unique().to_pylist():
            if key is not None and key.lower() in B3:
                odd[headers.parents[headers.named(key)]] = True
    odd &= ~sound
    tracing.counts.add("continued", int(sound.sum()))
    tracing.counts.add("no trace", int((~sound & ~odd).sum()))
    bad = {}
    listed = column(batch, "headers")
    for row in np.flatnonzero(odd).tolist():
        outcome, detail = tracing.look(Headers([(one["key"], one["value"]) for one in listed[row].as_py()]))
        if outcome in ("broken", "repeated"):
            bad[row] = (outcome, detail)
        else:
            tracing.counts.add(outcome)
    return tracing.bad_rows(batch, bad)


def sent(tracing: Tracing, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The current context in all rows."""
    current = tracing.current()
    tracing.counts.add("sent", batch.num_rows)
    if not len(current):
        return batch
    headers = HeaderColumn.of(batch)
    for key, value in current:
        headers = headers.without(key).with_header(
            key, pa.array([value], pa.binary()).take(pa.array([0] * batch.num_rows))
        )
    return with_columns(batch, {"headers": headers.array()})
