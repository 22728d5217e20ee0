"""All middlewares in one chain, for the tests over a log, in Spark and beside a broker: pairs for the two sides, by name."""

from __future__ import annotations

import random
from typing import Any

import magicbyte as mb
from magicbyte.interceptors import Chain
from magicbyte.middleware.auth import Rule, TokenGate, TokenIssuer
from magicbyte.middleware.chargeback import ChargeBack
from magicbyte.middleware.claim_check import ClaimCheck
from magicbyte.middleware.cloudevents import CloudEvents
from magicbyte.middleware.compaction import Compaction
from magicbyte.middleware.compression import Compression
from magicbyte.middleware.dead_letters import DeadLetters
from magicbyte.middleware.encryption import Encryption, LocalKeyProvider
from magicbyte.middleware.keys import Ed25519Key, HmacKey, KeyRing
from magicbyte.middleware.large_messages import LargeMessages
from magicbyte.middleware.polyglot import Polyglot
from magicbyte.middleware.predicates import equals, has
from magicbyte.middleware.retention import Retention
from magicbyte.middleware.router import DROP, Router, To
from magicbyte.middleware.signing import Signing
from magicbyte.middleware.tracing import Tracing
from magicbyte.middleware.trail import Trail
from magicbyte.serdes import BytesDeserializer

KEYS = KeyRing({"ed": Ed25519Key(private=bytes(range(32))), "mac": HmacKey(bytes(range(32)))})
PROVIDER = LocalKeyProvider({"m1": bytes(range(32))})
OWN = ("own", "version", "none")
"""Header names of the records below that no middleware writes (as CloudEvents writes ``content-type``)."""
PARENT = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
TOPIC = "together"
SIGNED = ("own", "ce_type", "mb.claim", "mb.enc")

Pair = tuple[Any, Any]


def pairs(storage: str, topic: str = TOPIC, signed: tuple[str, ...] = SIGNED) -> dict[str, Pair]:
    """By name, what stands on the sending side and on the receiving side, in the order of sending. None stands for nothing."""
    dead = DeadLetters("{topic}-dlt")
    bad: dict[str, Any] = {"policy": "quarantine", "quarantine": dead}
    claims = ClaimCheck(storage, threshold=20_000, **bad)
    large = LargeMessages(chunk_size=4_000, **bad)
    meter, route = ChargeBack("own", "topic"), Router((equals("own", b"drop me"), DROP), (has("own"), To(cluster="eu")))
    return {
        "polyglot": (None, Polyglot({"text/*": BytesDeserializer()}, **bad)),
        "cloudevents": (CloudEvents(source="/shop", type="order"), CloudEvents(**bad)),
        "retention": (Retention(set_ttl=10**12), Retention(max_age=10**12, **bad)),
        "compaction": (None, Compaction(**bad)),
        "chargeback": (meter, meter),
        "tracing": (Tracing(spans=False), Tracing(spans=False, **bad)),
        "router": (route, None),
        "compression": (Compression(), Compression(**bad)),
        "encryption": (Encryption(provider=PROVIDER), Encryption(provider=PROVIDER, **bad)),
        "claim check": (claims, claims),
        "signing": (
            Signing(keys=KEYS, sign_with="ed", headers=signed, bind_topic=True),
            Signing(keys=KEYS.public(), bind_topic=True, **bad),
        ),
        "large messages": (large, large),
        "auth": (
            TokenIssuer(keys=KEYS, sign_with="mac", principal="shop"),
            TokenGate(keys=KEYS, rules=[Rule("shop", topic)], strip=False, **bad),
        ),
        "trail": (Trail("shop", cluster="eu", audit=True, deletes=True), Trail("reader", cluster="eu", **bad)),
    }


def chains(some: dict[str, Pair]) -> tuple[Chain, Chain]:
    """The sending chain, and the receiving one from the outside in. What deserializes comes last by its stage."""
    out = [sender for sender, _ in some.values() if sender is not None]
    back = [receiver for _, receiver in reversed(list(some.values())) if receiver is not None]
    return Chain(*out, errors="raise"), Chain(*back, errors="raise")


def records(topic: str = TOPIC, time: int | None = 1_769_860_800_000) -> list[mb.ProducerRecord]:
    """Records of all sizes, a tombstone, an empty value, null keys and headers; all for partition 0."""
    noise = random.Random(7).randbytes(64_000)  # nothing to compress
    values: list[bytes | None] = [b"", None, b"small", b"abc" * 400, noise[:9_000], noise, b"text " * 9_000, b"last"]
    return [
        mb.ProducerRecord(
            topic,
            value,
            None if number == 2 else b"key-%d" % (number % 6),
            [
                ("own", b"%d" % number),
                ("version", b"%d" % number),
                ("content-type", b"text/plain"),
                ("traceparent", PARENT),
                ("none", None),
                ("own", b"again"),
            ],
            0,
            time,
        )
        for number, value in enumerate(values)
    ]


def facts(some: Any) -> list[Any]:
    """What must come back: key, value, and the headers that the sender gave, in order."""
    return [
        (
            one.key,
            one.value,
            [(name, value) for name, value in one.headers.to_list() if name in OWN],
        )
        for one in some
    ]
