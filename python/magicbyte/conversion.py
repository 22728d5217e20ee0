"""Any format to any other, and which format some bytes can be of."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from magicbyte import _core
from magicbyte._aside import written_aside
from magicbyte._core import detect, request_format

__all__ = ["Converted", "convert", "convert_file", "detect", "request_format"]

Finding: TypeAlias = "tuple[str | None, int, str, int, str]"
Target: TypeAlias = "str | tuple[str, int] | tuple[str, int, str]"


@dataclass(frozen=True)
class Converted:
    """What a conversion gave.

    Attributes:
        data: the bytes in the new format; empty where they went to a file.
        dropped: what the new format could not carry, counted by name; what is not in it was 0: ``headers``,
            ``timestamps``, ``producer_state`` (batches), ``transactional`` (records), ``control_batches``,
            ``empty_batches``, ``delete_horizons``, ``tombstone_values``, ``null_values``.
        findings: what was passed over: (path, position, kind, size, message).
    """

    data: bytes
    dropped: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)


def target_format(to: Target) -> str:
    """The format that ``to`` names: by itself, or by a request and its version."""
    return to if isinstance(to, str) else request_format(to[0], to[1], protocol=to[2] if len(to) > 2 else "kafka")


def convert(
    data: bytes | bytearray | memoryview,
    to: Target,
    *,
    format: str = "kafka",
    codec: str | None = None,
    first_offset: int | None = None,
    leader_epoch: int | None = None,
    null_is_tombstone: bool = False,
    **options: Any,
) -> Converted:
    """Converts the entries in ``data``, entry by entry; what is in the format already is copied.

    Offsets, timestamps, keys, values and order stay. What the new format cannot carry is dropped and counted. v2 and v3
    lose nothing to each other. Towards a message set this agrees with Kafka's own down-conversion.

    Args:
        to: a format; or a request and its version, as (``"fetch"``, 3) or (``"produce"``, 2), with ``"kip87"`` behind
            them for the versions that KIP-87 planned.
        format: how to read ``data``: ``kafka`` (v0 to v3, mixed), ``kip87``, ``kip82a``, ``kip82b``, ``v0`` … ``v3``.
        codec: of the new batches; None keeps each batch's own.
        first_offset: numbers the records anew from here, without holes, as a broker does on arrival; adjacent
            uncompressed entries then become one batch.
        leader_epoch: to be written into every batch; None keeps each batch's own.
        null_is_tombstone: lets KIP-87's live records with a null value turn into deletes, and counts them.
        options: ``level``; ``from_offset`` (towards message sets: leaves out lower offsets, as an answer to a fetch
            does); ``keep_older`` (leaves v0 and v1 entries as they are where ``to`` is a newer one of v0 to v2, as a
            broker does for a consumer that reads up to a format); ``batch_size``; ``check_crc``, ``mode``, ``limits``.

    Raises:
        ValueError: a record that the format cannot carry and that is not to be dropped: a null header value in
            ``kip82b``, a live null; with the entry's position and the record's index.
        UnsupportedCodecError: zstd towards a message set, when no other codec is named.
        CorruptRecordError: in mode ``FAILFAST``.
    """
    iterator = _core.ConvertIterator(
        [_core.Part(data)],
        target_format(to),
        format=format,
        codec=codec,
        first_offset=first_offset,
        leader_epoch=leader_epoch,
        null_is_tombstone=null_is_tombstone,
        **options,
    )
    data = b"".join(iterator)
    return Converted(data, Counter(iterator.dropped), iterator.findings)


def convert_file(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    to: Target,
    *,
    progress: Callable[[int], object] | None = None,
    **options: Any,
) -> Converted:
    """Converts a segment file into another, with memory for one batch only; ``data`` of the result is empty.

    ``target`` is written aside and renamed at the end: an interrupted run leaves what was there before. ``progress`` is
    told the bytes of ``source`` that are behind. Indexes are not written: see ``Writer``. Other arguments and errors as
    in ``convert``.
    """
    iterator = _core.ConvertIterator([_core.Part(os.fspath(source))], target_format(to), **options)
    with written_aside(target) as file:
        for piece in iterator:
            file.write(piece)
            if progress is not None:
                progress(iterator.position)
    return Converted(b"", Counter(iterator.dropped), iterator.findings)
