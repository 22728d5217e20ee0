"""Tokens: the header byte by byte, the gate's rules, times, hostile bytes, and columns equal to records."""

from __future__ import annotations

import pickle
import struct
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import magicbyte as mb
from magicbyte.interceptors import Chain
from magicbyte.middleware import quarantined

from kafka_rows import records_of, rows_of

pytest.importorskip("cryptography")

from magicbyte.middleware.auth import HEADER, Rule, TokenGate, TokenIssuer
from magicbyte.middleware.keys import Ed25519Key, HmacKey, KeyRing

KEYS = KeyRing({"ed": Ed25519Key(private=bytes(range(32))), "mac": HmacKey(bytes(range(32)))})
RULES = [Rule("billing", "invoices*", ("write",)), Rule("admin*", "*")]


def issuer(**options: Any) -> TokenIssuer:
    return TokenIssuer(**{"keys": KEYS, "sign_with": "ed", "principal": "billing", **options})


def gate(**options: Any) -> TokenGate:
    return TokenGate(**{"keys": KEYS, "rules": RULES, "policy": "quarantine", **options})


def sent(topic: str = "invoices-eu", value: bytes | None = b"v", **options: Any) -> mb.ProducerRecord:
    return issuer(**options).post_serialize(mb.ProducerRecord(topic, value, b"k", [("a", b"1")]))


def outcome(checker: TokenGate, record: Any) -> str:
    """`ok`, or the reason; of the record as it is sent, as it is received, and in columns."""
    come = mb.ConsumerRecord(record.topic, 0, 1, record.timestamp or 0, 0, record.key, record.value, record.headers)
    found = {
        tuple(quarantined(checker.post_serialize(record.copy()))),
        tuple(quarantined(checker.pre_deserialize(come.copy()))),
        tuple(quarantined(records_of(checker.arrow([rows_of([come])]))[0])),
    }
    assert len(found) == 1, found
    reasons = found.pop()
    return reasons[0].removeprefix("TokenGate: ") if reasons else "ok"


def test_the_header_byte_by_byte() -> None:
    data = sent("t", sign_with="mac", topics="t*").headers.last[HEADER] or b""
    head, mac = data[:-32], data[-32:]
    assert head[:-16] == bytes.fromhex("01 01 00") + b"\3mac" + b"\7billing" + b"\2t*"
    issued, expires = struct.unpack(">qq", head[-16:])
    assert abs(issued - time.time() * 1000) < 60_000 and expires - issued == 600_000
    key = KEYS["mac"]
    assert mac == key.sign(b"magicbyte.token.1\0" + head)


def test_what_is_allowed() -> None:
    cases = [
        (sent(), "ok"),
        (sent(sign_with="mac"), "ok"),
        (sent(topics="*"), "ok"),
        (sent(value=None), "not allowed, billing may not delete invoices-eu"),
        (sent("orders"), "not allowed, billing may not write orders"),
        (sent(topics="invoices-us"), "other topic, billing for invoices-us"),
        (sent("orders", principal="admin-7"), "ok"),
        (sent("orders", None, principal="admin-7"), "ok"),
        (sent(principal="nobody"), "not allowed, nobody may not write invoices-eu"),
        (mb.ProducerRecord("invoices-eu", b"v"), "missing"),
        (mb.ProducerRecord("t", b"v", headers=[(HEADER, None)]), "malformed"),
    ]
    for record, expected in cases:
        assert outcome(gate(), record) == expected
    repeated = sent()
    repeated.headers.add(HEADER, b"")
    assert outcome(gate(), repeated) == "repeated"
    assert outcome(gate(rules=None), sent("orders")) == "ok"
    assert outcome(gate(rules=()), sent()).startswith("not allowed")
    assert outcome(gate(required=False), mb.ProducerRecord("orders", b"v")) == "ok"
    assert outcome(gate(keys={"ed": KEYS["mac"]}), sent()) == "unknown key"
    assert outcome(gate(keys={"ed": Ed25519Key.generate()}), sent()) == "forged"
    assert outcome(gate(keys=KEYS.public()), sent()) == "ok"
    assert outcome(gate(vouches={"ed": "team-b*"}), sent()) == "not allowed"
    assert outcome(gate(vouches={"ed": "bill*"}), sent()) == "ok"


def test_times(monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time()
    with monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: now)
        record = sent(lifetime=60)
        assert outcome(gate(), record) == "ok"
    for later, expected in ((80, "ok"), (91, "expired, billing"), (-29, "ok"), (-31, "not yet, billing")):
        with monkeypatch.context() as patch:
            patch.setattr(time, "time", lambda later=later: now + later)
            assert outcome(gate(), record) == expected, later
    # A log read years later: by the record's own time.
    for stamp, expected in (
        (int(now * 1000), "ok"),
        (int(now * 1000) + 200_000, "expired, billing"),
        (-1, "not yet, billing"),
    ):
        assert outcome(gate(at="timestamp"), record.replace(timestamp=stamp)) == expected


