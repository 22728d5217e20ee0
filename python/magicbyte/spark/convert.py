"""Any format into any other as a Spark job: a task a segment, then one a partition for what segments have in common."""

from __future__ import annotations

import os
import shutil
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import SparkSession

from magicbyte._aside import aside_name
from magicbyte._layout import Segment, absolute
from magicbyte._segments import put, put_aside, targets_of
from magicbyte.conversion import Converted, Target, target_format
from magicbyte.errors import CorruptRecordError, UnsupportedCodecError
from magicbyte.log import Log
from magicbyte.spark.jobs import bounds_of, collect
from magicbyte.writer import INDEX_INTERVAL, SEGMENT_BYTES, Writer, topic_id_of

if TYPE_CHECKING:
    from magicbyte._core import Limits
    from magicbyte.log import Source

__all__ = ["ConvertedPartition", "convert"]

KEPT = (".log", ".index", ".timeindex")
"""Of what a task writes; the other files depend on the segments before."""
Beside = tuple[list[tuple[bytes, bytes]], bytes]
"""A partition's ``.txnindex`` and ``.snapshot`` of each segment (empty: none), and its leader epochs."""
Failed = CorruptRecordError | UnsupportedCodecError | ValueError


@dataclass(frozen=True, slots=True)
class ConvertedPartition:
    """What became of one partition: ``converted`` has what was lost and found, and no data; ``bytes`` and ``written`` are those
    of all ``.log`` files before and after."""

    topic: str
    partition: int
    directory: str
    bytes: int
    written: int
    converted: Converted


class _Segment(NamedTuple):
    """What a task made of a segment: a directory with its files, and the offset behind its last record."""

    directory: str
    next_offset: int
    written: int
    dropped: dict[str, int]
    findings: list[Any]


def convert(
    spark: SparkSession,
    source: Log | Source,
    target: str | os.PathLike[str],
    to: Target,
    *,
    format: str = "kafka",
    limits: Limits | None = None,
    segment_bytes: int = SEGMENT_BYTES,
    index_interval: int = INDEX_INTERVAL,
    progress: Callable[[int], object] | None = None,
    **options: Any,
) -> list[ConvertedPartition]:
    """Converts a partition directory into the directory ``target``, or a directory of partitions into directories below it.

    The records are those of ``magicbyte.convert_partition``; each segment keeps its own bounds, and is cut only where it
    grows over ``segment_bytes``. Source and target must be there under the same paths on every worker. A partition's
    target takes its place when all of it is written: a task that fails, or runs twice, leaves nothing there.
    ``options`` as in ``convert``, but for ``first_offset``. ``progress`` is told the bytes of the segments that are done.

    Raises:
        As ``convert``; and ValueError for ``first_offset``: who numbers anew counts all records before.
    """
    if options.get("first_offset") is not None:
        raise ValueError("first_offset numbers one record after the other: convert that partition without Spark")
    log = source if isinstance(source, Log) else Log(source, format=format, limits=limits)
    name = target_format(to)
    pairs = targets_of(log, target)
    tasks: list[tuple[int, tuple[Segment, str]]] = []
    asides: list[Path] = []
    try:
        for segments, directory in pairs:
            if directory.exists() and not directory.is_dir():
                raise NotADirectoryError(f"{directory} is a file, not a partition's directory")
            aside = aside_name(Path(os.path.abspath(directory)))
            aside.mkdir(parents=True)
            asides.append(aside)
            # A worker may stand in another directory.
            tasks += [(it.size, (replace(it, path=absolute(it.path)), str(aside))) for it in segments]
        work = partial(
            _one, to=name, format=log.format, bounds=bounds_of(limits), segment_bytes=segment_bytes,
            index_interval=index_interval, options=options,
        )  # fmt: skip
        made = iter(_sound(collect(spark, "convert", tasks, work, progress)))
        groups = [[next(made) for _ in segments] for segments, _ in pairs]
        done = []
        beside = partial(_beside, dialect=_dialect(name))
        places = [(0, _in_order(segments, own)) for (segments, _), own in zip(pairs, groups, strict=True)]
        told = _sound(collect(spark, "convert-beside", places, beside))
        for (segments, directory), own, extra in zip(pairs, groups, told, strict=True):
            done.append(_finished(segments, Path(directory), own, extra))
        return done
    finally:
        for aside in asides:
            shutil.rmtree(aside, ignore_errors=True)


