"""The header vocabulary: what the bytes of well-known headers mean, whoever wrote them.

The same name comes in different encodings from different producers, so decoders are tolerant and tell what they saw:

    >>> decode("kafka_dlt-original-partition", b"\\x00\\x00\\x00\\x07")
    Decoded(value=7, encoding='int32', error=None)
    >>> decode("kafka_dlt-original-partition", b"7")
    Decoded(value=7, encoding='digits', error=None)

No bytes make a decoder raise: what is wrong stands in ``error``, beside the best reading that there is.
"""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from . import values
from .kinds import B3, LargeMessage, SchemaId, TraceParent, linkedin, schema_in_value
from .table import CONVENTIONS, Convention, convention_of, register
from .values import Decoded

__all__ = [
    "B3",
    "CONVENTIONS",
    "Convention",
    "Decoded",
    "DecodedHeader",
    "LargeMessage",
    "SchemaId",
    "TraceParent",
    "convention_of",
    "decode",
    "decode_arrow",
    "decode_headers",
    "linkedin",
    "plain",
    "register",
    "schema_in_value",
]


class DecodedHeader(NamedTuple):
    """A header, the name of the convention that it belongs to (None: none that is known), and what it says."""

    key: str
    convention: str | None
    value: Any
    encoding: str | None
    error: str | None


def decode(name: str, value: bytes | None) -> Decoded:
    """What a header says by the convention that has its name; text or bytes as they are, where none has it.

    A null is a value of its own: ``Decoded(None, "null", None)``. Never raises on bytes.
    """
    found = convention_of(name)
    if value is None:
        return Decoded(None, "null")
    return values.raw(value) if found is None else found[1](bytes(value))


def decode_headers(headers: Iterable[Any]) -> list[DecodedHeader]:
    """All headers in order, repeated ones too; of ``Headers``, or (key, value) pairs."""
    done = []
    for key, value in headers:
        found = convention_of(key)
        done.append(DecodedHeader(key, found[0].name if found else None, *decode(key, value)))
    return done


def plain(value: Any) -> Any:
    """A decoded value as what JSON can hold: ids as text, times as ISO 8601, bytes as ``{"base64": …}``."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return {name: field for name, field in fields.items() if field is not None}
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()}
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return value


def decode_arrow(headers: Any) -> Any:
    """A column of headers (``list<struct<key, value>>``) as one of decoded headers: ``list<struct<key, convention, value,
    encoding, error>>``, all text; ``value`` is JSON where it is not text. Each different header is decoded once.

    Null lists stay null.
    """
    from .columns import decode_column

    return decode_column(headers)
