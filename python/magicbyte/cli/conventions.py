"""Headers of known conventions, for `dump --decode-headers`: what they say, the encoding that was seen, what is wrong."""

from __future__ import annotations

from typing import Any

from magicbyte.cli.output import json_bytes, quote, show_bytes, to_json
from magicbyte.vocabulary import convention_of, decode, plain

# Seen most, and no surprise.
_USUAL = ("text", "null", "bytes")


def decoded_text(key: str, value: bytes | None, binary: str) -> str:
    """``"text"`` or ``5(int64)``; with an error, what could be read (else the bytes) and ``!("the error")``."""
    if convention_of(key) is None:
        return show_bytes(value, binary)
    said = decode(key, value)
    if said.value is None:
        shown = show_bytes(value, binary)
    else:
        shown = quote(said.value) if isinstance(said.value, str) else to_json(plain(said.value))
    if said.value is not None and said.encoding is not None and said.encoding not in _USUAL:
        shown += f"({said.encoding})"
    return shown if said.error is None else f"{shown}!({quote(said.error)})"


def decoded_json(key: str, value: bytes | None) -> dict[str, Any]:
    """A header as in plain JSON output, and ``decoded`` beside it where a convention has its name."""
    shown: dict[str, Any] = {"key": key, "value": json_bytes(value)}
    if (found := convention_of(key)) is not None:
        said = decode(key, value)
        shown["decoded"] = {
            "convention": found[0].name,
            "value": plain(said.value),
            "encoding": said.encoding,
            "error": said.error,
        }
    return shown
