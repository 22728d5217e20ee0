"""``Router`` over Arrow: a mask for each rule, one gathering of rows, columns set where a rule says so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from magicbyte._core import Headers

from ._arrow import HeaderColumn, column, with_columns

if TYPE_CHECKING:
    from .router import Router, To

Rows = np.ndarray[Any, Any]


def routed(router: Router, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch as ``Router.__call__`` would have it, row by row."""
    headers = HeaderColumn.of(batch)
    try:
        masks = [predicate.mask(headers) for predicate, _ in router.rules]
        failed: dict[int, str] = {}
    except Exception:
        # One row made a predicate of one's own raise: each by itself then.
        masks, failed = _one_by_one(router, batch)
    open_rows = np.ones(headers.rows, dtype=bool)
    open_rows[list(failed)] = False
    # (row, destination) for each row that comes out: copies first, the record itself last.
    pieces: list[tuple[Rows, int]] = []
    places: list[To] = []
    stays = np.zeros(headers.rows, dtype=bool)
    for (_, where), mask in zip(router.rules, masks, strict=True):
        rows = np.flatnonzero(mask & open_rows)
        if where.topic is None:
            router.counts.add("dropped", len(rows))
        else:
            places.append(where)
            pieces.append((rows, len(places) - 1))
            router.counts.add("copied" if where.also else "routed", len(rows))
        if not where.also:
            open_rows &= ~mask
    rest = np.flatnonzero(open_rows)
    stays[list(failed)] = True
    if router.default is None:
        router.counts.add("unmatched", len(rest))
        stays[rest] = True
    elif router.default.topic is None:
        router.counts.add("dropped", len(rest))
    else:
        router.counts.add("routed", len(rest))
        places.append(router.default)
        pieces.append((rest, len(places) - 1))
    pieces.append((np.flatnonzero(stays), -1))
    row = np.concatenate([rows for rows, _ in pieces])
    place = np.concatenate([np.full(len(rows), number) for rows, number in pieces])
    order = np.argsort(row, kind="stable")
    row, place = row[order], place[order]
    made = _set(router, batch.take(pa.array(row)), place, places)
    bad = {int(at): ("predicate failed", failed[int(row[at])]) for at in np.flatnonzero(np.isin(row, list(failed)))}
    return router.bad_rows(made, bad)


def _set(router: Router, batch: pa.RecordBatch, place: Rows, places: list[To]) -> pa.RecordBatch:
    topics = column(batch, "topic").to_numpy(zero_copy_only=False).astype(object)
    partitions = column(batch, "partition").to_pylist() if "partition" in batch.schema.names else None
    headers = HeaderColumn.of(batch)
    changes: dict[str, pa.Array] = {}
    for number, where in enumerate(places):
        rows = place == number
        if not rows.any():
            continue
        topics[rows] = [where.named(topic) for topic in topics[rows]]
        if where.partition is not None and partitions is not None:
            for at in np.flatnonzero(rows).tolist():
                partitions[at] = where.partition
        if where.cluster is not None:
            said = pa.array([where.cluster.encode()] * batch.num_rows, pa.binary())
            headers = headers.without(router.cluster_header, rows).with_header(router.cluster_header, said, rows)
            changes["headers"] = headers.array()
    changes["topic"] = pa.array(topics, pa.string())
    if partitions is not None:
        changes["partition"] = pa.array(partitions, pa.int32())
    return with_columns(batch, changes)


def _one_by_one(router: Router, batch: pa.RecordBatch) -> tuple[list[Rows], dict[int, str]]:
    masks = [np.zeros(batch.num_rows, dtype=bool) for _ in router.rules]
    failed: dict[int, str] = {}
    for row, listed in enumerate(column(batch, "headers").to_pylist()):
        headers = Headers([(one["key"], one["value"]) for one in listed or ()])
        try:
            for mask, (predicate, where) in zip(masks, router.rules, strict=True):
                mask[row] = predicate(headers)
                if mask[row] and not where.also:
                    break
        except Exception as error:
            failed[row] = f"{type(error).__name__}: {error}"
    return masks, failed
