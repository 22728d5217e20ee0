"""Signatures: the RFCs' vectors, what is signed byte by byte, forgeries of all kinds, and columns equal to records."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import magicbyte as mb
from magicbyte.ids import HeaderIds
from magicbyte.interceptors import Chain
from magicbyte.middleware import quarantined

from kafka_rows import records_of, rows_of

pytest.importorskip("cryptography")

from magicbyte.middleware.keys import Ed25519Key, HmacKey, KeyRing
from magicbyte.middleware.signing import HEADER, Signing, signed_bytes

ED = Ed25519Key(private=bytes(range(32)))
MAC = HmacKey(bytes(range(32)))
KEYS = KeyRing({"ed": ED, "mac": MAC})

# RFC 8032, 7.1, tests 1 to 3: private, public, message, signature.
RFC8032 = [
    (
        "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46b"
        "d25bf5f0595bbe24655141438e7a100b",
    ),
    (
        "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c"
        "387b2eaeb4302aeeb00d291612bb0c00",
    ),
    (
        "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "af82",
        "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc659"
        "4a7c15e9716ed28dc027beceea1ec40a",
    ),
]
# RFC 4231, 4.2 to 4.8, without those of a short key (2) and a cut output (5): key, data, HMAC-SHA-256.
RFC4231 = [
    (b"\x0b" * 20, b"Hi There", "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"),
    (b"\xaa" * 20, b"\xdd" * 50, "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"),
    (bytes(range(1, 26)), b"\xcd" * 50, "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b"),
    (
        b"\xaa" * 131,
        b"Test Using Larger Than Block-Size Key - Hash Key First",
        "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
    ),
    (
        b"\xaa" * 131,
        b"This is a test using a larger than block-size key and a larger than block-size data. The key needs to be "
        b"hashed before being used by the HMAC algorithm.",
        "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2",
    ),
]

values = st.none() | st.binary(max_size=40)
headers = st.lists(st.tuples(st.sampled_from(["a", "b", "c", HEADER]), st.none() | st.binary(max_size=50)), max_size=6)


def received(record: Any, topic: str | None = None) -> mb.ConsumerRecord:
    """A record as it comes in, with headers of its own."""
    return mb.ConsumerRecord(topic or record.topic, 0, 7, 1000, 0, record.key, record.value, record.headers)


def signed(signing: Signing, record: mb.ProducerRecord) -> mb.ConsumerRecord:
    return received(signing.post_serialize(record))


@pytest.mark.parametrize("private, public, message, signature", RFC8032)
def test_rfc_8032(private: str, public: str, message: str, signature: str) -> None:
    key = Ed25519Key(private=bytes.fromhex(private))
    assert key.public_bytes.hex() == public
    assert key.sign(bytes.fromhex(message)).hex() == signature
    other = Ed25519Key(public=bytes.fromhex(public))
    assert other.verify(bytes.fromhex(message), bytes.fromhex(signature))
    assert not other.verify(bytes.fromhex(message) + b"\0", bytes.fromhex(signature))


@pytest.mark.parametrize("secret, message, mac", RFC4231)
def test_rfc_4231(secret: bytes, message: bytes, mac: str) -> None:
    key = HmacKey(secret)
    assert key.sign(message).hex() == mac and key.verify(message, bytes.fromhex(mac))
    assert not key.verify(message, bytes(32)) and not key.verify(message, b"")


def test_what_is_signed_byte_by_byte() -> None:
    """The document's layout, written out once by hand, down to the vector of the whole header."""
    signing = Signing(keys={"k1": HmacKey(b"\x0b" * 20)}, sign_with="k1", headers=("a", "none"), bind_topic=True)
    record = signing.post_serialize(mb.ProducerRecord("t", b"value", None, [("a", b"1"), ("x", b"-"), ("a", None)]))
    head = bytes.fromhex("01 01 01 02 6b31 02 01 61 04 6e6f6e65")
    message = b"".join(
        (
            b"magicbyte.signature.1\0",
            head,
            b"\0\0\0\1t",
            b"\xff\xff\xff\xff",
            b"\0\0\0\5value",
            b"\0\0\0\2" + b"\0\0\0\0011" + b"\xff\xff\xff\xff",
            b"\0\0\0\0",
        )
    )
    unsigned = mb.Headers([("a", b"1"), ("x", b"-"), ("a", None)])
    assert signed_bytes(head, "t", None, b"value", unsigned, ("a", "none"), True) == message
    assert record.headers.last[HEADER] == head + HmacKey(b"\x0b" * 20).sign(message)
    assert len(record.headers.last[HEADER] or b"") == 14 + 32


