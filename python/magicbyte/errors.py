"""The errors of magicbyte: one root, and what went wrong as attributes, never only in the text."""

from __future__ import annotations

__all__ = ["CorruptRecordError", "IllegalStateError", "MagicbyteError", "UnsupportedCodecError"]


class MagicbyteError(Exception):
    """The root of all errors that magicbyte raises by itself."""


class CorruptRecordError(MagicbyteError, ValueError):
    """Bytes that are not what their format says.

    Attributes:
        path: the file, or ``None`` when the bytes came from memory.
        position: byte position, in that file or those bytes, of the entry at fault.
        kind: the family of the defect: ``crc``, ``length``, ``magic``, ``codec``, ``decompress``, ``record``,
            ``count``, ``wrapper``, ``limit``, ``index``, ``txnindex``.
        records: how many records of that entry were sound, and delivered by an iterator, before the defect.
    """

    def __init__(
        self, message: str, path: str | None = None, position: int = 0, kind: str = "record", records: int = 0
    ) -> None:
        super().__init__(message)
        self.path = path
        self.position = position
        self.kind = kind
        self.records = records

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (*self.args[:1], self.path, self.position, self.kind, self.records))


class UnsupportedCodecError(MagicbyteError):
    """A codec that the named format does not have (KIP-110: zstd begins with v2)."""


class IllegalStateError(MagicbyteError):
    """A change to headers that are closed (KIP-82: headers are read-only once the record was sent)."""
