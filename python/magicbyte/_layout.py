"""What stands where: the segments of a file, of a partition directory, of a directory of partitions.

```text
logs/                    a directory of partitions: a broker's data directory, or a copy of a part of it
  meta.properties …      not partitions, not looked at
  orders-0/              a partition directory, named topic-partition
    00…042.log           a segment, named by its base offset
    00…042.index …       beside it, never read as a log
    00…042.log.deleted   left out, with the reason
```
Names say what is read, and where in the order it comes; a name never becomes another path. What a commit of the Spark sink
has moved there and not ended yet is left out (``_journal``): a log is seen as it was before, or as it is afterwards.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from . import _journal
from ._remote import is_address

UNKNOWN = -1
"""A partition, or a base offset, that no name tells."""


def absolute(path: str) -> str:
    """A path as a process in another directory needs it; an address (``s3://…``) is one as it is."""
    return path if is_address(path) else os.path.abspath(path)


@dataclass(frozen=True, slots=True)
class Segment:
    """One file of log entries.

    Attributes:
        path: the file; ``""`` for bytes in memory.
        topic: by the directory's name (``orders-0``) or as the caller said; ``""`` if nobody did.
        partition: the same; -1 if nobody said.
        base_offset: by the file's name, -1 where that is no segment's name.
        size: bytes, when the log was opened.
    """

    path: str
    topic: str
    partition: int
    base_offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Found:
    """The segments below a path, in the order of (topic, partition, base offset), and what was left out, and why."""

    segments: list[Segment]
    left_out: list[tuple[str, str]]
    single: bool
    """One partition (a file or a partition directory), not a directory of partitions."""


def find(path: str, topic: str | None = None, partition: int | None = None) -> Found:
    """The segments below ``path``.

    ``topic`` and ``partition`` name a single partition, over its directory's name; of a directory of partitions they
    choose. Raises ``OSError`` as the operating system gives it, and ``FileNotFoundError`` where no segment stands.
    """
    if is_address(path):
        from . import _remote_layout

        return _remote_layout.find(path, topic, partition)
    status = Path(path).stat()
    if stat.S_ISREG(status.st_mode):
        return _file(path, status.st_size, topic, partition)
    if not stat.S_ISDIR(status.st_mode):
        # A pipe would block for ever, a device never ends.
        raise OSError(errno.EINVAL, "neither a regular file nor a directory", path)
    # A directory of partitions has the journal in it, a partition's beside it.
    roots = (Path(path), Path(os.path.abspath(path)).parent)
    for _ in range(_PATIENCE):
        before = [_journal.stamp(root) for root in roots]
        found = _directory(path, topic, partition)
        # A commit that began or ended meanwhile may have been seen in part.
        if before == [_journal.stamp(root) for root in roots]:
            break
    if isinstance(found, OSError):
        raise found
    return found


def _directory(path: str, topic: str | None, partition: int | None) -> Found | OSError:
    """What a directory holds at one moment."""
    left_out: list[tuple[str, str]] = []
    named = _of_directory(path)
    parent = Path(os.path.abspath(path)).parent
    segments = list(_partition(path, *named, left_out, _pending(parent, left_out)))
    if segments:
        own = [renamed(s, topic, partition) for s in segments]
        return Found(sorted(own, key=_order), left_out, True)
    seen = []
    moved = _pending(Path(path), left_out)
    for entry in _entries(path):
        if not entry.is_dir():
            continue
        names = topic_partition(entry.name)
        if names is None:
            left_out.append((entry.path, "not named topic-partition"))
            continue
        seen.append(names)
        if (topic is None or names[0] == topic) and (partition is None or names[1] == partition):
            segments += _partition(entry.path, *names, left_out, moved)
    if not segments:
        return FileNotFoundError(errno.ENOENT, nothing(topic, partition, seen, left_out), path)
    return Found(sorted(segments, key=_order), left_out, False)


def joined(found: Sequence[Found]) -> Found:
    """What several paths hold together, in the order they were named; a file that is named twice is there once."""
    if not found:
        raise ValueError("no path: an empty list")
    segments: dict[str, Segment] = {}
    for segment in (segment for one in found for segment in one.segments):
        path = segment.path
        segments.setdefault(path if is_address(path) else os.path.realpath(path), segment)
    names = {(segment.topic, segment.partition) for segment in segments.values()}
    left_out = list(dict.fromkeys(place for one in found for place in one.left_out))
    single = all(one.single for one in found) and len(names) == 1
    return Found(list(segments.values()), left_out, single)


def in_order(segments: Iterable[Segment]) -> list[Segment]:
    """By topic, partition and base offset."""
    return sorted(segments, key=_order)


_PATIENCE = 20
"""Looks at a directory in which commits begin or end all the time."""
UNFINISHED = "moved here by a commit that has not ended; if its job is dead, magicbyte.spark.sweep settles it"


def beside(segment: Segment) -> list[Segment]:
    """All segments of the directory in which this one stands, itself among them; alone, where its name is no segment's."""
    directory = directory_of(segment.path)
    if segment.base_offset < 0 or Path(segment.path).suffix != ".log":
        return [segment]
    if is_address(directory):
        from . import _remote_layout

        return _remote_layout.beside(segment)
    try:
        moved = _pending(Path(directory).parent, [])
        if moved is not None and Path(segment.path).name in moved.moved.get(Path(directory).name, ()):
            return [segment]
        found = sorted(_partition(directory, segment.topic, segment.partition, [], moved), key=_order)
    except OSError:  # a directory that may not be listed
        return [segment]
    # Under the name that the caller gave: it tells which part is which.
    return [segment if one.base_offset == segment.base_offset else one for one in found] or [segment]


def directory_of(path: str) -> str:
    """Where a segment lies, as an absolute path or as an address."""
    return path.rpartition("/")[0] if is_address(path) else os.path.dirname(os.path.abspath(path))


def nothing(
    topic: str | None, partition: int | None, seen: list[tuple[str, int]], left_out: list[tuple[str, str]]
) -> str:
    """Why there is no segment, in words."""
    if seen and (topic is not None or partition is not None):
        there = ", ".join(f"{one}-{place}" for one, place in sorted(seen)[:10])
        number = "any" if partition is None else partition
        return f"no segment of topic {topic or 'any'}, partition {number}; there are {there}"
    why = "".join(f"; left out: {name} ({reason})" for name, reason in left_out[:3])
    return f"no log segment: looked for <20 digits>.log, here and in directories named <topic>-<partition>{why}"


def _file(path: str, size: int, topic: str | None, partition: int | None) -> Found:
    """A lone file, whatever its name, as long as the name does not say that it is something else."""
    parts = Path(os.path.abspath(path))
    kind, base, _ = file_kind(parts.name)
    if kind in COMPANIONS:
        raise FileNotFoundError(errno.ENOENT, f"not a log but its {kind} file; open the .log beside it", path)
    where = topic_partition(parts.parent.name) or ("", UNKNOWN)
    segment = Segment(path, *where, UNKNOWN if base is None else base, size)
    return Found([renamed(segment, topic, partition)], [], True)


def _pending(root: Path, left_out: list[tuple[str, str]]) -> _journal.Pending | None:
    try:
        return _journal.pending(root)
    except (OSError, ValueError) as error:
        left_out.append((str(root / _journal.JOURNAL), f"{UNFINISHED}: {error}"))
        return None


def _partition(
    path: str, topic: str, partition: int, left_out: list[tuple[str, str]], moved: _journal.Pending | None
) -> Iterator[Segment]:
    """The segments of one directory, as they were before a commit that has not ended."""
    name = Path(os.path.abspath(path)).name
    if moved is not None and moved.whole(name):
        before = moved.before.get(name)
        left_out.append((path, UNFINISHED + ("" if before is None else f"; read as it was before, in {before}")))
        if before is not None:
            yield from _partition(str(before), topic, partition, left_out, None)
        return
    new = set() if moved is None else moved.moved.get(name, set())
    for entry in _entries(path):
        kind, base, reason = file_kind(entry.name)
        if entry.name in new:
            if kind == "log" and base is not None:
                left_out.append((entry.path, UNFINISHED))
        elif kind == "log" and base is not None:
            try:
                status = entry.stat()
            except FileNotFoundError:  # retention deletes while we look; or a link that leads nowhere
                left_out.append((entry.path, "not there any more"))
                continue
            if stat.S_ISREG(status.st_mode):
                yield Segment(entry.path, topic, partition, base, status.st_size)
            else:
                left_out.append((entry.path, "not a regular file"))
        elif kind == "left_out":
            left_out.append((entry.path, reason or kind))
        elif kind == "checkpoint":
            left_out.append((entry.path, "a KRaft snapshot; open it by its own path"))


def _entries(path: str) -> list[os.DirEntry[str]]:
    with os.scandir(path) as entries:
        return sorted(entries, key=lambda entry: entry.name)


def renamed(segment: Segment, topic: str | None, partition: int | None) -> Segment:
    """The segment under the names that the caller gave, where he gave any."""
    return replace(
        segment,
        topic=segment.topic if topic is None else topic,
        partition=segment.partition if partition is None else partition,
    )


def _order(segment: Segment) -> tuple[str, int, int]:
    return (segment.topic, segment.partition, segment.base_offset)


def _of_directory(path: str) -> tuple[str, int]:
    name = Path(os.path.abspath(path)).name
    return topic_partition(name) or ("", UNKNOWN)


COMPANIONS = frozenset({"index", "timeindex", "txnindex", "snapshot", "leader-epoch-checkpoint", "partition.metadata"})
"""Kinds of files that stand beside a segment and are no logs."""


def file_kind(name: str) -> tuple[str, int | None, str | None]:
    """What a file is by its name: kind, base offset, and the reason if it is left out (see ``_core.segment_name``)."""
    from magicbyte import _core

    try:
        return _core.segment_name(name)
    except UnicodeEncodeError:  # bytes that are no text: no name of Kafka's
        return ("other", None, None)


def topic_partition(name: str) -> tuple[str, int] | None:
    from magicbyte import _core

    try:
        return _core.topic_partition(name)
    except UnicodeEncodeError:
        return None
