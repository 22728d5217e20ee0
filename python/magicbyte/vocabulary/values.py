"""Plain values in header bytes: text, numbers, truth values and times, in every encoding that was seen.

A decoder takes bytes and returns ``Decoded``: it never raises, whatever the bytes are. ``value`` may be there beside an
``error``: then it is the best reading of bytes that break the convention.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple

__all__ = ["Decoded", "Decoder", "boolean", "choice", "integer", "json_value", "raw", "text", "time", "token_bytes"]

MOST = 65_536
"""Bytes of a header that are looked at as text. Exception stack traces are longer at times; JSON bombs, too."""
PLAUSIBLE = 1 << 48
"""Numbers beyond it are taken for the wrong byte order: as milliseconds they lie in the year 10889."""


class Decoded(NamedTuple):
    """What a header says: the value, the encoding that it was seen in, and what is wrong with it (None: nothing)."""

    value: Any
    encoding: str | None
    error: str | None = None


Decoder = Callable[[bytes], Decoded]

_DIGITS = re.compile(rb"[+-]?[0-9]{1,20}")
# RFC 3339, as CloudEvents has it.
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(\.\d+)?([Zz]|[+-]\d\d:\d\d)")


def _unwrapped(data: bytes) -> tuple[str, Any, str | None]:
    """Encoding, content and error of bytes that should be text: plain, a JSON string (Spring's header mapper, Connect's
    ``JsonConverter``), or JSON with its schema beside it (``schemas.enable``)."""
    try:
        plain = data.decode()
    except UnicodeDecodeError as error:
        return "bytes", None, f"not UTF-8 at byte {error.start}"
    if len(data) <= MOST and plain[:1] in ('"', "{") and plain[-1:] in ('"', "}"):
        try:
            found = json.loads(plain)
        except (ValueError, RecursionError):
            return "text", plain, None
        if isinstance(found, str):
            # Half a surrogate pair is JSON and no text.
            broken = any("\ud800" <= letter <= "\udfff" for letter in found)
            return ("text", plain, None) if broken else ("json", found, None)
        if isinstance(found, dict) and found.keys() == {"schema", "payload"}:
            return "json with schema", found["payload"], None
    return "text", plain, None


def text(data: bytes) -> Decoded:
    """UTF-8, also within a JSON string."""
    encoding, content, error = _unwrapped(data)
    if content is not None and not isinstance(content, str):
        content = json.dumps(content)
    return Decoded(content, encoding, error)


def raw(data: bytes) -> Decoded:
    """A header of no convention: text where it is UTF-8, else the bytes themselves; neither is an error."""
    try:
        return Decoded(data.decode(), "text")
    except UnicodeDecodeError:
        return Decoded(data, "bytes")


def _number(content: Any) -> int | None:
    if isinstance(content, bool):
        return None
    if isinstance(content, int):
        return content
    if isinstance(content, str) and _DIGITS.fullmatch(word := content.strip().encode("utf-8", "replace")):
        return int(word)
    return None


def integer(
    width: int = 8, *, order: str = "big", least: int | None = None, any_length: bool = False, bits: int = 64
) -> Decoder:
    """Decoder of a whole number: binary of 4 or 8 bytes in either byte order, or digits.

    Where all bytes are digits they are digits: as binary they would be 808,464,432 and more as a partition, and above
    10**18 as an offset or a time. Binary is read in the convention's byte order, unless only the other one gives a number
    that can be (below 2**48).

    Args:
        width: bytes of the convention's own binary form.
        order: ``big`` or ``little``, the convention's own.
        least: below it, the value stands with an error.
        any_length: Java's ``BigInteger.toByteArray``: one to eight bytes.
        bits: the number's size; beyond it, the value stands with an error.
    """
    other = "little" if order == "big" else "big"

    def checked(value: int, encoding: str, error: str | None = None) -> Decoded:
        if error is None and least is not None and value < least:
            error = f"{value} is below {least}"
        if error is None and not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
            error = f"{value} has more than {bits} bits"
        return Decoded(value, encoding, error)

    def decode(data: bytes) -> Decoded:
        if _DIGITS.fullmatch(data):
            return checked(int(data), "digits")
        if len(data) in (4, 8) or (any_length and 1 <= len(data) <= 8):
            size, seen = 8 * len(data), order
            value = int.from_bytes(data, order, signed=True)  # type: ignore[arg-type]
            if abs(value) >= PLAUSIBLE:
                swapped = int.from_bytes(data, other, signed=True)  # type: ignore[arg-type]
                if 0 <= swapped < PLAUSIBLE:
                    value, seen = swapped, other
            return checked(value, f"int{size}" if seen == "big" else f"int{size} little-endian")
        encoding, content, error = _unwrapped(data)
        number = _number(content)
        if number is not None:
            return checked(number, encoding if encoding != "text" else "digits")
        if error is None:
            error = f"no number: {len(data)} bytes, where {width} bytes or digits are expected"
        return Decoded(None, encoding, error)

    return decode


def boolean(data: bytes) -> Decoded:
    """``true`` or ``false`` as text or JSON, or one byte 0 or 1."""
    if data in (b"\x00", b"\x01"):
        return Decoded(data == b"\x01", "byte")
    encoding, content, error = _unwrapped(data)
    if isinstance(content, bool):
        return Decoded(content, encoding)
    word = content.strip().lower() if isinstance(content, str) else None
    if word in ("true", "false", "1", "0"):
        return Decoded(word in ("true", "1"), encoding)
    return Decoded(None, encoding, error or "neither true nor false")


def time(data: bytes) -> Decoded:
    """RFC 3339 text as an aware ``datetime`` (UTC, microseconds)."""
    encoding, content, error = _unwrapped(data)
    if error is not None:
        return Decoded(None, encoding, error)
    found = _TIME.fullmatch(content) if isinstance(content, str) else None
    if found is None:
        return Decoded(None, encoding, "no RFC 3339 time")
    day, clock, fraction, zone = found.groups()
    try:
        made = datetime.fromisoformat(
            f"{day}T{clock}{(fraction or '')[:7]}{'+00:00' if zone in 'zZ' else zone}"
        ).astimezone(UTC)
    except (ValueError, OverflowError) as why:
        return Decoded(None, encoding, f"no RFC 3339 time: {why}")
    return Decoded(made, encoding)


def choice(*words: str) -> Decoder:
    """Decoder of text that should be one of some words."""

    def decode(data: bytes) -> Decoded:
        done = text(data)
        if done.error is None and done.value not in words:
            return done._replace(error=f"none of {', '.join(words)}")
        return done

    return decode


def json_value(data: bytes) -> Decoded:
    """Any JSON, at most 64 KiB of it."""
    if len(data) > MOST:
        return Decoded(None, "text", f"{len(data)} bytes of JSON, and {MOST} are looked at")
    try:
        return Decoded(json.loads(data), "json")
    except (ValueError, RecursionError) as error:
        return Decoded(None, raw(data).encoding, f"no JSON: {type(error).__name__}")


def token_bytes(data: bytes) -> Decoded:
    """Bytes that mean something only to who wrote them."""
    return Decoded(data, "bytes")
