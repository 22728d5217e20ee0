"""What cleaning and rewriting share: which partition goes where, retention, and the files around a written segment."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from magicbyte._aside import aside_name, flush_directory, replace_directory
from magicbyte._layout import Segment, absolute, file_kind
from magicbyte._remote import is_address
from magicbyte.errors import CorruptRecordError

if TYPE_CHECKING:
    from magicbyte.log import Log


class Written(NamedTuple):
    """A segment of the target: its base offset, what retention goes by (milliseconds), bytes."""

    base: int
    largest: int
    size: int


def targets_of(log: Log, target: str | os.PathLike[str]) -> list[tuple[list[Segment], Path]]:
    """Each partition of a log, its segments in order, and the directory that it goes to.

    Raises:
        ValueError: one of them is the source, or holds it, or lies in it; or the log is of bytes in hand; or segments overlap.
    """
    groups = [list(group) for _, group in groupby(log.segments, lambda it: (it.topic, it.partition))]
    if any(not segment.path for segment in log.segments):
        raise ValueError("bytes in hand are no segments of a directory")
    if any(is_address(segment.path) for segment in log.segments):
        raise ValueError(f"{log.source}: this needs files of a disk, with all that stands beside them; copy them first")
    if log.bounds:
        overlap = next(iter(log.bounds))
        raise ValueError(
            f"{overlap} and others hold the same offsets; segment by segment nothing can be made of them: recover does"
        )
    pairs = []
    for segments in groups:
        own = Path(os.path.realpath(segments[0].path)).parent
        directory = Path(target) if log.single else Path(target) / Path(segments[0].path).absolute().parent.name
        real = Path(os.path.realpath(directory))
        if real == own or own in real.parents or real in own.parents:
            raise ValueError(f"{directory} is the source, or lies in it, or holds it: the source is never written to")
        pairs.append((segments, directory))
    return pairs


def by_partition(
    log: Log,
    target: str | os.PathLike[str],
    work: Callable[[list[Segment], Path, Callable[[int], None]], None],
    damaged: list[tuple[str, int, CorruptRecordError]],
    *,
    strict: bool,
    progress: Callable[[int], object] | None,
) -> float:
    """Does ``work(segments, directory, told)`` for each partition, and gives the seconds that it took.

    ``progress`` is told what ``told`` is told, added up. A damaged partition goes to ``damaged``; if ``strict``, it ends
    the work with its error.
    """
    began = time.monotonic()
    behind = 0

    def told(count: int) -> None:
        nonlocal behind
        behind += count
        if progress is not None:
            progress(behind)

    for segments, directory in targets_of(log, target):
        try:
            work(segments, directory, told)
        except CorruptRecordError as error:
            if strict:
                raise
            damaged.append((segments[0].topic, segments[0].partition, error))
    return time.monotonic() - began


def tasks_of(log: Log, target: str | os.PathLike[str]) -> list[tuple[int, tuple[list[Segment], str]]]:
    """The same as tasks for workers, which may stand in other directories: bytes, segments, directory."""
    tasks = []
    for segments, directory in targets_of(log, target):
        own = [replace(segment, path=absolute(segment.path)) for segment in segments]
        tasks.append((sum(segment.size for segment in segments), (own, os.path.abspath(directory))))
    return tasks


@contextlib.contextmanager
def put_aside(directory: str | os.PathLike[str]) -> Iterator[Path]:
    """A new directory beside ``directory`` that takes its place when the block ends well, and is gone when it does not."""
    directory = Path(directory)
    if directory.exists() and not directory.is_dir():
        raise NotADirectoryError(f"{directory} is a file, not a partition's directory")
    directory.parent.mkdir(parents=True, exist_ok=True)
    made = aside_name(directory)
    made.mkdir()
    try:
        yield made
        replace_directory(made, directory)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise


def retained(
    sizes: Sequence[tuple[int, int]], now: int, retention_ms: int | None, retention_bytes: int | None
) -> list[tuple[int, int]]:
    """What a broker's retention leaves of segments given as (largest timestamp, bytes); the last one always stays."""
    keep = list(sizes)
    while retention_ms is not None and len(keep) > 1 and now - keep[0][0] > retention_ms:
        del keep[0]
    total = sum(size for _, size in keep)
    while retention_bytes is not None and len(keep) > 1 and total - keep[0][1] >= retention_bytes:
        total -= keep[0][1]
        del keep[0]
    return keep


@contextlib.contextmanager
def in_order(path: str, position: int) -> Iterator[None]:
    """Tells of offsets that fall, or are there twice, in words of the source: its new index is what notices them."""
    try:
        yield
    except CorruptRecordError as error:
        if error.kind != "index":
            raise
        text = f"{path}: behind byte {position}: offsets fall, or are there twice; magicbyte verify tells where"
        raise CorruptRecordError(text, path, position, "disorder") from None


def size_of(path: Path) -> int:
    """Bytes of a file, 0 where there is none."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def bytes_of(path: Path) -> bytes:
    """Those of a small file, none where it is not there."""
    return path.read_bytes() if path.is_file() else b""


def put(path: Path, data: bytes) -> None:
    """Writes a file that stays."""
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def copied(source: Path, target: Path) -> None:
    """Copies a file, with its times."""
    shutil.copy2(source, target)
    handle = os.open(target, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def copy_beside(segment: Segment, made: Path, bases: set[int]) -> None:
    """Producer snapshots of the segments that stay and of the log's end, leader epochs, the topic's id."""
    last = max(bases, default=0)
    for path in sorted(Path(segment.path).absolute().parent.iterdir()):
        kind, offset, _ = file_kind(path.name)
        snapshot = kind == "snapshot" and offset is not None and (offset in bases or offset > last)
        if (snapshot or kind in ("leader-epoch-checkpoint", "partition.metadata")) and path.is_file():
            copied(path, made / path.name)
    flush_directory(made)
