"""``Compaction`` over Arrow: a running maximum for each key of a batch, on top of what was seen before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from magicbyte._core import Headers

from ._arrow import HeaderColumn, column
from ._retention_arrow import timestamps
from .compaction import digest, version

if TYPE_CHECKING:
    from .compaction import Compaction

Rows = np.ndarray[Any, Any]


def ranks(compaction: Compaction, batch: pa.RecordBatch) -> tuple[pa.Array, dict[int, tuple[str, str]]]:
    """Ranks by row, and the rows whose version is broken."""
    if compaction.strategy == "offset":
        return column(batch, "offset").cast(pa.int64()), {}
    if compaction.strategy == "timestamp":
        return pa.array(timestamps(batch), pa.int64()), {}
    headers = HeaderColumn.of(batch)
    values, times = headers.last(compaction.header)
    coded = values.dictionary_encode()
    numbers, sound = [], []
    for value in [*coded.dictionary.to_pylist(), None]:
        try:
            numbers.append(version(value))
            sound.append(True)
        except ValueError:
            numbers.append(-1)
            sound.append(False)
    which = pc.fill_null(coded.indices.cast(pa.int64()), len(numbers) - 1).to_numpy()
    found = np.array(numbers, dtype=np.int64)[which]
    odd = (times > 0) & (~np.array(sound)[which] | (times > 1))
    broken = {}
    listed = column(batch, "headers")
    for row in np.flatnonzero(odd).tolist():
        try:
            compaction.version_of(Headers([(one["key"], one["value"]) for one in listed[row].as_py()]))
        except ValueError as error:
            found[row] = -1
            broken[row] = ("broken", str(error))
    return pa.array(found), broken


def compacted(compaction: Compaction, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch as ``Compaction.pre_deserialize`` would have it, row by row."""
    ranked, broken = ranks(compaction, batch)
    rank = ranked.to_numpy(zero_copy_only=False)
    keys = column(batch, "key")
    plain = ~keys.is_null().to_numpy(zero_copy_only=False)
    plain[list(broken)] = False
    rows = np.flatnonzero(plain)
    compaction.counts.add("no key", batch.num_rows - len(rows) - len(broken))
    stale = np.zeros(batch.num_rows, dtype=bool)
    if len(rows):
        stale[rows] = _stale(compaction, batch, keys, rows, rank[rows])
    compaction.counts.add("stale", int(stale.sum()))
    compaction.counts.add("newest", len(rows) - int(stale.sum()))
    kept = batch.filter(pa.array(~stale)) if stale.any() else batch
    place = np.cumsum(~stale) - 1
    return compaction.bad_rows(kept, {int(place[row]): said for row, said in broken.items()})


def _stale(compaction: Compaction, batch: pa.RecordBatch, keys: pa.Array, rows: Rows, rank: Rows) -> Rows:
    parts = pa.table({"t": column(batch, "topic"), "p": column(batch, "partition"), "k": keys}).take(pa.array(rows))
    hashes = [
        digest(topic, partition, key)
        for topic, partition, key in zip(*(parts.column(name).to_pylist() for name in ("t", "p", "k")), strict=True)
    ]
    coded = pa.array(hashes, pa.binary(16)).dictionary_encode()
    code, known = coded.indices.to_numpy(zero_copy_only=False).astype(np.int64), coded.dictionary.to_pylist()
    with compaction._lock:
        before = np.array([compaction._seen.get(key, -(1 << 63)) for key in known], dtype=np.int64)
        # Dense ranks, so that code and rank fit into one number that only grows from key to key.
        dense = np.unique(np.concatenate([rank, before]), return_inverse=True)[1]
        width = int(dense.max()) + 1
        first = dense[len(rank) :]
        order = np.argsort(code, kind="stable")
        sorted_code = code[order]
        begins = np.r_[True, sorted_code[1:] != sorted_code[:-1]]
        own = sorted_code * width + dense[: len(rank)][order]
        seed = sorted_code * width + first[sorted_code]
        most = np.maximum.accumulate(np.maximum(own, np.where(begins, seed, 0)))
        stale = np.empty(len(rank), dtype=bool)
        stale[order] = own < most
        latest = np.full(len(known), -(1 << 63), dtype=np.int64)
        np.maximum.at(latest, code, rank)
        last_at = np.zeros(len(known), dtype=np.int64)
        np.maximum.at(last_at, code, np.arange(len(code)))
        for number in np.argsort(last_at).tolist():
            key = known[number]
            seen = compaction._seen.pop(key, int(latest[number]))
            compaction._seen[key] = max(seen, int(latest[number]))
        while len(compaction._seen) > compaction.keys:
            compaction._seen.popitem(last=False)
    return stale
