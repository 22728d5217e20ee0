"""What conventions put into headers beyond plain values: trace contexts, schema ids, chunks of large messages."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from urllib.parse import unquote
from uuid import UUID

from .values import Decoded, text

__all__ = [
    "B3",
    "LargeMessage",
    "SchemaId",
    "TraceParent",
    "b3",
    "baggage",
    "elastic",
    "jaeger",
    "large_message",
    "linkedin",
    "schema_guid",
    "schema_in_value",
    "traceparent",
    "tracestate",
]


@dataclass(frozen=True, slots=True)
class TraceParent:
    """Where a trace stands: ids as lower-case hex, ``flags`` 1 = sampled (W3C Trace Context)."""

    trace_id: str
    parent_id: str
    flags: int
    version: int = 0

    @property
    def sampled(self) -> bool:
        """Whether the caller recorded the trace."""
        return bool(self.flags & 1)

    def __str__(self) -> str:
        return f"{self.version:02x}-{self.trace_id}-{self.parent_id}-{self.flags:02x}"


_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.DOTALL)


def traceparent(data: bytes) -> Decoded:
    """W3C ``traceparent``: text, in JSON quotes at times, or the binary draft that Elastic's agents write."""
    if len(data) == 29 and data[:2] == b"\0\0":
        return elastic(data)
    done = text(data)
    if done.error is not None:
        return done
    word, error = done.value.strip(), None
    if word != word.lower():
        # A parser that keeps to the recommendation does not take it.
        word, error = word.lower(), "upper case"
    found = _TRACEPARENT.fullmatch(word)
    if found is None:
        return Decoded(None, done.encoding, "no version-trace-parent-flags")
    version, trace, parent, flags, rest = found.groups()
    if version == "ff":
        error = "version ff is none"
    elif version == "00" and rest is not None:
        error = "version 00 has four fields"
    elif not int(trace, 16) or not int(parent, 16):
        error = "an id of zeros is none"
    return Decoded(TraceParent(trace, parent, int(flags, 16), int(version, 16)), done.encoding, error)


def elastic(data: bytes) -> Decoded:
    """``elasticapmtraceparent``: version 0; then 0 and 16 bytes of trace, 1 and 8 of parent, 2 and one of flags."""
    if len(data) != 29 or data[0] != 0 or (data[1], data[18], data[27]) != (0, 1, 2):
        return traceparent(data) if len(data) >= 55 else Decoded(None, "bytes", "no binary trace parent of 29 bytes")
    made = TraceParent(data[2:18].hex(), data[19:27].hex(), data[28])
    error = None if any(data[2:18]) and any(data[19:27]) else "an id of zeros is none"
    return Decoded(made, "binary", error)


# A key may have a tenant before @ (level 1); values are printable and hold neither comma nor equals sign.
_STATE_KEY = re.compile(r"[a-z0-9][a-z0-9_\-*/]{0,255}|[a-z0-9][a-z0-9_\-*/]{0,240}@[a-z][a-z0-9_\-*/]{0,13}")
_STATE_VALUE = re.compile(r"[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]")


def tracestate(data: bytes) -> Decoded:
    """W3C ``tracestate``: (vendor, state) pairs in order, at most 32, no vendor twice."""
    done = text(data)
    if done.error is not None:
        return done
    pairs: list[tuple[str, str]] = []
    error = None
    for member in done.value.split(","):
        word = member.strip(" \t")
        if not word:
            continue
        key, there, value = word.partition("=")
        if not there or not _STATE_KEY.fullmatch(key) or not _STATE_VALUE.fullmatch(value):
            error = error or f"member {len(pairs)} is no key=value"
            continue
        pairs.append((key, value))
    if len(pairs) > 32:
        error = error or f"{len(pairs)} members, and 32 are allowed"
    if len({key for key, _ in pairs}) < len(pairs):
        error = error or "a vendor twice"
    return Decoded(tuple(pairs), done.encoding, error)


