"""Partition directories that a broker can open: segments, the indexes beside them, epochs and producer state."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO

from magicbyte import _core
from magicbyte._aside import aside_name, replace_directory
from magicbyte.conversion import Converted, Target, target_format
from magicbyte.encoding import BATCH_SIZE, encode_batches

if TYPE_CHECKING:
    from magicbyte.encoding import AnyRecord
    from magicbyte.log import Log, Segment

    Beside = tuple[bytes, bytes, bytes, bytes]

__all__ = ["Writer", "convert_partition"]

SEGMENT_BYTES = 1 << 30  # Kafka's default of `segment.bytes`
INDEX_INTERVAL = 4096  # Kafka's default of `index.interval.bytes`


class Writer:
    """Writes a partition directory as a broker would have left it after a clean shutdown.

    ``.log``, ``.index``, ``.timeindex``; ``.txnindex`` of segments with aborted transactions; ``.snapshot`` where there
    are producers; ``leader-epoch-checkpoint`` where batches name their epoch; ``partition.metadata`` where the topic's
    id is given. All is written aside, and takes the directory's place when the writer is closed: a context manager
    that ends with an error, or a process that dies, leaves the directory as it was. Memory is for one batch.

        with mb.Writer("orders-0", codec="zstd") as writer:
            writer.write(records)                       # batches formed by size
            writer.append(mb.encode(more, base_offset=writer.next_offset))

    Args:
        directory: the partition's directory, ``<topic>-<partition>``. What stands there is replaced.
        format, codec, leader_epoch, …: of the batches that ``write`` forms, as in ``encode_batches``; the leader epoch is
            0 unless told otherwise.
        batch_size: bytes of a batch before compression.
        base_offset: the first segment's name, and where records without an offset begin; None takes the first entry's.
        segment_bytes: a segment is closed before the entry that would take it over this.
        index_interval: bytes between two entries of an index.
        topic_id: 22 characters of base64, as Kafka's tools show it.
        read_format: how to read what is appended: as ``Log`` has it; None: by ``format``.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        format: str = "v2",
        codec: str = "none",
        batch_size: int = BATCH_SIZE,
        base_offset: int | None = None,
        segment_bytes: int = SEGMENT_BYTES,
        index_interval: int = INDEX_INTERVAL,
        topic_id: str | None = None,
        read_format: str | None = None,
        **fields: Any,
    ) -> None:
        self.directory = Path(directory)
        if self.directory.exists() and not self.directory.is_dir():
            raise NotADirectoryError(f"{directory} is a file, not a partition's directory")
        fields.setdefault("leader_epoch", 0)
        self._options = {"format": format, "codec": codec, "batch_size": batch_size, **fields}
        self._topic_id = None if topic_id is None else _core.partition_metadata(topic_id)
        self._builder = _core.PartitionBuilder(
            segment_bytes=segment_bytes,
            index_interval=index_interval,
            base_offset=base_offset,
            format=read_format or ("kafka" if format in ("v0", "v1", "v2", "v3") else format),
        )
        self.next_offset = base_offset or 0
        """The offset behind the last record."""
        self.bytes = 0
        """Bytes of all ``.log`` files so far."""
        self.segments: list[str] = []
        """Names of the ``.log`` files, oldest first."""
        self._log: BinaryIO | None = None
        self._base = 0
        self.directory.parent.mkdir(parents=True, exist_ok=True)
        self._made: Path | None = aside_name(self.directory)
        self._made.mkdir()

    def write(self, records: Iterable[AnyRecord]) -> None:
        """Appends records in batches formed by size; those without an offset count on from ``next_offset``.

        Raises:
            ValueError, UnsupportedCodecError: as ``encode``; whole batches before stay.
        """
        sequence = self._options.get("base_sequence", -1)
        for piece in encode_batches(records, base_offset=self.next_offset, **self._options):
            self.append(piece)
            if sequence >= 0:
                # The next call goes on where this one ended.
                count = next(iter(_core.Reader([_core.Part(piece)], format=self._read_format).batches())).count or 0
                self._options["base_sequence"] = sequence = (sequence + count) % (1 << 31)

    @property
    def _read_format(self) -> str:
        format: str = self._options["format"]
        return "kafka" if format in ("v0", "v1", "v2", "v3") else format

    def append(self, data: bytes | bytearray | memoryview) -> None:
        """Appends whole entries as they are.

        Raises:
            CorruptRecordError: bytes that are not whole, sound entries. None of them is appended.
            ValueError: an entry whose first offset is below ``next_offset``, or a closed writer.
        """
        if self._made is None:
            raise ValueError("the writer is closed")
        view = memoryview(data)
        for start, end, base, beside in self._builder.append(data):
            if base is not None:
                self._close_segment(beside, base)
                self._base = base
                self.segments.append(_name(base, "log"))
                self._log = (self._made / self.segments[-1]).open("wb")
            if self._log is not None:
                self._log.write(view[start:end])
            self.bytes += end - start
        self.next_offset = self._builder.next_offset

    def close(self) -> None:
        """Closes the last segment and puts the directory in its place. A second call does nothing."""
        if self._made is None:
            return
        try:
            beside, epochs, end = self._builder.finish()
            if beside is None:
                # A partition without a record has an empty segment.
                self._base = end
                self.segments.append(_name(end, "log"))
                self._log = (self._made / self.segments[-1]).open("wb")
                beside = (b"", b"", b"", b"")
            self._close_segment(beside, end)
            if epochs.count(b"\n") > 2:
                self._put("leader-epoch-checkpoint", epochs)
            if self._topic_id is not None:
                self._put("partition.metadata", self._topic_id)
            replace_directory(self._made, self.directory)
            self._made = None
        except BaseException:
            self.abandon()
            raise

    def abandon(self) -> None:
        """Leaves the directory as it was and removes what was written."""
        if self._log is not None:
            self._log.close()
            self._log = None
        if self._made is not None:
            shutil.rmtree(self._made, ignore_errors=True)
            self._made = None

    def _close_segment(self, beside: Beside | None, end: int) -> None:
        if self._log is None or beside is None:
            return
        self._log.flush()
        os.fsync(self._log.fileno())
        self._log.close()
        self._log = None
        index, times, transactions, snapshot = beside
        self._put(_name(self._base, "index"), index)
        self._put(_name(self._base, "timeindex"), times)
        if transactions:
            self._put(_name(self._base, "txnindex"), transactions)
        if snapshot:
            self._put(_name(end, "snapshot"), snapshot)

    def _put(self, name: str, data: bytes) -> None:
        assert self._made is not None
        with (self._made / name).open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close() if kind is None else self.abandon()

    def __repr__(self) -> str:
        state = "closed" if self._made is None else f"next_offset={self.next_offset}"
        return f"<Writer {str(self.directory)!r}: {len(self.segments)} segments, {self.bytes:,} bytes, {state}>"


