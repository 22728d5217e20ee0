"""Kafka's columns in Arrow, changed without making records: a column of headers by name, rows left out, rows replaced.

Nothing here looks at a row by itself but ``record_of`` and ``replaced``, which are for the few bad ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from magicbyte._core import ConsumerRecord
from magicbyte._extras import extra

with extra("arrow"):
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

__all__ = [
    "HeaderColumn",
    "alike_rows",
    "binary",
    "column",
    "groups",
    "is_utf8",
    "joined",
    "lengths_as_bytes",
    "marked",
    "record_of",
    "records_of",
    "replaced",
    "with_columns",
    "without_rows",
]

Rows = np.ndarray[Any, Any]


def column(batch: pa.RecordBatch, name: str) -> pa.Array:
    """A column by its name.

    Raises:
        ValueError: it is not there; for headers, with the option of Spark's Kafka source that brings them.
    """
    where = batch.schema.get_field_index(name)
    if where < 0:
        hint = '; Spark\'s Kafka source brings it with .option("includeHeaders", "true")' if name == "headers" else ""
        raise ValueError(f"no column {name}; there are {', '.join(batch.schema.names)}{hint}")
    return batch.column(where)


def with_columns(batch: pa.RecordBatch, changes: Mapping[str, pa.Array]) -> pa.RecordBatch:
    """The batch with other arrays in some of its columns, of the very types that it had."""
    arrays = [
        changes[field.name].cast(field.type) if field.name in changes else batch.column(number)
        for number, field in enumerate(batch.schema)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=batch.schema)


def binary(array: pa.Array) -> pa.Array:
    """Strings, views and large binaries as plain binary."""
    return array if array.type == pa.binary() else array.cast(pa.binary())


def is_utf8(values: pa.Array) -> Rows:
    """Which binary values are UTF-8; null is."""
    try:
        values.cast(pa.string())
    except pa.ArrowInvalid:
        return np.array([_is_utf8(value) for value in values.to_pylist()], dtype=bool)
    return np.ones(len(values), dtype=bool)


def _is_utf8(value: bytes | None) -> bool:
    try:
        (value or b"").decode()
    except UnicodeDecodeError:
        return False
    return True


def lengths_as_bytes(array: pa.Array) -> pa.Array:
    """The length of each value as a big-endian int32 in 4 bytes; −1 for null."""
    lengths = pc.fill_null(pc.binary_length(array), -1).to_numpy(zero_copy_only=False).astype(">i4")
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(4), len(array), [None, pa.py_buffer(lengths.tobytes())]).cast(
        pa.binary()
    )


def joined(rows: int, *parts: pa.Array | bytes) -> pa.Array:
    """Row by row, the parts one behind the other; a null adds nothing, bytes are the same in all rows."""
    arrays = [pa.scalar(part, pa.binary()) if isinstance(part, bytes) else binary(part) for part in parts]
    if all(isinstance(part, pa.Scalar) for part in arrays):
        return pa.array([b"".join(part.as_py() for part in arrays)] * rows, pa.binary())
    nothing = pa.scalar(b"", pa.binary())
    return pc.binary_join_element_wise(*arrays, nothing, null_handling="replace", null_replacement=b"")


def alike_rows(codes: Rows) -> list[Rows]:
    """The rows that have the same code, in order, for each code that occurs."""
    order = np.argsort(codes, kind="stable")
    cuts = np.flatnonzero(np.diff(codes[order])) + 1
    return [rows for rows in np.split(order, cuts) if len(rows)]


def groups(encoded: pa.DictionaryArray) -> list[tuple[Any, list[int]]]:
    """The values of a dictionary-encoded column, each with the rows that have it, in order."""
    return [(encoded[int(rows[0])].as_py(), rows.tolist()) for rows in alike_rows(encoded.indices.to_numpy())]


class HeaderColumn:
    """The headers of a batch: all keys and all values one behind the other, with the row that each belongs to."""

    def __init__(self, array: pa.Array) -> None:
        self.type = array.type
        self.rows = len(array)
        self.nulls: Rows = array.is_null().to_numpy(zero_copy_only=False)
        structs = array.flatten()  # knows of slices and of nulls
        self.keys: pa.Array = structs.field(0) if not structs.null_count else structs.flatten()[0]
        self.values: pa.Array = structs.field(1) if not structs.null_count else structs.flatten()[1]
        lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
        self.parents: Rows = np.repeat(np.arange(self.rows), lengths)

    @classmethod
    def of(cls, batch: pa.RecordBatch) -> HeaderColumn:
        """The column ``headers`` of a batch."""
        return cls(column(batch, "headers"))

    def named(self, name: str) -> Rows:
        """Which of all headers have this name, as positions in ``keys`` and ``values``."""
        found: Rows = pc.indices_nonzero(pc.fill_null(pc.equal(self.keys, name), False)).to_numpy()
        return found.astype(np.int64)

    def begins(self, prefix: str) -> Rows:
        """Rows that have a header whose name begins so."""
        found = np.zeros(self.rows, dtype=bool)
        found[self.parents[pc.fill_null(pc.starts_with(self.keys, prefix), False).to_numpy(zero_copy_only=False)]] = (
            True
        )
        return found

    def sound_names(self, prefix: str, pattern: str) -> Rows:
        """Rows whose headers that begin so have a rest of the name that fits, UTF-8 as their value, and are not repeated."""
        mine = np.flatnonzero(pc.fill_null(pc.starts_with(self.keys, prefix), False).to_numpy(zero_copy_only=False))
        keys, parents = self.keys.take(pa.array(mine)), self.parents[mine]
        fits = pc.match_substring_regex(keys, f"^{prefix}{pattern}$").to_numpy(zero_copy_only=False)
        fits &= is_utf8(binary(self.values).take(pa.array(mine)))
        names = keys.dictionary_encode()
        codes = parents * (len(names.dictionary) + 1) + names.indices.to_numpy()
        _, places, counts = np.unique(codes, return_inverse=True, return_counts=True)
        sound = np.ones(self.rows, dtype=bool)
        sound[parents[~fits | (counts[places] > 1)]] = False
        return sound

    def last(self, name: str) -> tuple[pa.Array, Rows]:
        """By row, the last value of that name as binary (null where there is none), and how often the name is there."""
        found = self.named(name)
        parents = self.parents[found]
        counts = np.bincount(parents, minlength=self.rows)
        place = np.full(self.rows, -1, dtype=np.int64)
        place[parents] = found  # where a row has several, the last assignment stays
        return binary(self.values).take(pa.array(place, mask=place < 0)), counts

    def without(self, names: str | Iterable[str], rows: Rows | None = None) -> HeaderColumn:
        """Without all headers of these names, in all rows or where ``rows`` is true. A row left with none has an empty list."""
        gone = np.zeros(len(self.keys), dtype=bool)
        for name in [names] if isinstance(names, str) else names:
            gone[self.named(name)] = True
        if rows is not None:
            gone &= rows[self.parents]
        return self._of(np.flatnonzero(~gone), self.keys, self.values, self.parents)

    def with_header(self, name: str, values: pa.Array, rows: Rows | None = None) -> HeaderColumn:
        """With one more header at the end, in all rows or where ``rows`` is true. ``values`` has a value for each row."""
        where = np.arange(self.rows) if rows is None else np.flatnonzero(rows)
        keys = pa.concat_arrays([self.keys, pa.array([name] * len(where), self.keys.type)])
        added = binary(values).take(pa.array(where)).cast(self.values.type)
        parents = np.concatenate([self.parents, where])
        # A stable sort keeps the order within a row, and puts what was added last.
        return self._of(np.argsort(parents, kind="stable"), keys, pa.concat_arrays([self.values, added]), parents)

    def _of(self, order: Rows, keys: pa.Array, values: pa.Array, parents: Rows) -> HeaderColumn:
        made = HeaderColumn.__new__(HeaderColumn)
        made.type, made.rows = self.type, self.rows
        indices = pa.array(order)
        made.keys, made.values, made.parents = keys.take(indices), values.take(indices), parents[order]
        made.nulls = self.nulls & (np.bincount(made.parents, minlength=self.rows) == 0)
        return made

    def array(self) -> pa.Array:
        """The column again, of the type that it had."""
        item = self.type.value_type
        structs = pa.StructArray.from_arrays(
            [self.keys.cast(item[0].type), self.values.cast(item[1].type)], fields=list(item)
        )
        counts = np.bincount(self.parents, minlength=self.rows)
        offsets = np.concatenate([[0], np.cumsum(counts)])
        wide = pa.types.is_large_list(self.type)
        kind, whole = (pa.LargeListArray, np.int64) if wide else (pa.ListArray, np.int32)
        mask = pa.array(self.nulls) if self.nulls.any() else None
        return kind.from_arrays(pa.array(offsets.astype(whole)), structs, type=self.type, mask=mask)


def without_rows(batch: pa.RecordBatch, rows: Iterable[int]) -> pa.RecordBatch:
    """The batch without these rows."""
    keep = np.ones(batch.num_rows, dtype=bool)
    keep[list(rows)] = False
    return batch.filter(pa.array(keep))


def marked(batch: pa.RecordBatch, name: str, texts: Mapping[int, str]) -> pa.RecordBatch:
    """The batch with one more header in these rows."""
    values: list[bytes | None] = [None] * batch.num_rows
    rows = np.zeros(batch.num_rows, dtype=bool)
    for row, text in texts.items():
        values[row], rows[row] = text.encode("utf-8", "replace"), True
    headers = HeaderColumn.of(batch).with_header(name, pa.array(values, pa.binary()), rows)
    return with_columns(batch, {"headers": headers.array()})


def record_of(batch: pa.RecordBatch, row: int) -> ConsumerRecord:
    """One row as a record."""
    return records_of(batch, [row])[0]


def records_of(batch: pa.RecordBatch, rows: Sequence[int]) -> list[ConsumerRecord]:
    """Rows as records. Columns of Kafka's schema that are missing, and nulls, have the values of an unknown."""
    some = batch.take(pa.array(rows, pa.int64()))
    known = {name: some.column(number) for number, name in enumerate(some.schema.names)}
    stamps = known.get("timestamp")
    if stamps is not None and pa.types.is_timestamp(stamps.type):
        micros = stamps.cast(pa.timestamp("us", stamps.type.tz)).cast(pa.int64()).to_pylist()
        known["timestamp"] = pa.array([None if one is None else one // 1000 for one in micros], pa.int64())

    def plain(name: str, unknown: Any) -> list[Any]:
        found = known[name].to_pylist() if name in known else [None] * len(rows)
        return [unknown if one is None else one for one in found]

    headers = [[(one["key"], one["value"]) for one in row] for row in plain("headers", ())]
    unknown = {
        "topic": "",
        "partition": -1,
        "offset": -1,
        "timestamp": -1,
        "timestampType": 0,
        "key": None,
        "value": None,
    }
    columns = [plain(name, value) for name, value in unknown.items()]
    return [ConsumerRecord(*fields) for fields in zip(*columns, headers, strict=True)]


def replaced(batch: pa.RecordBatch, records: Mapping[int, Sequence[Any]]) -> pa.RecordBatch:
    """The batch with other records in the place of some rows: none, one or many. Columns that Kafka does not have keep
    what the row had in them."""
    rows = [row for row in sorted(records) for _ in records[row]]
    new = _rows_of(batch.take(pa.array(rows, pa.int64())), [one for row in sorted(records) for one in records[row]])
    kept = np.setdiff1d(np.arange(batch.num_rows), np.fromiter(records, dtype=np.int64, count=len(records)))
    # A stable sort by the old row: several in the place of one keep their order.
    places = np.concatenate([kept, np.array(rows, dtype=np.int64)])
    sources = np.concatenate([kept, batch.num_rows + np.arange(len(rows))])
    both = pa.Table.from_batches([batch, new]).take(pa.array(sources[np.argsort(places, kind="stable")]))
    merged = both.combine_chunks().to_batches()
    return merged[0] if merged else batch.slice(0, 0)


def _rows_of(old: pa.RecordBatch, records: Sequence[Any]) -> pa.RecordBatch:
    """Records as rows, with the columns that records do not have of the old rows."""
    arrays = []
    for number, field in enumerate(old.schema):
        before = old.column(number)
        if field.name in ("key", "value", "topic"):
            arrays.append(pa.array([getattr(one, field.name) for one in records], field.type))
        elif field.name == "headers":
            some = [[{"key": header.key, "value": header.value} for header in one.headers] for one in records]
            arrays.append(pa.array(some, field.type))
        elif field.name in FILLED:
            # A record to be sent may not know its partition or time, and has no offset.
            told = [getattr(one, FILLED[field.name], None) for one in records]
            arrays.append(_filled(told, before, field))
        else:
            arrays.append(before)
    return pa.RecordBatch.from_arrays(arrays, schema=old.schema)


FILLED = {"partition": "partition", "offset": "offset", "timestamp": "timestamp", "timestampType": "timestamp_type"}


def _filled(told: list[int | None], before: pa.Array, field: pa.Field) -> pa.Array:
    if pa.types.is_timestamp(field.type):
        stamps = pa.array([None if one is None else one * 1000 for one in told], pa.int64())
        return pc.coalesce(stamps.cast(pa.timestamp("us", field.type.tz)).cast(field.type), before)
    return pc.coalesce(pa.array(told, field.type), before)
