"""``Replay`` over Arrow: origins out of header columns, each different value decoded once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from magicbyte._core import Headers
from magicbyte.vocabulary import decode

from . import dead_letters as plain
from ._arrow import HeaderColumn, binary, with_columns

if TYPE_CHECKING:
    from .dead_letters import Replay

Objects = np.ndarray[Any, Any]


def _ends(column: HeaderColumn, name: str, first: bool) -> tuple[pa.Array, Objects]:
    """By row, the first or last value of a header, and how often it is there."""
    if not first:
        return column.last(name)
    found = column.named(name)
    parents = column.parents[found]
    place = np.full(column.rows, -1, dtype=np.int64)
    place[parents[::-1]] = found[::-1]
    return binary(column.values).take(pa.array(place, mask=place < 0)), np.bincount(parents, minlength=column.rows)


def _decoded(name: str, values: pa.Array) -> Objects:
    """What each value says, as objects; None where it says nothing that can be read."""
    coded = values.dictionary_encode()
    said = [decode(name, value) for value in coded.dictionary.to_pylist()]
    table = np.array([*(None if one.error else one.value for one in said), None], dtype=object)
    made: Objects = table[pc.fill_null(coded.indices.cast(pa.int64()), -1).to_numpy()]
    return made


def _origins(replay: Replay, column: HeaderColumn, style: str) -> tuple[dict[str, Objects], Objects]:
    first = replay.which == "first"
    fields = plain._ORIGIN[style]
    ends = {field: _ends(column, plain._BEGIN[style] + name, first) for field, name in fields.items()}
    most = np.max([counts for _, counts in ends.values()], axis=0)
    values: dict[str, Objects] = {}
    nothing = np.full(column.rows, None, dtype=object)
    for field in ("topic", "partition", "timestamp"):
        if field not in fields:
            values[field] = nothing
            continue
        said = _decoded(plain._BEGIN[style] + fields[field], ends[field][0])
        # The newest belong together: the first origin has a field only where none of them is left out.
        values[field] = np.where(ends[field][1] == most, said, nothing) if first else said
    return values, most > 0


def replayed(replay: Replay, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch as ``Replay.pre_deserialize`` would have it, row by row."""
    column = HeaderColumn.of(batch)
    origin: dict[str, Objects] = {}
    taken = np.zeros(column.rows, dtype=bool)
    for style in (replay.style,) if replay.style else ("spring", "connect"):
        values, there = _origins(replay, column, style)
        for field, said in values.items():
            origin[field] = np.where(taken, origin[field], said) if field in origin else said
        taken |= there
    topic = origin["topic"]
    good = taken & np.array([bool(one) for one in topic])
    if replay.topics is not None:
        good &= np.array([one in replay.topics for one in topic])
    if replay.most is not None:
        counted, times = column.last(replay.count_header)
        words = counted.to_pylist()
        before = np.array(
            [
                (int(word) if word is not None and word.isdigit() and len(word) < 10 else replay.most) if there else 0
                for word, there in zip(words, times, strict=True)
            ],
            dtype=np.int64,
        )
        good &= before < replay.most
    replay.counts.add("replayed", int(good.sum()))

    # Few are bad: what is wrong with each is asked for one by one.
    headers = batch.column(batch.schema.get_field_index("headers"))
    bad = {}
    for row in np.flatnonzero(~good).tolist():
        listed = headers[row].as_py() or ()
        _, _, outcome, detail = replay.look(Headers([(one["key"], one["value"]) for one in listed]))
        bad[row] = (outcome, detail)

    names = [name for name in column.keys.unique().to_pylist() if name is not None and name.startswith(plain.FAMILIES)]
    made = column.without(names, good)
    if replay.most is not None:
        made = made.without(replay.count_header, good)
        made = made.with_header(replay.count_header, pa.array([b"%d" % (n + 1) for n in before.tolist()]), good)
    changes = {"headers": made.array()}
    fields = batch.schema.names
    if "topic" in fields:
        changes["topic"] = _chosen(good, pa.array(topic, pa.string()), batch.column(fields.index("topic")))
    if "partition" in fields:
        new = origin["partition"] if replay.partition else [None] * column.rows
        changes["partition"] = _chosen(good, pa.array(new, pa.int32()), batch.column(fields.index("partition")))
    if "timestamp" in fields:
        old = batch.column(fields.index("timestamp"))
        times = np.array([one if plain.told(one) else None for one in origin["timestamp"]], dtype=object)
        known = good & np.array([one is not None for one in times])
        new = pa.array([None if one is None else one * 1000 for one in times], pa.int64())
        if pa.types.is_timestamp(old.type):
            new = new.cast(pa.timestamp("us", old.type.tz))
            changes["timestamp"] = _chosen(known, new, old)
    return replay.bad_rows(with_columns(batch, changes), bad)


def _chosen(where: Objects, new: pa.Array, old: pa.Array) -> pa.Array:
    return pc.if_else(pa.array(where), new.cast(old.type), old)
