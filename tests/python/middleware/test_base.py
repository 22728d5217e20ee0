"""What all middlewares share: names, policies, counts, pickling, and Kafka's columns in Arrow."""

from __future__ import annotations

import pickle
import threading
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import magicbyte as mb
from magicbyte.ids import HeaderIds
from magicbyte.interceptors import Chain
from magicbyte.middleware import BadHeaderError, Counts, HeaderMiddleware, header_name, quarantined
from magicbyte.middleware._arrow import HeaderColumn, binary, column, joined, lengths_as_bytes, record_of
from magicbyte.middleware._base import one_value

from kafka_rows import rows_of

Rows = list[list[tuple[str, bytes | None]] | None]
some_headers = st.lists(st.tuples(st.sampled_from(["a", "b", "x"]), st.none() | st.binary(max_size=5)), max_size=5)
some_rows = st.lists(st.none() | some_headers, max_size=8)


class Even(HeaderMiddleware):
    """Bad are values of odd length."""

    def pre_deserialize(self, record: mb.ConsumerRecord) -> Any:
        if len(record.value) % 2:
            return self.bad(record, "odd", f"{len(record.value)} bytes")
        self.counts.add("even")
        return record

    def _ready(self) -> None:
        self._lock = threading.Lock()

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._ready()

    def arrow(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        sizes = [len(value) for value in batch.column("value").to_pylist()]
        return self.bad_rows(batch, {row: ("odd", f"{size} bytes") for row, size in enumerate(sizes) if size % 2})


def record(value: bytes, offset: int = 0, headers: Any = ()) -> mb.ConsumerRecord:
    return mb.ConsumerRecord("t", 1, offset, 1_700_000_000_123, 0, b"k", value, headers)


def batch_of(rows: Rows) -> pa.RecordBatch:
    """Empty lists of headers and nulls are two things in Arrow, and both occur."""
    batch = rows_of(record(bytes(number), number) for number in range(len(rows)))
    headers = [None if row is None else [{"key": key, "value": value} for key, value in row] for row in rows]
    return batch.set_column(7, "headers", pa.array(headers, batch.schema.field("headers").type))


def headers_of(array: pa.Array) -> Rows:
    return [row if row is None else [(h["key"], h["value"]) for h in row] for row in array.to_pylist()]


def test_names() -> None:
    ids = HeaderIds()
    ids.reserve_private(0, 9)
    ids.register(3, "house.sig")
    assert header_name("sig") == "sig"
    assert header_name((ids, 3)) == "house.sig"
    assert header_name((ids, 7)) == "#00000007"
    with pytest.raises(ValueError, match="has a name"):
        header_name("")
    with pytest.raises(TypeError, match="HeaderIds, id"):
        header_name(("a", 3))  # type: ignore[arg-type]


def test_one_value() -> None:
    headers = mb.Headers([("a", b"1"), ("b", None), ("a", b"2")])
    assert [one_value(headers, name) for name in "abc"] == [(b"2", 2), (None, 1), (None, 0)]


def test_policies() -> None:
    bad, good = record(b"1"), record(b"22")
    seen: list[Any] = []

    def aside(given: Any, reason: str) -> Any:
        seen.append((given, reason))
        return ()

    assert Even().pre_deserialize(bad) is bad and not bad.headers
    assert list(Chain(Even(policy="reject"))([bad, good])) == [good]
    assert list(Chain(Even(policy="quarantine", quarantine=aside))([bad, good])) == [good]
    assert seen == [(bad, "Even: odd, 1 bytes")]
    with pytest.raises(BadHeaderError, match="Even: odd, 1 bytes") as error:
        Even(policy="raise").pre_deserialize(bad)
    assert error.value.record is bad
    again = pickle.loads(pickle.dumps(error.value))
    assert again.args == error.value.args and again.record == bad
    marked = Even(policy="quarantine").pre_deserialize(bad)
    assert quarantined(marked) == ["Even: odd, 1 bytes"] and quarantined(good) == []
    with pytest.raises(ValueError, match="policy is"):
        Even(policy="drop")
    with pytest.raises(TypeError, match="quarantine is"):
        Even(quarantine="dead-letters")


def test_marking_leaves_closed_headers_alone() -> None:
    closed = mb.ProducerRecord("t", b"1")
    closed.close()
    marked = Even(policy="quarantine").pre_deserialize(closed)  # type: ignore[arg-type]
    assert quarantined(marked) and not quarantined(closed)


def test_counts_are_shared_by_threads_and_left_behind_by_pickle() -> None:
    even = Even(policy="reject")
    threads = [
        threading.Thread(target=lambda: [even.pre_deserialize(record(bytes(n))) for n in range(1000)]) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert dict(even.counts) == {"even": 2000, "odd": 2000}
    shipped = pickle.loads(pickle.dumps(even))
    assert shipped.policy == "reject" and len(shipped.counts) == 0
    shipped.pre_deserialize(record(b""))
    assert dict(even.counts.merge(shipped.counts)) == {"even": 2001, "odd": 2000}
    assert even.counts["never"] == 0 and "never" not in even.counts
    assert even.counts.clear() == {"even": 2001, "odd": 2000} and not even.counts
    assert dict(Counts({"a": 1})) == {"a": 1}


@given(some_rows, st.integers(0, 3), st.data())
def test_headers_in_arrow(rows: Rows, skip: int, data: st.DataObject) -> None:
    """The column of headers says what `Headers` say, of slices too."""
    batch = batch_of(rows).slice(skip)
    rows = rows[skip:]
    headers = HeaderColumn.of(batch)
    assert headers_of(headers.array()) == rows
    if rows:
        assert headers.array().equals(batch.column("headers"))
    for name in "abx":
        values, counts = headers.last(name)
        expected = [one_value(mb.Headers(row or ()), name) for row in rows]
        assert list(zip(values.to_pylist(), counts.tolist(), strict=True)) == expected
    chosen = np.array(data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows))), dtype=bool)
    new = pa.array([b"%d" % n for n in range(len(rows))], pa.binary())
    changed = headers.without(["a", "x"], chosen).with_header("new", new, ~chosen)
    wanted: Rows = []
    for number, (row, here) in enumerate(zip(rows, chosen, strict=True)):
        if here:
            wanted.append(row and [(key, value) for key, value in row if key == "b"])
        else:
            wanted.append([*(row or ()), ("new", b"%d" % number)])
    assert headers_of(changed.array()) == wanted
    again = HeaderColumn(changed.array()).without("new").with_header("new", new)
    assert [row[-1] for row in headers_of(again.array()) if row] == [("new", b"%d" % n) for n in range(len(rows))]


