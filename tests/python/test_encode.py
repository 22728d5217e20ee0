"""Records to bytes: the vectors and Kafka's own builder to the byte, what is refused, and that reading gives it back."""

from __future__ import annotations

import base64
import copy
import json
import pickle
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

import magicbyte as mb

from golden.corpus import vectors
from making import BATCHES, CODECS, FORMATS, batches, codecs, rows
from places import DATA, shared_directory


def unpacked(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def made_record(line: dict[str, Any]) -> mb.Record:
    headers = [(h["key"], unpacked(h["value"])) for h in line["headers"]]
    return mb.Record(**{**line, "key": unpacked(line["key"]), "value": unpacked(line["value"]), "headers": headers})


def made_batch(line: dict[str, Any]) -> mb.RecordBatch:
    return mb.RecordBatch(**{**line, "records": [made_record(record) for record in line["records"]]})


# The vectors


@pytest.mark.parametrize("format", FORMATS)
def test_vectors_encode_as_given(format: str) -> None:
    path = vectors(format)
    assert path is not None
    exact = 0
    for number, text in enumerate(path.read_text().splitlines(), 1):
        line = json.loads(text)
        batch, want = made_batch(line["batch"]), bytes.fromhex(line["hex"])
        try:
            have = mb.encode_batch(batch, format=format)
        except ValueError as error:
            # A live null in kip87, which is read but not written.
            if line["exact"] or "null value" not in str(error):
                raise
            continue
        if line["exact"]:
            assert have == want, number
            exact += 1
        else:
            assert rows(have, format) == rows(want, format), number
        for read in mb.decode_batches(want, format=format):
            again = mb.encode_batch(read, format=format)
            assert again == read.raw or not line["exact"], number
            assert rows(again, format) == rows(read.raw, format), number
    assert exact >= 16


@pytest.mark.parametrize("format", BATCHES)
def test_a_batch_that_was_read_equals_the_one_that_was_made(format: str) -> None:
    for text in vectors(format).read_text().splitlines():
        line = json.loads(text)
        made = made_batch(line["batch"])
        (read,) = mb.decode_batches(bytes.fromhex(line["hex"]), format=format)
        if format != "kip82b":  # whose records' attributes bytes say what is null
            assert read == made
        for batch in (made, read):
            for same in (pickle.loads(pickle.dumps(batch)), copy.copy(batch)):
                assert same == batch
        assert pickle.loads(pickle.dumps(read)).raw == read.raw


# Kafka's own builder


def builder_files() -> list[Path]:
    roots = [DATA / "encode", (shared_directory() or DATA) / "golden" / "encode"]
    return [path for root in roots if root.is_dir() for path in sorted(root.glob("*.input.json"))]


def built(given: dict[str, Any]) -> mb.RecordBatch | None:
    """The batch that the builder was told to make; None for KRaft's control batches, whose bytes are a message schema's."""
    append, horizon, base = (
        given.get("timestampType") == "LogAppendTime",
        given.get("deleteHorizonMs"),
        given["baseOffset"],
    )
    last = given.get("lastOffset")
    fields = {
        "base_offset": base,
        "last_offset_delta": None if last is None else last - base,
        "codec": given["compression"],
        "timestamp_type": int(append),
        "max_timestamp": given["logAppendTime"] if append else None,
        "base_timestamp": horizon,
        "delete_horizon": horizon is not None,
        "partition_leader_epoch": given.get("partitionLeaderEpoch"),
        "producer_id": given.get("producerId"),
        "producer_epoch": given.get("producerEpoch"),
        "base_sequence": given.get("baseSequence"),
        "transactional": given.get("isTransactional"),
        "control": given.get("isControlBatch"),
    }
    if (kind := given.get("kind")) in ("ABORT", "COMMIT"):
        key = b"\0\0\0" + bytes([kind == "COMMIT"])
        value = b"\0\0" + given["coordinatorEpoch"].to_bytes(4, "big")
        records = [mb.Record(base, given["timestamp"], key, value)]
        return mb.RecordBatch(**{**fields, "transactional": True}, records=records)
    if given.get("records") is None:
        return None
    records = [
        mb.Record(r["offset"], r["timestamp"], unpacked(r["key"]), unpacked(r["value"]),
                  [(key, unpacked(value)) for key, value in r["headers"]])
        for r in given["records"]
    ]  # fmt: skip
    return mb.RecordBatch(**fields, records=records)


def test_kafkas_own_builder_is_matched() -> None:
    exact = equal = 0
    for path in builder_files():
        given = json.loads(path.read_text())
        format, want = f"v{given['magic']}", path.with_name(path.name.replace(".input.json", ".bin")).read_bytes()
        batch = built(given)
        if batch is None:
            (batch,) = mb.decode_batches(want)
        have = mb.encode_batch(batch, format=format)
        if given["byteExact"]:
            assert have == want, path
            exact += 1
        else:
            assert rows(have, format) == rows(want, format), path
            equal += 1
    assert exact > 10
    print(f"{exact} to the byte, {equal} decoded equal")


# encode


def test_records_of_all_kinds() -> None:
    consumed = mb.ConsumerRecord("t", 0, 70, 5, 0, b"k", b"v", [("h", None), ("h", b"")])
    stored = mb.Record(80, 6, None, b"w")
    sent = mb.ProducerRecord("t", value=None, key=bytearray(b"x"), headers=[("h", b"1")])
    data = mb.encode([consumed, stored, sent, mb.ProducerRecord("t", memoryview(b"y"), timestamp=9)])
    assert rows(data, "v2", "offset", "timestamp", "key", "value") == [
        (70, 5, b"k", b"v", [("h", None), ("h", b"")]),
        (80, 6, None, b"w", []),
        (81, -1, b"x", None, [("h", b"1")]),
        (82, 9, None, b"y", []),
    ]
    (batch,) = mb.decode_batches(data)
    assert (batch.base_offset, batch.last_offset, batch.count) == (70, 82, 4)


@pytest.mark.parametrize("format", FORMATS)
def test_producer_records_count_on_from_the_base_offset(format: str) -> None:
    for codec in codecs(format):
        data = mb.encode((mb.ProducerRecord("t", b"v") for _ in range(3)), format=format, codec=codec, base_offset=41)
        assert [record.offset for record in mb.decode(data, format=format)] == [41, 42, 43]


def test_fields_of_the_batch() -> None:
    data = mb.encode(
        [mb.ProducerRecord("t", b"v", timestamp=5)],
        codec="lz4",
        base_offset=7,
        producer_id=9,
        producer_epoch=2,
        base_sequence=3,
        transactional=True,
        leader_epoch=4,
        timestamp_type=1,
        max_timestamp=1000,
    )
    (batch,) = mb.decode_batches(data)
    assert (batch.codec, batch.base_offset, batch.producer_id, batch.producer_epoch) == ("lz4", 7, 9, 2)
    assert (batch.base_sequence, batch.transactional, batch.control) == (3, True, False)
    assert (batch.partition_leader_epoch, batch.timestamp_type, batch.max_timestamp) == (4, 1, 1000)
    (record,) = mb.decode(data)
    assert (record.timestamp, record.timestamp_type, record.leader_epoch) == (1000, 1, 4)
    (batch,) = mb.decode_batches(mb.encode([mb.ProducerRecord("t", timestamp=5)], delete_horizon=123))
    assert (batch.delete_horizon, batch.base_timestamp, batch.records[0].timestamp) == (True, 123, 5)


def test_an_empty_batch_keeps_producer_state() -> None:
    (batch,) = mb.decode_batches(mb.encode([], base_offset=5, producer_id=1, producer_epoch=0, base_sequence=0))
    assert (batch.count, batch.base_offset, batch.producer_id, batch.records) == (0, 5, 1, [])
    assert mb.encode([], format="v1") == b""


ONE = mb.ProducerRecord("t", b"v")


@pytest.mark.parametrize(
    "records, options, words",
    [
        ([ONE, mb.ProducerRecord("t", headers=[("h", b"")])], {"format": "v1"}, "record 1: the format has no headers"),
        ([ONE, mb.ProducerRecord("t", timestamp=-2)], {}, "record 1: timestamp -2 is below -1"),
        ([mb.Record(5), mb.Record(5)], {}, "record 1: offset 5 does not rise over 5"),
        ([mb.Record(0), mb.Record(2**31)], {}, "record 1: offset 2147483648"),
        ([mb.ProducerRecord("t", headers=[("k" * 32_768, b"")])], {}, "record 0: a header key of 32768 bytes"),
        ([mb.ProducerRecord("t", headers=[("k", None)])], {"format": "kip82b"}, "record 0: header 0 has a null value"),
        ([mb.ProducerRecord("t", b"v", tombstone=True)], {}, "record 0: .* tombstone that has a value"),
        ([mb.ProducerRecord("t", b"v", tombstone=True)], {"format": "v0"}, "record 0: .* tombstone that has a value"),
        ([mb.ProducerRecord("t", tombstone=False)], {"format": "kip87"}, "record 0: .* null value"),
        ([mb.ProducerRecord("t", tombstone=False)], {}, "record 0: .* null value"),
        ([ONE], {"format": "v1", "producer_id": 1}, "no producer id"),
        ([ONE], {"format": "kip87", "transactional": True}, "no transactions"),
        ([], {"format": "v0", "codec": "gzip"}, "needs a record"),
        ([ONE], {"format": "v4"}, "unknown format \"v4\""),
        ([ONE], {"codec": "brotli"}, "unknown codec \"brotli\""),
        ([ONE], {"timestamp_type": 2}, "timestamp_type: 2"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("stream", [False, True])
def test_what_cannot_be_written_is_refused_by_record(records: Any, options: Any, words: str, stream: bool) -> None:
    # A stream begins another batch where one batch has no more room, or is not begun at all.
    stream = stream and bool(records) and "2147483648" not in words
    with pytest.raises(ValueError, match=words):
        list(mb.encode_batches(records, **options)) if stream else mb.encode(records, **options)


def test_a_codec_that_the_format_lacks() -> None:
    for format in ("v0", "v1", "kip87", "kip82a"):
        with pytest.raises(mb.UnsupportedCodecError, match="zstd"):
            mb.encode([ONE], format=format, codec="zstd")


def test_a_value_that_nobody_serialized() -> None:
    with pytest.raises(TypeError, match="record 1: its value: a bytes-like object is required, not str"):
        mb.encode([ONE, mb.ProducerRecord("t", "text")])
    with pytest.raises(OverflowError):
        mb.encode([ONE], producer_epoch=70_000)
    with pytest.raises(TypeError, match="no such field"):
        mb.RecordBatch(epoch=1)


def test_levels() -> None:
    records = [mb.ProducerRecord("t", bytes(range(256)) * 8, key=str(n).encode()) for n in range(50)]
    sizes = {level: len(mb.encode(records, codec="zstd", level=level)) for level in (None, 1, 19)}
    assert sizes[19] <= sizes[1]
    assert [list(mb.decode(mb.encode(records, codec=codec, level=9)))[-1].key for codec in CODECS] == [b"49"] * 5


def test_an_iterator_that_fails_is_heard() -> None:
    def failing() -> Any:
        yield ONE
        raise RuntimeError("mine")

    for work in (mb.encode, lambda records: list(mb.encode_batches(records))):
        with pytest.raises(RuntimeError, match="mine"):
            work(failing())


def test_encoding_while_encoding() -> None:
    """A record's iterator may itself encode: each call has an encoder of its own."""
    nested = (mb.ProducerRecord("t", mb.encode([ONE], codec="zstd")) for _ in range(3))
    data = mb.encode(nested, codec="zstd")
    assert [next(mb.decode(record.value)).value for record in mb.decode(data)] == [b"v"] * 3


# A stream of batches


@pytest.mark.parametrize("format", FORMATS)
def test_batches_are_formed_by_size(format: str) -> None:
    records = [mb.ProducerRecord("t", b"v" * (n % 70), key=b"k", timestamp=n) for n in range(500)]
    pieces = list(mb.encode_batches(iter(records), batch_size=1000, format=format, base_offset=10))
    assert all(len(piece) <= 1000 for piece in pieces) and len(pieces) > 10
    read = [r for piece in pieces for r in mb.decode(piece, format=format)]
    assert [r.offset for r in read] == list(range(10, 510))
    assert [r.value for r in read] == [r.value for r in records]
    # A record that is larger than a batch may be gets one of its own.
    large = [mb.ProducerRecord("t", b"v" * 5000) for _ in range(2)]
    assert len(list(mb.encode_batches(large, batch_size=1000, format=format))) == 2


def test_a_producers_sequence_counts_on_and_wraps() -> None:
    options = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 2**31 - 5, "batch_size": 100}
    pieces = mb.encode_batches([mb.ProducerRecord("t", b"v" * 40)] * 8, **options)
    firsts = [next(mb.decode_batches(piece)).base_sequence for piece in pieces]
    assert firsts[0] == 2**31 - 5 and 0 <= firsts[-1] < 10


def test_offsets_that_one_batch_cannot_span() -> None:
    pieces = list(mb.encode_batches([mb.Record(0), mb.Record(2**40), mb.Record(2**40 + 1)]))
    assert [next(mb.decode_batches(piece)).base_offset for piece in pieces] == [0, 2**40]


# KIP-82's header block


def test_header_blocks() -> None:
    headers = mb.Headers([("k", b"v"), ("", None), ("ключ", b"")])
    block = headers.to_bytes()
    assert block == b"\x02k\x02v" + b"\x00\x01" + b"\x10" + "ключ".encode() + b"\x00"
    assert mb.Headers.from_bytes(block) == headers
    assert mb.Headers.from_bytes(b"") == mb.Headers()
    raw = mb.Headers.from_bytes(b"\x04\xff\xfe\x00")
    assert raw[0].raw_key == b"\xff\xfe" and raw.to_bytes() == b"\x04\xff\xfe\x00"
    for bad in (b"\x02", b"\x01\x00", b"\x02k\x04v", b"\xff\xff\xff\xff\xff\xff"):
        with pytest.raises(mb.CorruptRecordError):
            mb.Headers.from_bytes(bad)
    with pytest.raises(ValueError, match="header 0: a key of 32768 bytes"):
        mb.Headers([("k" * 32_768, b"")]).to_bytes()
    (record,) = mb.decode(mb.encode([mb.ProducerRecord("t", headers=headers)]))
    assert record.headers.to_bytes() == block


# Properties


@pytest.mark.parametrize("format", FORMATS)
@given(data=st.data())
def test_what_is_written_is_read_back(format: str, data: st.DataObject) -> None:
    batch = data.draw(batches(format))
    written = mb.encode_batch(batch, format=format)
    names = ("offset", "timestamp", "key", "value", "tombstone")
    headers = [[(h.key, h.value) for h in r.headers] for r in batch.records]
    want = [(*(getattr(r, name) for name in names), h) for r, h in zip(batch.records, headers, strict=True)]
    assert rows(written, format, *names) == want
    if format in ("v2", "v3"):
        (read,) = mb.decode_batches(written, format=format)
        assert read == batch
        assert mb.encode_batch(read, format=format) == written or batch.codec != "none"


class TestFromArrow:
    """``encode_arrow`` writes what ``encode_batches`` writes of the same records."""

    @pytest.mark.parametrize("name", ["headers-0", "audit-0", "basic-0", "orders-0"])
    @pytest.mark.parametrize("format, codec", [("v2", "none"), ("v2", "zstd"), ("v3", "lz4"), ("kip82a", "none")])
    def test_as_from_records(self, data: Path, name: str, format: str, codec: str) -> None:
        log = mb.Log(data / "kafka-logs" / name)
        columns = ["key", "value", "offset", "timestampMs", "headers", "rawHeaderKeys"]
        options: dict[str, Any] = {"format": format, "codec": codec, "batch_size": 700}
        had = b"".join(mb.encode_batches(log.records(), **options))
        assert b"".join(mb.encode_arrow(log.scan(columns).to_arrow(), **options)) == had
        # Whatever reads the C stream interface will do, and in whatever pieces.
        assert b"".join(mb.encode_arrow(log.scan(columns), **options)) == had
        assert b"".join(mb.encode_arrow(log.scan(columns, batch_rows=7), **options)) == had

    def test_other_types_and_nothing_but_values(self) -> None:
        import pyarrow as pa

        table = pa.table(
            {
                "value": pa.array(["a", None, "c"], pa.large_utf8()),
                "key": pa.array([b"x", None, b""], pa.binary_view()),
                "timestamp": pa.array([1, 2, None], pa.timestamp("s")),
                "headers": pa.array(
                    [None, [], [{"k": "h", "v": None}, {"k": "h", "v": b""}]],
                    pa.large_list(pa.struct([("k", pa.string_view()), ("v", pa.large_binary())])),
                ),
                "other": pa.nulls(3),
            }
        )
        records = list(mb.decode(b"".join(mb.encode_arrow(table, base_offset=5, timestamp=7))))
        assert [(r.offset, r.key, r.value, r.timestamp) for r in records] == [
            (5, b"x", b"a", 1000), (6, None, None, 2000), (7, b"", b"c", 7),
        ]  # fmt: skip
        assert [list(r.headers) for r in records] == [[], [], [mb.Header("h", None), mb.Header("h", b"")]]
        assert list(mb.encode_arrow(table.slice(0, 0))) == []

    def test_batches_end_where_their_fields_change(self) -> None:
        import pyarrow as pa

        table = pa.table(
            {
                "value": [b"v"] * 6,
                "leaderEpoch": pa.array([1, 1, 2, 2, 2, 2], pa.int32()),
                "timestampType": pa.array([0, 0, 0, 1, 1, 1], pa.int32()),
                "timestampMs": [5, 6, 7, 8, 8, 9],
            }
        )
        batches = list(mb.decode_batches(b"".join(mb.encode_arrow(table, codec="gzip"))))
        assert [(b.count, b.partition_leader_epoch, b.timestamp_type, b.max_timestamp) for b in batches] == [
            (2, 1, 0, 6), (1, 2, 0, 7), (2, 2, 1, 8), (1, 2, 1, 9),
        ]  # fmt: skip

    @pytest.mark.parametrize(
        "column, values, error, words",
        [
            ("key", [1.5], TypeError, "column key cannot be of type Float64"),
            ("headers", [[1]], TypeError, "column headers cannot be of type"),
            ("offset", [None], ValueError, "row 0 .*no offset"),
            ("offset", [-3], ValueError, "offset -3 is out of range"),
            ("timestampMs", [-2], ValueError, "row 0 .*timestamp -2 is below -1"),
            ("timestampType", [2], ValueError, "timestampType 2 is out of range"),
            ("isControl", [True], ValueError, "a control record"),
            ("_corrupt_record", ["x"], ValueError, "tell of damage"),
            ("tombstone", [True], ValueError, "tombstone that has a value"),
            ("headers", [[{"key": None, "value": b""}]], ValueError, "header 0 has no key"),
        ],
    )
    def test_what_no_record_can_be_made_of(
        self, column: str, values: list[Any], error: type[Exception], words: str
    ) -> None:
        import pyarrow as pa

        table = pa.table({"value": [b"v"], column: values})
        if column == "offset":
            table = table.set_column(1, column, pa.array(values, pa.int64()))
        if column == "headers" and isinstance(values[0][0], dict):
            headers = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
            table = table.set_column(1, column, pa.array(values, headers))
        with pytest.raises(error, match=words):
            list(mb.encode_arrow(table))
