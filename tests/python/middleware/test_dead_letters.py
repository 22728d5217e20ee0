"""Dead letters: Spring's and Connect's bytes, all encodings back, replay to where they came from, hostile headers."""

from __future__ import annotations

import pickle
import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import magicbyte as mb
from magicbyte.interceptors import Chain
from magicbyte.middleware.dead_letters import DeadLetters, Origin, Replay, parse, replay

SPRING_BYTES = [
    ("kafka_dlt-original-topic", b"orders"),
    ("kafka_dlt-original-partition", b"\0\0\0\2"),
    ("kafka_dlt-original-offset", b"\0\0\0\0\0\0\0\x2a"),
    ("kafka_dlt-original-timestamp", struct.pack(">q", 1_769_860_800_000)),
    ("kafka_dlt-original-timestamp-type", b"CreateTime"),
    ("kafka_dlt-original-consumer-group", b"billing"),
]
CONNECT_BYTES = [
    ("__connect.errors.topic", b"orders"),
    ("__connect.errors.partition", b"2"),
    ("__connect.errors.offset", b"42"),
    ("__connect.errors.connector.name", b"sink"),
    ("__connect.errors.task.id", b"1"),
    ("__connect.errors.stage", b"VALUE_CONVERTER"),
]


def record(headers: Any = (), **changes: Any) -> mb.ConsumerRecord:
    return mb.ConsumerRecord("orders", 2, 42, 1_769_860_800_000, 0, b"k", b"v", headers).replace(**changes)


def test_springs_headers_byte_for_byte() -> None:
    made = DeadLetters("{topic}.DLT", group="billing").letter(record([("own", b"1")]), "no schema")
    assert (made.topic, made.partition, made.timestamp, made.key, made.value) == (
        "orders.DLT",
        2,
        1_769_860_800_000,
        b"k",
        b"v",
    )
    assert made.headers.to_list()[:7] == [("own", b"1"), *SPRING_BYTES]
    assert made.headers.last["kafka_dlt-exception-message"] == b"no schema"


def test_connects_headers_byte_for_byte() -> None:
    made = DeadLetters(
        "dlq", styles=("connect",), connector="sink", task=1, stage="VALUE_CONVERTER", same_partition=False
    )
    letter = made.letter(record(), "no schema")
    assert letter.headers.to_list()[:6] == CONNECT_BYTES
    assert letter.partition is None


def test_an_exception_brings_its_class_its_cause_and_its_trace() -> None:
    try:
        try:
            raise KeyError("inner")
        except KeyError as inner:
            raise ValueError("outer") from inner
    except ValueError as error:
        made = DeadLetters(styles=("spring", "connect"), stack=200).letter(record(), error)
    said = parse(made.headers)
    assert said is not None
    assert (said.exception, said.cause, said.message) == ("builtins.ValueError", "builtins.KeyError", "outer")
    assert said.stacktrace is not None and len(said.stacktrace) <= 200
    connect = parse(made.headers, "connect")
    assert connect is not None and connect.exception == "builtins.ValueError"


@pytest.mark.parametrize(
    "headers",
    [
        SPRING_BYTES,
        CONNECT_BYTES,
        [(name, {2: b"2", 42: b"42"}.get(int.from_bytes(value, "big"), value)) for name, value in SPRING_BYTES],
        [(name, b'"orders"' if name.endswith("topic") else value) for name, value in SPRING_BYTES],
    ],
    ids=["spring", "connect", "digits", "json"],
)
def test_every_encoding_goes_back(headers: Any) -> None:
    dead = mb.ConsumerRecord("dlt", 0, 7, 1_769_860_800_000, 0, b"k", b"v", [("own", None), *headers])
    [back] = replay([dead])
    assert back == mb.ProducerRecord("orders", b"v", b"k", [("own", None), ("mb.replays", b"1")], 2, 1_769_860_800_000)


def test_several_failures_have_several_origins() -> None:
    once = DeadLetters("retry").letter(record(), "first")
    again = mb.ConsumerRecord("retry", 0, 9, 5, 0, b"k", b"v", once.headers)
    twice = DeadLetters("dlt", group="g").letter(again, "second")
    said = parse(twice.headers)
    assert said is not None and said.message == "second"
    assert [(one.topic, one.partition, one.offset) for one in said.origins] == [("orders", 2, 42), ("retry", 0, 9)]
    assert [one.group for one in said.origins] == [None, "g"]
    dead = mb.ConsumerRecord("dlt", 0, 0, 5, 0, b"k", b"v", twice.headers)
    assert [one.topic for one in replay([dead])] == ["orders"]
    assert [one.topic for one in replay([dead], which="last")] == ["retry"]


def test_a_record_does_not_go_round_for_ever() -> None:
    back, dead = Replay(most=2), DeadLetters("dlt")
    one: Any = record()
    for _ in range(2):
        letter = dead.letter(one, "again")
        sent = back.pre_deserialize(mb.ConsumerRecord("dlt", 0, 0, 5, 0, b"k", b"v", letter.headers))
        one = mb.ConsumerRecord(sent.topic, 2, 50, 5, 0, b"k", b"v", sent.headers)
    letter = dead.letter(one, "again")
    assert back.pre_deserialize(mb.ConsumerRecord("dlt", 0, 0, 5, 0, b"k", b"v", letter.headers)) == ()
    assert dict(back.counts) == {"replayed": 2, "too often": 1}


