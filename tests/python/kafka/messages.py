"""What the tests send: every oddity that a record may have, and streams of ordinary records between them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import NamedTuple

T = 1_700_000_000_000
"""A moment in 2023, in ms: far from now, so that nobody's clock passes for a stored timestamp."""

Header = tuple[str, bytes | None]


class Message(NamedTuple):
    """One record to send; `timestamp` in ms."""

    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()
    timestamp: int = T


def _odd_headers() -> Iterator[tuple[Header, ...]]:
    yield ()
    yield (("one", b"1"),)
    yield (("dup", b"1"), ("other", b"x"), ("dup", b"2"), ("dup", b"1"))
    yield (("null", None),)
    yield (("empty", b""),)
    yield (("same", None), ("same", b""), ("same", b"\x00"), ("same", None))
    yield (("ключ🔑", "значение".encode()), ("Ünïcødé", b"\xff\xfe"), ("日本語", None))
    yield (("binary", bytes(range(256))),)
    yield (("new\nline\x1b[31m", b"\r\n\x00"), ("<b>&", b"<script>"))
    yield tuple((f"h{number}", None if number % 7 == 0 else b"v" * (number % 5)) for number in range(100))
    yield tuple(("repeated", str(number).encode()) for number in range(100))
    yield (("k" * 300, b"long key"), ("big", b"B" * 20_000))


def odd() -> list[Message]:
    """The odd ones: null and empty apart from each other everywhere, lengths at the steps of a varint, hostile text."""
    messages = [Message(b"key", b"value", headers) for headers in _odd_headers()]
    contents = (None, b"", b"\x00", "ключ".encode(), b"\xff\xfe\xfd")
    messages += [Message(key, value) for key in contents for value in contents]
    steps = (1, 62, 63, 64, 65, 127, 128, 8190, 8191, 8192, 8193, 16_384)
    messages += [
        Message(b"k" * (length % 257), b"v" * length, (("h" * (length % 70 + 1), b"w" * length),)) for length in steps
    ]
    # Neither in order nor near each other: deltas of both signs and of many lengths.
    moments = (T, T - 1, T + 1, 1, T - 86_400_000, T + 86_400_000, 1 << 40, T)
    messages += [Message(b"at", str(moment).encode(), (), moment) for moment in moments]
    return messages


def stream(count: int, seed: int, *, headers: bool = True) -> list[Message]:
    """Ordinary records, the same for the same seed: few keys, text that compresses and bytes that do not, 0 to 5 headers."""
    source = random.Random(seed)
    messages = []
    moment = T
    for number in range(count):
        moment += source.randrange(-20, 50)
        key = source.choice([None, b"", b"customer-%d" % source.randrange(9), source.randbytes(8)])
        kind = source.randrange(8)
        if kind == 0:
            value = None
        elif kind == 1:
            value = b""
        elif kind == 2:
            value = source.randbytes(source.randrange(400))
        else:
            value = b'{"number": %d, "text": "%s"}' % (number, b"to be or not " * source.randrange(12))
        some = tuple(_header(source) for _ in range(source.choice([0, 0, 1, 2, 5]))) if headers else ()
        messages.append(Message(key, value, some, moment))
    return messages


def _header(source: random.Random) -> Header:
    key = source.choice(["traceparent", "content-type", "ce_id", "маршрут", "dup"])
    return key, source.choice([None, b"", b"application/json", source.randbytes(16)])


def updates(count: int, keys: int, seed: int, prefix: str = "key") -> list[Message]:
    """Records for a compacted topic: every key many times, one in eight a tombstone, some with headers."""
    source = random.Random(seed)
    messages = []
    for number in range(count):
        key = f"{prefix}-{source.randrange(keys):03}".encode()
        value = None if source.randrange(8) == 0 else b"version %d " % number + b"." * source.randrange(120)
        headers = (("version", b"%d" % number), ("dup", None), ("dup", b"")) if source.randrange(3) == 0 else ()
        messages.append(Message(key, value, headers, T + number))
    return messages
