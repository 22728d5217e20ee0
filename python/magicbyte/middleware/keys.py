"""Keys for signatures, by id: HMAC-SHA256 (RFC 2104) and Ed25519 (RFC 8032), through ``cryptography`` (extra ``crypto``).

Keys are held as the bytes that they are, so that they can be pickled to Spark's workers: whoever can read the closure of a
job can read its keys. For verifying, give workers ``keyring.public()``: Ed25519 keys without their private half.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from magicbyte._extras import extra

with extra("crypto"):
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes, hmac, serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

__all__ = ["Ed25519Key", "HmacKey", "Key", "KeyRing"]

RAW = serialization.Encoding.Raw
SHA256 = hashes.SHA256()


class Key(Protocol):
    """What signs and verifies. ``algorithm`` and ``size`` (bytes of a signature) are those of the headers that carry it."""

    algorithm: int
    size: int

    def sign(self, message: bytes) -> bytes:
        """The signature of a message."""

    def verify(self, message: bytes, signature: bytes) -> bool:
        """Whether a signature is this message's."""


class _Key:
    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if not name.startswith("_")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._ready()

    def _ready(self) -> None:
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        return self.__getstate__() == other.__getstate__() if isinstance(other, type(self)) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self.__getstate__().items()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(…)"  # secrets stay out of logs


class HmacKey(_Key):
    """A shared secret: whoever can verify can also sign.

    Args:
        secret: at least 16 bytes, 32 are usual.

    Raises:
        ValueError: it is shorter.
    """

    algorithm = 1
    size = 32

    def __init__(self, secret: bytes) -> None:
        if len(secret) < 16:
            raise ValueError("a secret of less than 16 bytes can be guessed")
        self.secret = bytes(secret)
        self._ready()

    @classmethod
    def generate(cls) -> HmacKey:
        """A new random secret of 32 bytes."""
        return cls(secrets.token_bytes(32))

    def _ready(self) -> None:
        self._begun = hmac.HMAC(self.secret, SHA256)

    def sign(self, message: bytes) -> bytes:
        """The 32 bytes of HMAC-SHA256."""
        mac = self._begun.copy()  # the key's own block is hashed once
        mac.update(message)
        return mac.finalize()

    def verify(self, message: bytes, signature: bytes) -> bool:
        """Compares in constant time."""
        return secrets.compare_digest(self.sign(message), signature)


class Ed25519Key(_Key):
    """A pair of keys, or only its public half, which verifies and cannot sign.

    Args:
        public, private: 32 raw bytes each; the public half is told from the private one.

    Raises:
        ValueError: neither is given, they have another length, or are no pair.
    """

    algorithm = 2
    size = 64

    def __init__(self, *, public: bytes | None = None, private: bytes | None = None) -> None:
        if private is not None:
            own = Ed25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()
            if public not in (None, own):
                raise ValueError("these two are no pair of keys")
            public = own
        if public is None:
            raise ValueError("an Ed25519 key is given by public=… or private=…")
        self.public_bytes, self.private_bytes = bytes(public), private and bytes(private)
        self._ready()

    @classmethod
    def generate(cls) -> Ed25519Key:
        """A new pair."""
        return cls(private=Ed25519PrivateKey.generate().private_bytes_raw())

    @classmethod
    def from_pem(cls, data: bytes, password: bytes | None = None) -> Ed25519Key:
        """A key as ``openssl genpkey -algorithm ed25519`` writes it, or its public half.

        Raises:
            ValueError: no PEM, a wrong password, or another kind of key.
        """
        if b"PRIVATE KEY" in data:
            private = serialization.load_pem_private_key(data, password)
            if isinstance(private, Ed25519PrivateKey):
                return cls(private=private.private_bytes_raw())
        else:
            public = serialization.load_pem_public_key(data)
            if isinstance(public, Ed25519PublicKey):
                return cls(public=public.public_bytes_raw())
        raise ValueError("no Ed25519 key")

    def public(self) -> Ed25519Key:
        """The public half alone."""
        return Ed25519Key(public=self.public_bytes)

    def _ready(self) -> None:
        self._public = Ed25519PublicKey.from_public_bytes(self.public_bytes)
        self._private = None if self.private_bytes is None else Ed25519PrivateKey.from_private_bytes(self.private_bytes)

    def sign(self, message: bytes) -> bytes:
        """The 64 bytes of Ed25519.

        Raises:
            ValueError: only the public half is here.
        """
        if self._private is None:
            raise ValueError("a public key cannot sign")
        return self._private.sign(message)

    def verify(self, message: bytes, signature: bytes) -> bool:
        """As RFC 8032 has it, by OpenSSL."""
        try:
            self._public.verify(signature, message)
        except InvalidSignature:
            return False
        return True


class KeyRing(Mapping[str, Key]):
    """Keys by id. To rotate: add the new key wherever is verified, then sign with it, and take the old one out when the last
    record that it signed is gone.

    Args:
        keys: by id; an id is 1 to 255 bytes of UTF-8.
    """

    def __init__(self, keys: Mapping[str, Key]) -> None:
        for id in keys:
            if not 1 <= len(id.encode()) <= 255:
                raise ValueError(f"a key's id is 1 to 255 bytes, not {id!r}")
        self._keys = dict(keys)
        self._by_bytes = {id.encode(): key for id, key in keys.items()}

    def find(self, id: bytes, algorithm: int) -> Key | None:
        """The key of an id as headers have it, if it is one of that algorithm: a header must not choose how a key is used."""
        key = self._by_bytes.get(id)
        return key if key is not None and key.algorithm == algorithm else None

    def public(self) -> KeyRing:
        """The same without private halves. Shared secrets are left out: they have no public half."""
        return KeyRing({id: key.public() for id, key in self._keys.items() if isinstance(key, Ed25519Key)})

    def __getitem__(self, id: str) -> Key:
        return self._keys[id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    def __repr__(self) -> str:
        return f"KeyRing({', '.join(self._keys)})"


def keyring(given: KeyRing | Mapping[str, Key]) -> KeyRing:
    """A key ring as it is, or of a plain mapping."""
    return given if isinstance(given, KeyRing) else KeyRing(given)


def verify_all(key: Key, messages: Sequence[bytes], signatures: Sequence[bytes]) -> list[bool]:
    """One call of the library for each message, and nothing else."""
    return list(map(key.verify, messages, signatures))
