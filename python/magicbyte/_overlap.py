"""Segments of one directory that hold the same offsets: which of them gives each offset, by the rule that the caller names.

Kafka never writes such a directory; a merge of two copies does. By ``lineage``, an offset is given by the segment whose
batch there is of the leader epoch that the checkpoint says.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator

from . import _seek
from ._layout import Segment

Bounds = dict[str, tuple[int | None, int | None]]
"""By path: the offsets that the segment gives, from the first to before the end; ``None`` where it is open."""


def bounds(
    segments: list[Segment],
    rule: str,
    epochs: list[tuple[int, int]],
    flaw: str,
    format: str,
    end_of: Callable[[list[Segment]], int],
) -> Bounds:
    """What each segment of a partition gives; nothing of those that are in nobody's way.

    Raises:
        ValueError: by ``lineage``, and the checkpoint is not there, or fits neither.
    """
    found: dict[str, tuple[int | None, int | None]] = {}
    before: tuple[Segment, int] | None = None
    for segment in segments:
        if segment.base_offset < 0 or segment.size == 0:
            continue
        end = end_of([segment])
        if before is not None and segment.base_offset < before[1]:
            at = _border(before, (segment, end), rule, epochs, flaw, format)
            found[before[0].path] = (found.get(before[0].path, (None, None))[0], at)
            found[segment.path] = (at, None)
        if before is None or end >= before[1]:
            before = (segment, end)
    return found


def _border(
    one: tuple[Segment, int],
    other: tuple[Segment, int],
    rule: str,
    epochs: list[tuple[int, int]],
    flaw: str,
    format: str,
) -> int:
    """The offset up to which the earlier segment gives them, and from which on the later one does."""
    (earlier, ends), (later, later_ends) = one, other
    if rule == "first":
        return ends
    if rule == "longest":
        return later.base_offset if later_ends > ends else ends
    places = f"{earlier.path} and {later.path} both hold offset {later.base_offset}"
    if flaw:
        raise ValueError(
            f"{places}, and the lineage of leader epochs can't tell which is right: {flaw}. Name another rule: "
            "replicas='first' (the earlier segment) or 'longest' (the one that goes on further)"
        )
    border = ends
    for first, _, epoch in _batches(earlier, later.base_offset, format):
        if epoch != _epoch_of(first, epochs):
            border = max(first, later.base_offset)
            break
    for first, last, epoch in _batches(later, border, format):
        if last >= border and epoch != _epoch_of(max(first, border), epochs):
            raise ValueError(
                f"{places}, and neither has the epochs of the checkpoint: at offset {border} the later one has {epoch}, "
                f"the checkpoint {_epoch_of(max(first, border), epochs)}"
            )
        break
    return border


def _batches(segment: Segment, first: int, format: str) -> Iterator[tuple[int, int, int]]:
    """First offset, last offset and leader epoch of the sound batches from an offset on."""
    from magicbyte import _core

    start = _seek.start_of_offset(segment, first, format)
    reader = _core.Reader([_core.Part(segment.path, start=start)], format=format, control=True, mode="DROPMALFORMED")
    for batch in reader.batches():
        if batch.last_offset >= first:
            yield batch.base_offset, batch.last_offset, batch.partition_leader_epoch


def _epoch_of(offset: int, epochs: list[tuple[int, int]]) -> int:
    """By the checkpoint; -1 before its first."""
    at = bisect_right([start for _, start in epochs], offset) - 1
    return epochs[at][0] if at >= 0 else -1
