"""Several logs that are read together: of copies of a partition one, of segments that overlap each offset once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from ._layout import directory_of
from ._overlap import settled
from .replicas import resolve

if TYPE_CHECKING:
    from .log import Log


def chosen(logs: Sequence[Log], rule: str | None) -> None:
    """Leaves each log the segments that are read, of partitions that several of them hold; their ``replicas`` say which.

    Raises:
        ValueError: the lineage can't tell which copy is right, and no other rule was named.
    """
    if not logs:
        return
    kept, copies = resolve([segment for log in logs for segment in log.segments], rule, logs[0].end_offset)
    paths = {segment.path for segment in kept}
    for log in logs:
        own = {directory_of(segment.path) for segment in log.segments}
        log.replicas = [*log.replicas, *(copy for copy in copies if copy.path in own)]
        log.segments = [segment for segment in log.segments if segment.path in paths]


def once(logs: Sequence[Log], rule: str | None) -> None:
    """Sets the ``bounds`` of logs whose segments may stand in one directory.

    Raises:
        ValueError: they overlap, and the lineage can't tell which is right, and no other rule was named.
    """
    files = [log for log in logs if any(segment.path for segment in log.segments)]
    if not files:
        return
    segments = [segment for log in files for segment in log.segments]
    found = settled(segments, rule, files[0].format, files[0].end_offset)
    for log in files:
        log.bounds = {segment.path: found[segment.path] for segment in log.segments if segment.path in found}


def said(logs: Iterable[Log]) -> Iterator[str]:
    """A line a copy: which is read, and where the others differ from it; a line a segment that overlaps another."""
    for log in logs:
        for copy in log.replicas:
            word = "read" if copy.chosen else "fork" if copy.forked else "copy"
            yield f"{word}: {copy.path}: {copy.why}"
        for path, (first, end) in log.bounds.items():
            span = f"from {first} on" if end is None else f"{first} to {end - 1}"
            none = end is not None and (first or 0) >= end
            yield f"overlap: {path}: {'no offset is' if none else f'offsets {span} are'} read from it"
