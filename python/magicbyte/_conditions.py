"""Conditions on headers, as people write them, for the reader that asks them before it copies anything.

```text
trace-id=abc       a header of this key has this value (a key may repeat: one of them is enough)
trace-id!=abc      none has
retry              there is one
!poison            there is none
digest=hex:00ff    values as `dump` shows them: base64:…, hex:…, text:…, else the text's own UTF-8
```
"""

from __future__ import annotations

import base64
import binascii
import json
import os
from collections.abc import Iterable, Mapping
from typing import TypeAlias

Condition: TypeAlias = "tuple[bytes, str, bytes | None]"
"""Key, test (``present``, ``absent``, ``is``, ``is not``) and value, as ``_core.Reader`` takes them."""
Headers: TypeAlias = "Mapping[str, bytes | str | bool | None] | Iterable[str] | str"


def conditions(headers: Headers) -> list[Condition]:
    """Conditions that must all hold: a text, several, or a mapping from keys to values.

    In a mapping, ``bytes`` are the value, a ``str`` its UTF-8, ``None`` a null value, ``True`` any value, ``False`` no header of
    that key. ``ValueError`` names the one that is not right.
    """
    if isinstance(headers, str):
        return [condition(headers)]
    if not isinstance(headers, Mapping):
        return [condition(text) for text in headers]
    return [_exact(key, value) for key, value in headers.items()]


def _exact(key: str, value: bytes | str | bool | None) -> Condition:
    name = os.fsencode(key)
    if isinstance(value, bool):
        return name, "present" if value else "absent", None
    if isinstance(value, str):
        return name, "is", value.encode()
    if value is None or isinstance(value, bytes):
        return name, "is", value
    raise TypeError(f"header {key!r}: bytes, str, bool or None, not {type(value).__name__}")


def condition(text: str) -> Condition:
    """``key``, ``!key``, ``key=value`` or ``key!=value``; the first ``=`` counts, so a key that has one needs a mapping."""
    name, given, value = text.partition("=")
    negated = name.endswith("!") if given else name.startswith("!")
    if negated:
        name = name[:-1] if given else name[1:]
    if not name and not given:
        raise ValueError(f"condition {text!r}: no header's key")
    key = os.fsencode(name)
    if not given:
        return key, "absent" if negated else "present", None
    return key, "is not" if negated else "is", as_bytes(value)


def parsed(text: str) -> list[Condition]:
    """Of one option: a condition, or a JSON list of them, or a JSON object of keys and values."""
    if text.lstrip()[:1] not in ("[", "{"):
        return [condition(text)]
    found = json.loads(text)
    if isinstance(found, list) and not all(isinstance(it, str) for it in found):
        raise ValueError("a JSON list of conditions such as trace-id=abc")
    return conditions(found)


def as_bytes(text: str) -> bytes:
    """Bytes as ``dump`` shows them; ``ValueError`` where what stands behind ``base64:`` or ``hex:`` is not that."""
    kind, _, rest = text.partition(":")
    try:
        if kind == "base64":
            return base64.b64decode(rest, validate=True)
        if kind == "hex":
            return bytes.fromhex(rest)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"{text!r}: {error}; for this very text, write text:{text}") from None
    # Arguments that are not UTF-8 come from the system with surrogates; they go back to the bytes that were typed.
    return os.fsencode(rest if kind == "text" else text)