@pytest.mark.parametrize("sign_with", ["ed", "mac"])
def test_every_change_is_seen(sign_with: str) -> None:
    signing = Signing(keys=KEYS, sign_with=sign_with, headers=("a", "b"), bind_topic=True)
    good = signed(signing, mb.ProducerRecord("orders", b"value", b"key", [("a", b"1"), ("other", b"")]))
    assert signing.pre_deserialize(good) is good
    free = good.copy()
    free.headers.add("other", b"changed")
    assert signing.pre_deserialize(free) is free
    changes: list[mb.ConsumerRecord] = [
        good.replace(value=b"valuf"),
        good.replace(value=None),
        good.replace(key=None),
        good.replace(key=b""),
        good.replace(key=b"keyv", value=b"alue"),
        good.replace(topic="payments"),
    ]
    for change in (("a", b"2"), ("a", b"1"), ("b", b""), ("b", None)):
        changed = good.copy()
        changed.headers.add(*change)
        changes.append(changed)
    gone = good.copy()
    gone.headers.remove("a")
    changes.append(gone)
    for number, change in enumerate(changes):
        assert signing.pre_deserialize(change) == (), number
    assert dict(signing.counts) == {"signed": 1, "valid": 2, "forged": len(changes)}


def test_each_bit_of_the_header_counts() -> None:
    signing = Signing(keys=KEYS, sign_with="mac", headers=("a",))
    good = signed(signing, mb.ProducerRecord("t", b"v", b"k", [("a", b"1")]))
    value = good.headers.last[HEADER] or b""
    for bit in range(len(value) * 8):
        broken = bytearray(value)
        broken[bit // 8] ^= 1 << bit % 8
        bad = good.replace(headers=[("a", b"1"), (HEADER, bytes(broken))])
        assert signing.pre_deserialize(bad) == (), bit
    for end in range(len(value)):
        assert signing.pre_deserialize(good.replace(headers=[("a", b"1"), (HEADER, value[:end])])) == ()
    assert signing.counts["valid"] == 0 and sum(signing.counts.values()) == len(value) * 9 + 1


def test_outcomes() -> None:
    signing = Signing(keys=KEYS, sign_with="ed", policy="quarantine")
    good = signed(signing, mb.ProducerRecord("t", b"v"))
    data = good.headers.last[HEADER]
    strict = Signing(keys=KEYS, headers=("a",), policy="quarantine")
    bound = Signing(keys=KEYS, bind_topic=True, policy="quarantine")
    stranger = Signing(keys={"other": MAC}, policy="quarantine")
    cases = [
        (signing, good.replace(headers=[]), "missing"),
        (signing, good.replace(headers=[(HEADER, data), (HEADER, data)]), "repeated"),
        (signing, good.replace(headers=[(HEADER, None)]), "malformed"),
        (signing, good.replace(headers=[(HEADER, b"")]), "malformed"),
        (signing, good.replace(headers=[(HEADER, b"\1\2\0\1\xff\1\1\xff" + bytes(64))]), "malformed"),
        (strict, good.copy(), "unbound"),
        (bound, good.copy(), "unbound"),
        (stranger, good.copy(), "unknown key"),
        (signing, good.replace(value=b"w"), "forged"),
    ]
    for middleware, record, outcome in cases:
        assert quarantined(middleware.pre_deserialize(record)) == [f"Signing: {outcome}"]
        assert quarantined(records_of(middleware.arrow([rows_of([record.copy()])]))[0])[-1] == f"Signing: {outcome}"
    lax = Signing(keys=KEYS, required=False)
    assert list(Chain(lax)([good.replace(headers=[])])) and dict(lax.counts) == {"unsigned": 1}


def test_an_algorithm_is_the_keys_and_not_the_headers_choice() -> None:
    """A public key, which everybody knows, must never serve as the secret of an HMAC."""
    public = KeyRing({"ed": ED}).public()
    forger = Signing(keys={"ed": HmacKey(ED.public_bytes)}, sign_with="ed")
    verifier = Signing(keys=public)
    assert verifier.pre_deserialize(signed(forger, mb.ProducerRecord("t", b"v"))) == ()
    assert dict(verifier.counts) == {"unknown key": 1}


def test_rotation_and_replacement() -> None:
    old, new = Signing(keys=KEYS, sign_with="mac"), Signing(keys=KEYS, sign_with="ed")
    both = Signing(keys=KEYS)
    assert (
        len(list(Chain(both)([signed(old, mb.ProducerRecord("t", b"1")), signed(new, mb.ProducerRecord("t", b"2"))])))
        == 2
    )
    again = new.post_serialize(old.post_serialize(mb.ProducerRecord("t", b"3")))
    assert again.headers.keys() == [HEADER] and both.pre_deserialize(received(again)) != ()
    assert both.post_serialize(plain := mb.ProducerRecord("t", b"4")) is plain and not plain.headers
    closed = mb.ProducerRecord("t", b"5")
    closed.close()
    assert HEADER in new.post_serialize(closed).headers and not closed.headers


def test_header_by_id_and_two_signatures() -> None:
    ids = HeaderIds()
    ids.reserve_private(0x10, 0x1F)
    first = Signing(keys=KEYS, sign_with="mac", header=(ids, 0x11), policy="raise")
    second = Signing(keys=KEYS, sign_with="ed", header="audit", headers=("#00000011",), policy="raise")
    record = Chain(first, second, errors="raise").post_serialize(mb.ProducerRecord("t", b"v"))[0]
    assert record.headers.keys() == ["#00000011", "audit"]
    assert list(Chain(second, first, errors="raise")([received(record)]))


def test_options_that_cannot_be() -> None:
    for options in (
        {"sign_with": "who"},
        {"headers": (HEADER,)},
        {"headers": ("a", "a")},
        {"headers": ("x" * 256,)},
        {"policy": "drop"},
    ):
        with pytest.raises(ValueError, match="."):
            Signing(keys=KEYS, **options)
    with pytest.raises(ValueError, match="1 to 255"):
        KeyRing({"": MAC})
    with pytest.raises(ValueError, match="guessed"):
        HmacKey(b"Jefe")
    with pytest.raises(ValueError, match="public"):
        Ed25519Key()
    with pytest.raises(ValueError, match="pair"):
        Ed25519Key(private=bytes(32), public=bytes(32))
    with pytest.raises(ValueError, match="cannot sign"):
        ED.public().sign(b"")


def test_keys_travel_and_stay_secret() -> None:
    signing = pickle.loads(pickle.dumps(Signing(keys=KEYS, sign_with="ed")))
    assert signing.pre_deserialize(signed(signing, mb.ProducerRecord("t", b"v"))) != ()
    assert pickle.loads(pickle.dumps(ED.public())) == ED.public() != ED
    assert hash(pickle.loads(pickle.dumps(MAC))) == hash(MAC)
    assert bytes(range(32)) not in pickle.dumps(KEYS.public()) and list(KEYS.public()) == ["ed"]
    assert repr(KEYS) == "KeyRing(ed, mac)" and repr(MAC) == "HmacKey(…)"


def test_pem() -> None:
    from cryptography.hazmat.primitives import serialization as s
    from cryptography.hazmat.primitives.asymmetric import ed25519, x25519

    private = ed25519.Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
    secret = private.private_bytes(s.Encoding.PEM, s.PrivateFormat.PKCS8, s.BestAvailableEncryption(b"pw"))
    public = private.public_key().public_bytes(s.Encoding.PEM, s.PublicFormat.SubjectPublicKeyInfo)
    assert Ed25519Key.from_pem(secret, b"pw") == ED and Ed25519Key.from_pem(public) == ED.public()
    other = x25519.X25519PrivateKey.generate().private_bytes(s.Encoding.PEM, s.PrivateFormat.PKCS8, s.NoEncryption())
    with pytest.raises(ValueError, match="no Ed25519"):
        Ed25519Key.from_pem(other)


@given(st.lists(st.tuples(values, values, headers, st.sampled_from(["ed", "mac", None])), max_size=6), st.booleans())
def test_columns_as_records(rows: list[Any], bind_topic: bool) -> None:
    """Hostile headers, several signers in one batch: the same records, the same bytes, the same counts."""
    options: dict[str, Any] = {"keys": KEYS, "headers": ("a", "b"), "bind_topic": bind_topic, "policy": "quarantine"}
    sent, unsigned = [], []
    for number, (key, value, some, sign_with) in enumerate(rows):
        record = mb.ConsumerRecord("t", 0, number, 5, 0, key, value, some)
        unsigned.append(record)
        if sign_with:
            made = Signing(sign_with=sign_with, **options).post_serialize(mb.ProducerRecord("t", value, key, some))
            record = record.replace(headers=made.headers)
            column = Signing(sign_with=sign_with, **options).sending_arrow([rows_of([unsigned[-1]])])
            assert records_of(column) == [record]
        sent.append(record)
    one, other = Signing(**options), Signing(**options)
    found = records_of(other.arrow([rows_of(sent)]))
    assert found == [one.pre_deserialize(record.copy()) for record in sent]
    assert dict(one.counts) == dict(other.counts)


@given(st.binary(max_size=80))
def test_any_bytes_are_no_signature(data: bytes) -> None:
    signing = Signing(keys=KEYS, policy="reject")
    record = mb.ConsumerRecord("t", 0, 0, 0, 0, None, b"", [(HEADER, b"\1\1\0\3mac" + data)])
    assert signing.pre_deserialize(record) == ()
    assert next(iter(signing.arrow([rows_of([record])]))).num_rows == 0
    assert sum(signing.counts.values()) == 2
