"""Encryption: the header byte by byte, opened by hand; what is bound; nonces and data keys; columns equal to records."""

from __future__ import annotations

import os
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import magicbyte as mb
from magicbyte.middleware import quarantined

from kafka_rows import records_of, rows_of

pytest.importorskip("cryptography")

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from magicbyte.middleware.encryption import HEADER, Encryption, LocalKeyProvider

PROVIDER = LocalKeyProvider({"old": bytes(16), "m1": bytes(range(32))})
values = st.none() | st.binary(max_size=40)
headers = st.lists(st.tuples(st.sampled_from(["a", HEADER]), st.none() | st.binary(max_size=70)), max_size=3)


class Counting(LocalKeyProvider):
    """Says how often it was asked."""

    def __init__(self, keys: dict[str, bytes]) -> None:
        super().__init__(keys)
        self.wrapped = self.unwrapped = 0

    def wrap(self, id: str, data_key: bytes) -> bytes:
        self.wrapped += 1
        return super().wrap(id, data_key)

    def unwrap(self, id: str, wrapped: bytes) -> bytes | None:
        self.unwrapped += 1
        return super().unwrap(id, wrapped)


def received(record: Any) -> mb.ConsumerRecord:
    return mb.ConsumerRecord(record.topic, 0, 7, 1000, 0, record.key, record.value, record.headers)


def test_rfc_3394_key_wrap() -> None:
    """4.6: 256 bits of key data with a 256-bit key."""
    data = bytes.fromhex("00112233445566778899AABBCCDDEEFF000102030405060708090A0B0C0D0E0F")
    wrapped = bytes.fromhex("28C9F404C4B810F4CBCCB35CFB87F8263F5786E2D80ED326CBC7F0E71A99F43BFB988B9B7A02DD21")
    assert PROVIDER.wrap("m1", data) == wrapped and PROVIDER.unwrap("m1", wrapped) == data
    assert PROVIDER.unwrap("old", wrapped) is None and PROVIDER.unwrap("m1", wrapped[:-1]) is None
    assert PROVIDER.unwrap("who", wrapped) is None and PROVIDER.unwrap("m1", b"") is None


def test_the_header_byte_by_byte() -> None:
    """Opened by hand, with nothing but the document's layout and another implementation's AES-GCM."""
    made = Encryption(provider=PROVIDER).post_serialize(mb.ProducerRecord("orders", b"secret", b"k", [("a", b"1")]))
    data = made.headers.last[HEADER]
    assert data is not None and data[:6] == bytes.fromhex("01 01 03 02") + b"m1" and data[6:8] == b"\0\x28"
    assert len(data) == 8 + 40 + 12
    data_key = PROVIDER.unwrap("m1", data[8:48])
    assert data_key is not None
    bound = b"magicbyte.encryption.1\0" + data[:48] + b"\0\0\0\6orders" + b"\0\0\0\1k"
    assert AESGCM(data_key).decrypt(data[48:], made.value, bound) == b"secret"
    assert len(made.value) == len(b"secret") + 16 and made.headers.last["a"] == b"1"


def test_there_and_back() -> None:
    encryption = Encryption(provider=PROVIDER)
    for key, value in ((b"k", b"v" * 1000), (None, b""), (b"", b"x")):
        sent = mb.ProducerRecord("t", value, key, [("route", b"eu"), ("route", None)])
        made = encryption.post_serialize(sent)
        assert sent.value == value and HEADER not in sent.headers  # what the caller holds stays as it was
        back = encryption.pre_deserialize(received(made))
        assert (back.key, back.value, back.headers) == (key, value, sent.headers)
    null = mb.ProducerRecord("t", None, b"k")
    assert encryption.post_serialize(null) is null
    twice = encryption.post_serialize(made)
    assert twice is made
    plain = received(null)
    assert encryption.pre_deserialize(plain) is plain
    assert dict(encryption.counts) == {"encrypted": 3, "decrypted": 3, "null": 1, "already": 1, "plain": 1}


def test_topic_and_key_are_bound() -> None:
    both = Encryption(provider=PROVIDER)
    free = Encryption(provider=PROVIDER, bind_topic=False, bind_key=False)
    bound = received(both.post_serialize(mb.ProducerRecord("t", b"v", b"k")))
    loose = received(free.post_serialize(mb.ProducerRecord("t", b"v", b"k")))
    for changed in ({"topic": "u"}, {"key": b"l"}, {"key": None}, {"value": b"w" * 17}):
        assert quarantined(both.pre_deserialize(bound.replace(**changed))) == ["Encryption: forged"]
    assert free.pre_deserialize(loose.replace(topic="u", key=None)).value == b"v"
    # Who wants them bound is not satisfied by less; who does not, opens what is.
    assert quarantined(both.pre_deserialize(loose)) == ["Encryption: unbound"]
    assert free.pre_deserialize(received(both.post_serialize(mb.ProducerRecord("t", b"v")))).value == b"v"