@pytest.mark.parametrize(
    "headers, outcome",
    [
        ([], "no origin"),
        ([("kafka_dlt-original-topic", None)], "no origin"),
        ([("kafka_dlt-original-topic", b"\xff")], "no origin"),
        ([("kafka_dlt-original-offset", b"5")], "no origin"),
        ([("kafka_dlt-original-topic", b"__consumer_offsets")], "not allowed"),
        ([*SPRING_BYTES, ("mb.replays", b"-1")], "too often"),
        ([*SPRING_BYTES, ("mb.replays", None)], "too often"),
    ],
)
def test_bad_dead_letters_are_told(headers: Any, outcome: str) -> None:
    told: list[str] = []
    back = Replay(topics={"orders"}, policy="quarantine", quarantine=lambda r, reason: told.append(reason) or r)
    dead = mb.ConsumerRecord("dlt", 0, 0, 5, 0, b"k", b"v", headers)
    assert back.pre_deserialize(dead) == dead
    assert told[0].startswith(f"Replay: {outcome}")


def test_send_takes_the_letter_out_of_the_chain() -> None:
    sent: list[mb.ProducerRecord] = []
    dead = DeadLetters(send=sent.append)

    def picky(record: Any) -> Any:
        record.headers.add("half done", None)
        if record.offset == 1:
            raise ValueError("odd")
        return record

    records = [record(offset=n) for n in range(3)]
    out = list(Chain(dead.guard(picky), errors="raise")(records))
    assert [one.offset for one in out] == [0, 2]
    [letter] = sent
    assert "half done" not in letter.headers and letter.topic == "orders-dlt"
    assert parse(letter.headers).origins == (  # type: ignore[union-attr]
        Origin("orders", 2, 1, 1_769_860_800_000, "CreateTime", None),
    )


def test_without_send_it_stays_a_record_of_the_log() -> None:
    dead = DeadLetters()
    one = dead(record(), "why")
    assert isinstance(one, mb.ConsumerRecord) and one.topic == "orders-dlt" and one.offset == 42
    producing = dead(mb.ProducerRecord("orders", b"v"), "why")
    assert "kafka_dlt-original-offset" not in producing.headers
    assert pickle.loads(pickle.dumps(dead)).topic == dead.topic


def test_over_a_log_and_back() -> None:
    dead = DeadLetters("dlt", group="g")
    letters = [dead.letter(record([("n", b"%d" % n)], offset=n, value=b"%d" % n), "why") for n in range(20)]
    log = mb.decode(b"".join(mb.encode_batches(letters)), topic="dlt", partition=2)
    again = list(replay(log, most=None))
    assert [(one.topic, one.partition, one.value, one.headers.to_list()) for one in again] == [
        ("orders", 2, b"%d" % n, [("n", b"%d" % n)]) for n in range(20)
    ]


NAMES = [name for name, _ in SPRING_BYTES + CONNECT_BYTES] + ["mb.replays", "own"]
FAR = [b"9" * 19, b"\x7f" * 8, b"140737488355328"]
KNOWN = [value for _, value in SPRING_BYTES + CONNECT_BYTES]
VALUES = st.none() | st.binary(max_size=12) | st.sampled_from([*FAR, *KNOWN])
HEADERS = st.lists(st.tuples(st.sampled_from(NAMES), VALUES), max_size=14)


@given(HEADERS)
def test_no_headers_break_it(headers: Any) -> None:
    dead = mb.ConsumerRecord("dlt", 0, 0, 5, 0, b"k", b"v", headers)
    parse(dead.headers)
    done = Replay(topics={"orders"}, policy="pass").pre_deserialize(dead)
    assert (done.key, done.value) == (b"k", b"v")
    assert list(dead.headers) == [mb.Header(*pair) for pair in headers]


@settings(deadline=None, max_examples=60)
@given(
    st.lists(HEADERS, max_size=8), st.sampled_from(["reject", "pass", "quarantine"]), st.sampled_from(["first", "last"])
)
def test_arrow_does_what_records_do(rows: Any, policy: Any, which: Any) -> None:
    pytest.importorskip("pyarrow")
    data = b"".join(mb.encode_batches([mb.ProducerRecord("dlt", b"v", b"k", headers, timestamp=5) for headers in rows]))
    one, other = (Replay(policy=policy, which=which, topics={"orders", ""}) for _ in range(2))
    table = mb.decode_arrow(data, topic="dlt", partition=0)
    got = [row for batch in one.arrow(table.to_batches()) for row in batch.to_pylist()]
    want = list(Chain(other, errors="raise")(mb.decode(data, topic="dlt", partition=0)))
    assert dict(one.counts) == dict(other.counts)
    assert [
        (row["topic"], row["partition"], row["value"], [(h["key"], h["value"]) for h in row["headers"]]) for row in got
    ] == [(r.topic, r.partition, r.value, r.headers.to_list()) for r in want]
    assert [round(row["timestamp"].timestamp() * 1000) for row in got] == [r.timestamp for r in want]
