"""What stands where behind an address: as ``_layout`` finds it on this machine, with one request a directory."""

from __future__ import annotations

import errno
from collections.abc import Iterator

from . import _journal, _remote
from ._layout import (
    COMPANIONS,
    UNFINISHED,
    UNKNOWN,
    Found,
    Segment,
    file_kind,
    in_order,
    nothing,
    renamed,
    topic_partition,
)

Listed = list[tuple[str, bool, int]]


def find(address: str, topic: str | None, partition: int | None) -> Found:
    """The segments below an address."""
    address = address.rstrip("/")
    own, name = _place(address)
    is_directory, size = _remote.kind(address)
    left_out: list[tuple[str, str]] = []
    if not is_directory:
        kind, base, _ = file_kind(name)
        if kind in COMPANIONS:
            raise FileNotFoundError(errno.ENOENT, f"a {kind} file, not a log; open the .log beside it", address)
        segment = Segment(address, *_names(own), UNKNOWN if base is None else base, size)
        return Found([renamed(segment, topic, partition)], [], True)
    there = _remote.listed(address)
    segments = list(_partition(address, *_names(address), there, left_out))
    if segments:
        return Found(in_order(renamed(segment, topic, partition) for segment in segments), left_out, True)
    seen: list[tuple[str, int]] = []
    wanted = []
    for entry, is_directory, _ in there:
        if entry == _journal.JOURNAL:
            left_out.append(
                (f"{address}/{entry}", f"{UNFINISHED}: it was copied here in the middle, and is read as it is")
            )
        if not is_directory:
            continue
        names = topic_partition(entry)
        if names is None:
            left_out.append((f"{address}/{entry}", "not named topic-partition"))
            continue
        seen.append(names)
        if (topic is None or names[0] == topic) and (partition is None or names[1] == partition):
            wanted.append((f"{address}/{entry}", *names))
    listings = _remote.threads().map(_remote.listed, [directory for directory, _, _ in wanted])
    for (directory, of_topic, number), listing in zip(wanted, listings, strict=True):
        segments += _partition(directory, of_topic, number, listing, left_out)
    if not segments:
        raise FileNotFoundError(errno.ENOENT, nothing(topic, partition, seen, left_out), address)
    return Found(in_order(segments), left_out, False)


def beside(segment: Segment) -> list[Segment]:
    """All segments of the directory in which this one stands, itself among them."""
    directory, _ = _place(segment.path)
    try:
        found = _partition(directory, segment.topic, segment.partition, _remote.listed(directory), [])
        return in_order(found) or [segment]
    except OSError:  # a directory that may not be listed
        return [segment]


def _partition(
    directory: str, topic: str, partition: int, listing: Listed, left_out: list[tuple[str, str]]
) -> Iterator[Segment]:
    for name, is_directory, size in listing:
        path = f"{directory}/{name}"
        kind, base, reason = file_kind(name)
        if kind == "log" and base is not None:
            if is_directory:
                left_out.append((path, "not a regular file"))
            else:
                yield Segment(path, topic, partition, base, size)
        elif kind == "left_out":
            left_out.append((path, reason or kind))
        elif kind == "checkpoint":
            left_out.append((path, "a KRaft snapshot; open it by its own path"))


def _place(address: str) -> tuple[str, str]:
    directory, _, name = address.rpartition("/")
    return directory, name


def _names(address: str) -> tuple[str, int]:
    return topic_partition(_place(address)[1]) or ("", UNKNOWN)
