"""Avro through fastavro (extra ``avro``): the plain binary encoding, or Avro's own single-object encoding.

Which schema wrote a record is for middlewares to say, in headers; here both sides are given it. Single-object encoding
(``framing="single-object"``): C3 01, the schema's CRC-64-AVRO fingerprint little-endian, then the plain encoding.
"""

from __future__ import annotations

import io
import json
from typing import Any, Literal

from magicbyte._core import Headers
from magicbyte._extras import extra

from .base import SerializationError

with extra("avro"):
    import fastavro

__all__ = ["AvroDeserializer", "AvroSerializer"]

Schema = dict[str, Any] | list[Any] | str
Framing = Literal["none", "single-object"]

MARKER = b"\xc3\x01"
FINGERPRINT = slice(2, 10)
BODY = slice(10, None)


def _parsed(schema: Schema) -> Any:
    # A schema may be given as its JSON text; the name of a primitive type is text too, and no JSON.
    if isinstance(schema, str) and schema.lstrip()[:1] in '{["':
        schema = json.loads(schema)
    return fastavro.parse_schema(schema)


def _fingerprint(schema: Any) -> bytes:
    canonical = fastavro.schema.to_parsing_canonical_form(schema)
    return bytes.fromhex(fastavro.schema.fingerprint(canonical, "CRC-64-AVRO"))


class AvroSerializer:
    """Objects of one schema. ``framing`` none, or ``single-object``."""

    def __init__(self, schema: Schema, framing: Framing = "none") -> None:
        if framing not in ("none", "single-object"):
            raise ValueError(f"unknown framing {framing!r}")
        self.schema = _parsed(schema)
        self._head = MARKER + _fingerprint(self.schema) if framing == "single-object" else b""

    def serialize(self, topic: str, headers: Headers, data: Any) -> bytes | None:
        if data is None:
            return None
        out = io.BytesIO(self._head)
        out.seek(0, io.SEEK_END)
        try:
            fastavro.schemaless_writer(out, self.schema, data, strict=True)
        except (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError) as error:
            raise SerializationError(f"not of the schema: {error}", topic) from error
        return out.getvalue()


class AvroDeserializer:
    """Objects written by one schema, or under ``single-object`` by any of several.

    Args:
        schemas: the writer's schema, or several of them.
        reader_schema: what to read them as, by Avro's rules of resolution; None: as they were written.
    """

    def __init__(self, *schemas: Schema, reader_schema: Schema | None = None, framing: Framing = "none") -> None:
        known = [_parsed(schema) for schema in schemas]
        if framing not in ("none", "single-object"):
            raise ValueError(f"unknown framing {framing!r}")
        if not known or (framing == "none" and len(known) != 1):
            raise ValueError("without framing, bytes do not tell their schema: exactly one is needed")
        self.reader_schema = None if reader_schema is None else _parsed(reader_schema)
        self._only = known[0] if framing == "none" else None
        self._known = {_fingerprint(schema): schema for schema in known}

    def deserialize(self, topic: str, headers: Headers, data: bytes | None) -> Any:
        if data is None:
            return None
        schema, body = self._only, data
        if schema is None:
            if data[:2] != MARKER or len(data) < BODY.start:
                raise SerializationError("no single-object encoding: it begins with C3 01", topic)
            schema, body = self._known.get(data[FINGERPRINT]), data[BODY]
            if schema is None:
                raise SerializationError(f"written by an unknown schema, {data[FINGERPRINT].hex()}", topic)
        source = io.BytesIO(body)
        try:
            done = fastavro.schemaless_reader(source, schema, self.reader_schema)
        # Bytes of any kind may come here, and the library lets many kinds of errors out.
        except Exception as error:
            raise SerializationError(f"not of the schema: {type(error).__name__}: {error}", topic) from error
        if source.tell() != len(body):
            raise SerializationError(f"{len(body) - source.tell()} bytes are left behind the object", topic)
        return done
