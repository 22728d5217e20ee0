"""Decoded headers as an Arrow column: each different (key, value) is decoded once, the rest is gathering."""

from __future__ import annotations

import json
from typing import Any

from magicbyte._extras import extra

from . import DecodedHeader, decode, plain
from .table import convention_of

with extra("arrow"):
    import pyarrow as pa
    import pyarrow.compute as pc

DECODED = pa.list_(pa.struct([(name, pa.string()) for name in DecodedHeader._fields]))
"""``list<struct<key, convention, value, encoding, error>>``."""


def decode_column(headers: Any) -> Any:
    """See ``magicbyte.vocabulary.decode_arrow``."""
    if isinstance(headers, pa.ChunkedArray):
        return pa.chunked_array([decode_column(chunk) for chunk in headers.chunks], DECODED)
    kind = headers.type
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)) or not pa.types.is_struct(kind.value_type):
        raise TypeError(f"a column of headers is list<struct<key, value>>, not {kind}")
    # Only what the lists show: `values` of a slice has the whole buffer.
    entries = headers.flatten()
    keys = pc.fill_null(pc.cast(pc.struct_field(entries, "key"), pa.string()), "")
    values = pc.cast(pc.struct_field(entries, "value"), pa.binary())
    # Keys are few, and so are the different values of most: a table of what each pair says, and a row of it for each.
    said: list[DecodedHeader] = []
    rows, places = [], []
    coded = keys.dictionary_encode()
    for number, key in enumerate(coded.dictionary.to_pylist()):
        where = pc.indices_nonzero(pc.equal(coded.indices, number))
        own = values.take(where).dictionary_encode()
        found = convention_of(key)
        name = found[0].name if found else None
        first = len(said)
        said += [DecodedHeader(key, name, *decode(key, value)) for value in own.dictionary.to_pylist()]
        said.append(DecodedHeader(key, name, *decode(key, None)))
        which = pc.fill_null(own.indices.cast(pa.int64()), len(own.dictionary))
        rows.append(pc.add(which, first))
        places.append(where.cast(pa.int64()))
    order = pc.sort_indices(pa.chunked_array(places, pa.int64()))
    chosen = pa.chunked_array(rows, pa.int64()).take(order).combine_chunks()
    shown = [one._replace(value=_shown(one.value)) for one in said]
    columns = [
        pa.array([one[at] for one in shown], pa.string()).take(chosen) for at in range(len(DecodedHeader._fields))
    ]
    struct = pa.StructArray.from_arrays(columns, list(DecodedHeader._fields))
    lengths = pc.fill_null(pc.list_value_length(headers), 0)
    ends = pc.cumulative_sum(pc.cast(lengths, pa.int32()))
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
    return pa.ListArray.from_arrays(offsets, struct, mask=pc.is_null(headers))


def _shown(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(plain(value))
