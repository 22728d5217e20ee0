"""``Trail`` over Arrow: hops are found sound or not by walking their lengths, all headers at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from magicbyte._core import Headers

from ._arrow import HeaderColumn, binary, column, joined, with_columns
from ._trail_bytes import POSITION, VERSION, Audit, Deletion, Hop

if TYPE_CHECKING:
    from .trail import Trail

Rows = np.ndarray[Any, Any]


def _walk(values: pa.Array) -> tuple[Rows, Rows]:
    """By header: whether it is a sound hop, and how many bytes its ``cluster`` and ``topic`` are, lengths included."""
    values = pa.concat_arrays([values])  # offsets from 0, no slice
    offsets = np.frombuffer(values.buffers()[1], np.int32)[: len(values) + 1].astype(np.int64)
    held = values.buffers()[2]
    # One zero behind the end, so that no place lies outside.
    data = np.append(np.frombuffer(held, np.uint8) if held is not None else np.empty(0, np.uint8), np.uint8(0))
    start, end = offsets[:-1], offsets[1:]
    last = len(data) - 1
    sound = (end - start >= 8) & (data[np.minimum(start, last)] == VERSION)
    flags = data[np.minimum(start + 1, last)]
    sound &= (flags & ~np.uint8(POSITION)) == 0
    at = start + np.where(flags & POSITION, 20, 8)
    sound &= at <= end
    into = at
    for number in range(5):
        sound &= at < end
        if number == 3:
            into = at
        at = at + 1 + data[np.clip(at, 0, last)]
        sound &= at <= end
    sound &= at == end
    if values.null_count:
        sound &= ~values.is_null().to_numpy(zero_copy_only=False)
    return sound, end - into


def _looked(trail: Trail, batch: pa.RecordBatch, headers: HeaderColumn, adding: bool) -> tuple[Rows, Rows]:
    """By row: whether all is well, and how many hops there are."""
    found = headers.named(trail.header)
    hops = np.bincount(headers.parents[found], minlength=headers.rows)
    good = hops <= trail.most - adding
    if not len(found):
        return good, hops
    values = binary(headers.values).take(pa.array(found))
    sound, length = _walk(values)
    parents = headers.parents[found]
    good[parents[~sound]] = False
    # Where `cluster` and `topic` are the bytes at the end, and nothing but them.
    visits = np.zeros(headers.rows, dtype=np.int64)
    topics = column(batch, "topic")
    coded = topics.dictionary_encode()
    rows_of = coded.indices.to_numpy(zero_copy_only=False)
    for number, topic in enumerate(coded.dictionary.to_pylist()):
        tail = Hop("", 0, cluster=trail.cluster, topic=topic).to_bytes()[11:]
        same = pc.fill_null(pc.ends_with(values, tail), False).to_numpy(zero_copy_only=False) & (length == len(tail))
        mine = same & sound & (rows_of[parents] == number)
        visits += np.bincount(parents[mine], minlength=headers.rows)
    return good & (visits <= trail.visits - adding), hops


def _answered(trail: Trail, old: pa.RecordBatch, new: pa.RecordBatch, good: Rows, adding: bool) -> pa.RecordBatch:
    """Bad rows as they were, answered for by the policies; loops have one of their own."""
    broken: dict[int, tuple[str, str]] = {}
    loops: dict[int, tuple[str, str]] = {}
    listed, topics = column(old, "headers"), column(old, "topic")
    for row in np.flatnonzero(~good).tolist():
        headers = Headers([(one["key"], one["value"]) for one in listed[row].as_py() or ()])
        outcome, detail = trail.look(headers, topics[row].as_py(), adding=adding)
        (loops if outcome == "loop" else broken)[row] = (outcome, detail)
    if not loops:
        return trail.bad_rows(new, broken)
    # Rows that one policy takes away would move those of the other.
    number = np.arange(new.num_rows)
    name = "__row"
    numbered = new.append_column(name, pa.array(number))
    done = trail._looping.bad_rows(numbered, loops)
    at = {row: place for place, row in enumerate(done.column(name).to_pylist()) if row in broken}
    done = trail.bad_rows(done, {at[row]: said for row, said in broken.items()})
    return done.select(new.schema.names)


def received(trail: Trail, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch as ``Trail.pre_deserialize`` would have it."""
    headers = HeaderColumn.of(batch)
    good, hops = _looked(trail, batch, headers, False)
    trail.counts.add("no trail", int((good & (hops == 0)).sum()))
    trail.counts.add("read", int((good & (hops > 0)).sum()))
    if not trail.on_read:
        return _answered(trail, batch, batch, good, False)
    placed = [
        _big_endian(column(batch, "partition"), ">i4"),
        _big_endian(column(batch, "offset"), ">i8"),
    ]
    head = Hop(trail.who, trail.clock()).to_bytes()[:8]
    who = bytes([len(trail.who.encode())]) + trail.who.encode()
    cluster = bytes([len(trail.cluster.encode())]) + trail.cluster.encode()
    topic = binary(column(batch, "topic"))
    length = _big_endian(pc.binary_length(topic), ">u1")
    hop = joined(batch.num_rows, bytes([VERSION, POSITION]) + head[2:], *placed, who + cluster, length, topic, b"\0\0")
    add = good | _passed(trail, batch, headers)
    new = with_columns(batch, {"headers": headers.with_header(trail.header, hop, add).array()})
    return _answered(trail, batch, new, good, False)


def _passed(trail: Trail, batch: pa.RecordBatch, headers: HeaderColumn) -> Rows:
    """Rows with a broken trail that are passed on all the same, and so get a hop."""
    rows = np.zeros(headers.rows, dtype=bool)
    if trail.policy != "pass":
        return rows
    found = headers.named(trail.header)
    if len(found):
        sound, _ = _walk(binary(headers.values).take(pa.array(found)))
        rows[headers.parents[found[~sound]]] = True
    return rows


def sent(trail: Trail, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch as ``Trail.post_serialize`` would have it."""
    headers = HeaderColumn.of(batch)
    good, _ = _looked(trail, batch, headers, True)
    add = good | _passed(trail, batch, headers)
    time = trail.clock()
    coded = column(batch, "topic").dictionary_encode()
    hops = [
        Hop(trail.who, time, cluster=trail.cluster, topic=topic).to_bytes() for topic in coded.dictionary.to_pylist()
    ]
    made = headers.with_header(trail.header, pa.array(hops, pa.binary()).take(coded.indices), add)
    if trail.audit:
        there = np.bincount(made.parents[made.named(trail.audit_header)], minlength=made.rows) > 0
        ids = [Audit(trail.new_id(), trail.who, trail.cluster).to_bytes() for _ in range(batch.num_rows)]
        made = made.with_header(trail.audit_header, pa.array(ids, pa.binary()), add & ~there)
    if trail.deletes:
        gone = add & column(batch, "value").is_null().to_numpy(zero_copy_only=False)
        said = Deletion(trail.who, time).to_bytes()
        made = made.without(trail.delete_header, gone)
        made = made.with_header(trail.delete_header, pa.array([said] * batch.num_rows, pa.binary()), gone)
    trail.counts.add("moved", int(good.sum()))
    new = with_columns(batch, {"headers": made.array()})
    return _answered(trail, batch, new, good, True)


def _big_endian(array: pa.Array, kind: str) -> pa.Array:
    numbers = array.to_numpy(zero_copy_only=False).astype(kind)
    width = numbers.dtype.itemsize
    fixed = pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), len(array), [None, pa.py_buffer(numbers.tobytes())])
    return fixed.cast(pa.binary())
