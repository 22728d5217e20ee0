"""Segments of one directory that hold the same offsets: which of them gives each offset.

Kafka never reads such a directory for long, but copies of it are such: a copy into a directory that had an older one, where the
cleaner has merged segments since; two replicas brought together. By ``lineage``, an offset is given by the segment whose
batch there is of the leader epoch that the checkpoint says; where both are, by the earlier one: the cleaner's output has the
name of the first segment that went into it.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence

from . import _seek
from ._layout import Segment, directory_of, in_order
from ._remote import is_address
from .replicas import checkpoint

Bounds = dict[str, tuple[int | None, int | None]]
"""By path: the offsets that the segment gives, from the first to before the end; ``None`` where it is open."""

Ends = Callable[[list[Segment]], int]

_ends: dict[tuple[str, int, str], int] = {}
"""Of objects behind addresses, by address, size and format: the offset behind the last batch."""

OTHER_RULES = "Name another rule: replicas='first' (the earlier segment) or 'longest' (the one that goes on further)"


def settled(segments: Sequence[Segment], rule: str | None, format: str, end_of: Ends) -> Bounds:
    """``bounds`` of each partition's directory, with its checkpoint."""
    directories: dict[tuple[str, int, str], list[Segment]] = {}
    for segment in segments:
        place = (segment.topic, segment.partition, directory_of(segment.path))
        directories.setdefault(place, []).append(segment)
    found: Bounds = {}

    def end(segments: list[Segment]) -> int:
        """Objects stay as they are: of each it is found out once, for a stream asks again and again."""
        [segment] = segments
        if not is_address(segment.path):
            return end_of(segments)
        known = (segment.path, segment.size, format)
        if known not in _ends:
            _ends[known] = end_of(segments)
        return _ends[known]

    for (_, _, directory), own in directories.items():
        # A file that was named twice is no overlap.
        different = {(it.path if is_address(it.path) else os.path.realpath(it.path)): it for it in own}
        if len(different) > 1:
            found |= bounds(in_order(different.values()), rule, *checkpoint(directory), format, end)
    return found


def bounds(
    segments: list[Segment], rule: str | None, epochs: list[tuple[int, int]], flaw: str, format: str, end_of: Ends
) -> Bounds:
    """What each segment of a partition gives; nothing of those that are in nobody's way.

    ``rule``: ``lineage`` (``None`` is the same), ``longest``, ``first``. ``end_of`` finds the offset behind the last batch.

    Raises:
        ValueError: by ``lineage``, and the checkpoint is not there, or does not fit.
    """
    found: Bounds = {}
    for group in _groups(segments, format, end_of):
        if rule == "first":
            found |= _first(group)
        elif rule == "longest":
            found |= _longest(group)
        else:
            found |= _by_lineage(group, epochs, flaw, format)
    return found


Group = list[tuple[Segment, int]]
"""Segments that hold the same offsets, each with the offset where it ends; in the order of their base offsets."""


def _groups(segments: list[Segment], format: str, end_of: Ends) -> Iterator[Group]:
    live = [segment for segment in segments if segment.base_offset >= 0 and segment.size > 0]
    group: Group = []
    for at, segment in enumerate(live):
        furthest = max(group, key=lambda one: one[1], default=None)
        meets = furthest is not None and segment.base_offset < furthest[1]
        end = end_of([segment]) if meets or at + 1 < len(live) else segment.base_offset
        if furthest is not None and meets and _shared(furthest[0], segment, end, format) is not None:
            group.append((segment, end))
            continue
        # Where the one before names offsets that nobody else has, they are false, which is for `verify` to tell.
        if len(group) > 1:
            yield group
        group = [(segment, end)]
    if len(group) > 1:
        yield group


def _shared(earlier: Segment, later: Segment, end: int, format: str) -> int | None:
    """The first offset of the later segment, which ends at ``end``, that lies in a sound batch of the earlier one, too."""
    for first, _, _ in _batches(earlier, later.base_offset, format):
        if first < end:
            return max(first, later.base_offset)
    return None


def _first(group: Group) -> Bounds:
    found: Bounds = {}
    reached = -1
    for segment, end in group:
        first = max(segment.base_offset, reached)
        found[segment.path] = (first, None if first < end else first)
        reached = max(reached, end)
    return found


def _longest(group: Group) -> Bounds:
    found: Bounds = {}
    last, reached = group[0]
    found[last.path] = (last.base_offset, None)
    for segment, end in group[1:]:
        if end > reached:
            found[last.path] = (last.base_offset, segment.base_offset)
            found[segment.path] = (segment.base_offset, None)
            last, reached = segment, end
        else:
            found[segment.path] = (reached, reached)
    return found


def _by_lineage(group: Group, epochs: list[tuple[int, int]], flaw: str, format: str) -> Bounds:
    """Each segment gives what has the epochs of the checkpoint, as far as an earlier one has not given it."""
    both = _shared(group[0][0], group[1][0], group[1][1], format)
    places = f"{group[0][0].path} and {group[1][0].path} both hold offset {both}"
    if flaw:
        raise ValueError(f"{places}, and the lineage of leader epochs can't tell which is right: {flaw}. {OTHER_RULES}")
    found: Bounds = {}
    reached = -1
    for segment, end in group:
        good = _right_until(segment, max(segment.base_offset, group[1][0].base_offset), end, epochs, format, places)
        first = max(segment.base_offset, reached)
        found[segment.path] = (first, None if first < good == end else max(good, first))
        reached = max(reached, good)
    claimed = max(end for _, end in group)
    for epoch, start in epochs:
        if reached <= start < claimed:
            raise ValueError(
                f"{places}, and neither has the epochs of the checkpoint: at offset {start} that is {epoch}. {OTHER_RULES}"
            )
    return found


def _right_until(
    segment: Segment, first: int, end: int, epochs: list[tuple[int, int]], format: str, places: str
) -> int:
    """The offset from which on a segment is a fork: batches of an epoch that was over by then. Its end, if it is none."""
    for base, _, epoch in _batches(segment, first, format):
        at = max(base, first)
        expected = _epoch_of(at, epochs)
        if expected in (-1, epoch):  # -1: retention took that part of the checkpoint
            continue
        if 0 <= epoch < expected:
            return at
        raise ValueError(
            f"{places}, and the checkpoint does not know what came later: at offset {at} it has leader epoch {expected}, "
            f"{segment.path} has {epoch}. {OTHER_RULES}"
        )
    return end


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