def test_each_bit_counts() -> None:
    encryption = Encryption(provider=PROVIDER, policy="reject")
    good = received(encryption.post_serialize(mb.ProducerRecord("t", b"v", b"k")))
    header = good.headers.last[HEADER] or b""
    for bit in range(len(header) * 8):
        broken = bytearray(header)
        broken[bit // 8] ^= 1 << bit % 8
        assert encryption.pre_deserialize(good.replace(headers=[(HEADER, bytes(broken))])) == (), bit
    for end in range(len(header)):
        assert encryption.pre_deserialize(good.replace(headers=[(HEADER, header[:end])])) == (), end
    assert encryption.pre_deserialize(good.replace(headers=[(HEADER, header)] * 2)) == ()
    assert encryption.pre_deserialize(good.replace(value=None)) == ()
    assert encryption.pre_deserialize(good.replace(value=b"short")) == ()
    assert encryption.counts["decrypted"] == 0


def test_data_keys_change_and_are_remembered() -> None:
    provider = Counting({"m": bytes(32)})
    encryption = Encryption(provider=provider, values_per_key=10)
    sent = [encryption.post_serialize(mb.ProducerRecord("t", b"%d" % n)) for n in range(35)]
    assert provider.wrapped == 4
    nonces = {(record.headers.last[HEADER] or b"")[-12:] for record in sent}
    assert len(nonces) == 35
    assert [encryption.pre_deserialize(received(record)).value for record in sent] == [b"%d" % n for n in range(35)]
    assert provider.unwrapped == 4
    hasty = Encryption(provider=provider, seconds_per_key=0)
    one, other = (hasty.post_serialize(mb.ProducerRecord("t", b"")).headers.last[HEADER] or b"" for _ in "12")
    assert one[:-12] != other[:-12]


def test_memory_and_calls_are_bounded_for_forged_data_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("magicbyte.middleware.encryption.CACHED", 16)
    encryption = Encryption(provider=Counting({"m": bytes(32)}), policy="reject")
    for number in range(200):
        data = bytes([1, 1, 3, 1]) + b"m" + b"\0\x28" + number.to_bytes(40, "big") + bytes(12)
        record = mb.ConsumerRecord("t", 0, 0, 0, 0, None, bytes(16), [(HEADER, data)])
        assert encryption.pre_deserialize(record) == ()
    assert len(encryption._opened) == 16 and dict(encryption.counts) == {"unknown key": 200}


def test_forks_and_copies_share_no_nonce() -> None:
    """A pickled copy makes a data key of its own; a forked process draws nonces of its own."""
    encryption = Encryption(provider=PROVIDER)
    first = encryption.post_serialize(mb.ProducerRecord("t", b"1")).headers.last[HEADER] or b""
    copy = pickle.loads(pickle.dumps(encryption))
    other = copy.post_serialize(mb.ProducerRecord("t", b"1")).headers.last[HEADER] or b""
    assert first[:-12] != other[:-12]
    read, write = os.pipe()
    if (child := os.fork()) == 0:
        os.write(write, encryption.post_serialize(mb.ProducerRecord("t", b"1")).headers.last[HEADER] or b"")
        os._exit(0)
    os.waitpid(child, 0)
    theirs = os.read(read, 200)
    ours = encryption.post_serialize(mb.ProducerRecord("t", b"1")).headers.last[HEADER] or b""
    assert theirs[:-12] == ours[:-12] and theirs[-12:] != ours[-12:]
    os.close(read)
    os.close(write)


def test_rotation_of_master_keys() -> None:
    old = Encryption(provider=LocalKeyProvider({"old": bytes(16)}))
    new = Encryption(provider=PROVIDER)
    record = received(old.post_serialize(mb.ProducerRecord("t", b"v")))
    assert new.pre_deserialize(record).value == b"v"
    gone = Encryption(provider=LocalKeyProvider({"m1": bytes(range(32))}))
    assert quarantined(gone.pre_deserialize(record)) == ["Encryption: unknown key"]


def test_options_that_cannot_be() -> None:
    for options in ({"values_per_key": 0}, {"values_per_key": 1 << 33}, {"policy": "drop"}, {"header": ""}):
        with pytest.raises(ValueError, match="."):
            Encryption(provider=PROVIDER, **options)
    for keys, current in (({}, None), ({"a": b"short"}, None), ({"": bytes(32)}, None), ({"a": bytes(32)}, "b")):
        with pytest.raises(ValueError, match="master key"):
            LocalKeyProvider(keys, current)
    assert "\\x" not in repr(PROVIDER) and "m1" in repr(PROVIDER)


@given(st.lists(st.tuples(values, values, headers, st.sampled_from([0, 1, 2, None])), max_size=6))
def test_columns_as_records(rows: list[Any]) -> None:
    senders = [
        Encryption(provider=PROVIDER),
        Encryption(provider=LocalKeyProvider({"x": bytes(32)})),
        Encryption(provider=PROVIDER, bind_key=False),
    ]
    sent = []
    for number, (key, value, some, sender) in enumerate(rows):
        record = mb.ConsumerRecord("t", 0, number, 5, 0, key, value, some)
        if sender is not None:
            made = senders[sender].post_serialize(mb.ProducerRecord("t", value, key, some))
            record = record.replace(value=made.value, headers=made.headers)
        sent.append(record)
    one, other = (Encryption(provider=PROVIDER, bind_topic=False) for _ in "12")
    found = records_of(other.arrow([rows_of(sent)]))
    assert found == [one.pre_deserialize(record.copy()) for record in sent]
    assert dict(one.counts) == dict(other.counts)


@given(st.lists(st.tuples(values, values, headers), max_size=8))
def test_encrypted_in_columns(rows: list[Any]) -> None:
    sent = [mb.ConsumerRecord("t", 0, n, 5, 0, key, value, some) for n, (key, value, some) in enumerate(rows)]
    one, other = (Encryption(provider=PROVIDER, values_per_key=3) for _ in "12")
    made = records_of(one.sending_arrow([rows_of(sent)]))
    for record in sent:
        other.post_serialize(mb.ProducerRecord("t", record.value, record.key, record.headers))
    assert dict(one.counts) == dict(other.counts)
    for before, after in zip(sent, made, strict=True):
        encrypted = before.value is not None and HEADER not in before.headers
        assert encrypted == (before != after)
        if encrypted:
            assert one.pre_deserialize(after) == before
