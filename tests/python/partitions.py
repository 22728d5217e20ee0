"""Partition directories made for a test, and what they hold."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import magicbyte as mb

Given = tuple[bytes | None, bytes | None] | tuple[bytes | None, bytes | None, Sequence[tuple[str, bytes | None]]]
T = 1_700_000_000_000


def batch(base: int, *records: Given, at: int = T, **fields: Any) -> bytes:
    made = [mb.ProducerRecord("t", r[1], r[0], headers=list(r[2]) if len(r) > 2 else [], timestamp=at) for r in records]
    return mb.encode(made, base_offset=base, **fields)


def partition(root: Path, *segments: bytes, name: str = "t-0") -> Path:
    """Each segment is named by its first batch; an empty active one follows."""
    directory = root / name
    directory.mkdir(parents=True)
    end = 0
    for data in segments:
        batches = list(mb.Log(data).batches())
        (directory / f"{batches[0].base_offset:020d}.log").write_bytes(data)
        end = batches[-1].last_offset + 1
    (directory / f"{end:020d}.log").write_bytes(b"")
    return directory


def kept(directory: Path) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(r.offset, r.key, r.value) for r in mb.Log(directory).records()]