@given(some_rows, st.sampled_from(["pass", "reject", "mark", "none", "two"]))
def test_policies_in_arrow_as_by_record(rows: Rows, policy: str) -> None:
    def own(given: mb.ConsumerRecord, reason: str) -> Any:
        return () if policy == "none" else [given, given.replace(topic="dead", headers=[("why", reason.encode())])]

    def made() -> Even:
        if policy in ("pass", "reject"):
            return Even(policy=policy)
        return Even(policy="quarantine", quarantine=None if policy == "mark" else own)

    batch = batch_of(rows)
    records = [record_of(batch, row) for row in range(batch.num_rows)]
    one, other = made(), made()
    expected = list(Chain(one, errors="raise")(records))
    found = other.arrow(batch)
    assert [record_of(found, row) for row in range(found.num_rows)] == expected
    assert found.schema == batch.schema
    assert other.counts["odd"] == one.counts["odd"]
    if len(rows) > 1:
        with pytest.raises(BadHeaderError):
            Even(policy="raise").arrow(batch)


def test_arrow_parts() -> None:
    array = pa.array([b"ab", None, b"", b"\xff" * 300])
    assert lengths_as_bytes(array).to_pylist() == [b"\0\0\0\2", b"\xff" * 4, bytes(4), b"\0\0\1\x2c"]
    assert joined(4, b"<", lengths_as_bytes(array), array, b">").to_pylist()[:2] == [
        b"<\0\0\0\2ab>",
        b"<\xff\xff\xff\xff>",
    ]
    assert joined(2, b"a", b"b").to_pylist() == [b"ab", b"ab"]
    assert binary(pa.array(["é"])).to_pylist() == ["é".encode()]
    with pytest.raises(ValueError, match="includeHeaders"):
        column(pa.RecordBatch.from_pylist([{"key": b""}]), "headers")


def test_large_types_keep_their_types() -> None:
    kind = pa.large_list(pa.struct([pa.field("key", pa.large_string(), False), ("value", pa.large_binary())]))
    array = pa.array([None, [{"key": "a", "value": b"1"}], []], kind)
    headers = HeaderColumn(array)
    assert headers.array().equals(array)
    assert headers.with_header("z", pa.array([b"1", b"2", b"3"])).array().type == kind
