"""The claim's bytes, and which URLs say where they lead. Needs no storage library."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass

__all__ = ["Claim", "plain_url"]

VERSION = 1
HEAD = struct.Struct(">BQ32s")
MOST_URL = 2048


@dataclass(frozen=True, slots=True)
class Claim:
    """Where a payload lies, how many bytes it has, and their SHA-256."""

    url: str
    size: int
    digest: bytes

    def to_bytes(self) -> bytes:
        """u8 version 1 · u64 size, big-endian · 32 bytes SHA-256 · URL in UTF-8 to the end."""
        return HEAD.pack(VERSION, self.size, self.digest) + self.url.encode()

    @staticmethod
    def from_bytes(data: bytes | None) -> Claim:
        """Raises ValueError, with what is wrong."""
        if data is None or not HEAD.size < len(data) <= HEAD.size + MOST_URL:
            raise ValueError("null" if data is None else f"{len(data)} bytes")
        version, size, digest = HEAD.unpack_from(data)
        if version != VERSION:
            raise ValueError(f"version {version} is unknown")
        try:
            return Claim(data[HEAD.size :].decode(), size, digest)
        except UnicodeDecodeError as error:
            raise ValueError(f"the URL is not UTF-8 at byte {error.start}") from None


def plain_url(url: str) -> bool:
    """Whether a URL says where it leads: a scheme, no chain of file systems, nothing that goes up or is escaped."""
    return (
        re.fullmatch(r"[a-z][a-z0-9+.-]*://[^\x00-\x20\x7f?#%\\]+", url) is not None
        and "::" not in url
        and not any(part in ("..", ".") for part in url.split("://", 1)[1].split("/"))
        and "//" not in url.split("://", 1)[1].lstrip("/")
    )
