"""Reads Kafka's own messages by the table in ``messages.json``, into the values that Kafka's JSON converters show.

The encoding is that of Kafka's protocol (KIP-482 for flexible versions: compact lengths and tagged fields). A field that
the version does not have is left out, and so is a tagged field at its default, as Kafka's converters do it.
"""

from __future__ import annotations

import base64
import functools
import json
import struct
from importlib import resources
from typing import Any

__all__ = ["Malformed", "Message", "Reader", "find"]

MOST_DEPTH = 16  # structures in structures; the deepest that Kafka has is 4

_NUMBERS = {
    "bool": struct.Struct(">?"),
    "int8": struct.Struct(">b"),
    "int16": struct.Struct(">h"),
    "uint16": struct.Struct(">H"),
    "int32": struct.Struct(">i"),
    "uint32": struct.Struct(">I"),
    "int64": struct.Struct(">q"),
    "float64": struct.Struct(">d"),
}
_INT16, _INT32 = _NUMBERS["int16"], _NUMBERS["int32"]
_ZERO_UUID = "AAAAAAAAAAAAAAAAAAAAAA"


class Malformed(ValueError):
    """Bytes that are no message of that kind; the text says what and where."""


class Reader:
    """Takes values off bytes, never behind their end."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    @property
    def left(self) -> int:
        """Bytes that are left."""
        return len(self.data) - self.at

    def take(self, size: int) -> bytes:
        """The next ``size`` bytes."""
        if not 0 <= size <= self.left:
            raise Malformed(f"at byte {self.at}: {size} bytes wanted, {self.left} left")
        self.at += size
        return self.data[self.at - size : self.at]

    def number(self, kind: struct.Struct) -> Any:
        """A number of fixed width."""
        return kind.unpack(self.take(kind.size))[0]

    def int16(self) -> int:
        """A 16-bit integer."""
        return int(self.number(_INT16))

    def unsigned_varint(self) -> int:
        """An unsigned varint of at most 32 bits."""
        value = 0
        for shift in range(0, 35, 7):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value >> 32:
                    break
                return value
        raise Malformed(f"at byte {self.at}: a varint of more than 32 bits")

    def length(self, flexible: bool, short: bool) -> int:
        """The length of a string (``short``), of bytes or of an array; −1 is null."""
        if flexible:
            return self.unsigned_varint() - 1
        size = int(self.number(_INT16 if short else _INT32))
        if size < -1:
            raise Malformed(f"at byte {self.at}: a length of {size}")
        return size


class Message:
    """One kind of message."""

    def __init__(self, said: dict[str, Any]) -> None:
        self.name: str = said["name"]
        self.versions = _range(said["versions"])
        self.flexible = _range(said["flexible"])
        self.fields = said["fields"]

    def read(self, reader: Reader, version: int) -> dict[str, Any]:
        """The message's fields.

        Raises:
            Malformed: the bytes are not such a message, or one of a version that this program does not know.
        """
        if version not in self.versions:
            known = f"{self.versions.start} to {self.versions.stop - 1}"
            raise Malformed(f"{self.name} of version {version}; known are {known}")
        return _struct(reader, self.fields, version, version in self.flexible, 0)


@functools.cache
def _table() -> dict[str, dict[str, dict[str, Any]]]:
    text = resources.files("magicbyte.topics").joinpath("messages.json").read_text(encoding="utf-8")
    table: dict[str, dict[str, dict[str, Any]]] = json.loads(text)
    return table


@functools.cache
def find(group: str, role: str, key: int | str) -> Message | None:
    """The message ``key`` (its number, or a name) of a group: ``offsets transactions shares metadata remote embedded``."""
    said = _table()[group][role].get(str(key))
    return None if said is None else Message(said)


@functools.cache
def _range(text: str) -> range:
    """``0+``, ``1-3``, ``2``, ``none``."""
    if text == "none":
        return range(0)
    first, _, last = text.partition("-")
    if text.endswith("+"):
        return range(int(text[:-1]), 1 << 15)
    return range(int(first), int(last or first) + 1)


def _struct(reader: Reader, fields: list[Any], version: int, flexible: bool, depth: int) -> dict[str, Any]:
    if depth > MOST_DEPTH:
        raise Malformed(f"at byte {reader.at}: structures in more than {MOST_DEPTH} structures")
    found: dict[str, Any] = {}
    tagged: dict[int, tuple[str, Any]] = {}
    for name, kind, versions, *rest in fields:
        more = rest[0] if rest else {}
        if version not in _range(versions):
            continue
        if "tag" in more and version in _range(more["tagged"]):
            tagged[more["tag"]] = (name, (kind, more))
            continue
        found[name] = _value(reader, kind, more, version, flexible, depth, name)
    if flexible:
        shown = _tags(reader, tagged, version, depth)
        # In the order of the definition, whatever the order of the tags.
        for name, (_kind, more) in tagged.values():
            if name in shown and shown[name] != _default(_kind, more):
                found[name] = shown[name]
        order = [one[0] for one in fields]
        found = dict(sorted(found.items(), key=lambda item: order.index(item[0])))
    return found


def _tags(reader: Reader, tagged: dict[int, tuple[str, Any]], version: int, depth: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for _ in range(reader.unsigned_varint()):
        tag, size = reader.unsigned_varint(), reader.unsigned_varint()
        inner = Reader(reader.take(size))
        if tag not in tagged:
            continue  # of a newer Kafka
        name, (kind, more) = tagged[tag]
        found[name] = _value(inner, kind, more, version, True, depth, name)
        if inner.left:
            raise Malformed(f"at byte {reader.at}: {inner.left} bytes behind the tagged field {name}")
    return found


def _default(kind: str, more: dict[str, Any]) -> Any:
    if "default" in more:
        return more["default"]
    if kind.startswith("[]"):
        return []
    return {"string": "", "bytes": "", "bool": False, "uuid": _ZERO_UUID}.get(kind, None if "fields" in more else 0)


def _value(reader: Reader, kind: str, more: dict[str, Any], version: int, flexible: bool, depth: int, name: str) -> Any:
    if "flexible" in more:
        # A field may keep the old encoding in a flexible message.
        flexible = flexible and version in _range(more["flexible"])
    nullable = "null" in more and version in _range(more["null"])
    if kind in _NUMBERS:
        return reader.number(_NUMBERS[kind])
    if kind == "uuid":
        return base64.urlsafe_b64encode(reader.take(16)).decode().rstrip("=")
    if "fields" in more and not kind.startswith("[]"):
        if nullable and reader.number(_NUMBERS["int8"]) < 0:
            return None
        return _struct(reader, more["fields"], version, flexible, depth + 1)
    size = reader.length(flexible, short=kind == "string")
    if size < 0:
        if not nullable:
            raise Malformed(f"at byte {reader.at}: {name} is null")
        return None
    if kind == "string":
        return _text(reader.take(size), reader.at)
    if kind == "bytes":
        return base64.b64encode(reader.take(size)).decode()
    # An element has a byte at least: no array is longer than what is left.
    if size > reader.left:
        raise Malformed(f"at byte {reader.at}: an array of {size}, {reader.left} bytes left")
    element = {key: value for key, value in more.items() if key == "fields"}
    return [_value(reader, kind[2:], element, version, flexible, depth, name) for _ in range(size)]


def _text(data: bytes, at: int) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise Malformed(f"before byte {at}: a string that is not UTF-8") from None