def baggage(data: bytes) -> Decoded:
    """W3C ``baggage``: name → value, percent-decoded; properties behind ``;`` are left out."""
    done = text(data)
    if done.error is not None:
        return done
    found: dict[str, str] = {}
    error = None
    for member in done.value.split(","):
        if not member.strip():
            continue
        key, there, value = member.partition(";")[0].partition("=")
        if not there or not key.strip():
            error = error or f"member {len(found)} is no key=value"
            continue
        found[key.strip()] = unquote(value.strip())
    return Decoded(found, done.encoding, error)


@dataclass(frozen=True, slots=True)
class B3:
    """Zipkin's trace context; ``sampled`` is None where the decision is left to who reads it, ``debug`` implies it."""

    trace_id: str | None = None
    span_id: str | None = None
    sampled: bool | None = None
    parent_id: str | None = None
    debug: bool = False


_B3 = re.compile(r"([0-9a-f]{32}|[0-9a-f]{16})-([0-9a-f]{16})(?:-([01d])(?:-([0-9a-f]{16}))?)?")


def b3(data: bytes) -> Decoded:
    """The single header ``b3``: ``<trace>-<span>[-<sampled>[-<parent>]]``, or the decision alone."""
    done = text(data)
    if done.error is not None:
        return done
    word = done.value.strip().lower()
    if word in ("0", "1", "d"):
        return Decoded(B3(sampled=word != "0", debug=word == "d"), done.encoding)
    found = _B3.fullmatch(word)
    if found is None:
        return Decoded(None, done.encoding, "no trace-span-sampled-parent")
    trace, span, sampled, parent = found.groups()
    made = B3(trace, span, None if sampled is None else sampled != "0", parent, sampled == "d")
    return Decoded(made, done.encoding, None if int(trace, 16) and int(span, 16) else "an id of zeros is none")


def jaeger(data: bytes) -> Decoded:
    """Jaeger's ``uber-trace-id``: ``<trace>:<span>:<parent>:<flags>``, ids without leading zeros at times."""
    done = text(data)
    if done.error is not None:
        return done
    parts = unquote(done.value.strip()).lower().split(":")
    if len(parts) != 4 or not all(re.fullmatch("[0-9a-f]{1,32}", part) for part in parts) or len(parts[3]) > 2:
        return Decoded(None, done.encoding, "no trace:span:parent:flags")
    trace, span, _, flags = parts
    made = TraceParent(trace.zfill(32), span.zfill(16), int(flags, 16))
    if len(span) > 16:
        return Decoded(None, done.encoding, "a span id of more than 16 digits")
    return Decoded(made, done.encoding, None if int(trace, 16) and int(span, 16) else "an id of zeros is none")


@dataclass(frozen=True, slots=True)
class SchemaId:
    """A schema's identity: the ``id`` or ``guid`` of a registry, and what else stands beside it.

    ``indexes`` is the place of a Protobuf message in its schema; ``compression`` (AWS Glue) is ``none`` or ``zlib``.
    """

    id: int | None = None
    guid: UUID | None = None
    indexes: tuple[int, ...] | None = None
    compression: str | None = None


def _indexes(data: bytes) -> tuple[int, ...]:
    """Zigzag varints: a count, then so many indexes; a count of 0 stands for the first message."""
    numbers: list[int] = []
    at = shift = number = 0
    wanted: int | None = None
    while at < len(data):
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte & 0x80:
            shift += 7
            if shift > 28:
                raise ValueError("a varint of more than five bytes")
            continue
        value = (number >> 1) ^ -(number & 1)
        shift = number = 0
        if wanted is None:
            if not 0 <= value <= len(data):
                raise ValueError(f"{value} message indexes")
            wanted = value
            if wanted == 0:
                numbers = [0]
        else:
            numbers.append(value)
        if wanted == 0 or len(numbers) == wanted:
            break
    else:
        raise ValueError("message indexes are cut")
    if at != len(data):
        raise ValueError(f"{len(data) - at} bytes behind the message indexes")
    return tuple(numbers)


