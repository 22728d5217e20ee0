"""Large messages: slicing and gluing over chunks in any state, LinkedIn's bytes, bounded memory, losses that are told."""

from __future__ import annotations

import itertools
import pickle
import random
import struct
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

import magicbyte as mb
from magicbyte.interceptors import Chain
from magicbyte.middleware import quarantined
from magicbyte.middleware.large_messages import Chunk, LargeMessages
from magicbyte.vocabulary import LargeMessage, linkedin

GUID = UUID("89791762-2336-4186-9674-299b90a802e2")
ids = itertools.count(1)


def new_id() -> UUID:
    return UUID(int=next(ids))


def large(**options: Any) -> LargeMessages:
    return LargeMessages(**{"chunk_size": 10, "new_id": new_id, **options})


def sliced(value: bytes, key: bytes | None = b"k", **fields: Any) -> list[mb.ProducerRecord]:
    done = large().post_serialize(mb.ProducerRecord("t", value, key, [("own", value[:1])], **fields))
    return done if isinstance(done, list) else [done]


def received(records: Any) -> list[mb.ConsumerRecord]:
    return list(mb.decode(b"".join(mb.encode_batches(records)), topic="t", partition=0))


def facts(records: Any) -> list[Any]:
    return [(r.key, r.value, r.headers.to_list()) for r in records]


def test_the_bytes_of_the_descriptor() -> None:
    data = Chunk(GUID, 1, 3, 25, 0xDEADBEEF, True).to_bytes()
    assert data == b"\x01\x01" + GUID.bytes + struct.pack(">IIQI", 1, 3, 25, 0xDEADBEEF)
    assert len(data) == 38
    assert Chunk.from_bytes(data) == Chunk(GUID, 1, 3, 25, 0xDEADBEEF, True)
    for bad in (
        None,
        b"",
        data[:-1],
        b"\x02" + data[1:],
        Chunk(GUID, 3, 3, 25, 0).to_bytes(),
        Chunk(GUID, 0, 9, 5, 0).to_bytes(),
    ):
        with pytest.raises(ValueError):
            Chunk.from_bytes(bad)


def test_the_first_chunk_keeps_the_headers() -> None:
    first, second, third = sliced(b"0123456789abcdefghijXYZ", timestamp=5)
    assert [one.value for one in (first, second, third)] == [b"0123456789", b"abcdefghij", b"XYZ"]
    assert [[h.key for h in one.headers] for one in (first, second, third)] == [
        ["own", "mb.chunk"],
        ["mb.chunk"],
        ["mb.chunk"],
    ]
    assert {one.key for one in (first, second, third)} == {b"k"}
    [whole] = sliced(b"0123456789")
    assert "mb.chunk" not in whole.headers


@pytest.mark.parametrize("key, partition", [(b"k", None), (None, None), (None, 0), (b"", 0)])
def test_there_and_back(key: bytes | None, partition: int | None) -> None:
    value = bytes(range(256)) * 3
    chunks = sliced(value, key, partition=partition, timestamp=7)
    assert len({one.key for one in chunks}) == 1 and (chunks[0].key is None) == (key is None and partition == 0)
    [back] = list(Chain(large(), errors="raise")(received(chunks)))
    assert (back.key, back.value, back.headers.to_list(), back.timestamp) == (key, value, [("own", b"\0")], 7)
    assert back.offset == len(chunks) - 1


def test_interleaved_repeated_and_out_of_order() -> None:
    values = [bytes([65 + n]) * (25 + n) for n in range(5)]
    chunks = [chunk for value in values for chunk in sliced(value)]
    chunks += chunks[::3]
    random.Random(5).shuffle(chunks)
    glue = large()
    back = list(Chain(glue, errors="raise")(received(chunks)))
    assert sorted(facts(back)) == [(b"k", value, [("own", value[:1])]) for value in values]
    assert glue.counts["glued"] == 5 and glue.counts["repeated"] == 5
    assert glue.losses == []


def test_a_lost_chunk_is_told_with_its_offsets() -> None:
    chunks = sliced(b"a" * 25) + sliced(b"b" * 25)
    del chunks[1]
    glue = large()
    records = received([*chunks, mb.ProducerRecord("t", b"small")])
    back = list(Chain(glue, errors="raise")(records))
    assert [r.value for r in back] == [b"b" * 25, b"small", b"a" * 10, b"a" * 5]
    [loss] = glue.losses
    assert (loss.first_offset, loss.last_offset, loss.chunks, loss.count, loss.missing) == (0, 1, 2, 3, (1,))
    assert str(loss).startswith("t-0@0–1: message ") and str(loss).endswith("lost (end): 2 of 3 chunks, without 1")
    assert quarantined(back[2])[0].startswith("LargeMessages: lost, t-0@0–1")
    assert list(Chain(large(policy="reject"), errors="raise")(records))[-1].value == b"small"


