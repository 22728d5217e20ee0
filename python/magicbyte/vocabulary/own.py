"""Headers of magicbyte's own middlewares, as ``docs/middleware`` lays out their bytes. Nothing is verified here: a token or a
signature is shown, and proves nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .values import Decoded, Decoder

__all__ = ["EncryptionHead", "SignatureHead", "TokenHead", "claim", "encryption", "of", "signature", "token"]

ALGORITHMS = {1: "HMAC-SHA256", 2: "Ed25519"}


@dataclass(frozen=True, slots=True)
class SignatureHead:
    """``mb.sig``: who signed which headers; ``topic`` says whether the topic is signed too."""

    algorithm: str
    key_id: str
    headers: tuple[str, ...]
    topic: bool


@dataclass(frozen=True, slots=True)
class EncryptionHead:
    """``mb.enc``: which key wrapped the data key, and what is bound besides the value."""

    cipher: str
    wrapping_id: str
    topic: bool
    key: bool


@dataclass(frozen=True, slots=True)
class TokenHead:
    """``mb.auth``: who claims to write where, from when to when (ms since 1970)."""

    algorithm: str
    key_id: str
    principal: str
    topics: str
    issued: int
    expires: int


class _Cursor:
    """Reads on, and raises ValueError where there is nothing left."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, count: int) -> bytes:
        if self.at + count > len(self.data):
            raise ValueError(f"cut at byte {len(self.data)}")
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self, width: int) -> int:
        return int.from_bytes(self.take(width), "big", signed=width == 8)

    def text(self) -> str:
        return self.take(self.number(1)).decode("utf-8", "replace")

    def version(self) -> None:
        if (found := self.number(1)) != 1:
            raise ValueError(f"version {found} is unknown")

    def algorithm(self) -> str:
        found = self.number(1)
        return ALGORITHMS.get(found, f"algorithm {found}")


def _reader(read: Callable[[_Cursor], Any]) -> Decoder:
    def decode(data: bytes) -> Decoded:
        try:
            return Decoded(read(_Cursor(data)), "binary")
        except ValueError as error:
            return Decoded(None, "bytes", str(error))

    return decode


def _signature(cursor: _Cursor) -> SignatureHead:
    cursor.version()
    algorithm, flags, key_id = cursor.algorithm(), cursor.number(1), cursor.text()
    return SignatureHead(algorithm, key_id, tuple(cursor.text() for _ in range(cursor.number(1))), bool(flags & 1))


def _encryption(cursor: _Cursor) -> EncryptionHead:
    cursor.version()
    cipher, flags, id = cursor.number(1), cursor.number(1), cursor.text()
    cursor.take(cursor.number(2))
    cursor.take(12)
    name = "AES-256-GCM" if cipher == 1 else f"cipher {cipher}"
    return EncryptionHead(name, id, bool(flags & 1), bool(flags & 2))


def _token(cursor: _Cursor) -> TokenHead:
    cursor.version()
    algorithm, _ = cursor.algorithm(), cursor.number(1)
    key_id, principal, topics = cursor.text(), cursor.text(), cursor.text()
    return TokenHead(algorithm, key_id, principal, topics, cursor.number(8), cursor.number(8))


signature, encryption, token = _reader(_signature), _reader(_encryption), _reader(_token)


def of(module: str, name: str) -> Decoder:
    """What the ``from_bytes`` of a middleware's class says; imported when first asked for, as rooms lie the other way round."""

    def decode(data: bytes) -> Decoded:
        from importlib import import_module

        reader = getattr(import_module(f"magicbyte.middleware.{module}"), name)
        try:
            return Decoded(reader.from_bytes(data), "binary")
        except ValueError as error:
            return Decoded(None, "bytes", str(error))

    return decode


claim = of("_claims", "Claim")