def _name(offset: int, ending: str) -> str:
    return f"{offset:020d}.{ending}"


def convert_partition(
    log: Log,
    directory: str | os.PathLike[str],
    to: Target,
    *,
    segment_bytes: int = SEGMENT_BYTES,
    index_interval: int = INDEX_INTERVAL,
    topic_id: str | None = None,
    progress: Callable[[int], object] | None = None,
    **options: Any,
) -> Converted:
    """Converts all of one partition into a partition directory, with memory for one batch only.

    ``log`` has one partition; a single segment file will do. Segments are cut anew by ``segment_bytes``, since sizes
    change. The topic's id is the one given, else that of the source's ``partition.metadata``. ``progress`` is told the
    bytes that are behind. ``options`` and errors as in ``convert``; ``data`` of the result is empty.
    """
    if len(log.partitions) > 1:
        raise ValueError(f"{len(log.partitions)} partitions do not go into one directory")
    format = target_format(to)
    iterator = _core.ConvertIterator(log.parts(), format, format=log.format, **options)
    # What is converted is of that format alone, or, with keep_older, of Kafka's own ones.
    dialect = format if format.startswith("kip") else "kafka"
    writer = Writer(
        directory,
        segment_bytes=segment_bytes,
        index_interval=index_interval,
        topic_id=topic_id or topic_id_of(log.segments),
        read_format=dialect,
        base_offset=options.get("first_offset"),
    )
    with writer:
        for piece in _followed(iterator, progress):
            writer.append(piece)
    return Converted(b"", Counter(iterator.dropped), iterator.findings)


def topic_id_of(segments: Sequence[Segment]) -> str | None:
    """The topic's id, where it stands beside the segments and is one."""
    for segment in segments[:1]:
        with contextlib.suppress(OSError, ValueError):
            id = (
                (Path(segment.path).parent / "partition.metadata").read_text("ascii").partition("topic_id: ")[2].strip()
            )
            _core.partition_metadata(id)
            return id
    return None


def _followed(iterator: _core.ConvertIterator, progress: Callable[[int], object] | None) -> Iterator[bytes]:
    for piece in iterator:
        yield piece
        if progress is not None:
            progress(iterator.position)