def test_tokens_are_made_anew_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = issuer(lifetime=60)
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now)
    first = tokens.token("t")
    assert tokens.token("t") == first != tokens.token("u")
    monkeypatch.setattr(time, "time", lambda: now + 31)
    assert tokens.token("t") != first
    one = issuer(topics="*")
    assert one.token("t") == one.token("u")


def test_what_goes_through_carries_no_token() -> None:
    named = gate(principal="mb.principal")
    record = sent()
    record.headers.add("mb.principal", b"root")
    through = named.post_serialize(record)
    assert through.headers.to_list() == [("a", b"1"), ("mb.principal", b"billing")]
    free = gate(principal="mb.principal", required=False)
    assert not free.post_serialize(mb.ProducerRecord("t", b"", headers=[("mb.principal", b"root")])).headers
    kept = gate(strip=False).post_serialize(sent())
    assert HEADER in kept.headers
    assert issuer().post_serialize(kept).headers.keys().count(HEADER) == 1
    closed = mb.ProducerRecord("invoices", b"v")
    closed.close()
    assert HEADER in issuer().post_serialize(closed).headers


def test_rejected_records_go_to_dead_letters_at_ingest() -> None:
    """In front of a log that is written: what is let in stands there without token, the rest in another topic, with why."""

    def dead(record: mb.ProducerRecord, reason: str) -> mb.ProducerRecord:
        return record.replace(topic="dead", headers=[*record.headers, ("reason", reason.encode())])

    records = [sent(), sent("orders"), mb.ProducerRecord("invoices-eu", b"v")]
    ingest = Chain(gate(quarantine=dead), errors="raise")
    through = list(ingest.sending(records))
    assert [record.topic for record in through] == ["invoices-eu", "dead", "dead"]
    assert through[2].headers.last["reason"] == b"TokenGate: missing"
    [back] = mb.decode(mb.encode(through[:1]), topic="invoices-eu")
    assert back.headers.to_list() == [("a", b"1")]


def test_each_bit_counts() -> None:
    data = sent(sign_with="mac").headers.last[HEADER] or b""
    checker = gate(policy="reject")
    for bit in range(len(data) * 8):
        broken = bytearray(data)
        broken[bit // 8] ^= 1 << bit % 8
        assert checker.post_serialize(mb.ProducerRecord("invoices-eu", b"", headers=[(HEADER, bytes(broken))])) == ()
    for end in range(len(data)):
        assert checker.post_serialize(mb.ProducerRecord("invoices-eu", b"", headers=[(HEADER, data[:end])])) == ()
    assert checker.counts["allowed"] == 0


def test_options_and_pickling() -> None:
    for options in ({"sign_with": "x"}, {"principal": ""}, {"topics": "x" * 256}, {"lifetime": 0}):
        with pytest.raises(ValueError, match="."):
            issuer(**options)
    with pytest.raises(ValueError, match="timestamp"):
        gate(at="then")
    tokens, checker = pickle.loads(pickle.dumps((issuer(), gate(principal="p"))))
    assert (
        checker.post_serialize(tokens.post_serialize(mb.ProducerRecord("invoices", b"v"))).headers.last["p"]
        == b"billing"
    )


topics = st.sampled_from(["invoices", "orders"])
some_values = st.none() | st.binary(max_size=5)
tokens = st.sampled_from(["billing", "admin", "forged", "none", "cut", "twice"])


@given(st.lists(st.tuples(topics, some_values, tokens), max_size=10), st.booleans(), st.booleans())
def test_columns_as_records(rows: list[Any], required: bool, strip: bool) -> None:
    records = []
    for number, (topic, value, kind) in enumerate(rows):
        record = mb.ProducerRecord(topic, value, b"k", [("mb.principal", b"root")])
        if kind != "none":
            keys = {"ed": Ed25519Key(private=bytes(32))} if kind == "forged" else KEYS
            record = issuer(keys=keys, principal="admin" if kind == "admin" else "billing").post_serialize(record)
        data = record.headers.last.get(HEADER)
        if kind == "cut":
            record.headers.remove(HEADER).add(HEADER, (data or b"")[:-1])
        if kind == "twice":
            record.headers.add(HEADER, data)
        records.append(mb.ConsumerRecord(topic, 0, number, 5, 0, b"k", value, record.headers))
    one, other = (gate(required=required, strip=strip, principal="mb.principal") for _ in "12")
    assert records_of(other.arrow([rows_of(records)])) == [one.pre_deserialize(record.copy()) for record in records]
    assert dict(one.counts) == dict(other.counts)
    issued = records_of(issuer().sending_arrow([rows_of(records)]))
    assert all(record.headers.keys()[-1] == HEADER and len(record.headers.get(HEADER)) == 1 for record in issued)