def schema_guid(data: bytes) -> Decoded:
    """Confluent's ``__key_schema_id`` and ``__value_schema_id``: 1 and a GUID (and Protobuf's message indexes), or 0 and
    an int32. GUIDs as text and ids as digits are read, too."""
    if data[:1] == b"\x01" and len(data) >= 17:
        guid = UUID(bytes=data[1:17])
        if len(data) == 17:
            return Decoded(SchemaId(guid=guid), "guid")
        try:
            return Decoded(SchemaId(guid=guid, indexes=_indexes(data[17:])), "guid and indexes")
        except ValueError as error:
            return Decoded(SchemaId(guid=guid), "guid and indexes", str(error))
    if data[:1] == b"\x00" and len(data) == 5:
        return _positive(int.from_bytes(data[1:5], "big", signed=True), "id")
    done = text(data)
    if done.error is None:
        word = done.value.strip()
        if re.fullmatch(r"[0-9]{1,10}", word):
            return _positive(int(word), "digits")
        if re.fullmatch(r"\{?[0-9a-fA-F]{8}(-?[0-9a-fA-F]{4}){3}-?[0-9a-fA-F]{12}\}?", word):
            return Decoded(SchemaId(guid=UUID(word)), "text")
    return Decoded(None, "bytes", f"neither a GUID nor an id: {len(data)} bytes")


def _positive(id: int, encoding: str) -> Decoded:
    return Decoded(SchemaId(id=id), encoding, None if 0 <= id < 1 << 31 else f"no schema has the id {id}")


def schema_in_value(data: bytes | None) -> Decoded:
    """The schema's identity before a value: Confluent's 0 and int32 (or 1 and GUID), AWS Glue's 3, compression, UUID.

    Any value may begin like that: this is what the bytes would mean, told to who knows that somebody wrote them so.
    """
    if data is None:
        return Decoded(None, "null")
    if data[:1] == b"\x03" and len(data) >= 18 and data[1] in (0, 5):
        made = SchemaId(guid=UUID(bytes=data[2:18]), compression="zlib" if data[1] else "none")
        return Decoded(made, "glue")
    if data[:1] == b"\x01" and len(data) >= 17:
        return Decoded(SchemaId(guid=UUID(bytes=data[1:17])), "confluent guid")
    if data[:1] == b"\x00" and len(data) >= 5:
        return _positive(int.from_bytes(data[1:5], "big", signed=True), "confluent id")
    return Decoded(None, None, "no schema id before the value")


@dataclass(frozen=True, slots=True)
class LargeMessage:
    """LinkedIn's ``_lm``: which segment of which message. ``size`` (bytes of the whole) is None in the 25-byte form.

    ``type`` 0 and 1: each value begins with a segment header of its own, 2: it does not.
    """

    type: int
    uuid: UUID
    segment: int
    count: int
    size: int | None = None


def large_message(data: bytes) -> Decoded:
    """Type u8; the UUID's low and then its high half, int64 each; segment, count[, size], int32 each: 25 or 29 bytes."""
    if len(data) not in (25, 29):
        return Decoded(None, "bytes", f"{len(data)} bytes, and 25 or 29 are expected")
    kind, low, high, segment, count = struct.unpack_from(">BQQii", data)
    size = struct.unpack_from(">i", data, 25)[0] if len(data) == 29 else None
    made = LargeMessage(kind, UUID(int=high << 64 | low), segment, count, size)
    error = None
    if kind > 2:
        error = f"type {kind} is unknown"
    elif segment != -1 and (count < 1 or not 0 <= segment < count):
        # −1 stands beside messages that were not divided.
        error = f"segment {segment} of {count}"
    elif size is not None and size < -1:
        error = f"a size of {size}"
    return Decoded(made, f"{len(data)} bytes", error)


def linkedin(message: LargeMessage) -> bytes:
    """The bytes that ``large_message`` reads."""
    number = message.uuid.int
    head = struct.pack(">BQQii", message.type, number & (1 << 64) - 1, number >> 64, message.segment, message.count)
    return head if message.size is None else head + struct.pack(">i", message.size)