def test_a_log_may_be_read_again() -> None:
    records = received(sliced(b"a" * 25))
    chain = Chain(large(), errors="raise")
    assert len(list(chain(records))) == len(list(chain(records))) == 1
    # A client has no end: it goes back by its offsets.
    glue = large()
    assert [len(glue.pre_deserialize(record)) for record in [*records, *records]] == [0, 0, 1, 0, 0, 1]
    again = received([*sliced(b"b" * 25)])
    late = [again[0], again[1], again[2], again[1].replace(offset=9)]
    assert [len(glue.pre_deserialize(record)) for record in late] == [0, 0, 1, 0]


def test_memory_is_bounded() -> None:
    glue = large(buffer=50, policy="reject")
    for number in range(20):
        first, *_ = received(sliced(bytes([65 + number]) * 25))
        assert glue.pre_deserialize(first.replace(offset=number)) == []
    assert glue._buffer.held <= 50 and len(glue._buffer.open) == 5
    assert {loss.reason for loss in glue.losses} == {"evicted"} and len(glue.losses) == 15
    assert glue.safe_offset("t", 0) == 15 and glue.safe_offset("t", 1) is None
    glue = large(messages=2, policy="reject")
    for number in range(4):
        glue.pre_deserialize(received(sliced(b"a" * 25))[0].replace(offset=number))
    assert len(glue._buffer.open) == 2
    glue = large(limits=mb.Limits(record=20), policy="reject")
    assert [glue.pre_deserialize(record) for record in received(sliced(b"a" * 25))] == [[], [], []]
    assert glue.counts["too large"] == 3 and glue.losses == []


def test_messages_expire_by_offsets() -> None:
    glue = large(expire=5, policy="reject")
    first, second, _ = received(sliced(b"a" * 25))
    plain = mb.ConsumerRecord("t", 0, 6, 5, 0, None, b"small")
    glue.pre_deserialize(first)
    assert glue.pre_deserialize(plain.replace(partition=1)) == [plain.replace(partition=1)]
    assert glue.losses == []
    assert glue.pre_deserialize(plain) == [plain]
    assert [loss.reason for loss in glue.losses] == ["expired"]
    assert glue.pre_deserialize(second.replace(offset=7)) == []
    assert glue.counts["lost"] == 2


def test_forged_and_contradicting_chunks() -> None:
    first, second, third = received(sliced(b"a" * 25))
    said = Chunk.from_bytes(first.headers.get("mb.chunk")[0])

    def with_chunk(record: mb.ConsumerRecord, data: bytes | None, **changes: Any) -> mb.ConsumerRecord:
        return record.replace(headers=[("mb.chunk", data)], **changes)

    glue = large(policy="reject")
    glue.pre_deserialize(first)
    other = Chunk(said.message_id, 1, 9, 25, said.checksum)
    assert glue.pre_deserialize(with_chunk(second, other.to_bytes())) == []
    assert glue.pre_deserialize(with_chunk(first, said.to_bytes(), value=b"forged")) == []
    assert glue.pre_deserialize(with_chunk(second, b"cut")) == ()
    assert dict(glue.counts) == {"contradicting": 2, "broken": 1}
    assert glue.pre_deserialize(second) == []
    [whole] = glue.pre_deserialize(third)
    assert whole.value == b"a" * 25
    # All there, and not the message.
    glue = large(policy="reject")
    for record in (first, second.replace(value=b"b" * 10), third):
        glue.pre_deserialize(record)
    assert [loss.reason for loss in glue.losses] == ["checksum"] and glue.counts["checksum"] == 3
    # More bytes than the message has.
    glue = large(policy="reject")
    glue.pre_deserialize(first.replace(value=b"b" * 100))
    assert [loss.reason for loss in glue.losses] == ["checksum"]


def segment(
    kind: int, index: int, count: int, payload: bytes, size: int, key: bytes | None = None, id: UUID = GUID
) -> mb.ProducerRecord:
    """As LinkedIn's DefaultSegmentSerializer writes the value, and LargeMessageHeaderValue the header."""
    value = payload
    high, low = struct.unpack(">QQ", id.bytes)
    if kind < 2:
        checksum = (high + low) & 0xFFFFFFFF
        value = struct.pack(">BIQQiii", 0, checksum, high, low, index, count, size) + payload
    header = linkedin(LargeMessage(kind, id, index, count, size if kind else None))
    assert len(header) == (29 if kind else 25)
    return mb.ProducerRecord("t", value, key, [("own", b"1"), ("_lm", header)])