def _sound(outcomes: Sequence[Any]) -> Sequence[Any]:
    for outcome in outcomes:
        if isinstance(outcome, Failed):
            raise outcome
    return outcomes


def _dialect(to: str) -> str:
    # What is converted is of that format alone, or, with keep_older, of Kafka's own ones.
    return to if to.startswith("kip") else "kafka"


def _one(
    task: tuple[Segment, str],
    *,
    to: str,
    format: str,
    bounds: dict[str, int] | None,
    segment_bytes: int,
    index_interval: int,
    options: dict[str, Any],
) -> _Segment | Failed:
    """In the worker: one segment, into a directory that only its result names. A task may be tried twice at the same time."""
    from magicbyte import _core

    segment, aside = task
    limits = None if bounds is None else _core.Limits(**bounds)
    parts = [_core.Part(segment.path, segment.topic, segment.partition)]
    try:
        iterator = _core.ConvertIterator(parts, to, format=format, limits=limits, **options)
        writer = Writer(
            Path(aside, uuid.uuid4().hex),
            segment_bytes=segment_bytes,
            index_interval=index_interval,
            read_format=_dialect(to),
            base_offset=max(segment.base_offset, 0),
        )
        with writer:
            for piece in iterator:
                writer.append(piece)
    except (CorruptRecordError, UnsupportedCodecError, ValueError) as error:
        # Trying again would not mend it.
        return error
    findings = list(iterator.findings)
    return _Segment(str(writer.directory), writer.next_offset, writer.bytes, dict(iterator.dropped), findings)


def _in_order(segments: Sequence[Segment], made: Sequence[_Segment]) -> list[tuple[str, int]]:
    """The ``.log`` files of a partition, and their base offsets."""
    for (segment, one), (following, _) in pairwise(zip(segments, made, strict=True)):
        if one.next_offset > following.base_offset:
            text = f"{following.path}: begins at {following.base_offset}, and {segment.path} ends behind {one.next_offset - 1}"
            raise ValueError(text)
    return [(str(path), int(path.stem)) for one in made for path in sorted(Path(one.directory).glob("*.log"))]


def _beside(logs: list[tuple[str, int]], *, dialect: str) -> Beside | Failed:
    """In the worker: transactions, producers and leader epochs of a partition, by the headers of its new segments."""
    from magicbyte import _core

    follower = _core.Follower(format=dialect)
    try:
        found = [follower.segment(path, base)[:2] for path, base in logs]
    except CorruptRecordError as error:
        return error
    return found, follower.epochs()


def _finished(
    segments: Sequence[Segment], directory: Path, made: Sequence[_Segment], beside: Beside
) -> ConvertedPartition:
    """Puts the files together in a directory that takes its place, away from what a task may still be writing."""
    told, epochs = beside
    logs = [path for one in made for path in sorted(Path(one.directory).glob("*.log"))]
    ends = [int(path.stem) for path in logs[1:]] + [max(one.next_offset for one in made)]
    with put_aside(directory) as together:
        for path, end, (transactions, snapshot) in zip(logs, ends, told, strict=True):
            for suffix in KEPT:
                os.rename(path.with_suffix(suffix), together / path.with_suffix(suffix).name)
            if transactions:
                put(together / f"{path.stem}.txnindex", transactions)
            if snapshot:
                put(together / f"{end:020d}.snapshot", snapshot)
        if epochs:
            put(together / "leader-epoch-checkpoint", epochs)
        if (topic_id := topic_id_of(segments)) is not None:
            from magicbyte import _core

            put(together / "partition.metadata", _core.partition_metadata(topic_id))
    dropped: Counter[str] = Counter()
    for one in made:
        dropped.update(one.dropped)
    findings = [finding for one in made for finding in one.findings]
    first = segments[0]
    size = sum(segment.size for segment in segments)
    written = sum(one.written for one in made)
    return ConvertedPartition(
        first.topic, first.partition, str(directory), size, written, Converted(b"", dropped, findings)
    )