@pytest.mark.parametrize("kind", [0, 1, 2])
def test_linkedins_messages_are_read(kind: int) -> None:
    parts = [b"aaa", b"bbb", b"cc"]
    records = [segment(kind, n, 3, part, 8, GUID.bytes) for n, part in enumerate(parts)]
    single = segment(kind, 0, 1, b"one", 3, b"key", UUID(int=7))
    back = list(Chain(large(), errors="raise")(received([records[1], single, records[2], records[0]])))
    assert facts(back) == [(b"key", b"one", [("own", b"1")]), (None, b"aaabbbcc", [("own", b"1")])]


def test_linkedins_plain_messages_stay() -> None:
    plain = mb.ProducerRecord("t", b"v", headers=[("_lm", linkedin(LargeMessage(2, UUID(int=0), -1, 1, -1)))])
    [record] = received([plain])
    glue = large(policy="reject")
    assert glue.pre_deserialize(record) is record
    assert glue.pre_deserialize(record.replace(headers=[("_lm", b"\0" * 24)])) == ()
    assert large(linkedin_header=None, policy="reject").pre_deserialize(record.replace(headers=[("_lm", b"")])) != ()


def test_tasks_get_options_and_an_empty_buffer() -> None:
    glue = LargeMessages(chunk_size=5, limits=mb.Limits(record=9))
    glue.pre_deserialize(received(sliced(b"a" * 25))[0])
    copy = pickle.loads(pickle.dumps(glue))
    assert (copy.chunk_size, copy.most, copy.flush()) == (5, 9, [])
    with pytest.raises(ValueError, match="above 0"):
        LargeMessages(chunk_size=0)


PIECES = sliced(b"0123456789" * 2 + b"x") + sliced(b"y" * 11, None)
LM = [segment(kind, n, 2, b"ab", 4) for kind in (0, 2) for n in range(2)]
HEADERS = st.sampled_from([one.headers.to_list() for one in [*PIECES, *LM]] + [[], [("own", None)]])
FORGED = st.lists(st.tuples(st.sampled_from(["mb.chunk", "_lm"]), st.none() | st.binary(max_size=40)), max_size=2)
VALUES = st.sampled_from([one.value for one in [*PIECES, *LM]]) | st.none() | st.binary(max_size=12)
RECORDS = st.sampled_from([(one.value, one.headers.to_list()) for one in [*PIECES, *LM]]) | st.tuples(
    VALUES, HEADERS | FORGED
)


@given(st.lists(RECORDS, max_size=14), st.sampled_from(["pass", "quarantine", "reject"]), st.sampled_from([None, 3]))
def test_arrow_does_what_records_do(rows: Any, policy: Any, expire: Any) -> None:
    pytest.importorskip("pyarrow")
    records = [mb.ProducerRecord("t", value, b"k", headers, timestamp=5) for value, headers in rows]
    data = b"".join(mb.encode_batches(records))
    one, other = (large(policy=policy, expire=expire, buffer=40) for _ in range(2))

    def shown(batches: Any) -> Any:
        return [
            (row["offset"], row["key"], row["value"], [(h["key"], h["value"]) for h in row["headers"]])
            for batch in batches
            for row in batch.to_pylist()
        ]

    batches = mb.decode_arrow(data, topic="t", partition=0).to_batches(max_chunksize=4)
    want = Chain(other, errors="raise")(mb.decode(data, topic="t", partition=0))
    assert shown(one.arrow(batches)) == [(r.offset, r.key, r.value, r.headers.to_list()) for r in want]
    assert dict(one.counts) == dict(other.counts)
    assert [str(loss) for loss in one.losses] == [str(loss) for loss in other.losses]
    assert one._buffer.held == 0


def test_sending_over_arrow() -> None:
    pytest.importorskip("pyarrow")
    values = [b"a" * 25, None, b"small", b"b" * 11]
    data = mb.encode([mb.ProducerRecord("t", value, b"k", [("n", b"1")], timestamp=5) for value in values])
    batches = list(large().sending_arrow(mb.decode_arrow(data, topic="t", partition=0).to_batches()))
    assert sum(batch.num_rows for batch in batches) == 3 + 1 + 1 + 2
    back = [row["value"] for batch in large().arrow(batches) for row in batch.to_pylist()]
    assert back == values
